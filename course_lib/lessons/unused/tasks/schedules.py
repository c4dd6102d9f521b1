"""Schedules of what ranks use of a model, step by step; the right way to train for each; and real ranks that do so.

The model has a body and two heads. All micro-batches of a step but its last one run under `no_sync()`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from course_lib.lessons.unused.tasks.models import heads
from course_lib.tasks.marks import met_a_mark, send_marks
from course_lib.tasks.weights import added, close, drawn, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn

#: By micro-batch, which heads are in the loss: `left`, `right` or `both`.
Step = list[str]
#: By rank and step. All ranks have the same number of micro-batches in a step.
Schedule = list[list[Step]]
#: Ways to train a model that does not use all of itself, as arguments of the wrapper; `touch` changes the loss.
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "find_unused_parameters": {"find_unused_parameters": True},
    "static_graph": {"static_graph": True},
    "touch": {},
}
#: The same, those that cost less first.
ORDER = ("default", "static_graph", "touch", "find_unused_parameters")
#: What somebody who decides may get wrong: misconceptions of the task `choose`. A slash and a way may follow: it is
#: got wrong for that way only; or a slash and a variant.
MISTAKES = (
    "default_though_unused",
    "last_step_left_out",
    "ranks_together",
    "ranks_together/default",
    "ranks_together/static_graph",
    "rank_0_only",
    "rank_0_only/default",
    "first_step_only",
    "first_step_only/default",
    "micro_batches_together",
    "micro_batches_together/default",
    "static_though_changing",
    "static_in_no_sync",
    "static_in_no_sync/last",
    "decay_ignored",
    "decay_ignored/in some steps",
    "every_micro_batch",
    "ranks_must_agree",
    "accumulation_forbids_static",
    "decay_forbids_touch",
    "decay_forbids_touch/on some ranks",
    "decay_forbids_touch/in the first micro-batch",
    "decay_forbids_touch/in the last micro-batch",
)
_RATE = 0.1
_NUMBERS = {"left": [0], "right": [1], "both": [0, 1]}


def best(schedule: Schedule, weight_decay: float, wrong: Collection[str] = ()) -> str:
    """Return the first way in `ORDER` that is right; `wrong` as for `is_right`."""
    return next(way for way in ORDER if is_right(way, schedule, weight_decay, wrong))


def is_right(way: str, schedule: Schedule, weight_decay: float, wrong: Collection[str] = ()) -> bool:
    """Return whether training in this way ends as one process with all samples would; exact where `is_plain`.

    Args:
        wrong: some of `MISTAKES`.
    """

    def has(name: str) -> bool:
        return name in wrong or f"{name}/{way}" in wrong

    if way == "default" and has("last_step_left_out"):
        schedule = [steps[:-1] for steps in schedule]
    if has("rank_0_only"):
        schedule = schedule[:1]
    if has("first_step_only"):
        schedule = [steps[:1] for steps in schedule]
    match way:
        case "find_unused_parameters":
            return True
        case "touch":
            return _may_touch(schedule, weight_decay, wrong)
    if has("ranks_together"):
        schedule = [_across_ranks(schedule)]
    if has("micro_batches_together"):
        schedule = [[[_together(step)] for step in steps] for steps in schedule]
    if way == "static_graph":
        return _is_static(schedule, wrong)
    counted = None if has("every_micro_batch") else -1
    return has("default_though_unused") or all(
        used == "both" for steps in schedule for step in steps for used in step[counted:]
    )


def is_plain(schedule: Schedule) -> bool:
    """Return whether only what the lesson says decides about `static_graph`.

    A rank's last micro-batches may all be alike while one under `no_sync` is not. `static_graph` is then right if the
    first step has no such micro-batch and some rank uses in it what that one uses.
    """
    return all(
        len({step[-1] for step in steps}) > 1 or len({each for step in steps for each in step}) == 1
        for steps in schedule
    )


def _may_touch(schedule: Schedule, weight_decay: float, wrong: Collection[str]) -> bool:
    """Return whether no unused head moves: zeros are a gradient, and weight decay moves what has one."""
    if not weight_decay or "decay_ignored" in wrong:
        return True
    if "decay_forbids_touch" in wrong:
        return False
    if "decay_ignored/in some steps" in wrong:
        return _together(each for steps in schedule for step in steps for each in step) == "both"
    if "decay_forbids_touch/in the first micro-batch" in wrong:
        schedule = [[step[:1] for step in steps] for steps in schedule]
    if "decay_forbids_touch/in the last micro-batch" in wrong:
        schedule = [[step[-1:] for step in steps] for steps in schedule]
    by_rank = schedule if "decay_forbids_touch/on some ranks" in wrong else [_across_ranks(schedule)]
    return all(_together(step) == "both" for steps in by_rank for step in steps)


def _is_static(schedule: Schedule, wrong: Collection[str]) -> bool:
    """Return whether every rank repeats its first step, which has no micro-batch under `no_sync`."""
    if "ranks_must_agree" in wrong and any(steps != schedule[0] for steps in schedule):
        return False
    if "accumulation_forbids_static" in wrong and any(len(step) > 1 for steps in schedule for step in steps):
        return False
    if "static_in_no_sync/last" in wrong:
        schedule = [[step[-1:] for step in steps] for steps in schedule]
    if "static_in_no_sync" not in wrong and any(len(steps[0]) > 1 for steps in schedule):
        return False
    return "static_though_changing" in wrong or all(
        each == steps[0][0] for steps in schedule for step in steps for each in step
    )


def _together(used: Iterable[str]) -> str:
    """Return the heads that are used in at least one of these."""
    found = set(used)
    return found.pop() if len(found) == 1 else "both"


def _across_ranks(schedule: Schedule) -> list[Step]:
    """Return what all ranks together use in each step's micro-batches."""
    return [[_together(each) for each in zip(*steps, strict=True)] for steps in zip(*schedule, strict=True)]


