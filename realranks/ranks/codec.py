"""Frozen dataclasses as JSON, and back: a record is read by its annotations, and nothing else comes through.

What an annotation may say: numbers, text, bool and None, unions of these (one of which may be something else), tuples,
mappings by text or whole numbers, enums, NamedTuples (a list in JSON), lists, dataclasses, TypedDicts, and `object` for
JSON that is passed on as it is. One field of `bytes` is the opaque part of a message (`protocol.Message.blob`), which
is no JSON. Fields that are as they are by default are not written.

The other side may be a rank that runs a learner's code: whatever it sends is a record, or `MalformedError`.
Why no library does this: docs/decisions.md, "The codec is our own".
"""

from __future__ import annotations

import enum
import functools
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import NamedTuple, TypeVar, Union

_T = TypeVar("_T")
_Read = Callable[[object], object]
_Write = Callable[[object], object]

_SHOWN = 80
#: What may stand in JSON for a value that is its own JSON; a float without a fraction may be written as an int.
_SCALARS: Mapping[object, frozenset[type]] = {
    float: frozenset({float, int}),
    **{kind: frozenset({kind}) for kind in (int, str, bool, types.NoneType)},
}


class MalformedError(ValueError):
    """The JSON is no record of the kind that was asked for."""


def encode(record: object) -> dict[str, object]:
    """Convert a dataclass to what JSON can hold: its fields, apart from those at their defaults."""
    return _record_of(type(record)).write(record)


def decode(kind: type[_T], data: object, blob: bytes = b"") -> _T:
    """Rebuild the dataclass that `encode` was given.

    Args:
        kind: the dataclass.
        data: what came out of JSON, not to be trusted.
        blob: the value of its field of `bytes`, if it has one.

    Raises:
        MalformedError: this is none.
    """
    try:
        found = _record_of(kind).read(data, blob)
    except RecursionError as error:
        raise MalformedError(f"{kind.__name__}: nested too deeply") from error
    assert isinstance(found, kind)
    return found


def blob_of(record: object) -> bytes:
    """Return the value of a dataclass's `bytes` field, which JSON cannot hold; empty if it has none."""
    name = _record_of(type(record)).blob
    return getattr(record, name) if name else b""


def prepare(*kinds: type) -> None:
    """Work out now how these dataclasses are read and written: a process that forks does it once for all it forks."""
    for kind in kinds:
        _record_of(kind)


def _short(data: object) -> str:
    return f"{data!r:.{_SHOWN}}"


class _Form(NamedTuple):
    """The reading and writing of values with one annotation.

    Attributes:
        read: makes the value of JSON, or raises `MalformedError`.
        write: makes JSON of the value; None where it is JSON already.
        plain: types of JSON that `read` returns as they are.
    """

    read: _Read
    write: _Write | None = None
    plain: frozenset[type] = frozenset()


# -- records --------------------------------------------------------------------------------------------------------


class _Record:
    """The reading and writing of one dataclass or TypedDict, derived once.

    Args:
        kind: the class.
        defaults: what each field is when JSON does not have it; `MISSING` where it must.
    """

    def __init__(self, kind: type, defaults: Mapping[str, object]) -> None:
        hints = typing.get_type_hints(kind)
        self.kind = kind
        self.blob = next((name for name in defaults if hints[name] is bytes), "")
        self.forms = {name: _form(hints[name]) for name in defaults if name != self.blob}
        self.needed = {name for name in self.forms if defaults[name] is MISSING}
        self._written = [(name, defaults[name], form.write) for name, form in self.forms.items()]

    def read(self, data: object, blob: bytes = b"") -> object:
        if not isinstance(data, dict) or not data.keys() >= self.needed:
            raise MalformedError(f"{_short(data)} is no {self.kind.__name__}")
        values: dict[str, object] = {self.blob: blob} if self.blob and blob else {}
        for name, value in data.items():
            form = self.forms.get(name)
            if form is None:
                raise MalformedError(f"{self.kind.__name__} has no {_short(name)}")
            try:
                values[name] = value if type(value) in form.plain else form.read(value)
            except MalformedError as error:
                raise MalformedError(f"{name}: {error}") from None
        return self.kind(**values)

    def write(self, record: object) -> dict[str, object]:
        data: dict[str, object] = {}
        for name, default, write in self._written:
            value = getattr(record, name)
            if value is not default and value != default:
                data[name] = value if write is None else write(value)
        return data


_RECORDS: dict[type, _Record] = {}


def _record_of(kind: type) -> _Record:
    record = _RECORDS.get(kind)
    if record is None:
        if not is_dataclass(kind):
            raise TypeError(f"{kind} is no dataclass")
        defaults = {item.name: _default_of(item) for item in fields(kind) if item.init}
        record = _RECORDS[kind] = _Record(kind, defaults)
    return record


