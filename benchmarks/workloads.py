"""The work of the ranks. The same text for every contender; a process group is up when it runs."""

from __future__ import annotations

#: One cell of a lesson: a collective, and a line printed by every rank.
ROUND_TRIP = """\
import torch
import torch.distributed as dist
t = torch.ones(1)
dist.all_reduce(t)
print(t.item())
"""

#: The first training step of a small network.
DDP_STEP = """\
import torch
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
layers = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
model = DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 64)), torch.randint(10, (16,)))
loss.backward()
optimizer.step()
"""


def many_collectives(number: int) -> str:
    """Return the source of an earlier cell that has trained a little."""
    return f"""\
import torch
import torch.distributed as dist
for _ in range({number}):
    dist.all_reduce(torch.ones(1))
"""


def deadlock(last_comes_after: float) -> str:
    """Return code in which rank 2 skips the all-reduce its peers wait in, the last one `last_comes_after` seconds late.

    `entered` is when a rank began to wait. The last one's moment moves from repetition to repetition, because a watcher
    that polls would otherwise always be met at the same point of its interval.
    """
    return f"""\
import time
import torch
import torch.distributed as dist
if dist.get_rank() != 2:
    if dist.get_rank() == 3:
        time.sleep({last_comes_after})
    entered = time.time()
    dist.all_reduce(torch.ones(1))
"""


def stuck(markers: str) -> str:
    """Return code in which ranks 0 and 1 wait in an all-reduce, 2 and 3 sleep; each first writes to `markers`."""
    return f"""\
import pathlib
import time
import torch
import torch.distributed as dist
rank = dist.get_rank()
(pathlib.Path({markers!r}) / str(rank)).touch()
if rank < 2:
    dist.all_reduce(torch.ones(1))
else:
    time.sleep(600)
"""


#: Asked after the stop button: does the group work, is the variable of an earlier cell still there?
STATE = "kept = 41\n"
AFTERWARDS = """\
t = torch.ones(1)
dist.all_reduce(t)
print(t.item(), "kept" if globals().get("kept") == 41 else "lost")
"""


def trials(task: str, answer: str, cases: str, folder: str) -> str:
    """Call an answer to a task on every case (JSON), as a script would; each rank leaves a file in `folder`."""
    return f"""\
import json
import os
import pathlib
import sys
from course_lib.grading.harness import computed
from course_lib.tasks import find_task
exec({answer!r})
vars(sys.modules["__main__"]).update(globals())  # some tasks ask for more than the function
task, cases, rank = find_task({task!r}), json.loads({cases!r}), int(os.environ["RANK"])
seen = [task.trial(globals()[task.function], case) for case in cases]
size = int(os.environ["WORLD_SIZE"])
oracle = [computed(task.oracle(case, size)) for case in cases] if rank == 0 else []
(pathlib.Path({folder!r}) / str(rank)).write_text(json.dumps({{"seen": seen, "oracle": oracle}}))
"""
