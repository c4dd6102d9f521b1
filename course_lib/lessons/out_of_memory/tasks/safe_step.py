"""Task 2: a training step that survives an out-of-memory error on any rank, at any place."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.out_of_memory.tasks import hungry
from course_lib.tasks.compared import Compared
from course_lib.tasks.task import Miss, Trial, check
from course_lib.tasks.toys import ranks_text
from course_lib.tasks.weights import ROUNDING, close, farthest, numbers
from realranks.outcome.outcome import RankError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

    LossesOf = Callable[[Tensor, Tensor], Tensor]

_MODELS = {"norm": "a model with a BatchNorm, ", "frozen": "a model with a frozen layer, "}
_PLACES: dict[hungry.Place, str] = {
    "first": "the first allocation of the forward",
    "forward": "forward",
    **{
        layers: f"backward with the gradients of {layers} of {hungry.LAYERS} layers"
        for layers in range(hungry.LAYERS)
    },
}


class Trained(TypedDict):
    """The weights after each step."""

    after: list[list[float]]


class Seen(Trained):
    """The running statistics after each step, too, and what was raised in the last one."""

    statistics: list[list[float]]
    raised: str | None


ThisTrial = Trial[hungry.Case, Seen, dict[str, list[Trained]]]


class SafeStep(Compared[hungry.Case, Seen, Trained]):
    """A training step that survives an out-of-memory error on any rank, at any place."""

    name = "out_of_memory.safe_step"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[hungry.Case]:
        """Yield failures in forward and backward, on all ranks, with a frozen layer, and of another kind.

        Then an error of another kind, and a model with a BatchNorm: failures in the buffers' broadcast of the first
        forward, in the second step's rebuilding of buckets, after the statistics have moved, and in backward.
        """
        odd = chance.randrange(world_size)
        failure = hungry.Failure

        def somebody() -> int:
            return chance.randrange(world_size)

        all_ranks = [
            failure(step=1, rank=rank, place=chance.choice(("forward", 0, chance.randint(1, 2))))
            for rank in range(world_size)
        ]
        norm = [
            failure(step=0, rank=somebody(), place="first"),
            failure(step=1, rank=somebody(), place="first"),
            failure(step=2, rank=somebody(), place="forward"),
            failure(step=3, rank=somebody(), place=chance.randrange(3)),
        ]
        fails: dict[str, list[hungry.Failure]] = {
            "forward": [failure(step=2, rank=odd, place="forward")],
            "backward": [
                failure(step=0, rank=somebody(), place=1),
                failure(step=2, rank=odd, place=0),
                failure(step=3, rank=odd, place=2),
            ],
            "all": all_ranks,
            "frozen": [failure(step=1, rank=odd, place="forward"), failure(step=2, rank=somebody(), place=1)],
            "other": [],
            "norm": norm if world_size > 1 else norm[::2],
        }
        for kind in fails:
            yield {
                "kind": kind,
                "seed": chance.randint(1, 10**6),
                "sizes": [chance.sample(range(2, 7), world_size) for _ in range(hungry.STEPS)],
                "fails": fails[kind],
            }

    def describe(self, case: hungry.Case) -> str:
        if case["kind"] == "other":
            return "inputs of a wrong shape in the last step"
        if case["kind"] == "all":
            return "out of memory on all ranks in step 2"
        where = (
            f"rank {one['rank']} in step {one['step'] + 1}, in {_PLACES[one['place']]}"
            for one in case["fails"]
        )
        return f"{_MODELS.get(case['kind'], '')}out of memory: " + "; ".join(where)

    def trial(
        self,
        answer: Callable[[DistributedDataParallel, Optimizer, Tensor, Tensor, LossesOf], object],
        case: hungry.Case,
    ) -> Seen:
        rank = int(os.environ["RANK"])
        trap = hungry.Trap()
        net = hungry.network(case, trap)
        ddp = hungry.wrapped(net, trap)
        optimizer = hungry.optimizer_of(case, net)
        seen: Seen = {"after": [], "statistics": [], "raised": None}
        for step in range(hungry.STEPS):
            inputs, targets = hungry.batch(case, step, rank)
            trap.place = hungry.place_of(case, step, rank)
            if case["kind"] == "other" and step == hungry.STEPS - 1:
                try:
                    answer(ddp, optimizer, inputs[:, :3], targets, hungry.losses_of)
                except Exception as error:
                    seen["raised"] = type(error).__name__
                return seen
            answer(ddp, optimizer, inputs, targets, hungry.losses_of)
            seen["after"].append(numbers(net.parameters()))
            seen["statistics"].append(numbers(net.buffers()))
        return seen

    def oracle(self, case: hungry.Case, world_size: int) -> dict[str, list[Trained]]:
        return {"right": [{"after": hungry.trained(case, world_size)}] * world_size}

    @check("All ranks have the same weights after each step, bit by bit.")
    def equal(self, trial: ThisTrial) -> Miss | None:
        for step, weights in enumerate(trial.seen[0]["after"]):
            for rank, seen in sorted(trial.seen.items()):
                if seen["after"][step] != weights and not any(map(math.isnan, weights)):
                    return Miss(
                        f"{self._where(trial)}: after step {step + 1} the weights of rank {rank} differ from rank 0's "
                        f"by up to {farthest(seen['after'][step], weights):.2g}",
                        "missed_step",
                    )
        return None

    @check("They are those of one process that has left out the batches of the ranks that failed.")
    def right(self, trial: ThisTrial) -> Miss | None:
        """The mean over the samples of all others; no step where there are none."""
        for rank, seen in sorted(trial.seen.items()):
            for step, weights in enumerate(seen["after"]):
                right = trial.oracle["right"][rank]["after"][step]
                if not close(weights, right):
                    gap = farthest(weights, right)
                    off = f"are off by up to {gap:.2g}" if math.isfinite(gap) else "are NaN"
                    return Miss(
                        f"{self._where(trial)}: after step {step + 1} the weights of rank {rank} {off}",
                        None if math.isfinite(gap) else "nobody_good",
                    )
        return None

    @check("A batch that has run out of memory leaves no trace in running statistics.")
    def traceless(self, trial: ThisTrial) -> Miss | None:
        """It is far from all others, and so is what has taken it in, on any rank."""
        for rank, seen in sorted(trial.seen.items()):
            for step, values in enumerate(seen["statistics"]):
                if not all(abs(value) < hungry.FAR_LIMIT for value in values):
                    return Miss(
                        f"{self._where(trial)}: after step {step + 1} the statistics of rank {rank} have that batch in "
                        "them",
                        "statistics",
                    )
        return None

    @check("An error that has nothing to do with memory is raised.")
    def others(self, trial: ThisTrial) -> Miss | None:
        quiet = [rank for rank, seen in sorted(trial.seen.items()) if seen["raised"] is None]
        if trial.case["kind"] == "other" and quiet:
            return Miss(f"{self._where(trial)}: rank {quiet[0]} raised nothing", "catches_everything")
        return None

    def explain_error(self, error: RankError) -> str:
        """Recognise the trap's allocation by its size."""
        if not hungry.is_the_trap(error.message):
            return ""
        return "let the task's own out-of-memory error through: this batch does not fit, and the step must survive it."

    def _where(self, trial: ThisTrial) -> str:
        return f"on {ranks_text(trial.world_size)}, {self.describe(trial.case)}"
