"""The position of two of the learner's lines relative to the loops around them, read from the source."""

from __future__ import annotations

import ast
import enum
import functools
import linecache
from collections.abc import Iterable, Sequence

from realranks.doctor.conditions import Guard, conditions, under
from realranks.outcome.outcome import Collective
from realranks.outcome.places import Frame, Spot, is_learners, package_of
from realranks.outcome.syntax import parsed

#: Frames from the outermost call inwards.
Path = Sequence[Spot]


class Loop(enum.Enum):
    """A rank's position as seen from another one that is inside a loop."""

    SAME = "in the same loop"
    OUTER = "behind that loop, in a loop around it"
    LEFT = "behind that loop, and in no loop around it"


def path_of(record: Collective) -> Path:
    """Return the frames of the script and of libraries on the way to a collective, the outermost first."""
    return record.frames[::-1]


def seen_from(inside: Path, other: Path) -> Loop | None:
    """Locate `other` for a rank at `inside`; None if `inside` is in no loop, or nothing is known."""
    depth = _parting(inside, other)
    if depth in (len(inside), len(other)) or inside[depth].file != other[depth].file:
        return None
    shared = any(_around(line) for line in inside[:depth])
    there = other[depth].line
    around = _around(inside[depth])
    shared = shared or any(first <= there <= last for first, last in around)
    left = any(_around(line) for line in inside[depth + 1 :])
    left = left or bool(around and not around[-1][0] <= there <= around[-1][1])
    if left:
        return Loop.OUTER if shared else Loop.LEFT
    return Loop.SAME if shared else None


def further_down(inside: Path, other: Path) -> bool:
    """Check whether `other` is at a later line where the two diverge."""
    depth = _parting(inside, other)
    return depth < min(len(inside), len(other)) and inside[depth].line < other[depth].line


def condition_at(inside: Path, other: Path) -> str | None:
    """Return the innermost `if` that guards `other` and not `inside`, as written, from where their paths diverge.

    Of conditions in a library, return the two nearest to that place.
    """
    own, of_library = _conditions_at(inside, other)
    return own[-1].condition if own else "` and `".join(each.condition for each in of_library[:2]) or None


def own_condition_at(inside: Path, other: Path) -> Guard | None:
    """Return the innermost such `if` in the script itself, or None."""
    return next(reversed(_conditions_at(inside, other)[0]), None)


def _conditions_at(inside: Path, other: Path) -> tuple[list[Guard], list[Guard]]:
    """Return the conditions in the learner's code and those in a library; of these, not what a library checks first."""
    depth = _parting(inside, other)
    own: list[Guard] = []
    of_library: list[Guard] = []
    if depth >= len(other):
        return own, of_library
    here = inside[depth].line if depth < len(inside) and inside[depth].file == other[depth].file else 0
    for place, frame in enumerate(other[depth:]):
        is_own = is_learners(frame.file)
        for guard in conditions(frame.file):
            first, last = guard.lines
            if guard.of_loop or (guard.leaves_early and not is_own):
                continue
            if first <= frame.line <= last and not (place == 0 and first <= here <= last):
                (own if is_own else of_library).append(guard)
    return own, of_library


def step_condition(path: Path) -> str | None:
    """Return the innermost `if` of the script's own that may leave a line out of a step, as written, or None.

    It skips the rest of a step or calls no more than what it guards, and stands in the innermost loop around the line.
    """
    for frame in reversed([each for each in path if is_learners(each.file)]):
        loops = _around(frame)
        for guard in conditions(frame.file)[::-1]:
            first, last = guard.lines
            is_near = guard.leaves_early or (frame.line - 1 <= first == guard.first and last == guard.last)
            if first <= frame.line <= last and is_near and not guard.of_loop:
                return guard.condition if not loops or loops[-1][0] < first else None
        if loops:
            return None
    return None


def own_loops_at(inside: Path, other: Path) -> list[str]:
    """List the script's own loops around `inside` that `other` is not in, as written, the innermost last."""
    depth = _parting(inside, other)
    there = other[depth] if depth < len(other) else None
    return [
        _head(node)
        for place, frame in enumerate(inside[depth:])
        if is_learners(frame.file)
        for node in _loops_holding(frame)
        if place or there is None or not _holds(node, there)
    ]


def under_or_in(inside: Path, other: Path, condition: str | None = None) -> str:
    """Format what `other` hangs on and `inside` does not, ' (under `...`)', or the loop that separates them, or ''."""
    if found := condition or condition_at(inside, other):
        return under(found)
    around, left = own_loops_at(other, inside), own_loops_at(inside, other)
    place = "behind" if further_down(inside, other) else "before"
    return f" (in `{around[-1]}`)" if around else f" ({place} `{left[0]}`)" if left else ""


def _head(loop: ast.For | ast.While) -> str:
    if isinstance(loop, ast.While):
        return f"while {ast.unparse(loop.test)}"
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    return f"for {', '.join(map(ast.unparse, targets))} in {ast.unparse(loop.iter)}"


