"""Reading source text, also in several threads at once."""

from __future__ import annotations

import ast
import threading

#: CPython counts how deep it is in the tree that it makes, once for all threads of a process: where two make one at a
#: time, it ends with "SystemError: AST constructor recursion depth mismatch" (seen on 3.11). A finalizer that runs
#: meanwhile may parse, too: the same thread must not wait for itself.
_ONE_AT_A_TIME = threading.RLock()


def parsed(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """The same as `ast.parse`, one thread at a time.

    Raises:
        SyntaxError, ValueError: it is no Python.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(source, filename)


def parsed_expression(source: str) -> ast.expr:
    """The same for one expression."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, mode="eval").body
