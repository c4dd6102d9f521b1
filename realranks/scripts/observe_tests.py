"""Test suites of which a plain `torchrun` has started one on each rank: the rank's side of being watched test by test.

As in `observe`, the first rank that comes starts the process that watches all of them (`scripts.watcher`). The ranks
meet after each test, so that the test in which one of them is missing is the one that gets the verdict.
"""

from __future__ import annotations

import contextlib
import os
import queue
import time

from realranks.ranks.inside import self_report, worker
from realranks.ranks.inside.tracebacks import report_exception
from realranks.ranks.kernel.interrupts import deferred
from realranks.ranks.messages import Hello, JobReply, Verdict, encode_message
from realranks.ranks.observed.meeting import MeetingPlace
from realranks.ranks.observed.rank_side import Watched
from realranks.scripts.observe import Place, start_watcher


class WatchedTests(Watched):
    """A rank that runs a suite; what it does from one meeting to the next is a job of its own for the watcher."""

    def __init__(self, rank: int, world_size: int) -> None:
        """Connect this rank to the watcher, and start it if there is none; OSError where that does not work."""
        place, meeting = Place(rank, world_size), MeetingPlace()
        self._verdicts: queue.SimpleQueue[Verdict] = queue.SimpleQueue()
        self._number, self._watched = 1, True
        self._waits = False  # for the others: a time limit of the suite's own may end such a wait
        self._pid = os.getpid()
        super().__init__(
            lambda: meeting.connect(lambda at: start_watcher(at, meeting, os.devnull, place, tests=True)),
            lambda wire, now: Hello(wire, rank, world_size, os.getpid(), now),
        )

    def released(self, verdict: Verdict) -> None:
        """Hand the result of a test to the thread that runs it."""
        self._verdicts.put(verdict)

    def meet(self, error: BaseException | None = None, collected: str | None = None) -> str:
        """Wait until every rank has come to this point, or hangs; returns why they hang, or ''.

        Args:
            error: what this rank's part of the test has raised. collected: the tests, where they have been collected.
        """
        if os.getpid() != self._pid:
            return ""
        before = self._wait()
        if not self._watched:
            return before
        facts = None
        if error is not None:
            with contextlib.suppress(Exception):
                facts = self_report.facts_at(error.__traceback__)
        done = JobReply(
            error=report_exception(error) if error is not None else None,
            shown=collected,
            facts=facts,
            sequence=worker.sequence_numbers(),
            started_ns=self.started_ns,
            ended_ns=time.time_ns(),
        )
        if self.freed.is_set():
            with deferred() as interrupts:  # it may be interrupted, too, if it takes long to wake
                self._say(done)
                interrupts.acknowledge()
        else:
            self._say(done)
        return before or self._wait()

    def _wait(self) -> str:
        """Wait until all ranks have answered for what this one has answered for."""
        if not self._waits:
            return ""
        verdict = self._verdicts.get()
        self._waits = False
        self.freed.clear()
        self._watched = verdict.more
        self._number += 1
        self.started_ns = time.time_ns()
        return verdict.text

    def leave(self) -> None:
        """Run no more tests; returns when no other rank needs this one to see why it hangs."""
        if os.getpid() != self._pid:
            return
        self._wait()
        self._say(JobReply(last=True))
        self.verdict.wait()
        self.close()

    def _say(self, done: JobReply) -> None:
        self._waits = True
        with contextlib.suppress(OSError):
            self.channel.send(encode_message(done, self._number))
