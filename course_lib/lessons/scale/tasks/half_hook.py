"""Task 4: a communication hook that sends half the bytes, whatever the gradients' size and the number of ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.accumulation.tasks.reduced import times_reduced
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Trial, check, said_of
from course_lib.tasks.weights import added, numbers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import GradBucket
    from torch.futures import Future

#: Of all gradients' bytes; a scale for each bucket comes on top of a half.
_MAX_BYTES = 0.6
_LAYERS, _WIDTH = 2, 16
#: Gradients of that magnitude; the last goes from large to small from rank to rank.
_MAGNITUDES = {"usual": 1.0, "tiny": 1e-9, "huge": 2e5, "zero": 0.0, "unequal": 1.0}


class Case(TypedDict):
    """Gradients of this kind (see `_MAGNITUDES`)."""

    kind: str
    seed: int


class Mean(TypedDict):
    """Some gradients of each layer."""

    gradients: list[float]


class Seen(Mean):
    """Whether all gradients are finite, too; and the bytes sent, in bytes of all gradients."""

    finite: bool
    bytes: float


ThisTrial = Trial[Case, Seen, dict[str, list[Mean]]]


def _known(trial: ThisTrial, rank: int) -> str | None:
    """Name what only gradients of one kind show, which every scale does to them in its own way."""
    if trial.case["kind"] == "tiny" and not any(trial.seen[rank]["gradients"]):
        return "vanishes"
    return "own_scale" if trial.case["kind"] == "unequal" else None


class HalfHook(Compared[Case, Seen, Mean]):
    """A communication hook that sends half the bytes, whatever the gradients' size and the number of ranks."""

    name = "scale.half_hook"
    world_sizes = (2, 3)
    seconds = 20.0
    #: bf16 has 8 bits, and the sum rounds once more.
    tolerance = Tolerance(1e-12, 0.05)

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
            "gradients": _some(g for g in found if g is not None),
            "finite": all(g is not None and bool(g.isfinite().all()) for g in found),
            "bytes": times_reduced(ddp.parameters(), since),
        }

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Mean]]:
        own = [_gradients(case, rank, world_size) for rank in range(world_size)]
        mean = _some(added(layer) / world_size for layer in zip(*own, strict=True))
        return {"right": [{"gradients": mean}] * world_size}

    @check("Gradients are finite.", gate=True)
    def finite(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if not seen["finite"]:
                said = "with {case} on {gang}, rank {rank} has gradients that are infinite or no number"
                known = "overflows" if trial.case["kind"] != "zero" else None
                return Miss(said_of(self, trial, rank, said), known)
        return None

    mean = compared(
        "Every rank has the mean of all ranks' gradients, up to the rounding of halves.",
        "with {case} on {gang}, rank {rank} has {seen:.3g} as gradient {number}; the mean is {right:.3g}",
        of="gradients",
        each=True,
        known=_known,
    )

    @check("About half the bytes are sent.")
    def halves(self, trial: ThisTrial) -> Miss | None:
        """A number or two beside them are free."""
        for rank, seen in trial.seen.items():
            if seen["bytes"] > _MAX_BYTES:
                said = "with {case} on {gang}, rank {rank} sent {bytes:.0%} of all gradients' bytes"
                known = "all_bytes" if seen["bytes"] > 0.9 else None
                return Miss(said_of(self, trial, rank, said, bytes=seen["bytes"]), known)
        return None


def _gradients(case: Case, rank: int, world: int) -> list[Tensor]:
    """Draw each layer's gradient on this rank: within a factor of two of one magnitude, of both signs."""
    import torch

    generator = torch.Generator().manual_seed(case["seed"] + 97 * rank)
    size = _MAGNITUDES[case["kind"]]
    if case["kind"] == "unequal":
        size *= 10.0 ** (2 * (rank - world + 1))
    found = []
    for _ in range(_LAYERS):
        values = 1 + torch.rand(_WIDTH, _WIDTH, generator=generator)
        # Equal signs on all ranks: means do not cancel.
        values *= torch.where(torch.arange(_WIDTH) % 2 == 0, 1.0, -1.0)
        found.append(size * values)
    return found


def _some(layers: Iterable[Tensor]) -> list[float]:
    return numbers(layer.flatten()[:8] for layer in layers)
