"""Parts of an answer's source that an instructor should read: ways to get at more than the task gives.

Read from the syntax alone; nothing is run. No mark is a proof of anything, and none changes a verdict.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from realranks.outcome.syntax import parsed

#: Parts of the course that know what is right.
_COURSE = (
    "course_lib.tasks",
    "course_lib.grading",
    "course_lib.lab",
    "course_lib.lessons",
    "course_lib.notebook",
    "course_lib.cli",
    "realranks.ranks",
    "realranks.cells",
    "realranks.cli",
)
_PACKAGES = {"course_lib", "realranks"}
_MODULES = {"inspect": "inspect", "ctypes": "ctypes"}
#: Functions by which other frames or all objects of the process are found.
_LOOKING = {
    "_getframe": "sys._getframe",
    "_current_frames": "sys._current_frames",
    "get_objects": "gc.get_objects",
    "get_referrers": "gc.get_referrers",
    "get_referents": "gc.get_referents",
    "f_back": "frames",
    "f_locals": "frames",
    "f_globals": "frames",
    "tb_frame": "frames",
}
#: Names under which code, or a module's name, is made up at run time: what it is cannot be read from the source.
_MADE_UP = {"__import__", "import_module", "run_path", "run_module"}
_BUILTINS = {"exec", "eval"}


def worth_reading(source: str) -> tuple[str, ...]:
    """Return what an answer uses that no task asks for, in the order of its lines; () for most answers."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    try:
        found = [item for node in ast.walk(tree) for item in _marks(node)]
    except RecursionError:
        return ("very deeply nested code",)
    found.sort()
    return tuple(dict.fromkeys(f"{what}, line {line}" for line, what in _first(found)))


def _first(found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Keep each mark where it occurs first."""
    lines: dict[str, int] = {}
    for line, what in found:
        lines.setdefault(what, line)
    return [(line, what) for what, line in lines.items()]


def _marks(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=names, lineno=line):
            for alias in names:
                yield from _module(line, alias.name)
        case ast.ImportFrom(module=module, names=names, lineno=line):
            # `from course_lib import tasks` names the part behind the import.
            for full in (module or "", *(f"{module or ''}.{alias.name}" for alias in names)):
                if full not in _PACKAGES:
                    yield from _module(line, full)
            for alias in names:
                yield from _name(line, alias.name)
        case ast.Attribute(attr=name, lineno=line):
            yield from _name(line, name)
        case ast.Name(id=name, lineno=line):
            yield from _name(line, name)
            if name in _BUILTINS:  # as a method, eval() is a model's
                yield line, name
        case ast.Constant(value=str(text), lineno=line):
            # getattr(sys, "_getframe"), sys.modules["course_lib.tasks"]
            if text in _LOOKING:
                yield line, _LOOKING[text]
            elif len(text) < 100:
                yield from _module(line, text)


def _module(line: int, name: str) -> Iterator[tuple[int, str]]:
    if name in _PACKAGES or any(name == part or name.startswith(f"{part}.") for part in _COURSE):
        yield line, ".".join(name.split(".")[:2])
    elif name.split(".")[0] in _MODULES:
        yield line, name.split(".")[0]


def _name(line: int, name: str) -> Iterator[tuple[int, str]]:
    if name in _LOOKING:
        yield line, _LOOKING[name]
    elif name in _MADE_UP:
        yield line, name
