"""Task 4: early stopping by a decision that all ranks take together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, NotRequired, TypedDict

from course_lib.lessons.synchronised.tasks.stopping import (
    Case,
    Losses,
    drawn,
    mean_of,
    mean_of_means,
    stops,
)
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared, fits
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Recognised, Trial, gate, recognise_by_message
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor

_DIGITS = 4
_NEAR = Tolerance(2e-4)
#: What Python says of the mean of nothing.
_WITHOUT_SAMPLES = dict.fromkeys(("division by zero", "at least one data point"), "mean_of_means")


class Decided(TypedDict):
    """The part that rules of stopping decide: how many epochs are trained; what is right has the mean loss of each."""

    trained: int
    losses: NotRequired[list[float]]


class Seen(TypedDict):
    """The decision of one rank."""

    trained: int
    losses: list[float]


ThisTrial = Trial[Case, Seen, dict[str, list[Decided]]]


def _of_losses(trial: ThisTrial, rank: int) -> str | None:
    """Name the means that the ranks returned, if they are not those over all samples."""
    ways: dict[str, Callable[[list[Losses], int], float]] = {
        "local_losses": lambda ranks, rank: mean_of([ranks[rank]]),
        "mean_of_means": lambda ranks, _: mean_of_means(ranks),
    }
    for name, mean in ways.items():
        if trial.world_size > 1 and all(
            fits(
                seen["losses"],
                [mean(ranks, rank) for ranks in trial.case["losses"][: len(seen["losses"])]],
                _NEAR,
            )
            for rank, seen in trial.seen.items()
        ):
            return name
    return None


class StopTogether(Compared[Case, Seen, Decided]):
    """Early stopping by a decision that all ranks take together."""

    name = "synchronised.stop_together"
    world_sizes = (1, 2, 3)
    tolerance = _NEAR
    one_may_fit = False

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield ranks that differ in patience, one without samples, and losses of nan."""
        for how in ("plain", "improving") if world_size == 1 else ("apart", "empty"):
            yield drawn(how, world_size, chance)
        for how in ("nan", "nan at first"):
            yield drawn(how, world_size, chance)

    def describe(self, case: Case) -> str:
        sizes = [len(losses) for losses in case["losses"][0]]
        found = f"{toys.short(sizes)} validation samples, patience={case['patience']}, most={case['most']}"
        for epoch, ranks in enumerate(case["losses"], 1):
            for rank, losses in enumerate(ranks):
                if None in losses:
                    found += f", a loss that is nan on rank {rank} in epoch {epoch}"
        return found

    def trial(
        self, answer: Callable[[Callable[[], None], Callable[[], Tensor], int, int], object], case: Case
    ) -> Seen:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        rank, trained = int(os.environ["RANK"]), 0
        ddp = DistributedDataParallel(torch.nn.Linear(4, 2))

        def train_epoch() -> None:
            """Train for one epoch; all ranks have to call it."""
            nonlocal trained
            for _ in range(2):
                ddp(torch.ones(3, 4)).sum().backward()
            trained += 1

        def validate() -> Tensor:
            """Return the losses of this rank's validation samples, one number each; sends nothing."""
            mine = case["losses"][min(max(trained, 1), len(case["losses"])) - 1][rank]
            return torch.tensor([float("nan") if loss is None else loss for loss in mine])

        result = answer(train_epoch, validate, case["patience"], case["most"])
        return {"trained": trained, "losses": _read(result)}

    def oracle(self, case: Case, world_size: int) -> Mapping[str, list[Decided]]:
        found = stops(case)
        means = [mean_of(ranks) for ranks in case["losses"][: found["right"]]]
        right = Decided(trained=found["right"], losses=[round(mean, _DIGITS) for mean in means])
        ways = {name: [Decided(trained=trained)] * world_size for name, trained in found.items()}
        return {**ways, "right": [right] * world_size}

    gives_losses = gate("Every rank returns a list of numbers.", "with {case}, rank {rank} returned {given}")
    right_epoch = compared(
        "All ranks stop after the right epoch.",
        "on {gang} with {case}, rank {rank} trained for {seen} epochs; one process alone has {right}",
        of="trained",
    )
    right_losses = compared(
        "Every rank returns the mean loss over all samples of all ranks, for each epoch.",
        "on {gang} with {case}, for epoch {number} rank {rank} returned {seen}; it should be {right}",
        of="losses",
        each=True,
        known=_of_losses,
    )

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Go by who has left, and by who alone is in a collective that DDP has not called."""
        known = recognise_by_message(outcome, _WITHOUT_SAMPLES) or self.recognise(trials)
        names = (known,) if isinstance(known, str) else known or ()
        if outcome.kind in (Kind.HANG, Kind.DIED):
            first = all(trial.world_size != outcome.world_size for trial in trials)
            names = (*names, _leaver(outcome, first))
        return tuple(dict.fromkeys(names))


def _leaver(outcome: Outcome, first: bool) -> str:
    """Return why a rank left the loop alone; in the `first` case rank 0 is not the first to have had enough."""
    left = set(outcome.ranks) - {*outcome.waiting, *outcome.exits}
    if outcome.kind is Kind.HANG and left:
        return "rank_0_untold" if left == {0} and first else "own_loss"
    # gloo ends the rank that gets the gradients of the others in its own, smaller collective.
    outside = {
        rank for rank, one in outcome.waiting.items() if one.collective and not one.collective.stage
    } | set(outcome.exits)
    return "rank_0_alone_sends" if 0 in outside else "after_the_loop"


def _read(result: object) -> list[float]:
    return [round(number, _DIGITS) for number in toys.numbers(result)]
