"""`python -m benchmarks.starter HOW N`: a process with torch loaded that starts N ranks on demand.

It plays the notebook kernel of someone who uses `torch.multiprocessing.spawn` or accelerate's `notebook_launcher`:
what it has imported already is not counted against them.
"""

from __future__ import annotations

import os
import socket
import sys

from benchmarks.driven import be_driven, be_driven_as
from benchmarks.wire import ADDRESS, connect


def free_port() -> str:
    """Return a free port; `notebook_launcher` would always take 29500."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def main(how: str, world_size: int) -> None:
    """Import what the launcher needs, wait for the word, start."""
    import torch

    if how == "notebook_launcher":
        from accelerate import notebook_launcher
    line = connect(os.environ[ADDRESS])
    line.send(ready=True)
    line.receive()
    if how == "notebook_launcher":
        notebook_launcher(be_driven, num_processes=world_size, use_port=free_port())
    else:
        torch.multiprocessing.spawn(be_driven_as, args=(world_size,), nprocs=world_size)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
