"""The name of a mistake that no check has named: the known wrong answers that do the same, run on the same cases.

An answer that has failed is compared with the wrong answers of the catalogue, all in one gang. What counts is what is
wrong: the parts of an observation in which a right answer has something else, and the way in which a call ended. Where
several do the same, it gets the names that all of them have. Nothing is run for an answer that passes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.grading import harness
from course_lib.grading.attempt import AskedRanks, Attempt, Clock, End, EndedError, Tell
from course_lib.grading.gangs import Gangs
from course_lib.grading.known_answers import Specimen, known_answers
from course_lib.grading.process_limits import ProcessLimits
from course_lib.tasks.compared import fits
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Task, Trial
from realranks.outcome.outcome import Ending, Outcome
from realranks.ranks.kernel.gang import GangError, LaunchError

#: What an answer does with one case: its observation on each rank, or how the call ended.
Does = dict[int, Any] | tuple[object, ...]
_EXACT = Tolerance(2e-5, 1e-5)
_FAILED_CASES, _RIGHT_CASES = 8, 4
#: Seconds that all known answers together may use.
_SECONDS = 20.0
#: These errors are slips of the pen.
_SLIPS = ("ImportError", "ModuleNotFoundError", "NameError")


def names_like(task: Task, attempt: Attempt, folder: str, tell: Tell | None = None) -> tuple[str, ...]:
    """Return the misconceptions that all known wrong answers have which do what this one has done; empty for none.

    `tell` is called after each known answer.
    """
    known = [each for each in known_answers(task.topic) if each.task == task.name]
    asked = _asked(task, attempt)
    right = next((each for each in known if each.right), None)
    if task.script or not asked.cases or right is None:
        return ()
    wrong = [each for each in known if not each.right and not each.unseen]
    try:
        alike = [frozenset(each.misconceptions) for each in _alike(task, asked, right, wrong, folder, tell)]
    except (GangError, LaunchError, _SpentError):
        return ()
    common = frozenset[str]().union(*alike[:1]).intersection(*alike)
    return tuple(item.id for item in task.misconceptions if item.id in common)


@dataclass(frozen=True)
class _Asked:
    """Cases for one number of ranks, in some of which an answer has failed, and what it did in each."""

    world_size: int
    cases: list[Mapping[str, object]]
    did: list[Does]


class _SpentError(Exception):
    """The known answers have used up their time."""


def _asked(task: Task, attempt: Attempt) -> _Asked:
    whole = [trial for trial in attempt.trials if not trial.wrong_kinds]
    missed = [trial for trial in whole if _misses(task, trial)]
    size = attempt.world_size or max((trial.world_size for trial in missed), default=0)
    of_size = [trial for trial in whole if trial.world_size == size]
    some = [trial for trial in of_size if trial in missed][:_FAILED_CASES]
    ended = attempt.end is End.BROKE and attempt.case is not None and attempt.outcome is not None
    if some or ended:
        some += [trial for trial in of_size if trial not in missed][:_RIGHT_CASES]
    cases, did = [trial.case for trial in some], [dict[int, Any](trial.seen) for trial in some]
    if attempt.end not in (End.BROKE, End.COMPLETE):
        return _Asked(0, [], [])
    if ended:
        assert attempt.outcome is not None
        assert attempt.case is not None
        if any(error.type in _SLIPS for error in attempt.outcome.errors.values()):
            return _Asked(0, [], [])
        return _Asked(size, [*cases, attempt.case], [*did, _ending(attempt.outcome)])
    return _Asked(size, cases, list[Does](did))


def _misses(task: Task, trial: Trial) -> bool:
    return any(check.judge(task, trial) is not None for check in task.checks if not check.of_kind)


def _alike(
    task: Task, asked: _Asked, right: Specimen, wrong: Sequence[Specimen], folder: str, tell: Tell | None
) -> Iterator[Specimen]:
    """Yield the wrong answers that do the same in all cases; ranks in which one does not return are replaced."""
    clock = Clock(task.seconds, _SECONDS)
    ought: list[Does] = []
    left = [right, *wrong]
    while left:
        with Gangs((asked.world_size,), task.backend, folder) as gangs:
            for _, gang, place in gangs.each():
                ranks = AskedRanks(gang, ProcessLimits(gang, folder), clock)
                ended = False
                while left and not ended:
                    if clock.used >= clock.in_all:
                        raise _SpentError
                    known = left.pop(0)
                    same = True
                    for number, (case, did) in enumerate(zip(asked.cases, asked.did, strict=True)):
                        does, ended = _does(ranks, task, known, case, place, first=not number)
                        if known is right:
                            ought.append(does)
                        elif not _same(did, does, ought[number], task.tolerance or _EXACT):
                            same = False
                        if ended or not same:
                            same = same and number == len(asked.cases) - 1
                            break
                    if known is right and ended:
                        return
                    if known is not right and same:
                        yield known
                    if tell is not None and known is not right:
                        tell("known mistakes are compared", len(wrong) - len(left), len(wrong))


def _does(
    ranks: AskedRanks, task: Task, known: Specimen, case: Mapping[str, object], place: str, *, first: bool
) -> tuple[Does, bool]:
    """Return what a known answer does in a case, and whether the ranks have ended with it."""
    try:
        if first:
            ranks.ask(harness.load_known, known.source, place)
        replies, _ = ranks.ask(harness.run_trial, task.name, json.dumps(case))
    except EndedError as error:
        return (_ending(error.outcome) if error.outcome is not None else (error.end,)), True
    return {rank: _seen(reply) for rank, reply in replies.items()}, False


def _seen(reply: Any) -> object:
    return reply.get("seen", reply) if isinstance(reply, dict) else reply


def _ending(outcome: Outcome) -> tuple[object, ...]:
    """Return how a call ended that did not come to its end, without what differs from run to run."""
    ways: list[object] = []
    for rank in sorted(outcome.ranks):
        if outcome.endings.get(rank) is Ending.RAISED:
            error = outcome.errors[rank]
            ways.append((error.type, re.sub(r"\d+", "#", error.message)[:60]))
        elif rank in outcome.waiting:
            waiting = outcome.waiting[rank]
            ways.append(("waits", waiting.collective.op if waiting.collective else waiting.call))
        else:
            ways.append("died" if rank in outcome.exits else "left")
    return outcome.kind, tuple(ways)


def _same(did: Any, does: Any, ought: Any, tolerance: Tolerance) -> bool:
    """Return whether both are wrong in the same parts and have the same there; endings have no parts."""
    if isinstance(did, dict) and isinstance(does, dict) and isinstance(ought, dict):
        return all(_same(did[key], does.get(key), ought.get(key), tolerance) for key in did)
    if isinstance(did, tuple) or isinstance(does, tuple):
        return bool(did == does)
    if fits(did, ought, tolerance) and fits(does, ought, tolerance):
        return True
    return fits(did, does, tolerance)