def _default_of(item: Field[object]) -> object:
    return item.default_factory() if item.default_factory is not MISSING else item.default


def _typed_dict(kind: type) -> _Record:
    # `NotRequired` in a module of strings for annotations is not seen by `__required_keys__` (Python 3.11).
    needed: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    hints = typing.get_type_hints(kind, include_extras=True)
    optional = {name for name, hint in hints.items() if typing.get_origin(hint) is typing.NotRequired}
    return _Record(kind, {name: MISSING if name in needed - optional else None for name in hints})


# -- the values of their fields -------------------------------------------------------------------------------------


@functools.cache
def _form(hint: object) -> _Form:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is object:
        return _Form(lambda data: data)
    if hint in _SCALARS:
        return _scalar(_SCALARS[hint])
    if origin in (Union, types.UnionType):
        return _union([_form(one) for one in inner])
    if origin is list or (origin is tuple and inner[-1] is ...):
        return _many(origin, _form(inner[0]))
    if origin is tuple:
        return _row(tuple, [_form(one) for one in inner])
    if origin in (Mapping, dict):
        return _mapping(_number if inner[0] is int else _form(inner[0]).read, _form(inner[1]))
    if isinstance(hint, type):
        if is_dataclass(hint):
            return _Form(_record_of(hint).read, _record_of(hint).write)
        if typing.is_typeddict(hint):
            return _Form(_typed_dict(hint).read)
        if issubclass(hint, enum.Enum):
            return _Form(functools.partial(_member, hint))
        if issubclass(hint, tuple):
            named: Callable[..., object] = hint
            parts = [_form(one) for one in typing.get_type_hints(hint).values()]
            return _row(lambda values: named(*values), parts)
    raise TypeError(f"{hint} cannot be read from JSON")


def _scalar(kinds: frozenset[type]) -> _Form:
    names = " or ".join(sorted(kind.__name__ for kind in kinds))

    def read(data: object) -> object:
        if type(data) not in kinds:
            raise MalformedError(f"{_short(data)} is no {names}")
        return data

    return _Form(read, plain=kinds)


def _union(forms: list[_Form]) -> _Form:
    """Combine forms: scalars are distinguished by type, and at most one form of another kind may join them."""
    plain = frozenset[type]().union(*(form.plain for form in forms))
    others = [form for form in forms if not form.plain]
    if not others:
        return _scalar(plain)
    if len(others) > 1:
        raise TypeError("which of these a value is would have to be found out")
    read, write, _ = others[0]
    return _Form(
        lambda data: data if type(data) in plain else read(data),
        write and (lambda value: value if type(value) in plain else write(value)),
        plain,
    )


def _many(make: Callable[[Iterable[object]], object], one: _Form) -> _Form:
    def read(data: object) -> object:
        if not isinstance(data, (list, tuple)):
            raise MalformedError(f"{_short(data)} is not a list")
        return make(data if one.plain.issuperset(map(type, data)) else map(one.read, data))

    def write(value: object) -> object:
        assert one.write is not None
        assert isinstance(value, (list, tuple))
        return list(map(one.write, value))

    return _Form(read, one.write and write)


def _row(make: Callable[[Iterable[object]], object], parts: list[_Form]) -> _Form:
    def read(data: object) -> object:
        if not isinstance(data, (list, tuple)) or len(data) != len(parts):
            raise MalformedError(f"{_short(data)} is not a list of {len(parts)}")
        return make([part.read(value) for part, value in zip(parts, data, strict=True)])

    if any(part.write for part in parts):
        raise TypeError("a dataclass in a tuple")
    return _Form(read)


def _mapping(key: _Read, one: _Form) -> _Form:
    def read(data: object) -> object:
        if not isinstance(data, dict):
            raise MalformedError(f"{_short(data)} is no mapping")
        return {key(name): one.read(value) for name, value in data.items()}

    def write(value: object) -> object:
        assert one.write is not None
        assert isinstance(value, Mapping)
        # Notes are written while the rank's main thread adds to them.
        return {name: one.write(part) for name, part in list(value.items())}

    return _Form(read, one.write and write)


def _number(key: object) -> int:
    """Parse a key, since JSON has only text for keys."""
    try:
        return int(str(key))
    except ValueError:
        raise MalformedError(f"{_short(key)} is no whole number") from None


def _member(kind: type[enum.Enum], data: object) -> enum.Enum:
    try:
        return kind(data)
    except ValueError:
        raise MalformedError(f"{_short(data)} is no {kind.__name__}") from None
