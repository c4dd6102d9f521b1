"""Lesson 11: a detector that runs out of memory at a chosen place of a step, and what two or three ranks make of it.

Imported by ranks; loads torch. The loss is linear in the four weights, so an image's gradient is the image itself,
whatever the weights are: image k is k on rank 0, 100 k on rank 1, 10,000 k on rank 2, and what was averaged can be read
from `.grad`.
"""

from __future__ import annotations

import gc
import json
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.failing_memory import PETABYTE, PLACES, Loop, Step, every_step, trained
from course_lib.failing_memory import inputs as inputs
from course_lib.failing_memory import loss_of as loss_of
from course_lib.failing_memory import new as new
from course_lib.lessons.out_of_memory.lab import LAYERS, RAISES, Place


def out_of_memory(error: RuntimeError) -> bool:
    """Return whether this error is one of missing memory, on a GPU or on a CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


@dataclass(frozen=True)
class Image:
    """Its gradient, and where memory runs out on it, if anywhere."""

    value: Tensor
    place: Place | None = None


def image(number: int, place: Place = "forward", bad: tuple[int, int] = (0, 3)) -> Image:
    """Return this rank's image of that number.

    Args:
        place: where memory runs out: in the `forward`, or in backward with the gradients of so many layers there.
        bad: the rank and the number of the image that is too large.
    """
    rank = dist.get_rank()
    return Image(torch.tensor(number * 100.0**rank), place if (rank, number) == bad else None)


class Detector(nn.Module):
    """Four layers of one weight each; the forward returns the loss of an image.

    Args:
        norm: with a BatchNorm.
        heads: with a head for masks that no image uses; the forward returns two losses by name, halves of the loss.
    """

    def __init__(self, norm: bool = False, heads: bool = False) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(())) for _ in range(LAYERS))
        self.norm = nn.BatchNorm1d(1, affine=False) if norm else None
        self.masks = nn.Linear(1, 1) if heads else None

    def forward(self, image: Image) -> Tensor | dict[str, Tensor]:
        """Return the loss of an image, a single number, or a dictionary of such."""
        if self.norm is not None:
            self.norm(image.value.expand(2, 1))
        torch.empty(PETABYTE if image.place == "forward" else 0, dtype=torch.uint8)
        loss = torch.zeros((), requires_grad=True)
        for number, weight in enumerate(self.weights):
            loss = scratch(loss, image.place == LAYERS - number) + weight * image.value
        loss = scratch(loss, image.place == 0)
        return loss if self.masks is None else {"boxes": loss / 2, "classes": loss / 2}


class _Scratch(torch.autograd.Function):
    """The identity, whose backward needs more memory for a moment, as many kernels do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, too_much: bool) -> Tensor:
        ctx.needs = PETABYTE if too_much else 0
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        torch.empty(ctx.needs, dtype=torch.uint8)
        return gradients[0], None


def scratch(x: Tensor, too_much: bool) -> Tensor:
    """Return the same number; if `too_much`, its backward gets no memory."""
    same: Tensor = _Scratch.apply(x, too_much)  # type: ignore[no-untyped-call]
    return same


class FirstFails(TorchDispatchMode):
    """In this block PyTorch's first operation gets no memory."""

    needs = PETABYTE

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        needs, self.needs = self.needs, 0
        torch.empty(needs, dtype=torch.uint8)
        return func(*args, **(kwargs or {}))


