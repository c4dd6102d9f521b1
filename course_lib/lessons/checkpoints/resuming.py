"""Lesson 14, on the ranks: a job to resume with a part of its checkpoint, and a full disk.

Imported by ranks; needs torch.
"""

from __future__ import annotations

import contextlib
import random
import resource
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.lessons.checkpoints.tasks import jobs

_SEED = 14
#: What is not loaded, by what the picture calls it.
LEFT_OUT = {
    "all but the number of the step": ("model", "optimizer", "scheduler", "place", "random"),
    "the weights": ("model",),
    "the optimizer's state": ("optimizer",),
    "the schedule": ("scheduler",),
    "the place in the data": ("place",),
    "the random states": ("random",),
    "all random states but rank 0's": ("other ranks' random",),
    "nothing": (),
}


@contextlib.contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes in this block: a write that would make it longer fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# -- a job to resume -----------------------------------------------------------------------------------------------


def new_job() -> jobs.Job:
    """Make model (with dropout), optimizer (with momentum), scheduler and place, as a new process does."""
    return jobs.new_job(_SEED, dist.get_rank())


def train(job: jobs.Job, steps: int) -> list[float]:
    """Make so many steps; return this rank's losses."""
    return jobs.train(job, steps, _SEED, dist.get_rank(), dist.get_world_size())


def random_states() -> dict[str, Any]:
    """Return the random states of torch, numpy and Python, without numpy's arrays: `weights_only` refuses them."""
    kind, keys, *rest = cast("tuple[str, np.ndarray, int, int, float]", np.random.get_state())
    return {
        "torch": torch.get_rng_state(),
        "numpy": (kind, keys.tolist(), *rest),
        "python": random.getstate(),
    }


def _resume(state: Mapping[str, Any], without: Sequence[str]) -> jobs.Job:
    job = new_job()
    for name in ("model", "optimizer", "scheduler"):
        if name not in without:
            part: Any = job.model.module if name == "model" else getattr(job, name)
            part.load_state_dict(state[name])
    if "place" not in without:
        job.epoch, job.batch = state["place"]
    if "random" not in without:
        mine = state["random"][0 if "other ranks' random" in without else dist.get_rank()]
        torch.set_rng_state(mine["torch"])
        np.random.set_state(mine["numpy"])
        random.setstate(mine["python"])
    return job


def losses_off(path: str, uninterrupted: Sequence[float]) -> dict[str, float]:
    """Return, for each part that a new job does not load, the largest difference of a loss over steps and ranks."""
    off = {}
    for name, without in LEFT_OUT.items():
        state = torch.load(path, map_location="cpu")
        losses = train(_resume(state, without), len(uninterrupted))
        gap = torch.tensor(losses, dtype=torch.float64) - torch.tensor(uninterrupted, dtype=torch.float64)
        largest = gap.abs().max()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        off[name] = largest.item()
    return off


def counting_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Make a model of 40 MB, and an optimizer whose step k makes every weight k: it adds 1, in place."""
    net = nn.Sequential(*[nn.Linear(700, 700, bias=False) for _ in range(20)])
    for weight in net.parameters():
        nn.init.zeros_(weight)
        weight.grad = torch.full_like(weight, -1.0)
    return net, torch.optim.SGD(net.parameters(), lr=1.0)


def steps_in(weights: Mapping[str, Tensor]) -> list[int]:
    """Return the steps of which a state of `counting_model` has weights."""
    return sorted({int(number) for weight in weights.values() for number in weight.unique()})
