"""Source text as Python reads it: its tree, also in several threads at once, and cells: their names, lines and code.

A cell is a file to Python, with a name by which tracebacks know it, and with lines. It is statements and, as in a
notebook, the value of its last expression. The kernel compiles it once and sends the code to the ranks, which are
processes of the same interpreter. Where Python has something to say about a cell, a warning or an error, the ranks
compile it again and say it.
"""

from __future__ import annotations

import ast
import linecache
import marshal
import threading
import warnings
from dataclasses import dataclass
from types import CodeType

CELL_PREFIX = "<rank cell "
#: Labels that begin so stand for one cell of many; each has a number of its own, which is not shown.
NUMBERED = "number "

#: CPython counts how deep it is in the tree that it makes, once for all threads of a process: where two make one at a
#: time, it ends with "SystemError: AST constructor recursion depth mismatch" (seen on 3.11). A finalizer that runs
#: meanwhile may parse, too: the same thread must not wait for itself.
_ONE_AT_A_TIME = threading.RLock()


def parsed(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """Call `ast.parse`, one thread at a time.

    Raises:
        SyntaxError, ValueError: it is no Python.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(source, filename)


def parsed_expression(source: str) -> ast.expr:
    """Parse one expression, one thread at a time."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, mode="eval").body


_newest_cell = ""


def cell_filename(label: str) -> str:
    """Return the file name that tracebacks show for a cell: `<rank cell In [3]>`."""
    return f"{CELL_PREFIX}{label}>"


def newest_cell() -> str:
    """Return the file name of the newest remembered cell."""
    return _newest_cell


def remember_cell(source: str, label: str, first_line: int) -> None:
    """Keep the cell's lines, for tracebacks and for the doctor, which explains them; it is now the newest one."""
    global _newest_cell
    filename = _newest_cell = cell_filename(label)
    padded = "\n" * (first_line - 1) + source
    linecache.cache[filename] = (len(padded), None, padded.splitlines(keepends=True), filename)


@dataclass(frozen=True)
class CompiledCell:
    """The two halves of a cell; `value` is None when the cell does not end in an expression."""

    statements: CodeType
    value: CodeType | None

    def to_bytes(self) -> bytes:
        """Serialise the code for another process of the same interpreter."""
        return marshal.dumps((self.statements, self.value))


def from_bytes(code: bytes) -> CompiledCell:
    """Rebuild a cell from `to_bytes`; only for bytes from the course's own kernel."""
    return CompiledCell(*marshal.loads(code))


def compile_cell(source: str, label: str, first_line: int) -> CompiledCell:
    """Compile a cell whose first line is line `first_line` of what the learner sees.

    Raises:
        SyntaxError: with the line number of the notebook cell.
    """
    filename = cell_filename(label)
    padded = "\n" * (first_line - 1) + source
    tree = parsed(padded, filename)
    value = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not _ends_with_semicolon(padded, tree.body[-1]):
        last = tree.body.pop()
        assert isinstance(last, ast.Expr)
        value = compile(ast.Expression(last.value), filename, "eval", dont_inherit=True)
    # This module's own __future__ imports are no business of the learner's cell.
    return CompiledCell(compile(tree, filename, "exec", dont_inherit=True), value)


def _ends_with_semicolon(source: str, last: ast.stmt) -> bool:
    """Check for a trailing `;`, which keeps the value from being shown, as in a notebook."""
    lines = source.encode(errors="surrogatepass").split(b"\n")[(last.end_lineno or 1) - 1 :]
    return bool(lines) and lines[0][last.end_col_offset :].lstrip(b" \t\f\\").startswith(b";")


def compile_if_clean(source: str, label: str, first_line: int) -> bytes:
    """Compile a cell for another process; return nothing if Python warns or rejects the source."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            code = compile_cell(source, label, first_line).to_bytes()
        except Exception:
            return b""
    return b"" if said else code
