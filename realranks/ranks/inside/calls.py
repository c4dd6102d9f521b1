"""The call a thread is in the middle of, according to its source, and the values of simple expressions in it.

Used inside a rank, on frames of the learner's that are running or blocked. Nothing of the learner's is run: names are
looked up and numbers are added, no more.
"""

from __future__ import annotations

import ast
import linecache
import math
import operator
import re
import sys
from collections.abc import Callable
from types import FrameType

from realranks.outcome.syntax import parsed_expression
from realranks.ranks.inside import tracing

#: A call that is written over more lines than this is not read.
_LONGEST_CALL = 40
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: lambda a, b: a % b if b else math.nan,
    ast.Div: lambda a, b: a / b if b else math.nan,
    ast.FloorDiv: lambda a, b: a // b if b else math.nan,
}


def innermost(thread_id: int) -> FrameType | None:
    """Return the innermost frame of a thread, skipping those that a trace adds around waiting calls."""
    frame = sys._current_frames().get(thread_id)
    while frame is not None and frame.f_code.co_filename == tracing.__file__:
        frame = frame.f_back
    return frame


def call_under_way(frame: FrameType) -> ast.Call | None:
    """Return the call that the frame's current instruction makes, as a node of its source."""
    if frame.f_lasti < 0:
        return None
    positions = list(frame.f_code.co_positions())
    first, last, start, end = positions[min(frame.f_lasti // 2, len(positions) - 1)]
    if first is None or last is None or start is None or end is None or last - first > _LONGEST_CALL:
        return None
    lines = [
        linecache.getline(frame.f_code.co_filename, number).encode() for number in range(first, last + 1)
    ]
    lines[-1] = lines[-1][:end]
    text = b"".join([lines[0][start:], *lines[1:]]) if len(lines) > 1 else lines[0][start:end]
    try:
        call = parsed_expression(f"({text.decode(errors='replace').strip()})")
    except (SyntaxError, ValueError):
        return None
    return call if isinstance(call, ast.Call) else None


def object_of(node: ast.expr, frame: FrameType) -> object:
    """Look up the object of a simple expression without running any of the learner's code; else return None."""
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Constant(value=value):
            return value
        case ast.Attribute(value=base, attr=name):
            return getattr(object_of(base, frame), "__dict__", {}).get(name)
        case ast.Subscript(value=base, slice=index):
            return _item(object_of(base, frame), object_of(index, frame))
    return None


def _item(container: object, key: object) -> object:
    """Read `container[key]` for exactly these types: a subclass of the learner's could run its own code."""
    if type(key) is not int and type(key) is not str:
        return None
    try:
        if type(container) is dict:
            return container[key]
        if (type(container) is list or type(container) is tuple) and type(key) is int:
            return container[key]
    except LookupError:
        pass
    return None


def named(function: ast.expr) -> str:
    """Return the last part of a name: `timedelta` of `datetime.timedelta`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def number_of(node: ast.expr, frame: FrameType) -> float:
    """Evaluate an expression of names, constants and arithmetic to a number.

    Raises:
        ValueError: it is something else.
    """
    match node:
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
            return _ARITHMETIC[type(sign)](number_of(left, frame), number_of(right, frame))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -number_of(operand, frame)
    value = object_of(node, frame)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("no number")
    return value


def number_given(call: ast.Call, word: str, position: int, frame: FrameType) -> int | None:
    """Return the number passed by keyword or position; None if there is none, or it is not a simple number."""
    at = call.args[position] if len(call.args) > position else None
    value = next((k.value for k in call.keywords if k.arg == word), at)
    try:
        return int(number_of(value, frame)) if value is not None else None
    except ValueError:
        return None


def assigned(name: ast.expr, frame: FrameType) -> ast.Call | None:
    """Find the call whose result this name was last assigned, above the frame's line in the same code object."""
    if not isinstance(name, ast.Name):
        return None
    code = frame.f_code
    lines = linecache.getlines(code.co_filename)[: frame.f_lineno]
    given = re.compile(rf"\b{re.escape(name.id)}\s*=(?!=)\s*(.+)")
    found = None
    for number, line in enumerate(lines, start=1):
        if number >= code.co_firstlineno and (match := given.search(line)) is not None:
            try:
                value = parsed_expression(match[1].strip())
            except (SyntaxError, ValueError):
                continue
            found = value if isinstance(value, ast.Call) else None
    return found
