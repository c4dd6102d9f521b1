"""Task 4: a communication hook that sends half the bytes, whatever the gradients' size and the number of ranks."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.accumulation.tasks.reduced import times_reduced
from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Task, Trial, check

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import GradBucket
    from torch.futures import Future

#: Off by that part of the largest gradient at most: bf16 has 8 bits, and the sum rounds once more.
_TOLERANCE = 0.03
#: Of all gradients' bytes; a scale for each bucket comes on top of a half.
_MAX_BYTES = 0.6
_LAYERS, _WIDTH = 2, 16
#: Gradients of that magnitude; the last goes from large to small from rank to rank.
_MAGNITUDES = {"usual": 1.0, "tiny": 1e-9, "huge": 2e5, "zero": 0.0, "unequal": 1.0}


class Case(TypedDict):
    """Gradients of this kind (see `_MAGNITUDES`)."""

    kind: str
    seed: int


class Seen(TypedDict):
    """Some gradients of each layer; whether all are finite; the bytes sent, in bytes of all gradients."""

    gradients: list[list[float]]
    finite: bool
    bytes: float


class Oracle(TypedDict):
    """The ranks' own gradients, and their means, by layer."""

    own: list[list[list[float]]]
    mean: list[list[float]]


ThisTrial = Trial[Case, Seen, Oracle]


class HalfHook(Task[Case, Seen, Oracle]):
    """A communication hook that sends half the bytes, whatever the gradients' size and the number of ranks."""

    name = "scale.half_hook"
    world_sizes = (2, 3)
    seconds = 20.0

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for kind in _MAGNITUDES:
            yield {"kind": kind, "seed": chance.randint(1, 10**6)}

    def describe(self, case: Case) -> str:
        return f"{case['kind']} gradients"

    def trial(self, answer: Callable[[None, GradBucket], Future[Tensor]], case: Case) -> Seen:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        layers = [torch.nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(_LAYERS)]
        ddp = DistributedDataParallel(torch.nn.Sequential(*layers))

        def hook(state: None, bucket: GradBucket) -> Future[Tensor]:
            return answer(state, bucket)

        # DDP looks at the names and annotations of parameters: an answer's may be others.
        hook.__annotations__ = {}
        ddp.register_comm_hook(None, hook)
        wanted = _gradients(case, rank, world)
        ddp(torch.zeros(1, _WIDTH))  # readies the reducer; the loss need not come from the outputs
        since = time.time_ns()
        losses = [(layer.weight * g).sum() for layer, g in zip(layers, wanted, strict=True)]
        torch.stack(losses).sum().backward()
        found = [layer.weight.grad for layer in layers]
        return {
            "gradients": [[] if g is None else g.double().flatten().tolist()[:8] for g in found],
            "finite": all(g is not None and bool(g.isfinite().all()) for g in found),
            "bytes": times_reduced(ddp.parameters(), since),
        }

    def oracle(self, case: Case, world_size: int) -> Oracle:
        own = [
            [g.double().flatten().tolist()[:8] for g in _gradients(case, rank, world_size)]
            for rank in range(world_size)
        ]
        mean = [
            [sum(values) / world_size for values in zip(*parts, strict=True)]
            for parts in zip(*own, strict=True)
        ]
        return {"own": own, "mean": mean}

    @check("Gradients are finite.", gate=True)
    def finite(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if not seen["finite"]:
                return Miss(
                    f"{_where(trial)}, rank {rank} has gradients that are infinite or no number",
                    "overflows" if trial.case["kind"] != "zero" else None,
                )
        return None

    @check("Every rank has the mean of all ranks' gradients, up to the rounding of halves.")
    def mean(self, trial: ThisTrial) -> Miss | None:
        """Compared with the largest of them."""
        for rank, seen in trial.seen.items():
            off = _off(seen["gradients"], trial.oracle["mean"])
            if off > _TOLERANCE:
                value, right = seen["gradients"][0][0], trial.oracle["mean"][0][0]
                return Miss(
                    f"{_where(trial)}, rank {rank} has a first gradient of {value:.3g}; the mean is {right:.3g}",
                    self._known(trial),
                )
        return None

    @check("About half the bytes are sent.")
    def halves(self, trial: ThisTrial) -> Miss | None:
        """A number or two beside them are free."""
        for rank, seen in trial.seen.items():
            if seen["bytes"] > _MAX_BYTES:
                known = "all_bytes" if seen["bytes"] > 0.9 else None
                return Miss(
                    f"{_where(trial)}, rank {rank} sent {seen['bytes']:.0%} of all gradients' bytes", known
                )
        return None

    def _known(self, trial: ThisTrial) -> str | None:
        """Name these gradients, if they are not the mean."""
        world, mean = trial.world_size, trial.oracle["mean"]
        seen = [trial.seen[rank]["gradients"] for rank in range(world)]
        if all(_off(one, own) < _TOLERANCE for one, own in zip(seen, trial.oracle["own"], strict=True)):
            return "nothing_sent"
        total = [[world * value for value in part] for part in mean]
        if all(_off(one, total) < _TOLERANCE for one in seen):
            return "sum_not_mean"
        if trial.case["kind"] == "tiny" and all(value == 0 for one in seen for part in one for value in part):
            return "vanishes"
        return "own_scale" if trial.case["kind"] == "unequal" else None


def _gradients(case: Case, rank: int, world: int) -> list[Tensor]:
    """Draw each layer's gradient on this rank: within a factor of four of one magnitude, of both signs."""
    import torch

    generator = torch.Generator().manual_seed(case["seed"] + 97 * rank)
    size = _MAGNITUDES[case["kind"]]
    if case["kind"] == "unequal":
        size *= 10.0 ** (2 * (rank - world + 1))
    found = []
    for _ in range(_LAYERS):
        values = 0.5 + 1.5 * torch.rand(_WIDTH, _WIDTH, generator=generator)
        # Equal signs on all ranks: means do not cancel.
        values *= torch.where(torch.arange(_WIDTH) % 2 == 0, 1.0, -1.0)
        found.append(size * values)
    return found


def _off(found: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> float:
    """Return the largest difference, relative to the largest right value of its layer."""
    worst = 0.0
    for one, other in zip(found, right, strict=True):
        if len(one) != len(other):
            return math.inf
        scale = max(map(abs, other)) or 1.0
        worst = max(worst, *(abs(a - b) / scale for a, b in zip(one, other, strict=True)))
    return worst


def _where(trial: ThisTrial) -> str:
    return f"with {trial.case['kind']} gradients on {toys.ranks_text(trial.world_size)}"
