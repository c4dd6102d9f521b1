"""Types that say something: how often the course says `Any`; no dict without a shape goes from room to room."""

import ast
import contextlib
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "course_lib"
#: How often `Any` is written in each room, its imports included. Where a room has fewer, lower its number.
CEILINGS = {
    "grading": 2,
    "outcome": 5,
    "ranks": 29,
    "tasks": 76,
}
#: A room may have so many fewer than its number: no test is to fail for one annotation that has become better.
SLACK = 5
#: What other rooms import though a dict of anything is in its signature, and why.
MEANT: dict[str, str] = {}

_SHAPELESS = re.compile(r"\b(dict|Mapping|MutableMapping)\[str, Any\]")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Parsed when a test asks, not when tests are collected: every worker of a run collects them all."""
    return {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}


def times_any(tree: ast.AST) -> int:
    """How often code says `Any`, in annotations in quotes too; comments and docstrings do not count."""
    return sum(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
        or (isinstance(node, ast.alias) and node.name == "Any")
        for each in (tree, *quoted(tree))
        for node in ast.walk(each)
    )


def quoted(tree: ast.AST) -> Iterator[ast.AST]:
    """What stands in quotes in annotations, where it is code: `Literal` and `Annotated` have other words in them."""
    for node in ast.walk(tree):
        annotation = getattr(node, "returns", None) or getattr(node, "annotation", None)
        for part in ast.walk(annotation) if isinstance(annotation, ast.expr) else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                with contextlib.suppress(SyntaxError):
                    yield ast.parse(part.value, mode="eval")


@functools.cache
def counts() -> Counter[str]:
    found: Counter[str] = Counter()
    for module, path in MODULES.items():
        found[room_of(path)] += times_any(trees()[module])
    return found


@pytest.mark.parametrize("room", sorted({room_of(path) for path in MODULES.values()}))
def test_any_is_said_no_more_often_than_it_was(room):
    assert counts()[room] <= CEILINGS.get(room, 0), (
        "say what it is: object, a Protocol, ParamSpec, a dataclass"
    )


@pytest.mark.parametrize("room", sorted(CEILINGS))
def test_the_numbers_are_those_of_today(room):
    assert counts()[room] >= CEILINGS[room] - SLACK, f"fewer than that: make it {counts()[room]} in CEILINGS"


def test_any_is_counted_however_it_is_written():
    code = (
        "from typing import Any\nimport typing\ndef f(x: Any, y: typing.Any) -> dict[str, 'Any']: ...  # Any"
    )
    assert times_any(ast.parse(code)) == 4


# -- what goes from room to room --------------------------------------------------------------------------------------


def taken_by_other_rooms() -> set[tuple[str, str]]:
    """The module and the name of everything that a room imports from another one."""
    found = set()
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib"):
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    if whole in MODULES:
                        taken = [(whole, name) for name in names_of(trees()[whole])]
                    else:
                        taken = [(str(node.module), alias.name)]
                    found |= {(home, name) for home, name in taken if not same_room(module, home)}
    return found


def same_room(one: str, two: str) -> bool:
    return one.split(".")[1:2] == two.split(".")[1:2]


def names_of(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, _Function | ast.ClassDef)]


def shapeless(node: ast.stmt) -> list[str]:
    """The parts of a function, or of a class' public side, that are a dict of anything."""
    if isinstance(node, _Function):
        every = [
            *node.args.posonlyargs,
            *node.args.args,
            *node.args.kwonlyargs,
            node.args.vararg,
            node.args.kwarg,
        ]
        given = [arg.annotation for arg in every if arg is not None]
        return [
            f"{node.name}: {ast.unparse(annotation)}"
            for annotation in (*given, node.returns)
            if annotation is not None and _SHAPELESS.search(ast.unparse(annotation))
        ]
    if isinstance(node, ast.AnnAssign) and _SHAPELESS.search(ast.unparse(node.annotation)):
        return [ast.unparse(node)]
    if isinstance(node, ast.ClassDef):
        public = [part for part in node.body if not getattr(part, "name", "").startswith("_")]
        return [found for part in public for found in shapeless(part)]
    return []


def crossing() -> dict[str, list[str]]:
    """By its name, what of other rooms a room imports that has a dict of anything in its signature."""
    found = {}
    for home, name in sorted(taken_by_other_rooms()):
        for node in trees()[home].body if home in trees() else ():
            if getattr(node, "name", "") == name and (parts := shapeless(node)):
                found[f"{home}.{name}"] = parts
    return found


def test_what_goes_from_room_to_room_has_a_shape():
    unmeant = {name: parts for name, parts in crossing().items() if name not in MEANT}
    assert unmeant == {}, "make it a dataclass (or a TypedDict, where others define the JSON)"


def test_what_is_meant_is_still_so():
    assert set(MEANT) <= set(crossing())


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(x: int, *, told: Mapping[str, Any]) -> None: ...", 1),
        ("def f(**more: int) -> dict[int, dict[str, Any]]: ...", 1),
        ("def f(told: dict[str, object]) -> list[Any]: ...", 0),
        ("class A:\n    facts: dict[str, Any]\n    def told(self) -> dict[str, Any]: ...", 2),
        ("class A:\n    def _told(self) -> dict[str, Any]: ...", 0),
    ],
)
def test_a_dict_of_anything_is_found_where_it_stands(code, found):
    (node,) = ast.parse(code).body
    assert len(shapeless(node)) == found
