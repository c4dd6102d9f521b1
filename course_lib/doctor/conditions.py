"""Lines that only some ranks reach, because they stand under a condition on the rank: read from the source."""

from __future__ import annotations

import ast
import functools
import linecache

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.words import positions, rank_list, verb
from course_lib.ranks.outcome import Diagnosis, Outcome


@functools.lru_cache(maxsize=256)
def rank_condition(file: str, line: int) -> str | None:
    """The innermost condition on the rank that guards this line, as written: `rank == 0`; None when there is none."""
    source = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(source)
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
