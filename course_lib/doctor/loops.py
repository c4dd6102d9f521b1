"""Where two lines of the learner's code are with respect to the loops around them: read from the source."""

from __future__ import annotations

import ast
import enum
import functools
import linecache
from collections.abc import Iterable, Sequence

from course_lib.outcome.outcome import Collective
from course_lib.outcome.syntax import parsed

#: Lines from the outermost call inwards: file and number.
Path = Sequence[tuple[str, int]]


class Loop(enum.Enum):
    """Where a rank is, seen from another one that is inside a loop."""

    SAME = "in the same loop"
    OUTER = "behind that loop, in a loop around it"
    LEFT = "behind that loop, and in no loop around it"


def path_of(record: Collective) -> Path:
    """The learner's lines on the stack of a collective, from the outermost inwards."""
    if record.origin is None:
        return []
    return [*reversed(record.callers), (record.origin.file, record.origin.line)]


def seen_from(inside: Path, other: Path) -> Loop | None:
    """Where `other` is for a rank that is at `inside`; None where no loop is around `inside`, or nothing is known."""
    depth = _parting(inside, other)
    if depth in (len(inside), len(other)) or inside[depth][0] != other[depth][0]:
        return None
    shared = any(_around(line) for line in inside[:depth])
    file, here = inside[depth]
    there = other[depth][1]
    around = _around((file, here))
    shared = shared or any(first <= there <= last for first, last in around)
    left = any(_around(line) for line in inside[depth + 1 :])
    left = left or bool(around and not around[-1][0] <= there <= around[-1][1])
    if left:
        return Loop.OUTER if shared else Loop.LEFT
    return Loop.SAME if shared else None


def condition_at(inside: Path, other: Path) -> str | None:
    """The innermost `if` that guards `other` and not `inside`, as written, from where the two part on."""
    depth = _parting(inside, other)
    if depth >= len(other):
        return None
    here = inside[depth][1] if depth < len(inside) and inside[depth][0] == other[depth][0] else 0
    found = None
    for place, (file, number) in enumerate(other[depth:]):
        for first, last, test in _conditions(file):
            if first <= number <= last and not (place == 0 and first <= here <= last):
                found = test
    return found


def _parting(inside: Path, other: Path) -> int:
    depth = 0
    while depth < min(len(inside), len(other)) and inside[depth] == other[depth]:
        depth += 1
    return depth


def _around(line: tuple[str, int]) -> list[tuple[int, int]]:
    """The loops around a line, the innermost last: first and last line of each."""
    file, number = line
    return [(first, last) for first, last in _loops(file) if first <= number <= last]


@functools.lru_cache(maxsize=256)
def _loops(file: str) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(_spans(ast.walk(_tree(file)))))


@functools.lru_cache(maxsize=256)
def _conditions(file: str) -> tuple[tuple[int, int, str], ...]:
    found = [
        (node.body[0].lineno, node.body[-1].end_lineno or 0, ast.unparse(node.test))
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.If)
    ]
    return tuple(sorted(found))


def _tree(file: str) -> ast.Module:
    try:
        return parsed("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _spans(nodes: Iterable[ast.AST]) -> Iterable[tuple[int, int]]:
    for node in nodes:
        if isinstance(node, ast.For | ast.While | ast.AsyncFor) and node.body:
            yield node.lineno, node.body[-1].end_lineno or node.lineno
