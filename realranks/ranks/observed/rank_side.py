"""A rank that another launcher has started, while it is watched: it answers questions, and says at its end how it went.

Runs inside the rank. `scripts.observe` uses it for ranks that `torchrun` has started, `process_starts` for those that a
script starts itself.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from realranks.outcome.facts import LeftBehind
from realranks.ranks.inside import control_thread, self_report, worker
from realranks.ranks.inside.control_thread import answer
from realranks.ranks.inside.tracebacks import report_exception
from realranks.ranks.kernel.interrupts import deferred
from realranks.ranks.messages import (
    Body,
    Free,
    JobReply,
    Verdict,
    decode_message,
    encode_message,
    number_of,
)
from realranks.ranks.observed.meeting import ONLY_JOB
from realranks.ranks.protocol import BlockingChannel


class Watched:
    """This process's side of the two wires: a thread that answers, and one message that says how its part went.

    Attributes:
        channel: the wire for questions and answers. crashes: the wire for what Python writes when the process crashes.
        verdict: set when the watcher has seen enough of this rank, or is gone.
        freed: set when it is being woken from a call in which it is stuck.
    """

    def __init__(self, connect: Callable[[], socket.socket], hello: Callable[[str, int], Body]) -> None:
        """Open both wires, saying on each `hello(its name, self.started_ns)`; OSError where no watcher listens."""
        self.main_thread = threading.get_ident()
        self.started_ns = time.time_ns()
        self.crashes, self.channel = BlockingChannel(connect()), BlockingChannel(connect())
        for wire, name in ((self.crashes, "crashes"), (self.channel, "questions")):
            wire.send(encode_message(hello(name, self.started_ns)))
        self.verdict = threading.Event()
        self.freed = threading.Event()
        self._our_faulthandler = False

    def begin(self, *, inherited_dumps: bool = False) -> None:
        """Answer from now on; called on the main thread.

        Args:
            inherited_dumps: a handler of crashes that is there is the course's own, of the process that has forked this
                one. Any other is the script's, which may have its own use for it.
        """
        # Without a handler the signal would end the process.
        control_thread.stack_on_signal(self.crashes.sock.fileno())
        if inherited_dumps or not faulthandler.is_enabled():
            control_thread.stack_on_crash(self.crashes.sock.fileno())
            self._our_faulthandler = True
        # A worker of a data loader would keep the wire open, and the end of this process would not be seen.
        os.register_at_fork(after_in_child=self.channel.sock.close)
        threading.Thread(target=self._answer, name="course-answering", daemon=True).start()

    def left(self, error: BaseException | None, left_behind: LeftBehind | None = None) -> None:
        """Report how this rank ended: its exception, and what spawn could not pass on (see `Facts`)."""
        # A rank that has just been freed must not be interrupted while it says how.
        with deferred() as interrupts:
            self._say_how(error, left_behind)
            interrupts.acknowledge()

    def released(self, verdict: Verdict) -> None:
        """Take the result of what this rank has last answered for; called on the thread that answers."""

    def close(self) -> None:
        """Be watched no longer."""
        if self._our_faulthandler:
            faulthandler.disable()
        for wire in (self.channel, self.crashes):
            wire.sock.close()

    def _say_how(self, error: BaseException | None, left_behind: LeftBehind | None) -> None:
        facts = None
        with contextlib.suppress(Exception):
            at, main = self_report.facts_at, self_report.facts_of
            facts = at(error.__traceback__) if error is not None else main(self.main_thread)
            facts = replace(facts, left_behind=left_behind)
        done = JobReply(
            error=report_exception(error) if error is not None else None,
            facts=facts,
            sequence=worker.sequence_numbers(),
            started_ns=self.started_ns,
            ended_ns=time.time_ns(),
        )
        with contextlib.suppress(OSError):
            self.channel.send(encode_message(done, ONLY_JOB))

    def _answer(self) -> None:
        while True:
            message = self.channel.receive()
            if message is None or message.kind == Verdict.kind:
                verdict = decode_message(Verdict, message) if message is not None else Verdict()
                self.released(verdict)
                if verdict.more:
                    continue
                self.verdict.set()
                return
            if message.kind == Free.kind:
                self.freed.set()
            with contextlib.suppress(Exception):
                reply = answer(message, self.main_thread, _store_port())
                self.channel.send(encode_message(reply, number_of(message)))


def _store_port() -> int:
    """Read the store's port from the environment; a script may set it late."""
    port = os.environ.get("MASTER_PORT", "")
    return int(port) if port.isdecimal() else 0
