"""Task 1: DDP in its first form, averaging after backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from course_lib.outcome.outcome import Kind, Outcome
from course_lib.tasks.buckets import taught
from course_lib.tasks.buckets.synchronized import Synchronized, ThisTrial
from course_lib.tasks.buckets.training import Case, Seen, train
from course_lib.tasks.task import Misconception, Miss, Odd, Recognised, check

if TYPE_CHECKING:
    from torch import nn


class NaiveDDP(Synchronized):
    """DDP in its first form: average after backward."""

    name = "buckets.NaiveDDP"
    title = "DDP in its first form"
    signature = "NaiveDDP(module)"
    lesson = taught.LESSON
    place = 1
    world_sizes = (1, 2, 3)
    hints = (
        (
            "Two moments matter. When the wrapper is made, all ranks must get rank 0's weights; after backward, every "
            "gradient must become the mean over ranks. Nothing else is ever sent."
        ),
        (
            "dist.broadcast(tensor.detach(), src=0) for every parameter, trainable or not. It writes into the tensor "
            "on the other ranks."
        ),
        (
            "dist.all_reduce(parameter.grad) adds up in place: divide by the world size. A frozen parameter, and one "
            "that was not used, has no gradient: its .grad is None."
        ),
    )
    misconceptions = (
        Misconception(
            "not_broadcast",
            "The ranks train different models: nothing brings rank 0's weights to the others at the start.",
            taught.SENT,
        ),
        Misconception(
            "frozen_not_broadcast",
            "Frozen parameters keep the values they were drawn with on each rank. They are not trained, but they are "
            "part of the model: they must be equal, too.",
            taught.SENT,
        ),
        Misconception(
            "not_reduced",
            "Every rank keeps the gradient of its own part: the models drift apart with the first step.",
            taught.AVERAGE,
        ),
        Misconception(
            "summed",
            "Gradients are added up, not averaged: all_reduce sums, and the step becomes as many times too long as "
            "there are ranks.",
            taught.AVERAGE,
        ),
        Misconception(
            "only_rank_0_averages",
            "Only rank 0 has the mean: what reduce(dst=0) leaves on the others is not defined.",
            taught.AVERAGE,
        ),
        Misconception(
            "gradient_of_rank_0",
            "Every rank gets rank 0's gradient: the work of all others is thrown away.",
            taught.AVERAGE,
        ),
        Misconception(
            "gradient_is_none",
            "A parameter that is frozen or was not used has .grad None: there is nothing to reduce.",
            taught.REAL,
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """One model of each kind."""
        for kind in ("plain", "frozen", "tied", "spare"):
            yield {"kind": kind, "seed": chance.randint(1, 10_000), "steps": 3, "late": False}

    def trial(self, answer: Callable[[nn.Module], object], case: Case) -> Seen | Odd:
        """Three steps of training."""
        return train(answer, case)

    @check("The wrapper is a module with finish_gradient_synchronization().", gate=True)
    def is_a_module(self, trial: ThisTrial) -> Miss | None:
        return self.odd(trial)

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
        """The usual exception."""
        none = any(
            "NoneType" in error.message or "None" in error.message for error in outcome.errors.values()
        )
        return "gradient_is_none" if outcome.kind is Kind.RAISES and none else None
