"""Rules for observed ranks that wait at different lines, based on the source."""

from __future__ import annotations

from realranks.doctor.conditions import stands
from realranks.doctor.hang_table import Hang, Side, odd_of
from realranks.doctor.loops import Loop, further_down, own_condition_at, path_of, seen_from
from realranks.doctor.sentences import diagnosis, text
from realranks.outcome.outcome import Diagnosis


def behind_a_loop(hang: Hang) -> Diagnosis | None:
    """Detect ranks past a loop in which the others still are, if no condition explains that."""
    for early, late in _pairs(hang):
        there, here = path_of(late.met), path_of(early.met)
        behind = seen_from(there, here) in (Loop.LEFT, Loop.OUTER) and further_down(there, here)
        if behind and own_condition_at(there, here) is None:
            words = {"early": early.ranks, "now": early, "late": late.ranks, "reached": late}
            return diagnosis("uneven_batches.by_place", hang.outcome, early.ranks, **words)
    return None


def under_some_condition(hang: Hang) -> Diagnosis | None:
    """Detect that one side's line stands under a condition, not on the rank, which was false on the other side."""
    if len(hang.sides) != 2:
        return None
    found = {
        here.ranks: (here, rest, condition)
        for here, rest in hang.pairs
        if (condition := own_condition_at(path_of(rest.met), path_of(here.met))) and not condition.on_rank
    }
    if len(found) != 1:
        return None
    here, rest, condition = found.popitem()[1]
    where = text("{rest} {rest:is} in {theirs}", rest=rest.ranks, theirs=rest)
    words = {"ranks": here.ranks, "what": here, "stands": stands(condition.condition), "elsewhere": where}
    return diagnosis(
        "different_collectives.by_place", hang.outcome, odd_of(hang.sides) or here.ranks, **words
    )


def _pairs(hang: Hang) -> tuple[tuple[Side, Side], ...]:
    return hang.pairs if hang.outcome.from_outside and len(hang.sides) == 2 else ()
