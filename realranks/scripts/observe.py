"""`with realranks.observe():` in a script that a plain `torchrun` has started: the rank's side of being watched.

The first rank that comes starts one process that watches all of them (`scripts.watcher`); every rank opens a wire to it
and answers on a thread of its own. A rank that cannot be watched, or whose watcher is gone, goes on unwatched.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from realranks import own_code
from realranks.ranks.codec import encode
from realranks.ranks.inside import worker
from realranks.ranks.inside.on_terminate import report_on_terminate
from realranks.ranks.messages import Hello
from realranks.ranks.observed import process_starts
from realranks.ranks.observed.meeting import MeetingPlace, run_name
from realranks.ranks.observed.rank_side import Watched
from realranks.scripts.attached_run import AttachedRun
from realranks.watch import probe
from realranks.watch.watching import watching

#: How long a rank that raised waits for the verdict: its peers may have to compute until they need it.
_PATIENCE_AFTER_ERROR = 60.0


@contextlib.contextmanager
def observe(
    report: str | Path = "ddp-diagnosis.txt",
    *,
    every: int = 50,
    waiting: bool = True,
    machines: str | Path | None = None,
) -> Iterator[None]:
    """Watch the ranks of this run, as `ddp-course doctor` does, and write down what is wrong with them.

    All ranks enter and leave the block at the same place of the script. A rank that has come to its end waits for the
    others there, so that what keeps them can still be proved; a deadlock is ended by making the blocked ranks raise.
    The verdict is written to one file for all ranks, and to standard error where something is wrong.

    Args:
        report: the file to write, relative to the folder the script was started in.
        every: weights and gradients are compared at steps 0-8, 16, 32, every so many steps, and at the end.
        waiting: also sample how long ranks wait for each other.
        machines: a folder for a job on several machines, best one that all of them see: each writes there what it sees
            of its ranks, and rank 0's judges. `ddp-course doctor --from FOLDER` does the same with files that were
            copied. Without it, ranks on several machines are not watched, and it says so.
    """
    if process_starts.CURRENT is not None:
        yield  # in a process of a script that the doctor runs: watched from the moment it joins a process group
        return
    if worker.CURRENT is not None:
        # On a rank of the course's own: already watched.
        with contextlib.nullcontext() if probe.CURRENT is not None else watching(every, waiting):
            yield
        return
    place = _place_in_the_run(machines)
    watched = _watched(place, report) if place is not None else None
    if watched is None:
        yield
        return
    with watched:
        with report_on_terminate(watched.channel), watching(every, waiting):
            yield
        watched.finished()


class Place(NamedTuple):
    """This process's rank and the number of ranks; where there are several machines, the ranks of this one, and where
    its watcher writes.
    """

    rank: int
    world_size: int
    here: tuple[int, ...] = ()
    folder: str = ""


def _place_in_the_run(machines: str | Path | None) -> Place | None:
    """Find this rank's place in the run; return None, after a line on standard error, if nothing is watched."""
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or world_size is None:
        import torch.distributed as dist

        if not dist.is_initialized():
            _say("no ranks here (RANK and WORLD_SIZE are not set): nothing is watched")
            return None
        return Place(dist.get_rank(), dist.get_world_size())
    local = os.environ.get("LOCAL_WORLD_SIZE", world_size)
    if local == world_size:
        return Place(int(rank), int(world_size))
    if machines is None:
        if rank == "0":
            _say(
                f"{world_size} ranks, {local} of them on this machine: nothing is watched. "
                "observe(machines=FOLDER) watches several machines, through files in a folder"
            )
        return None
    first = int(rank) - int(os.environ.get("LOCAL_RANK", "0"))
    here = tuple(range(first, first + int(local)))
    return Place(int(rank), int(world_size), here, str(Path(machines).absolute()))


def _say(text: str) -> None:
    print(f"observe: {text}", file=sys.stderr)


def _watched(place: Place, report: str | Path) -> _Watched | None:
    """Connect this rank to the watcher; without one, return None after a line on standard error."""
    try:
        if place.folder:
            Path(place.folder).mkdir(parents=True, exist_ok=True)
        meeting = MeetingPlace()
        return _Watched(
            lambda: meeting.connect(lambda listener: start_watcher(listener, meeting, report, place)),
            lambda wire, now: Hello(wire, place.rank, place.world_size, os.getpid(), now),
        )
    except (OSError, ImportError) as error:
        _say(f"nothing is watched: {error}")
        return None


def start_watcher(
    listener: socket.socket, meeting: MeetingPlace, report: str | Path, place: Place, *, tests: bool = False
) -> None:
    """Start the process that watches the ranks; it accepts them at `listener`."""
    run = AttachedRun(
        fd=listener.fileno(),
        address=str(meeting.path),
        report=str(Path(report).absolute()),
        script=sys.argv[0],
        world_size=place.world_size,
        attempt=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        ranks=place.here,
        folder=place.folder,
        name=run_name(),
        tests=tests,
    )
    path = os.pathsep.join(filter(None, (*own_code.search_path(), os.environ.get("PYTHONPATH", ""))))
    global _watcher
    _watcher = subprocess.Popen(
        [sys.executable, "-m", "realranks.scripts.watcher", json.dumps(encode(run))],
        pass_fds=[listener.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # what ends the ranks must not end the one who explains it
        env={**os.environ, "PYTHONPATH": path},
    )


_watcher: subprocess.Popen[bytes] | None = None


class _Watched(Watched):
    """The rank while it is in the block."""

    def __enter__(self) -> _Watched:
        self.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.left(error)
            self.verdict.wait(_PATIENCE_AFTER_ERROR)
        elif error is not None:
            self.finished()
        self.close()
        if _watcher is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                _watcher.wait(5.0)

    def finished(self) -> None:
        """Report that the code is over on this rank, and wait until it is over on all."""
        self.left(None)
        self.verdict.wait()
