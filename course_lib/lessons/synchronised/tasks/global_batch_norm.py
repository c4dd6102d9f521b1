"""Task 3: a BatchNorm over the batches of all ranks, which works where SyncBatchNorm refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Literal, NotRequired, TypedDict

from course_lib.lessons.synchronised.tasks import norms
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate
from course_lib.tasks.toys import ranks_text
from course_lib.tasks.weights import farthest
from realranks.outcome.outcome import Kind, Outcome, RankState

_STATISTICS: tuple[Literal["mean", "variance"], ...] = ("mean", "variance")
_ATTRIBUTES = ("weight", "bias", "running_mean", "running_var")


class Seen(norms.Trained):
    """On rank 0 outputs in eval mode, too."""

    evaluated: NotRequired[list[float]]


class Oracle(TypedDict):
    """The result of each rank, and outputs in eval mode."""

    right: list[norms.Trained]
    evaluated: list[float]


ThisTrial = Trial[norms.Case, Seen, Oracle]


class GlobalBatchNorm(Task[norms.Case, Seen, Oracle]):
    """A BatchNorm over the batches of all ranks."""

    name = "synchronised.GlobalBatchNorm"
    world_sizes = (1, 2, 3)
    tolerance = Tolerance(1e-3)

    def cases(self, world_size: int, chance: Random) -> Iterator[norms.Case]:
        for even in (True, False):
            size = chance.randint(4, 7)
            yield {
                "seed": chance.randint(1, 10**6),
                "sizes": [size if even else size + 3 * rank for rank in range(world_size)],
                "eps": chance.choice((1e-5, 1e-3)),
                "momentum": chance.choice((0.1, 0.3)),
            }

    def describe(self, case: norms.Case) -> str:
        return f"batches of {toys.short(case['sizes'])} samples"

    def trial(self, answer: Callable[[int, float, float], object], case: norms.Case) -> Seen:
        import torch

        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        norm = answer(norms.FEATURES, case["eps"], case["momentum"])
        if not isinstance(norm, torch.nn.Module):
            raise toys.wrong_kind(norm)
        missing = [name for name in _ATTRIBUTES if not isinstance(getattr(norm, name, None), torch.Tensor)]
        if missing:
            raise WrongKind(f"a module without {missing[0]}")
        net = norms.network(case["seed"], norm)
        ddp = torch.nn.parallel.DistributedDataParallel(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=norms.RATE)
        first: list[float] = []
        gradients = []
        for step in range(norms.STEPS):
            inputs, targets = norms.batch(case, step, rank)
            optimizer.zero_grad()
            output = ddp(inputs)
            if not step:
                first = norms.numbers([output])
            norms.loss_of(output, targets, case, world_size).backward()
            gradients.append(norms.gradients(net))
            optimizer.step()
        mean, variance = (norms.numbers([getattr(norm, name)]) for name in ("running_mean", "running_var"))
        seen: Seen = {"output": first, "gradients": gradients, "mean": mean, "variance": variance}
        if rank == 0:
            net.eval()
            with torch.no_grad():
                seen["evaluated"] = norms.numbers([net(norms.probe())])
        return seen

    def oracle(self, case: norms.Case, world_size: int) -> Oracle:
        right, evaluated = norms.alone(case, world_size)
        return {"right": right, "evaluated": evaluated}

    def reference(self, oracle: Oracle) -> object:
        return oracle

    #: As torch's own has them.
    is_a_norm = gate(
        "It is a module with weight, bias, running_mean and running_var.",
        "on rank {rank} of {ranks} it is {given}",
    )

    outputs = compared(
        "The outputs are those of one process with the samples of all ranks.",
        "with {case} on {gang}, the outputs of rank {rank} are off by up to {gap:.2g}",
        of="output",
    )
    #: In the first step, before anything else can differ.
    right_gradients = compared(
        "So are the gradients.",
        "with {case} on {gang}, the gradients on rank {rank} are off by up to {gap:.2g}",
        of=("gradients", 0),
    )
    later_gradients = compared(
        "Training goes on like that.",
        "with {case} on {gang}, in step {number} gradients of rank {rank} are off by {gap:.2g}",
        of="gradients",
        each=True,
        within=Tolerance(3e-3),
    )

    @check("The running statistics are those of one process, on every rank.")
    def running(self, trial: ThisTrial) -> Miss | None:
        if self.right_gradients(trial):
            return None  # with other weights, statistics are others
        for rank, seen in sorted(trial.seen.items()):
            for name in _STATISTICS:
                gap = farthest(seen[name], trial.oracle["right"][rank][name])
                if gap > 2e-3:
                    return Miss(
                        f"{self._where(trial)}, running_{'mean' if name == 'mean' else 'var'} of rank {rank} is off by "
                        f"up to {gap:.2g} after {norms.STEPS} steps"
                    )
        return None

    @check("In eval mode the running statistics are used, and one rank alone may call it.")
    def evaluates(self, trial: ThisTrial) -> Miss | None:
        """Judged where everything before was right."""
        gap = farthest(trial.seen[0]["evaluated"], trial.oracle["evaluated"])
        if gap > 5e-3 and not (self.right_gradients(trial) or self.running(trial)):
            return Miss(
                f"{self._where(trial)}, outputs in eval mode are off by up to {gap:.2g}", "batch_in_eval_mode"
            )
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise rank 0 waiting in its evaluation, which the other ranks do not make."""
        if outcome.kind is Kind.HANG and all(
            rank == 0 for rank in outcome.waiting if _blocked(outcome, rank)
        ):
            return "batch_in_eval_mode"
        return None

    def _where(self, trial: ThisTrial) -> str:
        return f"with {self.describe(trial.case)} on {ranks_text(trial.world_size)}"


def _blocked(outcome: Outcome, rank: int) -> bool:
    return outcome.waiting[rank].state == RankState.BLOCKED
