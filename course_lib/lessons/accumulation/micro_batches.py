"""Lesson 10: micro-batches of digits for two ranks or more, a small model, and the gradient of all of them at once.

Imported by ranks; needs torch. Right is the gradient of one process that sees the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from course_lib.data import load_digits

#: How many micro-batches the lesson's groups have.
K = 4
#: The first digits are trained on; the others are not.
_TRAINED = 1400
#: How many samples a micro-batch has, by its number.
Size = Callable[[int], int]


def eight(number: int) -> int:
    """Return the usual size of a micro-batch."""
    return 8


def last_has_two(number: int) -> int:
    """Return eight samples, but two in the last micro-batch of a group."""
    return 2 if number == K - 1 else 8


def micro_batch(number: int, of_rank: int | None = None, size: int = 8) -> tuple[Tensor, Tensor]:
    """Return up to 8 digits and labels; other ranks and numbers have others, until all have been seen."""
    rank = dist.get_rank() if of_rank is None else of_rank
    first = ((number * dist.get_world_size() + rank) * 8) % _TRAINED
    pixels, labels = _digits()
    return pixels[first : first + size], labels[first : first + size]


def held_out_loss(model: nn.Module) -> float:
    """Return the loss on digits that are not trained on."""
    pixels, labels = _digits()
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(pixels[_TRAINED:]), labels[_TRAINED:]))


@cache
def _digits() -> tuple[Tensor, Tensor]:
    images, labels = load_digits()
    return torch.from_numpy(images).float().flatten(1) / 16, torch.from_numpy(labels).long()


def make_net(norm: bool = False) -> nn.Sequential:
    """Make the same model on all ranks, with a BatchNorm if asked for."""
    norms = [nn.BatchNorm1d(32)] if norm else []
    with torch.random.fork_rng(devices=[]):  # what ranks draw afterwards stays different
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 32), *norms, nn.Tanh(), nn.Linear(32, 10))


def gradient_of(model: nn.Module) -> Tensor:
    """Return all gradients as one vector."""
    return parameters_to_vector(p.grad for p in model.parameters() if p.grad is not None)


def big_batch(numbers: Iterable[int] = range(K), size: Size = eight, norm: bool = False) -> Tensor:
    """Return the gradient of these micro-batches of all ranks at once, in one process."""
    net = make_net(norm)
    ranks = range(dist.get_world_size())
    parts = [micro_batch(number, rank, size(number)) for number in numbers for rank in ranks]
    inputs, answers = (torch.cat(both) for both in zip(*parts, strict=True))
    nn.functional.cross_entropy(net(inputs), answers).backward()
    return gradient_of(net)


def accumulate(
    ddp: DistributedDataParallel,
    divisor: float = K,
    *,
    zero_inside: bool = False,
    sync_last: bool = True,
    size: Size = eight,
) -> None:
    """Run a group of micro-batches, each with its mean loss divided by `divisor`."""
    for number in range(K):
        if zero_inside:
            ddp.zero_grad()
        inputs, answers = micro_batch(number, size=size(number))
        with nullcontext() if sync_last and number == K - 1 else ddp.no_sync():
            (nn.functional.cross_entropy(ddp(inputs), answers) / divisor).backward()


def length_angle_agreement(
    divisor: float = K,
    *,
    zero_inside: bool = False,
    sync_last: bool = True,
    size: Size = eight,
    norm: bool = False,
) -> tuple[float, float, bool]:
    """Return length and angle (degrees) relative to the big batch, and whether all ranks have the same gradient."""
    ddp = DistributedDataParallel(make_net(norm))
    accumulate(ddp, divisor, zero_inside=zero_inside, sync_last=sync_last, size=size)
    mine, right = gradient_of(ddp), big_batch(size=size, norm=norm)
    everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, mine)
    length = mine.norm() / right.norm()
    cosine = torch.dot(mine, right) / mine.norm() / right.norm()
    angle = torch.rad2deg(torch.arccos(cosine.clamp(-1, 1)))
    return float(length), float(angle), all(torch.equal(one, mine) for one in everyones)
