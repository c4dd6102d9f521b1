"""A rank of a script: start the process group, then run what the benchmark says, until it hangs up.

`python -m benchmarks.driven` is the script that torchrun and `accelerate launch` start.
"""

from __future__ import annotations

import os
import traceback
from typing import Any

from benchmarks.wire import ADDRESS, connect

#: How the group is started: `env://`, `file://...`, or `accelerate` (by accelerate's own PartialState).
GROUP = "DDP_BENCHMARK_GROUP"


def start_group() -> None:
    """Join a process group, as the first lines of such a script do."""
    if os.environ.get(GROUP) == "accelerate":
        from accelerate import PartialState

        PartialState(cpu=True)
        return
    import torch.distributed as dist

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "gloo", init_method=os.environ.get(GROUP, "env://"), rank=rank, world_size=world_size
    )


def be_driven() -> None:
    """Run sources as they come; the process ends when the benchmark hangs up."""
    start_group()
    line = connect(os.environ[ADDRESS])
    line.send(pid=os.getpid(), rank=int(os.environ["RANK"]))
    space: dict[str, Any] = {"__name__": "__main__"}
    while True:
        try:
            source = line.receive()["source"]
        except ConnectionError:
            os._exit(0)
        error = None
        try:
            exec(source, space)
        except Exception:
            error = traceback.format_exc()
        line.send(error=error)


def be_driven_as(rank: int, world_size: int) -> None:
    """Be driven under a launcher that passes the rank as an argument (`torch.multiprocessing.spawn`)."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size))
    be_driven()


if __name__ == "__main__":
    be_driven()
