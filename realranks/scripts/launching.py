"""Decides whether a launcher such as `torchrun` starts a script's ranks, or the script itself.

Read from the script before it runs: a launcher runs it once per rank, and a script that starts its ranks itself is run
once. Imports little: it is asked before anything starts.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from pathlib import Path

from realranks.outcome.syntax import parsed

#: What starts processes, by the last part of its name.
_STARTS = {"spawn", "start_processes", "Process"}
_JOINS = "init_process_group"
_MAX_FILES = 200


class Launcher(enum.StrEnum):
    """The program that starts a script's ranks; `auto` is decided from the script's source."""

    AUTO = "auto"
    TORCHRUN = "torchrun"
    SCRIPT = "script"


def starts_its_ranks(script: str) -> bool:
    """Check whether a script starts processes and does not join a process group in its own process.

    It joins one if a call of `init_process_group` can be reached from the script's top level through functions, classes
    and methods of the script and of modules in its folder. Passing a function on does not call it, as with `main` in
    `spawn(main, nprocs=2)`; a function that is passed to somebody else's function (`app.run(main)`) counts as called.
    """
    code = _Code(Path(script))
    return code.starts_processes and not code.joins_a_group()


class _Code:
    """The script and the modules of its folder that it imports."""

    def __init__(self, script: Path) -> None:
        self._folder = script.resolve().parent
        self._files: set[Path] = set()
        #: By name, from all files: functions and classes, and the methods of classes.
        self._defined: dict[str, list[ast.AST]] = {}
        self._methods: dict[str, list[ast.AST]] = {}
        #: Names of classes derived from `Process`: their methods run in the process that they stand for.
        self._processes: set[str] = set()
        #: Names by which files know modules of the folder.
        self._modules: set[str] = set()
        self._top: list[ast.AST] = []
        self.starts_processes = False
        self._read(script)

    def _read(self, path: Path) -> None:
        path = path.resolve()
        if path in self._files or len(self._files) == _MAX_FILES:
            return
        self._files.add(path)
        try:
            tree = parsed(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return
        imported = len(self._files) > 1
        self._top += [
            node
            for node in tree.body
            if not isinstance(node, _DEFINITIONS) and not (imported and _is_for_scripts(node))
        ]
        self._define(tree, self._defined)
        for node in ast.walk(tree):
            self.starts_processes |= isinstance(node, ast.Call) and self._is_start(node)
            for module, name in _imported(node):
                if self._read_module(module):
                    self._modules.add(name)

    def _define(self, parent: ast.AST, room: dict[str, list[ast.AST]]) -> None:
        for node in ast.iter_child_nodes(parent):
            inside = self._defined
            if isinstance(node, _DEFINITIONS):
                room.setdefault(node.name, []).append(node)
            if isinstance(node, ast.ClassDef):
                inside = self._methods
                if any(_last_name(base) in {"Process", *self._processes} for base in node.bases):
                    self._processes.add(node.name)
                    continue
            self._define(node, inside)

    def _read_module(self, name: str) -> bool:
        place = self._folder.joinpath(*name.split("."))
        found = [path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()]
        for path in found:
            self._read(path)
        return bool(found)

    def _is_start(self, call: ast.Call) -> bool:
        return _last_name(call.func) in _STARTS | self._processes

    def joins_a_group(self) -> bool:
        """Check whether the top level reaches a call of `init_process_group`."""
        todo = list(self._top)
        seen: list[ast.AST] = []
        while todo:
            for named in self._called(todo.pop()):
                if _last_name(named) == _JOINS:
                    return True
                new = [node for node in self._meant(named) if not any(node is one for one in seen)]
                seen += new
                todo += [statement for node in new for statement in _body(node)]
        return False

    def _meant(self, named: ast.expr) -> list[ast.AST]:
        """Find the definitions in these files that `run`, `module.run` or `thing.run` may refer to."""
        if isinstance(named, ast.Name):
            found = self._defined.get(named.id, [])
        elif isinstance(named, ast.Attribute):
            methods = self._methods.get(named.attr, [])
            known = isinstance(named.value, ast.Name) and named.value.id in self._modules
            found = [*methods, *(self._defined.get(named.attr, []) if known else [])]
        else:
            found = []
        return [node for node in found if getattr(node, "name", "") not in self._processes]

    def _called(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield what is called here, without the calls inside functions and classes defined here."""
        if isinstance(node, _DEFINITIONS):
            return
        if isinstance(node, ast.Call):
            yield node.func
            if not self._meant(node.func) and not self._is_start(node):
                yield from [*node.args, *(keyword.value for keyword in node.keywords)]
        for child in ast.iter_child_nodes(node):
            yield from self._called(child)


def _body(node: ast.AST) -> list[ast.stmt]:
    """Return the statements that run when it is called."""
    if isinstance(node, ast.ClassDef):
        makers = [child for child in node.body if getattr(child, "name", "") in ("__init__", "__post_init__")]
        return [statement for maker in makers for statement in _body(maker)]
    return node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_for_scripts(node: ast.stmt) -> bool:
    """Recognise `if __name__ == "__main__":`, which is skipped when the file is imported."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _last_name(node: ast.AST) -> str:
    """Return `spawn` for `mp.spawn` and for `spawn`; '' for what has no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the modules that this may import, each with the name by which the file knows it."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, alias.asname or alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = f"{node.module}." if node.module else ""
        if node.module:
            yield node.module, ""
        yield from ((module + alias.name, alias.asname or alias.name) for alias in node.names)
