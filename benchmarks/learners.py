"""A class on one machine: learners open a lesson on a Jupyter server, read, and run their first cell at once."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import processes, workloads
from benchmarks.gangs import Failed
from benchmarks.servers import LESSON, Place, ServedKernel, Server
from realranks.ranks.server.zygote import VARIABLE

_LOAD = "%load_ext course_lib"


@dataclass(frozen=True)
class Class:
    """The measurements of one class.

    Attributes:
        first_cell: seconds, of the learner who waited longest.
        memory: of all processes but the Jupyter server, divided by the number of learners (MB); None where the system
            does not tell.
        server: of the Jupyter server (MB).
    """

    first_cell: float
    memory: float | None
    server: float | None


def measure_class(learners: int, reading: float, zygote: bool) -> Class:
    """Have so many learners run their first cell on 4 ranks, with the server's zygote or without one."""
    with _place() as place, ExitStack() as stack:
        if not zygote:
            place.environment[VARIABLE] = ""
        elif os.environ.get(VARIABLE):  # a test run has one, and does not want another
            place.environment[VARIABLE] = os.environ[VARIABLE]
        server = Server(place, "server")
        lessons = [place.notebook(f"{number}-{LESSON}", _LOAD) for number in range(learners)]
        kernels = [stack.enter_context(closing(server.open(lesson))) for lesson in lessons]
        _all_at_once(kernels, _LOAD)
        time.sleep(reading)
        seconds = _all_at_once(kernels, f"%%ranks 4\n{workloads.ROUND_TRIP}")
        if not processes.can_measure_memory():
            return Class(max(seconds), None, None)
        taken = {process.pid: processes.megabytes(process.pid) for process in place.processes()}
        of_server = taken.pop(server.process.pid)
        return Class(max(seconds), sum(taken.values()) / learners, of_server)


@contextmanager
def _place() -> Iterator[Place]:
    # Not the system's own folder for such files, whose path may be too long for the address of a socket.
    with tempfile.TemporaryDirectory(prefix="ddp-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder))
        try:
            yield place
        finally:
            place.close()


def _all_at_once(kernels: list[ServedKernel], cell: str) -> list[float]:
    """Run the cell in all of them; returns the seconds it took in each."""
    taken: list[float] = []

    def run(kernel: ServedKernel) -> None:
        before = time.perf_counter()
        kernel.run(cell)
        taken.append(time.perf_counter() - before)

    threads = [threading.Thread(target=run, args=(kernel,)) for kernel in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(taken) < len(kernels):
        raise Failed("the cell did not work in every kernel")
    return taken
