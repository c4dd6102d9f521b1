"""Lesson 05, on the ranks: who is late when, and steps that take their time. Loads quickly: each rank imports it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed import ProcessGroup
    from torch.nn.parallel import DistributedDataParallel

#: For each rank, by how many milliseconds it is late in each step.
Lateness = Sequence[Sequence[float]]


def by_turns(ranks: int, steps: int, milliseconds: float) -> list[list[float]]:
    """Make one rank late in each step, in turn."""
    return [[milliseconds * (step % ranks == rank) for step in range(steps)] for rank in range(ranks)]


def by_chance(ranks: int, steps: int, milliseconds: float, chance: float = 1 / 4) -> list[list[float]]:
    """Make each rank late in each step with this chance, drawn alike on all ranks: all know who is late, and when."""
    dice = random.Random(10)
    return [[milliseconds * (dice.random() < chance) for _ in range(steps)] for _ in range(ranks)]


def always(rank: int, ranks: int, steps: int, milliseconds: float) -> list[list[float]]:
    """Make one rank late in every step, and no other."""
    return [[milliseconds * (each == rank)] * steps for each in range(ranks)]


def train_late(late: Lateness, every: int = 1) -> float:
    """Train a small model on every rank, each as late for its forwards as `late` says.

    Args:
        late: see `Lateness`.
        every: gradients are reduced after so many steps.

    Returns:
        Milliseconds until all ranks were through, the same on every rank.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    small = DistributedDataParallel(torch.nn.Linear(8, 8))
    for _ in range(3):  # the first steps are slower, for other reasons
        small(torch.ones(2, 8)).sum().backward()
    dist.barrier()
    begin = time.perf_counter()
    for step, milliseconds in enumerate(late[dist.get_rank()], 1):
        with nullcontext() if step % every == 0 else small.no_sync():
            time.sleep(milliseconds / 1e3)
            small(torch.ones(2, 8)).sum().backward()
    seconds = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return 1e3 * seconds.item()


def complete_before(ddp: DistributedDataParallel, late: int) -> int:
    """Make one step in which a rank begins its forward when all others have their gradients; on every rank.

    Returns:
        How many of this rank's all-reduces were complete at that moment; 0 on the late rank.
    """
    import torch
    import torch.distributed as dist

    works: list[dist.Work] = []

    def note(bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        assert work is not None
        works.append(work)
        mean: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda future: future.value()[0])
        return mean

    # No annotations in sight: DDP compares them with its own classes, and these are strings.
    ddp.register_comm_hook(None, lambda _, bucket: note(bucket))
    inputs = torch.ones(8, ddp.module[0].in_features)
    for _ in range(2):  # after these, DDP has its buckets
        ddp(inputs).sum().backward()
    works.clear()
    rank, token, complete = dist.get_rank(), torch.ones(1), [0]

    def all_computed(_: torch.Tensor) -> None:
        time.sleep(0.1)  # time enough for whatever can be sent
        complete[0] = sum(work.is_completed() for work in works)
        dist.send(token, dst=late)

    if rank == late:
        for other in range(dist.get_world_size()):
            if other != late:
                dist.recv(token, src=other)
    else:
        next(ddp.parameters()).register_post_accumulate_grad_hook(all_computed)
    ddp(inputs).sum().backward()
    return complete[0]


def train_late_and_not(late: Lateness, every: int) -> tuple[float, float]:
    """Call `train_late`, and make the same steps without lateness; runs on every rank."""
    return train_late(late, every), train_late([[0.0] * len(mine) for mine in late], every)


def timed_step(pause: float, group: ProcessGroup) -> tuple[float, float]:
    """Make a step that takes so many seconds, and its all-reduce, on every rank of a group.

    Returns:
        Seconds that this rank's own part took, and seconds until the group was through. Each is the shorter one of two
        attempts, so that what else the machine is doing stays out.
    """
    import torch
    import torch.distributed as dist

    found = []
    for _ in range(2):
        dist.barrier(group)
        begin = time.perf_counter()
        time.sleep(pause)
        own = time.perf_counter() - begin
        dist.all_reduce(torch.zeros(8), group=group)
        found.append((own, time.perf_counter() - begin))
    return min(own for own, _ in found), min(over for _, over in found)


def batch(number: int, of_rank: int) -> Tensor:
    """Return eight samples of six numbers, the same wherever it is called."""
    import torch

    return torch.randn(8, 6, generator=torch.Generator().manual_seed(100 * number + of_rank))


def loss_of(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return the mean of one loss per sample."""
    loss: Tensor = model(inputs).square().mean()
    return loss


def gradient(model: nn.Module, inputs: Tensor, scale: float = 1.0) -> Tensor:
    """Return the gradient of `loss_of` times this factor: all parameters' in one row."""
    import torch

    model.zero_grad()
    (scale * loss_of(model, inputs)).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def spreads(
    model: DistributedDataParallel, average: Callable[[], object] = lambda: None, steps: int = 16
) -> list[tuple[float, float]]:
    """Train each of four ranks on its own data, and compare the weights after each step.

    Args:
        model: trained with plain SGD.
        average: called after each step.
        steps: how many.

    Returns:
        The largest differences between ranks 0 and 1, and between ranks 0 and 2.
    """
    import torch
    import torch.distributed as dist

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, batch(step, dist.get_rank()) + dist.get_rank()).backward()
        optimizer.step()
        average()
        mine = model.module.weight.detach()
        ranks = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(ranks, mine)
        within, between = ((ranks[0] - ranks[other]).abs().max().item() for other in (1, 2))
        found.append((within, between))
    return found


def gloos_reason(message: str) -> str:
    """Return why gloo has given up a wait; all its words for a lost connection become the same."""
    lost = ("connection closed", "connection reset", "broken pipe", "socket closed")
    if "Timed out waiting" in message:
        return "timed out waiting"
    return "lost its connection" if any(words in message.lower() for words in lost) else message
