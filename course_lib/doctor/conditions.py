"""Lines that only some ranks reach, because they stand under a condition on the rank: read from the source."""

from __future__ import annotations

import ast
import functools
import linecache

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.words import positions, rank_list, verb
from course_lib.outcome.outcome import Collective, Diagnosis, Outcome, Waiting
from course_lib.outcome.places import is_learners
from course_lib.outcome.syntax import parsed


@functools.lru_cache(maxsize=256)
def rank_condition(file: str, line: int) -> str | None:
    """The innermost condition on the rank that guards this line, as written: `rank == 0`; None when there is none."""
    source = "".join(linecache.getlines(file))
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError):
        return None
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While):
            branches = [(node.body, False), (node.orelse, True)]
            for body, negated in branches:
                if (
                    body
                    and body[0].lineno <= line <= (body[-1].end_lineno or 0)
                    and _mentions_rank(node.test)
                ):
                    text = ast.unparse(node.test)
                    found = f"not ({text})" if negated else text
    return found


def condition_of(record: Collective | None, waiting: Waiting | None) -> str | None:
    """The condition on the rank under which ranks came to a collective: at its line, or at a caller's."""
    frames = [record.origin] if record is not None and record.origin is not None else []
    if waiting is not None:
        frames += [frame for frame in reversed(waiting.stack) if is_learners(frame.file)]
    found = (rank_condition(frame.file, frame.line) for frame in frames)
    return next((condition for condition in found if condition is not None), None)


def _mentions_rank(test: ast.expr) -> bool:
    words = ("rank", "is_main", "is_master", "main_process")
    for node in ast.walk(test):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if any(word in name.lower() for word in words):
            return True
    return False


def rank_only_collective(
    outcome: Outcome, ranks: tuple[int, ...], where: str, what: str, condition: str, instead: str = ""
) -> Diagnosis:
    """Only some ranks come to a collective, because a condition on the rank guards its line."""
    return Diagnosis(
        "rank_only_collective",
        f"Only {rank_list(ranks)} {verb(ranks, 'comes', 'come')} to {what} at {where}, because the line stands under "
        f"`{condition}`{instead}.",
        ranks,
        positions(outcome, ranks),
        advice="take the collective out of the condition: what only some ranks run (saving, printing, evaluating) "
        "must not call one, not even through a DDP model's forward (use model.module there).",
        lesson=taught_in(14, 6, 0),
    )
