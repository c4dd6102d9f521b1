"""Run a script on a rank as `torchrun` would run it: as `__main__`, with its own arguments and folder first.

Used inside a rank. A script that starts its ranks itself with `torch.multiprocessing.spawn` is already on several
ranks here: each takes the part of one of the processes it would have started.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
import types
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

#: Ranks wait for each other before a spawn() as long as it takes.
_LONG = timedelta(days=365)


class SpawnError(RuntimeError):
    """The script starts another number of processes than there are ranks."""


def run_script(main: types.ModuleType, path: str, arguments: Sequence[str]) -> None:
    """Execute the file at `path` in the module `main`; what it raises is raised here, but `sys.exit(0)` is an end.

    Raises:
        OSError: the file cannot be read. SyntaxError: it is not Python.
    """
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    rank, world_size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    os.environ.update(
        GROUP_WORLD_SIZE="1",
        ROLE_NAME="default",
        ROLE_RANK=rank,
        ROLE_WORLD_SIZE=world_size,
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_MAX_RESTARTS="0",
        TORCHELASTIC_RUN_ID="none",
        MPLBACKEND="agg",
    )
    main.__dict__.pop("display", None)
    main.__dict__.update(__name__="__main__", __file__=path, __spec__=None, __cached__=None)
    with io.open_code(path) as file:
        source = file.read()
    _take_part_in_spawn()
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise


def _as_on_rank_0(
    rank: int, world_size: int, number: int, mine: tuple[Any, ...], here: dict[str, str | None]
) -> tuple[Any, ...]:
    """What rank 0 has, handed over through the gang's own store; one's own where it cannot be pickled.

    A second spawn() begins when the first is over on every rank.
    """
    import cloudpickle
    from torch.distributed import TCPStore

    address = here["MASTER_ADDR"] or "127.0.0.1"
    store = TCPStore(address, int(here["MASTER_PORT"] or 0), is_master=False, timeout=_LONG)
    key = f"course/spawn/{number}"
    store.set(f"{key}/{rank}", "here")
    store.wait([f"{key}/{each}" for each in range(world_size)])
    if rank == 0:
        try:
            blob = cloudpickle.dumps(mine)
        except Exception:
            blob = b""
        store.set(key, blob)
        return mine
    blob = store.get(key)
    if not blob:
        return mine
    content: tuple[Any, ...] = cloudpickle.loads(blob)
    return content


def _take_part_in_spawn() -> None:
    import torch.distributed
    import torch.multiprocessing

    here = {name: os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")}
    calls = itertools.count()

    def spawn(fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if nprocs != world_size:
            raise SpawnError(
                f"this script starts {nprocs} processes itself (torch.multiprocessing.spawn), and runs on "
                f"{world_size} ranks here: give --ranks {nprocs}"
                if nprocs > 0
                else "this script starts 0 processes itself (torch.multiprocessing.spawn): it counts GPUs, "
                "and there are none"
            )
        parents = dict(os.environ)
        # What torchrun sets and spawn does not; the port stays only where the script has set one itself. The address
        # stays: it is often set to what it is already.
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE"):
            os.environ.pop(name, None)
        # The part before spawn() has run on every rank: what it chose at random (a free port) counts on rank 0 only.
        mine = {name: os.environ[name] for name in here if name in os.environ}
        if mine.get("MASTER_PORT") == here["MASTER_PORT"]:
            mine.pop("MASTER_PORT", None)
        chosen, args = _as_on_rank_0(rank, world_size, next(calls), (mine, tuple(args)), here)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()  # the process of the spawn before has ended with its group
        for name in here:
            os.environ.pop(name, None)
        os.environ.update(chosen)
        fn(rank, *args)
        # What a process does to its environment ends with it.
        os.environ.clear()
        os.environ.update(parents)

    torch.multiprocessing.spawn = spawn
