"""An agent of torchrun on each rank, which plays a machine; used inside a rank."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict

#: Seconds until agents that do not meet are given up: a way out of a hang, and no measure.
_PATIENCE = 10.0
_WORKER = """
import os, sys
names = "RANK", "LOCAL_RANK", "WORLD_SIZE"
with open(os.path.join(sys.argv[1], "rank-" + os.environ["RANK"] + "-" + os.environ["LOCAL_RANK"]), "w") as file:
    file.write(" ".join(os.environ[name] for name in names))
"""


class Line(TypedDict):
    """A line as torchrun's own parser reads it. `place` is the number of this machine, if it has one."""

    machines: str
    ranks: str
    endpoint: str
    id: str
    place: int | None


def read_line(words: Sequence[str]) -> Line | str:
    """Parse these words as torchrun does, its name first; return what is wrong with them, if anything is."""
    from torch.distributed.run import get_args_parser

    said = tempfile.TemporaryFile("w+")  # noqa: SIM115
    try:
        with said, contextlib.redirect_stderr(said):
            try:
                found = get_args_parser().parse_args(list(words[1:]))
            except SystemExit:
                said.seek(0)
                return said.read().strip().splitlines()[-1]
    except ValueError as error:
        return str(error)
    static = found.rdzv_backend == "static"
    return {
        "machines": "standalone" if found.standalone else str(found.nnodes),
        "ranks": str(found.nproc_per_node),
        "endpoint": found.rdzv_endpoint or f"{found.master_addr}:{found.master_port}",
        "id": str(found.rdzv_id),
        "place": int(found.node_rank) if static else None,
    }


def start(words: Sequence[str]) -> list[list[int]]:
    """Start this line's agent and wait for its end; RANK, LOCAL_RANK and WORLD_SIZE of each worker it has started."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "worker.py")
        script.write_text(_WORKER)
        line = [*words[1:-1], str(script), folder]
        process = multiprocessing.get_context("fork").Process(target=_agent, args=(line, folder))
        process.start()
        process.join(_PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        return [[int(number) for number in path.read_text().split()] for path in Path(folder).glob("rank-*")]


def _agent(line: list[str], folder: str) -> None:
    from torch.distributed.run import main

    os.setpgid(0, 0)
    for name in (
        "TORCHELASTIC_USE_AGENT_STORE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
    ):
        os.environ.pop(name, None)
    for descriptor in (1, 2):
        os.dup2(os.open(os.path.join(folder, "log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND), descriptor)
    with ThreadPoolExecutor(1) as pool:  # with a short stack: the agent looks through it
        pool.submit(main, line).result()
