"""Frozen dataclasses as JSON and back: only what the annotations say comes through."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NotRequired, TypedDict

import pytest

from realranks.ranks.codec import MalformedError, decode, encode, prepare


class Color(enum.StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: float | None


class Size(TypedDict):
    width: int


class Box(Size, total=False):
    height: int
    color: "NotRequired[str]"


@dataclass(frozen=True)
class Leaf:
    number: int
    text: str = ""


@dataclass(frozen=True)
class Tree:
    """One of everything."""

    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    pair: tuple[str, int] = ("", 0)
    by_name: Mapping[str, tuple[Leaf, ...]] = field(default_factory=dict)
    by_number: dict[int, Point] = field(default_factory=dict)
    color: Color | None = None
    box: Box | None = None
    names: list[str] = field(default_factory=list)
    number: float | str | None = None
    anything: object = None
    payload: bytes = b""


TREE = Tree(
    leaf=Leaf(1, "one"),
    leaves=(Leaf(2), Leaf(3, "three")),
    pair=("a", 1),
    by_name={"a": (Leaf(4),)},
    by_number={-3: Point(1, None), 4: Point(2, 0.5)},
    color=Color.RED,
    box={"width": 1, "height": 2},
    names=["a", "b"],
    number="many",
    anything={"deep": [1, None]},
    payload=b"\x00",
)


def test_a_record_comes_back_as_it_was():
    travelled = json.loads(json.dumps(encode(TREE)))
    assert decode(Tree, travelled, TREE.payload) == TREE
    assert "payload" not in travelled


def test_what_is_as_it_is_by_default_is_not_written():
    assert encode(Tree()) == {}
    assert decode(Tree, {}) == Tree()
    assert encode(Leaf(0)) == {"number": 0}


def test_what_is_given_as_the_default_may_be_read_all_the_same():
    assert decode(Leaf, {"number": 1, "text": ""}) == Leaf(1)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"leaf": {}},
        {"leaf": {"number": True}},
        {"leaf": {"number": 1.0}},
        {"leaves": {"number": 1}},
        {"pair": ["a"]},
        {"pair": ["a", 1, 2]},
        {"by_name": [["a", []]]},
        {"by_number": {"one": [1, None]}},
        {"by_number": {"1": {"x": 1, "y": None}}},
        {"color": "green"},
        {"box": {"height": 2}},
        {"box": {"width": 1, "depth": 3}},
        {"names": "ab"},
        {"number": [1]},
        {"number": False},
        {"payload": "ab"},
        {"more": 1},
        {1: 2},
    ],
)
def test_what_the_annotations_do_not_say_is_refused(data):
    with pytest.raises(MalformedError):
        decode(Tree, data)


def test_the_error_says_where():
    with pytest.raises(MalformedError, match="by_name: number: 'x' is no int"):
        decode(Tree, {"by_name": {"a": [{"number": "x"}]}})


@dataclass(frozen=True)
class Other:
    flag: bool


@dataclass(frozen=True)
class Either:
    which: Leaf | Other | None = None


@dataclass(frozen=True)
class Unreadable:
    numbers: set[int]


@pytest.mark.parametrize("kind", [Either, Unreadable, Color, int])
def test_a_type_that_cannot_travel_is_refused_when_it_is_written_not_when_it_is_sent(kind):
    with pytest.raises(TypeError):
        prepare(kind)
