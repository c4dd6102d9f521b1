"""Does CUDA work here, GPU by GPU? Found out in processes that end at once, one for each GPU.

Run in a process that the forkserver forks for this (or starts, with `spawn`). It never touches CUDA itself: a process
that has initialised CUDA, if only by counting where NVML does not answer, can fork no process that uses CUDA. So a
child counts the GPUs, and another child for each GPU takes memory on it and computes. Counting alone proves nothing:
NVML counts GPUs whose driver is too old for this torch, that no process may open, or that another one has to itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from realranks.ranks.codec import decode, encode
from realranks.ranks.starting import Gpu, GpuReport, GpusConfig

#: A GPU that has fallen off the bus may never answer.
TRY_SECONDS = 30.0


def report_gpus(fd: int, config: GpusConfig) -> int:
    """Try every GPU that this process sees, and write what came of it to the socket `fd`, as JSON."""
    with socket.socket(fileno=fd) as wire:
        wire.sendall(json.dumps(encode(_found(config.seconds))).encode())
    return 0


@dataclass(frozen=True)
class _Tried:
    """The findings of one process; the first one has counted the GPUs, the others have tried one each."""

    problem: str = ""
    counted: int = 0
    name: str = ""
    free_mb: int = 0
    total_mb: int = 0


def _found(seconds: float) -> GpuReport:
    import torch

    if not torch.backends.cuda.is_built():
        return GpuReport(built=False)
    nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
    counted = _children({0: _count}, seconds)[0]
    gpus: tuple[Gpu, ...] = ()
    if not counted.problem:
        tries = {index: _trial(index) for index in range(counted.counted)}
        gpus = tuple(
            Gpu(index, one.problem, one.name, one.free_mb, one.total_mb)
            for index, one in sorted(_children(tries, seconds).items())
        )
    return GpuReport(gpus, counted.counted, counted.problem, nccl=nccl)


def _count() -> _Tried:
    import torch

    counted = max(torch.cuda.device_count(), 0)  # what NVML says, as long as CUDA is not initialised
    try:
        torch.cuda.init()
        return _Tried(counted=torch.cuda.device_count())
    except Exception as error:
        return _Tried(_first_line(error), counted)


def _trial(index: int) -> Callable[[], _Tried]:
    def attempt() -> _Tried:
        import torch

        device = torch.device("cuda", index)
        try:
            torch.cuda.set_device(device)
            # A kernel of this torch's own: it may be built for other GPUs.
            torch.ones(1, device=device).add_(1).item()
            free, total = torch.cuda.mem_get_info(device)
            name = torch.cuda.get_device_name(device)
        except Exception as error:
            return _Tried(_first_line(error))
        return _Tried(name=name, free_mb=free // 10**6, total_mb=total // 10**6)

    return attempt


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _children(bodies: dict[int, Callable[[], _Tried]], seconds: float) -> dict[int, _Tried]:
    """Run these side by side in forked processes and collect their results; kill those that take too long."""
    pipes = {key: _forked(body) for key, body in bodies.items()}
    deadline = time.monotonic() + seconds
    results = {}
    for key, (pid, pipe) in pipes.items():
        text = _read(pipe, deadline)
        os.close(pipe)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        problem = f"no answer within {seconds:.0f} seconds" if text is None else ""
        # A process that hangs inside the driver may not even be killed: it is not waited for then.
        status = os.waitpid(pid, os.WNOHANG if problem else 0)[1]
        try:
            results[key] = decode(_Tried, json.loads(text or b""))
        except ValueError:
            ended = f"the process that tried it ended with {os.waitstatus_to_exitcode(status)}"
            results[key] = _Tried(problem or ended)
    return results


def _forked(body: Callable[[], _Tried]) -> tuple[int, int]:
    """Fork a process that runs this, and return its number and the pipe that its result comes on."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writes)
        return pid, reads
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.write(writes, json.dumps(encode(body())).encode())
    finally:
        sys.stderr.flush()
        os._exit(0)


def _read(pipe: int, deadline: float) -> bytes | None:
    """Read all that comes through the pipe until its end; None if that takes too long."""
    text = b""
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            return text
        text += chunk
    return None
