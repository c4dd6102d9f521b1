"""Names and table entries that a process has and one which it starts by `spawn` lacks.

A process that is not forked imports the script anew, without what stands under `if __name__ == "__main__"`. The one
that starts it notes its names and the keys of its dictionaries; the other one compares when an error of its own
mentions one. Only plain attributes and dictionaries are read: nothing of the learner's is run.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType

from realranks.outcome.facts import LeftBehind
from realranks.outcome.places import is_above_torch

#: By the name of a table (empty: the script's own names), its keys.
Tables = Mapping[str, frozenset[str]]
_MAX_KEYS, _MAX_TABLES = 1000, 300


def tables() -> Tables:
    """Collect the tables of the script and of the modules it uses."""
    found: dict[str, frozenset[str]] = {}
    main = sys.modules.get("__main__")
    if main is None:
        return found
    found[""] = frozenset(vars(main))
    for module in _modules(main):
        prefix = "" if module is main else f"{module.__name__}."
        for name, value in list(vars(module).items()):
            for table, entries in _dictionaries(f"{prefix}{name}", value):
                if len(entries) <= _MAX_KEYS and len(found) < _MAX_TABLES:
                    found[table] = frozenset(key for key in dict.keys(entries) if type(key) is str)
    return found


def left_behind(before: Tables, error: BaseException) -> LeftBehind | None:
    """Find what the error mentions that the starting process had and this one lacks."""
    text = str(error)
    now = tables()
    for table, keys in before.items():
        lacking = sorted(key for key in keys - now.get(table, frozenset()) if _mentions(text, key, table))
        if lacking:
            return LeftBehind(lacking[0], table)
    return None


def _mentions(text: str, key: str, table: str) -> bool:
    """Check for the key in the text: quoted, as in Python's own errors, or bare, as in a script's."""
    return repr(key) in text or (bool(table) and re.search(rf"\b{re.escape(key)}\b", text) is not None)


def _modules(main: ModuleType) -> Iterator[ModuleType]:
    yield main
    names = {
        value.__name__ if isinstance(value, ModuleType) else _home(value) for value in vars(main).values()
    }
    for name in sorted(names - {"", main.__name__, "__main__", "__mp_main__"}):
        module = sys.modules.get(name)
        file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if isinstance(module, ModuleType) and isinstance(file, str) and is_above_torch(file):
            yield module


def _home(value: object) -> str:
    """Return the module that defines a function, or the class of an object."""
    of = value if isinstance(value, type) or hasattr(type(value), "__code__") else type(value)
    name = of.__dict__.get("__module__") if isinstance(of, type) else None
    if name is None or name == "builtins":
        with contextlib.suppress(Exception):
            name = object.__getattribute__(value, "__module__")
    return name if isinstance(name, str) else ""


def _dictionaries(name: str, value: object) -> Iterator[tuple[str, dict[object, object]]]:
    """Yield a dictionary, or those among the attributes of an object or class."""
    if isinstance(value, ModuleType):
        return
    if isinstance(value, dict):
        yield name, value
        return
    with contextlib.suppress(Exception):
        own = vars(value) if isinstance(value, type) else object.__getattribute__(value, "__dict__")
        for attribute, inner in list(own.items()):
            if isinstance(inner, dict):
                yield f"{name}.{attribute}", inner
