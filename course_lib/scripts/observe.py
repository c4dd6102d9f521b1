"""`with course_lib.observe():` in a script that a plain `torchrun` has started: the rank's side of being watched.

The first rank that comes starts one process that watches all of them (`scripts.watcher`); every rank opens a wire to it
and answers on a thread of its own. A rank that cannot be watched, or whose watcher is gone, goes on unwatched.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from course_lib.ranks.attach.meeting import ONLY_JOB, MeetingPlace
from course_lib.ranks.codec import encode
from course_lib.ranks.inside import worker
from course_lib.ranks.inside.on_terminate import last_words
from course_lib.ranks.kernel.interrupts import deferred
from course_lib.ranks.messages import Done, Hello, Verdict, number_of, written
from course_lib.ranks.protocol import BlockingChannel
from course_lib.scripts.attached_run import AttachedRun

#: How long a rank that raised waits for the verdict: its peers may have to compute until they need it.
_PATIENCE_AFTER_ERROR = 60.0


@contextlib.contextmanager
def observe(
    report: str | Path = "ddp-diagnosis.txt", *, every: int = 50, waiting: bool = True
) -> Iterator[None]:
    """Watch the ranks of this run, as `ddp-course doctor` does, and write down what is wrong with them.

    All ranks enter and leave the block at the same place of the script. A rank that has come to its end waits for the
    others there, so that what keeps them can still be proved; a deadlock is ended by making the blocked ranks raise.
    The verdict is written to one file for all ranks, and to standard error where something is wrong.

    Args:
        report: the file to write, relative to the folder the script was started in.
        every: weights and gradients are compared at steps 0-8, 16, 32, every so many steps, and at the end.
        waiting: also sample how long ranks wait for each other.

    Works for ranks that are on one machine; otherwise it says so and watches nothing.
    """
    from course_lib.watch import probe

    if worker.CURRENT is not None:
        # On a rank of the course's own: already watched.
        with contextlib.nullcontext() if probe.CURRENT is not None else probe.watching(every, waiting):
            yield
        return
    place = _place_in_the_run()
    wires = _wires(place, report) if place is not None else None
    if wires is None or place is None:
        yield
        return
    with _Watched(*wires, place[0]) as watched:
        with last_words(watched.channel), probe.watching(every, waiting):
            yield
        watched.finished()


def _place_in_the_run() -> tuple[int, int] | None:
    """This process's rank and the number of ranks; None, with a word on standard error, where nothing is watched."""
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or world_size is None:
        import torch.distributed as dist

        if not dist.is_initialized():
            _say("no ranks here (RANK and WORLD_SIZE are not set): nothing is watched")
            return None
        return dist.get_rank(), dist.get_world_size()
    local = os.environ.get("LOCAL_WORLD_SIZE", world_size)
    if local != world_size:
        if rank == "0":
            _say(
                f"{world_size} ranks, {local} of them on this machine: only ranks of one machine can be watched"
            )
        return None
    return int(rank), int(world_size)


def _say(text: str) -> None:
    print(f"course_lib.observe: {text}", file=sys.stderr)


def _wires(place: tuple[int, int], report: str | Path) -> tuple[BlockingChannel, BlockingChannel] | None:
    """The two wires to the watcher: for questions, and for what Python writes when the process crashes."""
    rank, world_size = place
    now = time.time_ns()
    try:
        meeting = MeetingPlace()
        wires = []
        for kind in ("crashes", "questions"):
            wire = BlockingChannel(
                meeting.connect(lambda listener: _start(listener, meeting, report, world_size))
            )
            wire.send(written(Hello(kind, rank, world_size, os.getpid(), now)))
            wires.append(wire)
    except (OSError, ImportError) as error:
        _say(f"nothing is watched: {error}")
        return None
    return wires[1], wires[0]


def _start(listener: socket.socket, meeting: MeetingPlace, report: str | Path, world_size: int) -> None:
    run = AttachedRun(
        fd=listener.fileno(),
        files=(str(meeting.path), str(meeting.lock)),
        report=str(Path(report).absolute()),
        script=sys.argv[0],
        world_size=world_size,
        attempt=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )
    home = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH", ""))))
    global _watcher
    _watcher = subprocess.Popen(
        [sys.executable, "-m", "course_lib.scripts.watcher", json.dumps(encode(run))],
        pass_fds=[listener.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # what ends the ranks must not end the one who explains it
        env={**os.environ, "PYTHONPATH": path},
    )


_watcher: subprocess.Popen[bytes] | None = None


class _Watched:
    """The rank while it is watched: a thread that answers, and at the end one message that says how it went."""

    def __init__(self, channel: BlockingChannel, crashes: BlockingChannel, rank: int) -> None:
        self.channel, self.crashes, self.rank = channel, crashes, rank
        self.main_thread = threading.get_ident()
        self.started_ns = time.time_ns()
        self.verdict = threading.Event()
        self.our_faulthandler = False

    def __enter__(self) -> _Watched:
        from course_lib.ranks.inside import control_thread

        # The script may have its own use for it.
        if not faulthandler.is_enabled():
            control_thread.stack_on_signal(self.crashes.sock.fileno())
            self.our_faulthandler = True
        threading.Thread(target=self._answer, name="course-answering", daemon=True).start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0)):
            self._left(error)
            self.verdict.wait(_PATIENCE_AFTER_ERROR)
        elif error is not None:
            self.finished()
        if self.our_faulthandler:
            faulthandler.disable()
        for wire in (self.channel, self.crashes):
            wire.sock.close()
        if _watcher is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                _watcher.wait(5.0)

    def finished(self) -> None:
        """The code is over on this rank: say so, and wait until it is over on all."""
        self._left(None)
        self.verdict.wait()

    def _left(self, error: BaseException | None) -> None:
        # A rank that has just been freed must not be interrupted while it says how.
        with deferred() as interrupts:
            self._say_how(error)
            interrupts.heed()

    def _say_how(self, error: BaseException | None) -> None:
        from course_lib.ranks.inside import self_report
        from course_lib.ranks.inside.cell import report_exception

        facts = None
        with contextlib.suppress(Exception):
            at, main = self_report.facts_at, self_report.facts_of
            facts = at(error.__traceback__) if error is not None else main(self.main_thread)
        done = Done(
            error=report_exception(error) if error is not None else None,
            facts=facts,
            sequence=worker.sequence_numbers(),
            started_ns=self.started_ns,
            ended_ns=time.time_ns(),
        )
        with contextlib.suppress(OSError):
            self.channel.send(written(done, ONLY_JOB))

    def _answer(self) -> None:
        from course_lib.ranks.inside.control_thread import answer

        store_port = int(os.environ.get("MASTER_PORT", "0"))
        while True:
            message = self.channel.receive()
            if message is None or message.kind == Verdict.kind:
                self.verdict.set()
                return
            with contextlib.suppress(Exception):
                reply = answer(message, self.main_thread, store_port)
                self.channel.send(written(reply, number_of(message)))