def trained(way: str, schedule: Schedule, weight_decay: float, seed: int) -> list[str]:
    """Train on all ranks; return how each step of this rank ended: `right`, `wrong` (no error), `raises` or `hangs`.

    The last two end it: a rank that would wait for ever does not (see `marks`).
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    rank, net, ends = dist.get_rank(), heads(seed, 2), list[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ddp = DistributedDataParallel(net, **WAYS[way])
        optimizer = torch.optim.SGD(net.parameters(), lr=_RATE, weight_decay=weight_decay)
        for number, right in enumerate(_train_alone(schedule, weight_decay, seed)):
            optimizer.zero_grad()
            losses = _losses(ddp, schedule, seed, rank, number, touch=way == "touch")
            try:
                with ddp.no_sync():
                    for _ in schedule[rank][number][1:]:
                        next(losses).backward()
                next(losses).backward()
            except RuntimeError:
                ends.append("raises")
                break
            if any(met_a_mark(p.grad) for p in net.parameters() if p.grad is not None):
                ends.append("hangs")
                break
            optimizer.step()
            ends.append("right" if close(numbers(net.parameters()), right) else "wrong")
    send_marks(sum(p.numel() for p in net.parameters()))
    return ends


def _train_alone(schedule: Schedule, weight_decay: float, seed: int) -> Iterator[list[float]]:
    """Yield the weights after each step of one process that has the samples of all ranks."""
    import torch

    net = heads(seed, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=_RATE, weight_decay=weight_decay)
    for number in range(len(schedule[0])):
        optimizer.zero_grad()
        for rank in range(len(schedule)):
            for loss in _losses(net, schedule, seed, rank, number):
                (loss / len(schedule)).backward()
        optimizer.step()
        yield numbers(net.parameters())


def _losses(
    net: nn.Module, schedule: Schedule, seed: int, rank: int, number: int, *, touch: bool = False
) -> Iterator[Tensor]:
    """Yield the losses of a step's micro-batches, each with its own forward when it is asked for."""
    for place, used in enumerate(schedule[rank][number]):
        one = seed + 1000 * number + 100 * place + 10 * rank
        outputs: list[Tensor] = net(drawn(one, 4, 4), _NUMBERS[used])
        target = drawn(one + 1, 4, 2)
        touched = [0 * p.sum() for p in net.parameters()] if touch else []
        yield added([*((output - target).square().mean() for output in outputs), *touched])
