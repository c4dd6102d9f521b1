"""Learning rate schedules that were made for another number of steps than the ranks make: worth knowing, no more.

The usual cause is a number of batches: each of N ranks gets one Nth of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from realranks.doctor.loops import may_end_early
from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import steps
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import LoaderNotes, ScheduleNotes

#: Fewer steps than these are a trial.
_FEWEST = 4
#: After its end this one begins to rise again; transformers' own stay at 0.
_RISES = "CosineAnnealingLR"
_STAYS = "LambdaLR"
_PLATEAU = "ReduceLROnPlateau"


def schedule_fault(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a learning-rate schedule, equal on all ranks, whose length fits another number of steps."""
    ranks, loaders = len(outcome.ranks), _loaders(notes)
    for schedule in _equal_on_all(notes):
        if schedule.name == _PLATEAU:
            found = _stepped_for_every_rank(schedule, ranks)
        elif _is_for_all_ranks(schedule, notes):
            # A training that was ended early may have made the same number of steps.
            early = may_end_early(schedule.stepped_from)
            found = None if early else _diagnose("schedule_too_long", schedule, ranks=ranks)
        else:
            found = _too_short(schedule, ranks, loaders)
        if found is not None:
            return found
    return None


def unfinished(notes: Notes) -> list[str]:
    """Say of a schedule that it was made for N times the steps that were made, on N ranks."""
    clause = "the schedule {name} at {where} was made for {length}, and has made {made}"
    found = (each for each in _equal_on_all(notes) if _is_for_all_ranks(each, notes))
    return [
        text(clause, name=each.name, where=each.where, length=steps(each.length, "step"), made=each.steps)
        for each in found
    ]


def _equal_on_all(notes: Notes) -> list[ScheduleNotes]:
    of_ranks = zip(*(probe.schedules for probe in notes.values()), strict=False)
    return [each[0] for each in of_ranks if len(set(each)) == 1 and each[0].steps >= _FEWEST]


def _loaders(notes: Notes) -> list[LoaderNotes]:
    return [loader for probe in notes.values() for loader in probe.loaders if loader.trains]


def _stepped_for_every_rank(schedule: ScheduleNotes, ranks: int) -> Diagnosis | None:
    """Detect a schedule that waits for a plateau and is told every value once for each rank."""
    if ranks < 2 or schedule.steps != ranks * schedule.visits:
        return None
    after = steps(math.ceil((schedule.length + 1) / ranks), "value")
    return _diagnose("schedule_too_short.plateau", schedule, ranks=ranks, after=after)


def _is_for_all_ranks(schedule: ScheduleNotes, notes: Notes) -> bool:
    """Check for a schedule made for N times the steps taken on N ranks, up to rounding."""
    ranks = len(notes)
    rounding = ranks * max((len(loader.epochs) for loader in _loaders(notes)), default=0)
    apart = abs(schedule.length - ranks * schedule.steps)
    return schedule.name != _PLATEAU and ranks > 1 and apart < min(rounding, schedule.steps)


def _too_short(schedule: ScheduleNotes, ranks: int, loaders: Collection[LoaderNotes]) -> Diagnosis | None:
    if schedule.name not in (_RISES, _STAYS) or schedule.steps <= schedule.length + 1:
        return None
    if schedule.name == _STAYS and schedule.rate:
        return None  # it stays at a rate that may be meant
    after = "it stays at 0" if schedule.name == _STAYS else "the learning rate rises again"
    if ranks > 1 and schedule.steps == ranks * schedule.optimizer_steps:
        return _diagnose("schedule_too_short.stepped_often", schedule, ranks=ranks, after=after)
    batches = {loader.epochs[0].batches for loader in loaders if loader.epochs}
    if len(batches) == 1 and schedule.steps == schedule.length * batches.pop():
        return _diagnose("schedule_too_short.epochs", schedule, after=after)
    if ranks > 1 and abs(schedule.steps - ranks * schedule.length) < ranks:
        return _diagnose("schedule_too_short.divided_twice", schedule, ranks=ranks, after=after)
    return None


def _diagnose(name: str, schedule: ScheduleNotes, **words: object) -> Diagnosis:
    return diagnosis(
        name,
        None,
        (),
        (),
        name=schedule.name,
        where=schedule.where,
        length=steps(schedule.length, "step"),
        patience=schedule.length,
        made=steps(schedule.steps, "step"),
        visits=steps(schedule.visits, "value"),
        **words,
    )
