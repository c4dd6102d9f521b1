"""Lines that only some ranks reach, because they stand under a condition on the rank: read from the source."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Collection, Iterable
from typing import NamedTuple

from realranks.outcome.outcome import Collective, Outcome, Waiting
from realranks.outcome.places import Spot, is_learners
from realranks.outcome.syntax import parsed


class Guard(NamedTuple):
    """A condition: as written, the lines for which it holds, first and last, and those of everything that hangs on it.

    Where an `if` leaves a block early, what follows there hangs on it: `if rank != 0: return`.
    """

    condition: str
    lines: tuple[int, int]
    first: int
    last: int
    on_rank: bool
    of_loop: bool = False

    @property
    def leaves_early(self) -> bool:
        """Check for an `if` whose block is left, so that what it guards stands below it."""
        return self.condition.startswith("if ")


#: What every rank finds alike, as a rule: "if not dist.is_initialized(): return", "if value is None: return".
_ALIKE = ("world", "initialized", "available", "distributed", " is None")


def guards(file: str, line: int) -> tuple[Guard, ...]:
    """List the conditions on the rank around this line, the innermost first."""
    around = (each for each in conditions(file) if each.lines[0] <= line <= each.lines[1])
    return tuple(each for each in around if each.on_rank)[::-1]


def conditions(file: str) -> tuple[Guard, ...]:
    """List all conditions of a file, the outer ones before those in them."""
    return _conditions("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=256)
def _conditions(source: str) -> tuple[Guard, ...]:
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError):
        return ()
    return tuple(sorted(_guards(tree), key=lambda guard: guard.lines[0]))


def _guards(tree: ast.AST) -> Iterable[Guard]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While) and not _is_main(node.test):
            test, on_rank, loop = (
                ast.unparse(node.test),
                _mentions_rank(node.test),
                isinstance(node, ast.While),
            )
            whole = node.body[0].lineno, max(_end(each) for each in (*node.body, *node.orelse))
            for body, text in ((node.body, test), (node.orelse, f"not ({test})")):
                if body:
                    yield Guard(text, (body[0].lineno, _end(body[-1])), *whole, on_rank, loop)
        blocks: Iterable[object] = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
        for block in (each for each in blocks if isinstance(each, list)):
            for place, each in enumerate(block[:-1]):
                if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Return | ast.Continue):
                    text = f"if {ast.unparse(each.test)}: {type(each.body[-1]).__name__.lower()}"
                    behind = (block[place + 1].lineno, _end(block[-1]))
                    if not any(word in text for word in _ALIKE):
                        yield Guard(text, behind, *behind, _mentions_rank(each.test))


def _is_main(test: ast.expr) -> bool:
    """Check for `__name__ == "__main__"`, which is true on every rank."""
    return isinstance(test, ast.Compare) and ast.unparse(test.left) == "__name__"


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


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


def _mentions_rank(test: ast.expr) -> bool:
    words = ("rank", "is_main", "is_master", "main_process", "process_zero", "process_index", "global_zero")
    for node in ast.walk(test):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if any(word in name.lower() for word in words):
            return True
        if isinstance(node, ast.Constant) and node.value in ("RANK", "LOCAL_RANK"):
            return True
    return False


def stands(condition: str | None) -> str:
    """Format a condition as "under `rank == 0`", or "below `if rank != 0: return`"; '' if there is none."""
    return f"{'below' if condition.startswith('if ') else 'under'} `{condition}`" if condition else ""


def under(condition: str | None) -> str:
    """Format a condition as " (under `rank == 0`)"; '' if there is none."""
    return f" ({stands(condition)})" if condition else ""
