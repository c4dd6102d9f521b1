"""Why ranks get no further, proved or not: all rules in the order in which they are asked. A new rule is a line here.

The first rule that fits speaks. Those in `_BEFORE` look at the outcome. Those in `_RULES` look at its sides (`sides`),
and each is asked in the situations that stand before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from realranks.doctor import (
    absences,
    alignment,
    closures,
    collective_history,
    ddp_passes,
    external_hangs,
    group_creation,
    mismatches,
    model_order,
    roots,
    script_collectives,
    stuck,
)
from realranks.doctor.counts import pass_counts
from realranks.doctor.errors import raised_on_its_way
from realranks.doctor.gpu_waits import left_out_on_gpus
from realranks.doctor.hang_table import Hang, Situation, hang_of
from realranks.doctor.loops import goes_on_after_an_error, path_of
from realranks.doctor.sentences import diagnosis
from realranks.outcome.outcome import Diagnosis, Outcome

_BEFORE: tuple[Callable[[Outcome], Diagnosis | None], ...] = (
    stuck.locked,
    stuck.stuck_outside,
    left_out_on_gpus,
    group_creation.init_hang,
    closures.different_closures,
    raised_on_its_way,
    roots.different_roots,
)
_A_STEP_APART = ("uneven_batches", "missing_forward", "missing_backward")
_MEET, _LEFT, _IDLE, _CIRCLE, _ALONE, _OTHER = Situation
_RULES: tuple[tuple[Situation, Callable[[Hang], Diagnosis | None]], ...] = (
    (_LEFT, absences.rank_died),
    (_MEET, alignment.threads_share_a_group),
    (~_MEET, absences.messages_that_do_not_meet),
    (_LEFT | _IDLE, absences.each_for_another),
    (_MEET | _LEFT, ddp_passes.join_on_some_ranks),
    (_MEET, script_collectives.own_at_end_of_join),
    (_LEFT, ddp_passes.ddp_on_some_ranks),
    (_LEFT, ddp_passes.alternated),
    (_LEFT, script_collectives.under_a_condition),
    (_MEET | _LEFT, ddp_passes.pass_on_some_ranks),
    (_MEET | _CIRCLE, model_order.models_in_another_order),
    (_MEET, mismatches.out_of_step),
    (_MEET, collective_history.against_the_habit),
    (_MEET | _CIRCLE, collective_history.a_step_ahead),
    (_MEET, script_collectives.own_meets),
    (_MEET, mismatches.different_sizes),
    (_MEET | _LEFT, ddp_passes.backward_on_some_ranks),
    (_LEFT, ddp_passes.uneven_batches),
    (_MEET, script_collectives.under_a_condition),
    (_MEET, external_hangs.behind_a_loop),
    (_MEET, external_hangs.under_some_condition),
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
    ddp_passes.ddp_on_some_ranks,
    script_collectives.under_a_condition,
    external_hangs.behind_a_loop,
    external_hangs.under_some_condition,
    mismatches.different_collectives,
    absences.rank_left,
    absences.some_wait_for_no_rank,
    absences.waiting_in_a_circle,
    absences.in_the_same_call,
    absences.nobody_answers,
}


def explain_hang(outcome: Outcome) -> Diagnosis | None:
    """Explain why ranks wait for something that does not come; None if no rule fits."""
    for rule in _BEFORE:
        found = rule(outcome) if rule in _FROM_OUTSIDE or not outcome.from_outside else None
        if found is not None:
            return found
    hang = hang_of(outcome)
    return first_matching_rule(hang) if hang is not None else None


def first_matching_rule(hang: Hang) -> Diagnosis | None:
    """Return the diagnosis of the first rule that fits this hang."""
    asked = (rule for when, rule in _RULES if hang.situation & when)
    found_by_rules = (rule(hang) for rule in asked if rule in _FROM_OUTSIDE or not hang.outcome.from_outside)
    found = next((each for each in found_by_rules if each is not None), None)
    return _after_an_error(hang, found) if found is not None else None


def _after_an_error(hang: Hang, found: Diagnosis) -> Diagnosis:
    """Replace the advice about uneven data if ranks may have skipped a step because of an error."""
    records = [side.collective for side in (hang.one, hang.other) if side.collective is not None]
    batches = {counts.batches for counts in pass_counts(hang.outcome).values()}
    if found.kind not in _A_STEP_APART or len(batches) > 1:
        return found
    if not any(goes_on_after_an_error(path_of(record)) for record in records):
        return found
    why = diagnosis("swallowed_error.in_a_try", None)
    return replace(found, evidence=(*found.evidence, why.summary), advice=why.advice, lesson=why.lesson)
