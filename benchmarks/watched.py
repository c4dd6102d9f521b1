"""The cost of watching a training loop: the same DDP steps with the doctor's probe and its looks, and without.

The network is sized on the spot so that a step on 4 ranks takes as long as wanted on this machine, by default 20 ms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from unittest import mock

from benchmarks.gangs import Failed
from realranks.ranks.kernel import follow_job
from realranks.ranks.kernel.gang import Gang
from realranks.watch.around import as_around

STEP_SECONDS, STEPS = 0.020, 200
#: Weights are compared in nearly all of the first steps, and then in every 50th: what goes on for hours is measured.
FIRST_STEPS = 40
_SET_UP = """
import time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
net = torch.nn.Sequential(*(layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())))
model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def seconds(steps, batch):
    x = torch.randn(batch, 256)
    dist.barrier()
    before = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return (time.perf_counter() - before) / steps

batch = 64
for _ in range(6):
    taken = torch.tensor(seconds(20, batch))
    dist.all_reduce(taken, dist.ReduceOp.AVG)
    batch = max(8, round(batch * min(4.0, max(0.25, STEP / taken.item()))))
"""


def milliseconds(
    repetitions: int, steps: int = STEPS, step_seconds: float = STEP_SECONDS
) -> Iterator[tuple[float, float]]:
    """Yield pairs of the mean time of `steps` steps, watched and not watched, taken one after the other."""
    gang = Gang(4)
    try:
        gang.wait_ready()
        _run(gang, _SET_UP.replace("STEP", str(step_seconds)), False)
        for number in range(repetitions):
            # Who comes first changes, so that a machine that slows down slows both.
            order = (True, False) if number % 2 else (False, True)
            taken = {
                watched: _run(gang, f"seconds({FIRST_STEPS}, batch)\nseconds({steps}, batch)", watched) * 1000
                for watched in order
            }
            yield taken[True], taken[False]
    finally:
        gang.stop()


def _run(gang: Gang, source: str, watched: bool) -> float:
    # The ranks of every job are asked for their status now and then; without that nothing watches at all.
    first_request = follow_job.FIRST_REQUEST if watched else math.inf
    with mock.patch.object(follow_job, "FIRST_REQUEST", first_request):
        outcome = gang.run_cell(source, around=as_around() if watched else None)
    if not outcome.ok:
        raise Failed(repr(outcome))
    return max(outcome.values.values(), default=0.0)
