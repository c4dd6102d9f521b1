"""Lines that only some ranks reach, because they stand under a condition on the rank: read from the source."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Collection, Iterable
from typing import NamedTuple

from realranks.outcome.outcome import Collective, Outcome, Waiting
from realranks.outcome.places import Spot, is_learners
from realranks.outcome.syntax import parsed, parsed_expression


class Guard(NamedTuple):
    """A condition on the rank: as written, and the lines, first and last, of everything that hangs on it."""

    condition: str
    first: int
    last: int


def guards(file: str, line: int) -> tuple[Guard, ...]:
    """List the conditions on the rank around this line, the innermost first."""
    return _guards("".join(linecache.getlines(file)), line)


@functools.lru_cache(maxsize=256)
def _guards(source: str, line: int) -> tuple[Guard, ...]:
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError):
        return ()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While) and _mentions_rank(node.test):
            for body, negated in ((node.body, False), (node.orelse, True)):
                if body and body[0].lineno <= line <= (body[-1].end_lineno or 0):
                    text = ast.unparse(node.test)
                    inside = (*node.body, *node.orelse)
                    last = max(each.end_lineno or 0 for each in inside)
                    found.append(Guard(f"not ({text})" if negated else text, node.body[0].lineno, last))
    return tuple(reversed(found))


def rank_condition(file: str, line: int) -> str | None:
    """Return the innermost condition on the rank that guards this line, as written (`rank == 0`), or None."""
    around = guards(file, line)
    return around[0].condition if around else None


def condition_of(
    outcome: Outcome, ranks: Collection[int], record: Collective | None, waiting: Waiting | None
) -> str | None:
    """Return the condition on the rank under which only `ranks` came to a collective, around its line or a caller's.

    A condition does not count if other ranks have come to a collective in its branch or in its `else`.
    """
    frames = list(record.frames) if record is not None else []
    if waiting is not None:
        frames += [frame.spot() for frame in reversed(waiting.stack)]
    return separating(frames, _been(outcome, ranks))


def separating(frames: Iterable[Spot], others: Collection[tuple[str, int]]) -> str | None:
    """Return the innermost condition on the rank around these frames whose branches hold none of the others' lines."""
    for frame in frames:
        for guard in guards(frame.file, frame.line) if is_learners(frame.file) else ():
            if not any(file == frame.file and guard.first <= line <= guard.last for file, line in others):
                return guard.condition
    return None


def _been(outcome: Outcome, ranks: Collection[int]) -> set[tuple[str, int]]:
    """Collect the lines through which the other ranks came to collectives, or in which they wait."""
    others = [rank for rank in outcome.ranks if rank not in ranks]
    been = {(f.file, f.line) for rank in others for r in outcome.recorded.get(rank, ()) for f in r.frames}
    stacks = [outcome.waiting[rank].stack for rank in others if rank in outcome.waiting]
    return been | {(frame.file, frame.line) for stack in stacks for frame in stack}


def is_on_the_rank(condition: str) -> bool:
    """Check whether a condition, as written, asks for the rank."""
    return _mentions_rank(parsed_expression(condition))


def _mentions_rank(test: ast.expr) -> bool:
    words = ("rank", "is_main", "is_master", "main_process", "process_zero", "process_index", "global_zero")
    for node in ast.walk(test):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if any(word in name.lower() for word in words):
            return True
        if isinstance(node, ast.Constant) and node.value in ("RANK", "LOCAL_RANK"):
            return True
    return False


def under(condition: str | None) -> str:
    """Format a condition as ` (under `rank == 0`)`; '' if there is none."""
    return f" (under `{condition}`)" if condition else ""
