"""Shared parts of the seven mysteries: two names, and a repaired script that runs on real ranks.

The cell gives `culprit` and `cause` beside the function. Only when both are right is the function run: a script that
still hangs would be explained by the doctor, and finding out is the task.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypedDict, cast

from course_lib.tasks import toys
from course_lib.tasks.task import (
    CaseT,
    Miss,
    OracleT,
    Recognised,
    SeenT,
    Task,
    Trial,
    check,
)
from realranks.outcome.outcome import Kind, Outcome

#: The causes there are to choose from, as the exercise lists them.
CAUSES = {
    "fewer_batches": "one rank has fewer batches than the others",
    "skipped": "one rank leaves out a step, after an exception that the script catches",
    "late": "one rank is slow: it comes, but later than the others are willing to wait",
    "order": "the ranks do the same things in different orders",
    "one_rank": "one rank calls a collective that the others do not call",
    "types": "the ranks call the same collective with tensors of different shapes or types",
    "groups": "two process groups get into each other's way",
    "network": "a message was lost on the way",
    "died": "the process of a rank has ended",
}


class Seen(TypedDict, Generic[SeenT]):
    """The two names of the cell, as they are and in words; what the repaired script did once they are right."""

    culprit: int | None
    cause: str | None
    in_words: list[str]
    run: SeenT


@dataclass(frozen=True)
class Solution:
    """The truth about the run that is shown.

    Attributes:
        culprit, cause: the two names. seen_doing: what was seen of the other ranks, for those who name one of them.
        refuted: what speaks against other causes. tempting: the misconception behind some of them.
    """

    culprit: int
    cause: str
    seen_doing: Mapping[int, str]
    refuted: Mapping[str, str]
    tempting: Mapping[str, str]


class Mystery(Task[CaseT, Seen[SeenT], OracleT]):
    """A mystery of the lesson, and its solution.

    Attributes:
        still_hangs: the misconception that a repaired script shows which hangs, too; empty where that says nothing.
    """

    world_sizes = (3,)
    solution: ClassVar[Solution]
    still_hangs: ClassVar[str] = ""

    def run_repaired(self, answer: Callable[..., Any], case: CaseT) -> SeenT:
        """Call the repaired script on this rank; returns what was observed, JSON-able."""
        raise NotImplementedError

    def trial(self, answer: Callable[..., Any], case: CaseT) -> Seen[SeenT]:
        cell = sys.modules["__main__"].__dict__
        culprit, cause = cell.get("culprit"), cell.get("cause")
        if all(name is None or name is ... for name in (culprit, cause)):
            with contextlib.suppress(Exception):
                answer(*[None] * (self.signature.count(",") + 1))  # a stub says so at once
        named = _number(culprit), cause if isinstance(cause, str) else None
        right = named == (self.solution.culprit, self.solution.cause)
        # Where the names are wrong, gates end the judging before anybody asks what the script did.
        run = self.run_repaired(answer, case) if right else cast("SeenT", None)
        in_words = [
            "not given" if one is None or one is ... else toys.described(one) for one in (culprit, cause)
        ]
        return {"culprit": named[0], "cause": named[1], "in_words": in_words, "run": run}

    def recognise_ending(
        self, outcome: Outcome, trials: Sequence[Trial[CaseT, Seen[SeenT], OracleT]]
    ) -> Recognised:
        return (self.still_hangs or None) if outcome.kind is Kind.HANG else None

    @check("culprit is the rank that does something else than the others.", gate=True)
    def right_rank(self, trial: Trial[CaseT, Seen[SeenT], OracleT]) -> Miss | None:
        named = trial.seen[0]["culprit"]
        if named == self.solution.culprit:
            return None
        if named is None:
            return Miss(f"culprit is {trial.seen[0]['in_words'][0]}; it should be the number of a rank")
        if named not in range(3):
            return Miss(f"culprit is {named}, and there are ranks 0 to 2")
        return Miss(f"culprit is {named}: {self.solution.seen_doing[named]}", "witness")

    @check("cause says why.", gate=True)
    def right_cause(self, trial: Trial[CaseT, Seen[SeenT], OracleT]) -> Miss | None:
        """One of the words of the list."""
        named = trial.seen[0]["cause"]
        if named == self.solution.cause:
            return None
        if named is None:
            return Miss(f"cause is {trial.seen[0]['in_words'][1]}; it should be one of the words in the list")
        if named not in CAUSES:
            return Miss(f"cause is {named!r}, which is not in the list")
        against = self.solution.refuted.get(named, "nothing in the stacks and in the record speaks for it")
        known = self.solution.tempting.get(named, "other_cause")
        return Miss(f"cause is {named!r} ({CAUSES[named]}): {against}", known)


def _number(value: object) -> int | None:
    """Return a rank, even if it is alone in a list or a set; None for anything else."""
    if isinstance(value, list | tuple | set) and len(value) == 1:
        value = next(iter(value))
    return value if isinstance(value, int) and not isinstance(value, bool) else None
