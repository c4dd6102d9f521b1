"""Frozen dataclasses as JSON, and back: a record is read by its annotations, and nothing else comes through.

What an annotation may say: numbers, text, bool, None, `X | None`, tuples, mappings by text or whole numbers, enums,
NamedTuples (a list in JSON), lists, dataclasses, TypedDicts, and `object` for JSON that nobody looks into. One field of
`bytes` is the opaque part of a message (`protocol.Message.blob`), which is no JSON. Fields that are as they are by
default are not written.

The other side may be a rank whose code somebody else has written: whatever it sends is a record, or `MalformedError`.
"""

from __future__ import annotations

import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import TypeVar, Union

_T = TypeVar("_T")
_Read = Callable[[object], object]
_Write = Callable[[object], object]

_SHOWN = 80


class MalformedError(ValueError):
    """The JSON is no record of the kind that was asked for."""


def encode(record: object) -> dict[str, object]:
    """What JSON is to have of a dataclass: its fields, apart from those that are as they are by default."""
    return _plan_of(type(record)).write(record)


def decode(kind: type[_T], data: object, blob: bytes = b"") -> _T:
    """The dataclass again that `encode` was given.

    Args:
        kind: the dataclass.
        data: what came out of JSON, from anybody.
        blob: the value of its field of `bytes`, if it has one.

    Raises:
        MalformedError: this is none.
    """
    try:
        found = _plan_of(kind).read(data, blob)
    except RecursionError as error:
        raise MalformedError(f"{kind.__name__}: nested too deeply") from error
    if not isinstance(found, kind):
        raise MalformedError(f"{_short(data)} is no {kind.__name__}")
    return found


def blob_of(record: object) -> bytes:
    """The value of a dataclass's field of `bytes`, which JSON cannot hold; empty where it has none."""
    name = _plan_of(type(record)).blob
    return getattr(record, name) if name else b""


def prepare(*kinds: type) -> None:
    """Work out now how these dataclasses are read and written: a process that forks does it once for all it forks."""
    for kind in kinds:
        _plan_of(kind)


def _short(data: object) -> str:
    return f"{data!r:.{_SHOWN}}"


# -- dataclasses ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """One field: its name, its default (or `MISSING`), and how its value is read and written."""

    name: str
    default: object
    read: _Read
    write: _Write | None


@dataclass(frozen=True)
class _Plan:
    """How one dataclass is read and written, worked out once."""

    kind: type
    parts: Mapping[str, _Part]
    needed: frozenset[str]
    blob: str

    def write(self, record: object) -> dict[str, object]:
        told: dict[str, object] = {}
        for name, part in self.parts.items():
            value = getattr(record, name)
            if value is not part.default and value != part.default:
                told[name] = part.write(value) if part.write is not None else value
        return told

    def read(self, data: object, blob: bytes = b"") -> object:
        if not isinstance(data, dict) or not data.keys() >= self.needed:
            raise MalformedError(f"{_short(data)} is no {self.kind.__name__}")
        values: dict[str, object] = {self.blob: blob} if self.blob and blob else {}
        for name, value in data.items():
            part = self.parts.get(name)
            if part is None:
                raise MalformedError(f"{self.kind.__name__} has no {_short(name)}")
            try:
                values[name] = part.read(value)
            except MalformedError as error:
                raise MalformedError(f"{name}: {error}") from None
        return self.kind(**values)


_PLANS: dict[type, _Plan] = {}


def _plan_of(kind: type) -> _Plan:
    plan = _PLANS.get(kind)
    if plan is None:
        plan = _PLANS[kind] = _planned(kind)
    return plan


def _planned(kind: type) -> _Plan:
    if not is_dataclass(kind):
        raise TypeError(f"{kind} is no dataclass")
    hints = typing.get_type_hints(kind)
    blob = ""
    parts = {}
    for item in fields(kind):
        hint = hints[item.name]
        if hint is bytes:
            blob = item.name
        elif item.init:
            parts[item.name] = _Part(item.name, _default_of(item), _reader(hint), _writer(hint))
    needed = frozenset(name for name, part in parts.items() if part.default is MISSING)
    return _Plan(kind, parts, needed, blob)


def _default_of(item: Field[object]) -> object:
    return item.default_factory() if item.default_factory is not MISSING else item.default


# -- reading --------------------------------------------------------------------------------------------------------