def who_met(ddp: DistributedDataParallel) -> list[int]:
    """Return the number of each rank's image in the gradient that this rank holds."""
    world = dist.get_world_size()
    ballots = round(world * float(ddp.module.weights[0].grad))
    return [ballots // 100**rank % 100 for rank in range(world)]


def check(recipe: Step, *places: str, norm: bool = True, heads: bool = True, **options: Any) -> None:
    """Train with this step, once for each place at which rank 1 runs out of memory, and print what becomes of it.

    Args:
        places: keys of `PLACES`; none: all in forward and backward of the model.
        norm, heads: of the bench's network.
        options: of DDP.
    """
    check_loop(every_step(recipe, **options), *places, norm=norm, heads=heads)


def check_loop(loop: Loop, *places: str, norm: bool = True, heads: bool = True) -> None:
    """Check a whole training; rank 0 prints a line for all ranks."""
    inside = [name for name, (part, *_) in PLACES.items() if part in ("forward", "backward")]
    for place in places or inside:
        everyones: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyones, trained(loop, place, norm=norm, heads=heads))
        ends = {found["weights"] if found["equal"] else "that DIFFER" for found in everyones}
        struck = any(found["struck"] for found in everyones)
        if dist.get_rank() == 0:
            print(
                f"{place if struck else 'nothing failed':17} all ranks: weights of one process {' / '.join(ends)}"
            )


# The third of six steps, at each place


def what_follows(place: Place, **options: Any) -> tuple[str, list[float]]:
    """Make six steps of ranks 0 and 1 in a new group; rank 0 runs out of memory in the third, and catches all.

    Returns:
        A letter for each step of this rank (`.` a step, `m` out of memory, `E` another error, `h` stuck), and its first
        weight after each step that it took.
    """
    group, rank = dist.new_group([0, 1]), dist.get_rank()
    if rank > 1:  # it has a break
        return "", []
    ddp = DistributedDataParallel(Detector(), process_group=group, **options)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    letters, weights = "", []
    for number in range(1, 7):
        try:
            optimizer.zero_grad()
            ddp(image(number, place)).backward()
            fails = place == "optimizer" and (rank, number) == (0, 3)
            torch.empty(
                PETABYTE if fails else 0, dtype=torch.uint8
            )  # as AdamW's state is made in its first step
            optimizer.step()
        except RuntimeError as error:
            letters += "m" if out_of_memory(error) else "E" if rank == 0 else "h"
            if rank == 1:  # it fails only where rank 0 closes the connections
                break
        else:
            letters += "."
            weights.append(ddp.module.weights[0].item())
    del ddp
    gc.collect()
    dist.destroy_process_group(group)
    del group  # the last reference to its connections: ranks that still wait for this one get an error
    gc.collect()
    return letters, weights


# One step of the explorable


def take_steps(place: Place, handler: str, norm: bool, unused: bool) -> None:
    """Make five steps; rank 0 runs out of memory in the second. Print a line of JSON for each step.

    Args:
        handler: `go on` catches whatever comes, or `agree` asks all ranks after the forward.
    """
    rank = dist.get_rank()
    ddp = DistributedDataParallel(Detector(norm), find_unused_parameters=unused)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    for number in range(1, 6):
        now = place if (rank, number) == (0, 2) else None
        picture, failed, loss = image(number, place, (0, 2)), "", None
        optimizer.zero_grad()
        try:
            with FirstFails() if now == "wrapper" else nullcontext():  # type: ignore[no-untyped-call]
                loss = ddp(picture)
            if handler == "go on":
                _rest_of_step(loss, optimizer, now)
        except RuntimeError as error:
            if handler == "agree" and not out_of_memory(error):
                raise
            failed = "no memory" if out_of_memory(error) else RAISES
        if handler == "agree":
            fine = torch.tensor(float(loss is not None))
            dist.all_reduce(fine, dist.ReduceOp.MIN)
            if fine:
                _rest_of_step(loss, optimizer, now)
            else:
                failed = failed or "skipped"
        met = [] if failed else who_met(ddp)
        print(json.dumps({"met": met, "failed": failed, "weight": float(ddp.module.weights[0])}), flush=True)


def _rest_of_step(loss: Any, optimizer: torch.optim.Optimizer, now: Place | None) -> None:
    loss.backward()
    torch.empty(PETABYTE if now == "optimizer" else 0, dtype=torch.uint8)
    optimizer.step()
