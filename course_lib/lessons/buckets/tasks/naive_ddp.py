"""Task 1: DDP in its first form, averaging after backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from course_lib.lessons.buckets.tasks.synchronized import Synchronized, ThisTrial
from course_lib.lessons.buckets.tasks.training import Case, Seen, train
from course_lib.tasks.task import Miss, Recognised, check
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import nn


class NaiveDDP(Synchronized):
    """DDP in its first form: average after backward."""

    name = "buckets.NaiveDDP"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for kind in ("plain", "frozen", "tied", "spare"):
            yield {"kind": kind, "seed": chance.randint(1, 10_000), "steps": 3, "late": False}

    def trial(self, answer: Callable[[nn.Module], object], case: Case) -> Seen:
        return train(answer, case)

    @check("When it is made, all ranks get rank 0's parameters, frozen ones too.")
    def starts_equal(self, trial: ThisTrial) -> Miss | None:
        return self.start_differs(trial)

    @check("After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.")
    def averages(self, trial: ThisTrial) -> Miss | None:
        """Compared with one process that does all parts."""
        return self.gradients_differ(trial, self._known)

    @check("After three steps all ranks have the weights of one process that trained on everything.")
    def ends_equal(self, trial: ThisTrial) -> Miss | None:
        return self.end_differs(trial)

    def _known(self, trial: ThisTrial, step: int) -> str | None:
        if step > 0:
            return None
        ranks = range(trial.world_size)
        local = trial.oracle["steps"][0]["local"]
        if self.fits(trial, lambda rank: local[rank]):
            return "not_reduced"
        if self.fits(trial, lambda _: self.scaled(trial, trial.world_size)):
            return "summed"
        if self.fits(trial, lambda _: local[0]):
            return "gradient_of_rank_0"
        right = [self.fits(trial, lambda _: trial.oracle["steps"][0]["means"], only=rank) for rank in ranks]
        return "only_rank_0_averages" if right[0] and not all(right) else None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        none = any(
            "NoneType" in error.message or "None" in error.message for error in outcome.errors.values()
        )
        return "gradient_is_none" if outcome.kind is Kind.RAISES and none else None