@functools.cache
def _reader(hint: object) -> _Read:
    """What reads a value of this annotation."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is object:
        return lambda data: data
    if hint is float:
        return _read_number
    if hint in (int, str, bool, types.NoneType):
        return _exactly(hint)
    if origin in (Union, types.UnionType):
        return _any_of([_reader(one) for one in inner if one is not types.NoneType], types.NoneType in inner)
    if origin is list or (origin is tuple and inner[-1] is ...):
        return _list_of(_reader(inner[0]), list if origin is list else tuple)
    if origin is tuple:
        return _row(_as_tuple, [_reader(one) for one in inner])
    if origin in (Mapping, dict):
        return _mapping(inner[0] is int, _reader(inner[1]))
    if typing.is_typeddict(hint):
        return _typed_dict(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _plan_of(hint).read
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint)
    if isinstance(hint, type) and issubclass(hint, tuple):
        named: Callable[..., object] = hint
        return _row(
            lambda values: named(*values), [_reader(one) for one in typing.get_type_hints(hint).values()]
        )
    raise TypeError(f"{hint} cannot be read from JSON")


def _exactly(kind: object) -> _Read:
    def read(data: object) -> object:
        if type(data) is not kind:
            raise MalformedError(f"{_short(data)} is no {getattr(kind, '__name__', kind)}")
        return data

    return read


def _read_number(data: object) -> object:
    if type(data) is not float and type(data) is not int:
        raise MalformedError(f"{_short(data)} is not a number")
    return data


def _any_of(readers: list[_Read], none: bool) -> _Read:
    def read(data: object) -> object:
        if none and data is None:
            return None
        for one in readers[:-1]:
            try:
                return one(data)
            except MalformedError:
                continue
        return readers[-1](data)

    return read


def _list_of(one: _Read, made: type[list[object]] | type[tuple[object, ...]]) -> _Read:
    def read(data: object) -> object:
        if not isinstance(data, list | tuple):
            raise MalformedError(f"{_short(data)} is not a list")
        return made([one(value) for value in data])

    return read


def _as_tuple(values: list[object]) -> object:
    return tuple(values)


def _row(make: Callable[[list[object]], object], readers: list[_Read]) -> _Read:
    def read(data: object) -> object:
        if not isinstance(data, list | tuple) or len(data) != len(readers):
            raise MalformedError(f"{_short(data)} is not a list of {len(readers)}")
        return make([one(value) for one, value in zip(readers, data, strict=True)])

    return read


def _mapping(by_number: bool, one: _Read) -> _Read:
    def read(data: object) -> object:
        if not isinstance(data, dict):
            raise MalformedError(f"{_short(data)} is no mapping")
        return {_number(key) if by_number else _text(key): one(value) for key, value in data.items()}

    return read


def _number(key: object) -> int:
    """JSON has only text for keys."""
    try:
        return int(str(key))
    except ValueError:
        raise MalformedError(f"{_short(key)} is no whole number") from None


def _text(key: object) -> str:
    if not isinstance(key, str):
        raise MalformedError(f"{_short(key)} is no text")
    return key


def _typed_dict(hint: object) -> _Read:
    readers = {name: _reader(one) for name, one in typing.get_type_hints(hint).items()}
    # `NotRequired` in a module of strings for annotations is not seen by `__required_keys__` (Python 3.11).
    as_written = typing.get_type_hints(hint, include_extras=True)
    optional = {name for name, one in as_written.items() if typing.get_origin(one) is typing.NotRequired}
    needed: frozenset[str] = getattr(hint, "__required_keys__", frozenset()) - optional

    def read(data: object) -> object:
        if not isinstance(data, dict) or not readers.keys() >= data.keys() >= needed:
            raise MalformedError(f"{_short(data)} is no {getattr(hint, '__name__', hint)}")
        return {name: readers[name](value) for name, value in data.items()}

    return read


def _enum(kind: type[enum.Enum]) -> _Read:
    def read(data: object) -> object:
        try:
            return kind(data)
        except ValueError:
            raise MalformedError(f"{_short(data)} is no {kind.__name__}") from None

    return read


# -- writing --------------------------------------------------------------------------------------------------------


@functools.cache
def _writer(hint: object) -> _Write | None:
    """What makes JSON of a value of this annotation; None where it is JSON already."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        writers = [one for part in inner if (one := _writer(part)) is not None]
        if len(writers) > 1 or (writers and len(inner) > 2):
            raise TypeError(f"{hint} cannot be written: which of them a value is would have to be found out")
        return _or_none(writers[0]) if writers else None
    if origin is list or (origin is tuple and inner[-1] is ...):
        return _each(_writer(inner[0]))
    if origin is tuple:
        return _each_by_place([_writer(one) for one in inner])
    if origin in (Mapping, dict):
        return _each_value(_writer(inner[1]))
    if isinstance(hint, type) and is_dataclass(hint):
        return _plan_of(hint).write
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _each_by_place([_writer(one) for one in typing.get_type_hints(hint).values()])
    return None


def _or_none(write: _Write) -> _Write:
    return lambda value: None if value is None else write(value)


def _each(one: _Write | None) -> _Write | None:
    if one is None:
        return None

    def write(value: object) -> object:
        assert isinstance(value, tuple | list)
        return [one(part) for part in value]

    return write


def _each_by_place(writers: list[_Write | None]) -> _Write | None:
    if all(one is None for one in writers):
        return None

    def write(value: object) -> object:
        assert isinstance(value, tuple)
        return [one(part) if one is not None else part for one, part in zip(writers, value, strict=True)]

    return write


def _each_value(one: _Write | None) -> _Write | None:
    if one is None:
        return None

    def write(value: object) -> object:
        assert isinstance(value, Mapping)
        return {key: one(part) for key, part in value.items()}

    return write
