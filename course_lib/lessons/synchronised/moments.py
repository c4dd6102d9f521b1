"""Lesson 09, on the ranks: what a rank holds from moment to moment, and which forwards begin with rank 0's buffers.

Imported by ranks; needs torch.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import product

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.data import load_digits

#: By moment and by what is held: a number, or None where there is none yet.
Record = dict[str, dict[str, float | None]]

STEPS = 3


class _Training:
    """Three steps of a model with one weight, one BatchNorm and a dropout, looked at from moment to moment."""

    def __init__(self, what: str, when: str, dropout: float) -> None:
        self.what, self.when, self.found = what, when, Record()
        self.norm, self.linear = nn.BatchNorm1d(1, affine=False), nn.Linear(1, 1, bias=False)
        self.net = nn.Sequential(self.norm, nn.Dropout(dropout), self.linear)
        nn.init.ones_(self.linear.weight)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.times, self.clears, self.loss = 1, True, torch.tensor(torch.nan)

    def look(self, moment: str) -> None:
        """Make the change, if this is its moment, and note what this rank holds."""
        if moment == self.when:
            self._change()
        weight, now = self.linear.weight, self.optimizer.param_groups[0]["lr"]
        momentum = self.optimizer.state.get(weight, {}).get("momentum_buffer")
        loss = self.loss.item()
        self.found[moment] = {
            "weights": weight.item(),
            "buffers": _item(self.norm.running_mean),
            ".grad": _item(weight.grad),
            "momentum": _item(momentum),
            "learning rate": now,
            "loss": loss if loss == loss else None,
            "RNG state": zlib.crc32(torch.get_rng_state().numpy().tobytes()),
        }

    @torch.no_grad()
    def _change(self) -> None:
        weight = self.linear.weight
        match self.what:
            case "own start":
                weight += dist.get_rank()
                _add(self.norm.running_mean, dist.get_rank())
            case "weights":
                weight += 1
            case "buffers":
                _add(self.norm.running_mean, 1)
            case "gradient":
                _add(weight.grad, 1)
            case "momentum":
                self.optimizer.state[weight]["momentum_buffer"] += 1
            case "learning rate":
                self.optimizer.param_groups[0]["lr"] *= 2
            case "random seed":
                torch.manual_seed(1)
            case "loss":
                self.times = 2
            case "zero_grad":
                self.clears = False
            case "eval mode":
                self.net.eval()

    def run(self) -> Record:
        """Make all steps, on this rank's own samples."""
        torch.manual_seed(0)
        rank = dist.get_rank()
        signs = torch.tensor([[-1.0], [1.0]] * 4)
        self.look("built")
        ddp = DistributedDataParallel(self.net)
        self.look("wrapped")
        for step in range(1, STEPS + 1):
            if self.clears:
                self.optimizer.zero_grad(set_to_none=False)
            self.clears = True
            with self.norm.register_forward_pre_hook(
                lambda *_, step=step: self.look(f"forward {step} begins")
            ):
                outputs = ddp(signs + 1 + rank)
            self.loss = (outputs - (1 + rank) * signs).square().mean()
            self.look(f"forward {step} is over")
            (self.times * self.loss).backward()
            self.times = 1
            self.look(f"backward {step} is over")
            self.optimizer.step()
            self.look(f"step {step} is over")
        return self.found


def _item(tensor: torch.Tensor | None) -> float | None:
    return None if tensor is None else tensor.item()


def _add(tensor: torch.Tensor | None, number: float) -> None:
    if tensor is not None:
        tensor += number


def record(what: str, when: str, dropout: float = 0.5) -> tuple[Record, Record]:
    """Record what this rank holds at each moment if rank 1 changes `what` at `when`, and without a change.

    "own start" gives every rank weights and buffers of its own.
    """
    here = what == "own start" or dist.get_rank() == 1
    return _Training(what if here else "", when, dropout).run(), _Training("", "", dropout).run()


# -- which forwards begin with rank 0's buffers -------------------------------------------------------------------

KINDS = ("train", "eval", "train, no_sync", "train, no_grad", "eval, no_grad", "eval, inference_mode")


class Stamped(nn.Linear):
    """One weight, and a buffer that a rank can put its number into."""

    stamp: torch.Tensor

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.register_buffer("stamp", torch.tensor(float(dist.get_rank())))


def forward(ddp: DistributedDataParallel, kind: str) -> None:
    """Make one forward, without a backward, in one of the `KINDS`."""
    mode, _, context = kind.partition(", ")
    ddp.train(mode == "train")
    within: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "no_sync": ddp.no_sync,
    }
    with within.get(context, nullcontext)():
        ddp(torch.ones(1, 1))


def arrives(ddp: DistributedDataParallel, kind: str) -> bool:
    """Return whether a forward of this kind begins with rank 0's buffers: this rank's stamp is 0 after it."""
    ddp.module.stamp.fill_(dist.get_rank())
    forward(ddp, kind)
    return bool(ddp.module.stamp.item() == 0)


def pairs(ddp: DistributedDataParallel) -> dict[tuple[str, str], bool]:
    """Return, for pairs of forwards of all kinds, whether the second begins with rank 0's buffers."""
    sent = {}
    for before, now in product(KINDS, KINDS):
        forward(ddp, before)
        sent[before, now] = arrives(ddp, now)
    return sent


def forward_milliseconds(norms: int = 53, features: int = 256) -> dict[str, float]:
    """Return milliseconds of a forward of so many BatchNorms, with and without sent buffers; best of 15."""
    best = {}
    for name, sync in {"buffers sent": True, "switched off": False}.items():
        net = nn.Sequential(*[nn.BatchNorm1d(features) for _ in range(norms)])
        ddp, times = DistributedDataParallel(net), []
        ddp.broadcast_buffers = sync  # the option's name depends on torch
        for _ in range(15):
            dist.barrier()
            begin = time.perf_counter()
            ddp(torch.ones(2, features))
            times.append(time.perf_counter() - begin)
        best[name] = 1000 * min(times)
    return best


def answers(steps: int = 60, every: int = 4) -> Iterator[Tensor]:
    """Train on the digits; after every few steps, this rank's right answers and samples since the last time."""
    rank, world = dist.get_rank(), dist.get_world_size()
    images, labels = load_digits()
    pixels, targets = torch.from_numpy(images).float().flatten(1) / 16, torch.from_numpy(labels).long()
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(64, 10))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.3)
    counts = torch.zeros(2, dtype=torch.int64)
    for step in range(steps):
        share = torch.arange(rank, 64, world) + 64 * (step % 20)
        scores = ddp(pixels[share])
        optimizer.zero_grad()
        nn.functional.cross_entropy(scores, targets[share]).backward()
        optimizer.step()
        counts += torch.tensor([(scores.argmax(1) == targets[share]).sum(), len(share)])
        if step % every == every - 1:
            yield counts
            counts = torch.zeros_like(counts)
