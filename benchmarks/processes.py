"""Other processes: how much memory they take, and the promise that none is left over.

What the benchmarks start carries a mark in its environment, and so does all that it starts in turn, whoever it is
reparented to. What carries a mark is killed when its block ends. When the benchmark itself is killed (SIGKILL), a guard
does it in its stead: `python -m benchmarks.processes`, which waits for the end of its standard input.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil

_RUN, _GANG = "DDP_BENCHMARK_RUN", "DDP_BENCHMARK_GANG"


@contextlib.contextmanager
def nothing_left_over() -> Iterator[None]:
    """Kill every process that came of the run when the block ends."""
    with _marked(_RUN) as mark, _guard(mark):
        try:
            yield
        finally:
            from realranks.ranks.kernel.launcher import close_all

            close_all()


@contextlib.contextmanager
def _guard(mark: str) -> Iterator[None]:
    unmarked = {name: value for name, value in os.environ.items() if name != _RUN}
    # A session of its own: Ctrl-C in a terminal is for the benchmark, and must not take the guard away.
    guard = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.processes", mark],
        stdin=subprocess.PIPE,
        env={**unmarked, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait()


@contextlib.contextmanager
def gone_afterwards() -> Iterator[None]:
    """Kill what is started within this block when it ends."""
    with _marked(_GANG):
        yield


@contextlib.contextmanager
def _marked(variable: str) -> Iterator[str]:
    before = os.environ.get(variable)
    mark = os.environ[variable] = uuid.uuid4().hex
    try:
        yield mark
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
        _kill_marked(variable, mark)


def _kill_marked(variable: str, mark: str) -> None:
    for _ in range(20):
        left = [process for process in psutil.process_iter() if _carries(process, variable, mark)]
        if not left:
            return
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=0.5)


def _carries(process: psutil.Process, variable: str, mark: str) -> bool:
    if process.pid == os.getpid():
        return False
    with contextlib.suppress(psutil.Error, OSError):
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(variable) == mark
    return False


def family(pid: int) -> list[int]:
    """Return the pids of a process and of all its descendants."""
    with contextlib.suppress(psutil.Error):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return []


def megabytes(pid: int) -> float:
    """Measure the proportional share (PSS): private memory, and the process's part of shared memory.

    The sum over processes counts every page once, however many of them map it.
    """
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def can_measure_memory() -> bool:
    """Check whether the system reports the proportional share (Linux)."""
    return os.path.exists("/proc/self/smaps_rollup")


if __name__ == "__main__":
    sys.stdin.buffer.read()
    _kill_marked(_RUN, sys.argv[1])
