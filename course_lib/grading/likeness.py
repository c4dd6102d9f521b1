"""The name of a mistake that no check has named: the known wrong answers that do the same, run on the same cases.

An answer that has failed is compared with the wrong answers of the catalogue, all in one gang. What counts is what is
wrong: the parts of an observation in which a right answer has something else, and the way in which a call ended. Where
several do the same, it gets the names that all of them have. Where none does, one that has the same in some parts (the
gradients) and is right in all others (the loss) still names these parts. Nothing is run for an answer that passes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course_lib.grading import harness
from course_lib.grading.attempt import AskedRanks, Attempt, Clock, End, EndedError, Tell
from course_lib.grading.gangs import Gangs
from course_lib.grading.judge import MALFORMED, miss_of
from course_lib.grading.known_answers import Specimen, known_answers
from course_lib.grading.process_limits import NothingLeft, ProcessLimits, folder_of_its_own
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
_SECONDS = 40.0
#: These errors are slips of the pen.
_SLIPS = ("ImportError", "ModuleNotFoundError", "NameError")

#: Stands for all parts; the way a call ended is a part, too.
_EVERYTHING = frozenset[object]({...})
_ENDING = ("ending",)


def names_like(task: Task, attempt: Attempt, tell: Tell | None = None) -> tuple[str, ...]:
    """Return the misconceptions that all known wrong answers have which do what this one has done; empty for none.

    `tell` is called after each known answer.
    """
    if task.script:
        return ()
    known = known_answers(task.name)
    size, asked = _asked(task, attempt)
    if not asked:
        return ()
    wrong = [each for each in known if not each.right and not each.unseen]
    right = [each for each in known if each.right][: any(each.ought is None for each in asked)]
    found: dict[frozenset[object], frozenset[str]] = {}
    # Not in the answer's own folder: what it has left there must not be what these import.
    with (
        folder_of_its_own() as folder,
        NothingLeft(),
    ):
        try:
            for parts, one in _alike(task, size, asked, [*right, *wrong], folder, tell):
                found[parts] = found.get(parts, frozenset(one.misconceptions)) & frozenset(one.misconceptions)
        except (GangError, LaunchError, _SpentError, *MALFORMED):
            return ()
    names = found.get(_EVERYTHING, frozenset[str]().union(*found.values()))
    return tuple(item.id for item in task.misconceptions if item.id in names)


@dataclass(frozen=True)
class _Asked:
    """A case, what an answer did in it, and what it ought to have done: by rank, the parts that the task compares."""

    case: Mapping[str, object]
    did: Does
    ought: Mapping[int, Any] | None


class _SpentError(Exception):
    """The known answers have used up their time."""


def _asked(task: Task, attempt: Attempt) -> tuple[int, list[_Asked]]:
    """Return a number of ranks, and cases for it in some of which an answer has failed."""
    if attempt.end not in (End.BROKE, End.COMPLETE):
        return 0, []
    whole = [trial for trial in attempt.trials if not trial.wrong_kinds]
    failed = [trial for trial in whole if _fails(task, trial)]
    size = attempt.world_size or max((trial.world_size for trial in failed), default=0)
    of_size = [trial for trial in whole if trial.world_size == size]
    some = [trial for trial in of_size if trial in failed][:_FAILED_CASES]
    last: list[_Asked] = []
    if attempt.end is End.BROKE and attempt.case is not None and attempt.outcome is not None:
        if any(error.type in _SLIPS for error in attempt.outcome.errors.values()):
            return 0, []
        last = [_Asked(attempt.case, _ending(attempt.outcome), {})]
    if some or last:
        some += [trial for trial in of_size if trial not in failed][:_RIGHT_CASES]
    return size, [*(_Asked(trial.case, dict(trial.seen), _right(trial)) for trial in some), *last]


def _fails(task: Task, trial: Trial) -> bool:
    return any(miss_of(task, check, trial) is not None for check in task.checks if not check.of_kind)


def _right(trial: Trial) -> dict[int, Any] | None:
    """Return by rank what the oracle calls right, where it says so (see `Compared`)."""
    right = trial.oracle.get("right") if isinstance(trial.oracle, Mapping) else None
    return dict(enumerate(right)) if isinstance(right, list) and len(right) == trial.world_size else None


def _alike(
    task: Task, size: int, asked: list[_Asked], known: Sequence[Specimen], folder: str, tell: Tell | None
) -> Iterator[tuple[frozenset[object], Specimen]]:
    """Yield the wrong ones that do the same, with the parts in which they do.

    Ranks in which an answer does not return are replaced.
    """
    clock = Clock(task.seconds, _SECONDS)
    left = list(known)
    while left:
        with Gangs((size,), task.backend, folder) as gangs:
            for _, gang, place in gangs.each():
                ranks = AskedRanks(gang, ProcessLimits(gang, folder), clock)
                ended = False
                while left and not ended:
                    if clock.used >= clock.in_all:
                        raise _SpentError
                    one, likeness = left.pop(0), _Likeness(task.tolerance or _EXACT)
                    for number, each in enumerate(asked):
                        does, ended = _does(ranks, task, one, each.case, place, first=not number)
                        if one.right:
                            asked[number] = replace(each, ought=does if isinstance(does, dict) else {})
                        else:
                            likeness.compare(each.did, does, each.ought)
                        if ended and each is not asked[-1]:
                            likeness.other = True
                        if ended or likeness.other or likeness.hopeless(_parts(asked)):
                            break
                    if not one.right and (parts := likeness.parts()):
                        yield parts, one
                    if tell is not None:
                        tell("known mistakes are compared", len(known) - len(left), len(known))


class _Likeness:
    """What two answers have in common, over all cases and ranks.

    Attributes:
        other: they differ in a way that rules out the same mistake.
    """

    def __init__(self, tolerance: Tolerance) -> None:
        self.other = False
        self._tolerance = tolerance
        #: Of each part: whether both have the same where one is wrong, the known one is right, and the other is wrong.
        self._same: dict[object, bool] = {}
        self._right: dict[object, bool] = {}
        self._missed: dict[object, bool] = {}

    def compare(self, did: Any, does: Any, ought: Any) -> None:
        """Take another case into account; endings have no parts."""
        if isinstance(did, tuple) or isinstance(does, tuple):
            self.other |= did != does
            self._same[_ENDING] = self._missed[_ENDING] = True
            return
        for rank, right in ought.items():
            whole = isinstance(right, Mapping) and isinstance(did[rank], Mapping)
            for part in right if whole else (None,):
                self._compare(part, *(_part(each, part) for each in (did[rank], does.get(rank), right)))

    def _compare(self, part: object, did: Any, does: Any, ought: Any) -> None:
        right, missed = fits(does, ought, self._tolerance), not fits(did, ought, self._tolerance)
        same = (right and not missed) or fits(did, does, self._tolerance)
        for found, now in ((self._same, same), (self._right, right)):
            found[part] = found.get(part, True) and now
        self._missed[part] = self._missed.get(part, False) or missed
        self.other |= not self._same[part] and not self._right[part]

    def hopeless(self, parts: Iterable[object]) -> bool:
        """Return whether none of these parts can be alike any more."""
        return not any(self._same.get(part, True) for part in parts)

    def parts(self) -> frozenset[object]:
        """Return the parts that are wrong in the same way: `_EVERYTHING` where all are alike, none where none are."""
        if self.other:
            return frozenset()
        if all(self._same.values()):
            return _EVERYTHING
        return frozenset(part for part, same in self._same.items() if same and self._missed[part])


def _parts(asked: Sequence[_Asked]) -> Iterator[object]:
    """Yield the parts that two answers may have in common."""
    for each in asked:
        if isinstance(each.did, tuple):
            yield _ENDING
        for right in (each.ought or {}).values():
            yield from right if isinstance(right, Mapping) else (None,)


def _part(seen: Any, part: object) -> Any:
    if part is None:
        return seen
    return seen.get(part) if isinstance(seen, Mapping) else None


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
