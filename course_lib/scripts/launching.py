"""Who starts the ranks of a script: a launcher such as `torchrun`, or the script itself?

Read from the script before it runs: a launcher runs it once per rank, and a script that starts its ranks itself is run
once. Imports nothing but Python.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from pathlib import Path

#: What starts processes, by the last part of its name.
_STARTS = {"spawn", "start_processes", "Process"}
_JOINS = "init_process_group"
_MOST_FILES = 200


class Launcher(enum.StrEnum):
    """Who starts a script's ranks; `auto` is decided by what the script says."""

    AUTO = "auto"
    TORCHRUN = "torchrun"
    SCRIPT = "script"


def starts_its_ranks(script: str) -> bool:
    """True for a script that starts processes and does not join a process group in the process that runs it.

    It joins one where a call of `init_process_group` is reached from the script's top level by calls of functions,
    classes and methods of the script and of modules in its folder. A function that is passed on, as `main` in
    `spawn(main, nprocs=2)`, is not called by that; one that is passed to somebody else's function (`app.run(main)`) is
    taken to be called.
    """
    code = _Code(Path(script))
    return code.starts_processes and not code.joins_a_group()


class _Code:
    """The script and the modules of its folder that it imports."""

    def __init__(self, script: Path) -> None:
        self._folder = script.resolve().parent
        self._files: set[Path] = set()
        #: By name: functions and classes of all files. Names are not told apart by file.
        self._defined: dict[str, list[ast.AST]] = {}
        self._classes: set[str] = set()
        self._processes: set[str] = set()
        self._top: list[ast.AST] = []
        self.starts_processes = False
        self._read(script)

    def _read(self, path: Path) -> None:
        path = path.resolve()
        if path in self._files or len(self._files) == _MOST_FILES:
            return
        self._files.add(path)
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return
        imported = len(self._files) > 1
        self._top += [
            node
            for node in tree.body
            if not isinstance(node, _DEFINITIONS) and not (imported and _is_for_scripts(node))
        ]
        for node in ast.walk(tree):
            if isinstance(node, _DEFINITIONS):
                self._defined.setdefault(node.name, []).append(node)
            if isinstance(node, ast.ClassDef):
                self._classes.add(node.name)
                if any(_last_name(base) in {"Process", *self._processes} for base in node.bases):
                    self._processes.add(node.name)
            self.starts_processes |= isinstance(node, ast.Call) and self._is_start(node)
            for module in _imported(node):
                self._read_module(module)

    def _read_module(self, name: str) -> None:
        place = self._folder.joinpath(*name.split("."))
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                self._read(path)

    def _is_start(self, call: ast.Call) -> bool:
        return _last_name(call.func) in _STARTS | self._processes

    def joins_a_group(self) -> bool:
        """True when the top level comes to `init_process_group`."""
        todo, seen = list(self._top), set[str]()
        while todo:
            for name in self._called(todo.pop()):
                if name == _JOINS:
                    return True
                if name not in seen:
                    seen.add(name)
                    todo += self._bodies(name)
        return False

    def _bodies(self, name: str) -> Iterator[ast.AST]:
        if name in self._processes:
            return  # its methods run in the process that it stands for
        for node in self._defined.get(name, ()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from node.body
            elif isinstance(node, ast.ClassDef):
                yield from (
                    child
                    for child in node.body
                    if getattr(child, "name", "") in ("__init__", "__post_init__", "")
                )

    def _called(self, node: ast.AST) -> Iterator[str]:
        """The names of what is called here, functions that are defined here left out."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in ("__init__", "__post_init__"):
                for statement in node.body:
                    yield from self._called(statement)
            return
        if isinstance(node, ast.ClassDef):
            return
        if isinstance(node, ast.Call):
            name = _last_name(node.func)
            yield name
            if name not in self._defined and not self._is_start(node):
                values = [*node.args, *(keyword.value for keyword in node.keywords)]
                yield from filter(None, (_last_name(value) for value in values))
        for child in ast.iter_child_nodes(node):
            yield from self._called(child)


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_for_scripts(node: ast.stmt) -> bool:
    """`if __name__ == "__main__":`, which is skipped where the file is imported."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _last_name(node: ast.AST) -> str:
    """`spawn` for `mp.spawn` and for `spawn`; empty for what has no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)