def _loops_holding(frame: Spot) -> list[ast.For | ast.While]:
    """List the loops with this line in their body, the innermost last."""
    loops = (node for node in ast.walk(_tree(frame.file)) if isinstance(node, ast.For | ast.While))
    return [node for node in loops if _holds(node, frame)]


def _holds(loop: ast.For | ast.While, frame: Spot) -> bool:
    return loop.lineno < frame.line <= (loop.end_lineno or 0)


def breaks_around(path: Path) -> tuple[str, ...]:
    """List the conditions under which the script's own loops around a path end early, as `if ...: break`."""
    return tuple(
        f"if {ast.unparse(each.test)}: break"
        for frame in path
        if is_learners(frame.file)
        for node in _loops_holding(frame)
        for each in _ifs_of(node.body)
        if any(isinstance(line, ast.Break) for line in each.body)
    )


def _ifs_of(body: Iterable[ast.stmt]) -> Iterable[ast.If]:
    """List the `if`s in a loop's body, not those of the loops and functions in it."""
    for node in body:
        if isinstance(node, ast.If):
            yield node
        if not isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.ClassDef):
            blocks = (getattr(node, name, ()) for name in ("body", "orelse", "finalbody"))
            yield from (each for block in blocks for each in _ifs_of(block))


def goes_on_after_an_error(path: Path) -> bool:
    """Check for a learner's line inside a `try` that catches an error without raising it again."""
    return any(
        first <= frame.line <= last
        for frame in path
        if is_learners(frame.file)
        for first, last in _tries(frame.file)
    )


def may_end_early(path: Path) -> bool:
    """Check whether the script may end its loop around these lines early, or has none: a library's goes round then."""
    around = [node for frame in path for node in _loops_holding(frame)]
    ends = (isinstance(each, ast.Break | ast.Return) for node in around for each in ast.walk(node))
    return not around or any(isinstance(node, ast.While) for node in around) or any(ends)


def loop_over_tensors(path: Path) -> str | None:
    """Return the `for` whose variable names the tensor in the call at the end of a path, as written."""
    if not path:
        return None
    here = path[-1]
    for node in _loops_holding(here):
        if isinstance(node, ast.For):
            targets = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
            used = (each for line in node.body for each in ast.walk(line) if isinstance(each, ast.Call))
            at_line = (each for each in used if each.lineno <= here.line <= (each.end_lineno or 0))
            if any(isinstance(n, ast.Name) and n.id in targets for call in at_line for n in ast.walk(call)):
                return _head(node)
    return None


def at_parting(one: Path, other: Path) -> tuple[str, str]:
    """If two paths diverge within a library, say what each side is in: `, in save() of trainer`; else ''."""
    depth = _parting(one, other)
    if depth >= min(len(one), len(other)) or is_learners(one[depth].file):
        return "", ""
    return _inside(one[depth:]), _inside(other[depth:])


def called_from(one: Path, other: Path) -> str:
    """Format where the path to `other` diverges in the learner's code: `, called from train.py, line 9`."""
    depth = _parting(one, other)
    if depth >= len(other) - 1 or not is_learners(other[depth].file):
        return ""
    return f", called from {Frame(*other[depth], '').where()}"


def _inside(rest: Path) -> str:
    frame = rest[1] if len(rest) > 1 and not is_learners(rest[1].file) else rest[0]
    return f", in {frame.function}() of {package_of(frame.file)}"


def _parting(inside: Path, other: Path) -> int:
    depth = 0
    while depth < min(len(inside), len(other)) and inside[depth] == other[depth]:
        depth += 1
    return depth


def _around(frame: Spot) -> list[tuple[int, int]]:
    """List the loops around a line as (first line, last line), the innermost last."""
    return [(first, last) for first, last in _loops(frame.file) if first <= frame.line <= last]


@functools.lru_cache(maxsize=256)
def _loops(file: str) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(_spans(ast.walk(_tree(file)))))


#: Exceptions that are no error.
NO_ERRORS = {"StopIteration", "StopAsyncIteration", "KeyboardInterrupt", "SystemExit", "GeneratorExit"}


@functools.lru_cache(maxsize=256)
def _tries(file: str) -> tuple[tuple[int, int], ...]:
    """List the first and last line of each `try` block that continues after an error."""
    return tuple(
        (node.body[0].lineno, node.body[-1].end_lineno or 0)
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.Try) and any(map(_goes_on, node.handlers))
    )


def _goes_on(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {ast.unparse(each).rpartition(".")[2] if each is not None else "" for each in caught}
    return not names <= NO_ERRORS and not isinstance(handler.body[-1], ast.Raise)


def _tree(file: str) -> ast.Module:
    try:
        return parsed("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _spans(nodes: Iterable[ast.AST]) -> Iterable[tuple[int, int]]:
    for node in nodes:
        if isinstance(node, ast.For | ast.While | ast.AsyncFor) and node.body:
            yield node.lineno, node.body[-1].end_lineno or node.lineno
