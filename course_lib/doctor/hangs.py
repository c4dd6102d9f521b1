"""Why ranks get no further, proved or not: all rules in the order in which they are asked. A new rule is a line here.

The first rule that fits speaks. Those in `_BEFORE` look at the outcome. Those in `_RULES` look at its sides (`sides`),
and each is asked in the situations that stand before it.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.doctor import (
    absences,
    alignment,
    by_place,
    closures,
    group_creation,
    habits,
    mismatches,
    model_order,
    own_collectives,
    passes,
    roots,
    stuck,
)
from course_lib.doctor.gpu_waits import left_out_on_gpus
from course_lib.doctor.sides import Hang, Situation, hang_of
from course_lib.outcome.outcome import Diagnosis, Outcome

_BEFORE: tuple[Callable[[Outcome], Diagnosis | None], ...] = (
    stuck.locked,
    stuck.stuck_outside,
    left_out_on_gpus,
    group_creation.init_hang,
    closures.different_closures,
    roots.different_roots,
)
_MEET, _LEFT, _IDLE, _CIRCLE, _ALONE, _OTHER = Situation
_RULES: tuple[tuple[Situation, Callable[[Hang], Diagnosis | None]], ...] = (
    (_LEFT, absences.rank_died),
    (_MEET, alignment.threads_share_a_group),
    (~_MEET, absences.messages_that_do_not_meet),
    (_LEFT | _IDLE, absences.each_for_another),
    (_MEET | _LEFT, passes.join_on_some_ranks),
    (_MEET, own_collectives.own_at_end_of_join),
    (_LEFT, passes.ddp_on_some_ranks),
    (_LEFT, passes.alternated),
    (_LEFT, own_collectives.under_a_condition),
    (_MEET | _LEFT, passes.pass_on_some_ranks),
    (_MEET | _CIRCLE, model_order.models_in_another_order),
    (_MEET, mismatches.out_of_step),
    (_MEET, habits.against_the_habit_in_a_row),
    (_MEET, own_collectives.own_meets),
    (_MEET, mismatches.different_sizes),
    (_MEET, habits.against_the_habit_in_a_loop),
    (_MEET | _LEFT, passes.backward_on_some_ranks),
    (_LEFT, passes.uneven_batches),
    (_MEET, own_collectives.under_a_condition),
    (_MEET, by_place.behind_a_loop),
    (_MEET, by_place.under_some_condition),
    (_MEET, mismatches.different_collectives),
    (_LEFT | _IDLE, absences.rank_left),
    (_CIRCLE, absences.in_different_groups),
    (_CIRCLE | _OTHER, absences.some_wait_for_no_rank),
    (_CIRCLE, absences.waiting_in_a_circle),
    (_ALONE, absences.in_the_same_call),
    (_ALONE, absences.nobody_answers),
)
#: The rules that ask for no more than where ranks are. From outside it is not known what they have issued before, and
#: the others would take what is not known for what was not done.
_FROM_OUTSIDE = {
    stuck.locked,
    stuck.stuck_outside,
    left_out_on_gpus,
    group_creation.init_hang,
    absences.rank_died,
    absences.messages_that_do_not_meet,
    absences.each_for_another,
    passes.ddp_on_some_ranks,
    own_collectives.under_a_condition,
    by_place.behind_a_loop,
    by_place.under_some_condition,
    mismatches.different_collectives,
    absences.rank_left,
    absences.some_wait_for_no_rank,
    absences.waiting_in_a_circle,
    absences.in_the_same_call,
    absences.nobody_answers,
}


def explain_hang(outcome: Outcome) -> Diagnosis | None:
    """Why ranks wait for what does not come; None where no rule fits."""
    for rule in _BEFORE:
        found = rule(outcome) if rule in _FROM_OUTSIDE or not outcome.from_outside else None
        if found is not None:
            return found
    hang = hang_of(outcome)
    return judged(hang) if hang is not None else None


def judged(hang: Hang) -> Diagnosis | None:
    """The first rule for the sides that fits."""
    asked = (rule for when, rule in _RULES if hang.situation & when)
    found = (rule(hang) for rule in asked if rule in _FROM_OUTSIDE or not hang.outcome.from_outside)
    return next((each for each in found if each is not None), None)
