"""Follow a job until every rank has left it: ask the ranks for their status now and then, and end what never would.

What proves a deadlock is in `deadlock`, how ranks are made to leave in `stop_ranks`, what is made of it in `job`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math

from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Outcome, RankState, Waiting
from realranks.ranks.codec import MalformedError
from realranks.ranks.kernel import deadlock
from realranks.ranks.kernel.gil_blocked import AtRest
from realranks.ranks.kernel.interrupts import StopRequests
from realranks.ranks.kernel.job import (
    Run,
    Still,
    collect,
    conclude,
    failed_ranks,
    if_ended_now,
    of_unanswering,
    progress_of,
    see_details,
    see_where,
    stalled,
)
from realranks.ranks.kernel.links import Link, Wires
from realranks.ranks.kernel.stop_ranks import end, kill_on_broken_wires, machine_is_busy
from realranks.ranks.messages import StatusReply, StatusRequest, encode_message
from realranks.ranks.status import RankStatus

_SHOW_EVERY = 0.1
#: Seconds to the first request for the ranks' status, to the next one while a rank computes, and between the two of a
#: proof.
FIRST_REQUEST, _IDLE_REQUEST, _PROOF_REQUEST = 0.2, 0.4, 0.12
#: What is asked in detail takes a rank that has much to tell, on a machine without a core to spare, longer than that.
_THOROUGH_REQUEST = 10.0
#: Ranks that make no progress without a proof are asked for details as often as this, in seconds.
_CLOSE_REQUEST = 4.0
#: A rank that connects before rank 0's store listens sleeps and retries for several seconds; that is not a deadlock.
_CONNECT_SECONDS = 10.0
#: Making a group goes back and forth between ranks and store: on a busy machine a status may miss all of its progress.
_STARTING, _BUSY_SECONDS = {"init_process_group", "new_group"}, 3.0


class DeadlockWatch:
    """Asks the ranks for their status now and then, and says when a deadlock is proved."""

    def __init__(self, wires: Wires, run: Run) -> None:
        self.wires = wires
        self.run = run
        self.next_request = FIRST_REQUEST
        self.before: dict[int, RankStatus] = {}
        self.asked: int | None = None
        self.replies: dict[int, RankStatus] = {}
        self.connecting_since: float | None = None
        self.thorough = False  # two brief statuses speak for a standstill: the next one has the collectives
        self.detailed_at = 0.0
        self.rests: dict[int, AtRest] = {}  # of ranks that do not answer
        self.locked: dict[int, Waiting] = {}

    def step(self) -> bool:
        """Ask, or read the answers; True when the proof is complete (it is then in the run's `waiting`)."""
        if self.asked is None:
            if self.run.seconds() >= self.next_request:
                self._ask()
            return False
        for link in self.wires.links:
            with contextlib.suppress(MalformedError):  # then it has not answered, for all that is known
                reply = link.take(StatusReply, self.asked)
                if reply is not None:
                    self.replies[link.rank] = link.status_of(reply)
        living = {link.rank for link in self.wires.links if link.alive}
        # In detail, only those are waited for that have answered before: no stopped one.
        awaited = living & self.before.keys() if self.thorough else living
        if awaited - self.replies.keys() and self.run.seconds() < self.next_request:
            return False
        return self._judge()

    def _ask(self) -> None:
        self.wires.job += 1
        self.asked = self.wires.job
        self.replies = {}
        self.next_request = self.run.seconds() + (_THOROUGH_REQUEST if self.thorough else _IDLE_REQUEST)
        question = encode_message(StatusRequest(brief=not self.thorough), self.asked).encode()
        for link in self.wires.links:
            if link.alive:
                link.channel.send_encoded(question)

    def _judge(self) -> bool:
        self.asked = None
        now, before = self.replies, self.before
        thorough, self.thorough = self.thorough, False
        self.before = now
        self.run.statuses = now
        self.next_request = self.run.seconds() + _IDLE_REQUEST
        self._note_progress(now)
        running = frozenset(link.rank for link in self.run.running())
        silent = [link for link in self.run.running() if link.rank not in now]
        stopped = frozenset(link.rank for link in silent if link.is_stopped())
        self._note_locked([link for link in silent if link.rank not in stopped])
        halted = stopped | self.locked.keys()
        found = None
        if len(halted) == len(silent):  # who does not answer otherwise is busy, for all that is known
            if all(now[rank].waiting_in is not None for rank in running - halted):
                self.next_request = self.run.seconds() + _PROOF_REQUEST
            found = self._both_statuses(before, running, stopped)
        # A rank may have left the code since it gave its status: then this proves nothing.
        if found is None or self._connecting(now) or running != {link.rank for link in self.run.running()}:
            self.run.still = None
            return False
        return self._stands_still(found, thorough, before)

    def _both_statuses(
        self, before: dict[int, RankStatus], running: frozenset[int], stopped: frozenset[int]
    ) -> deadlock.Standstill | None:
        """Judge the last two statuses, together with ranks that cannot answer because they are stopped or locked."""
        halted = stopped | self.locked.keys()
        found = deadlock.judge(before, self.replies, running, halted, failed_ranks(self.run))
        if found is None and halted == running and running:
            found = deadlock.Standstill(
                {rank: Waiting(rank, None, "", "", state=RankState.STOPPED) for rank in sorted(stopped)}
            )
        if found is None or not self.locked:
            return found
        return dataclasses.replace(
            found,
            waiting={**found.waiting, **self.locked},
            doubts=(*found.doubts, f"{rank_list(self.locked)} cannot be looked into"),
        )

    def _note_locked(self, silent: list[Link]) -> None:
        """Record which of the unanswering ranks are blocked in C code that holds the GIL, and where."""
        self.rests = {
            link.rank: self.rests.get(link.rank) or AtRest(link.pid)
            for link in silent
            if link.here and link.pid is not None
        }
        resting = [link for link in silent if link.rank in self.rests and self.rests[link.rank].check()]
        self.run.locked = {link.rank for link in resting}
        self.locked = {
            link.rank: self.locked.get(link.rank) or of_unanswering(self.wires, self.run, link)
            for link in resting
        }

    def _stands_still(
        self, found: deadlock.Standstill, thorough: bool, before: dict[int, RankStatus]
    ) -> bool:
        since = self.run.still.since if self.run.still is not None else self.run.seconds()
        if not thorough and (found.proved or self.run.seconds() - self.detailed_at >= _CLOSE_REQUEST):
            self.thorough, self.next_request = True, self.run.seconds()
            # It comes at once: a standstill is compared with the status some time ago, not with the last one.
            self.before = before
        if thorough:
            self.detailed_at = self.run.seconds()
            if found.proved:
                self.run.waiting = dict(found.waiting)
                return True
            self.next_request = self.run.seconds() + _IDLE_REQUEST
        elif self.run.still is not None and not found.proved:
            found = dataclasses.replace(
                found, waiting=self.run.still.found.waiting
            )  # those say who waits for whom
        self.run.still = Still(since, found)
        return False

    def _note_progress(self, statuses: dict[int, RankStatus]) -> None:
        """Record when any rank last issued or counted anything."""
        counts = {rank: (status.progress, sum(status.sequence.values())) for rank, status in statuses.items()}
        known = self.run.counts
        if any(known.get(rank) != count for rank, count in counts.items()):
            self.run.counts, self.run.progressed = {**known, **counts}, self.run.seconds()

    def _connecting(self, statuses: dict[int, RankStatus]) -> bool:
        """Check whether ranks may still be connecting: the thread they wait for may not have got a core yet."""
        grace = self._grace(statuses)
        if not grace:
            self.connecting_since = None
            return False
        if self.connecting_since is None:
            self.connecting_since = self.run.seconds()
        return self.run.seconds() - self.connecting_since < grace

    def _grace(self, statuses: dict[int, RankStatus]) -> float:
        """Return how many seconds ranks without progress may look like this before it means something."""
        stacks = [[frame.function for frame in status.stack] for status in statuses.values()]
        # The store is rank 0's: it does not come once that has left. To one that all others have left, no rank comes.
        awaited = 0 not in self.run.done and len(self.run.running()) > 1
        if awaited and any(stack[-1:] == ["_create_c10d_store"] for stack in stacks):
            return _CONNECT_SECONDS
        if any(_STARTING.intersection(stack) for stack in stacks) and machine_is_busy():
            return _BUSY_SECONDS
        return 0.0


def follow(wires: Wires, run: Run, stop: StopRequests) -> Outcome:
    """Watch ranks that run a job until every one of them has left it, and end it when they never would."""
    job = run.job
    watch: DeadlockWatch | None = None  # most cells are over before the first request
    shown_at = 0.0
    while run.running():
        now = run.seconds()
        if watch is None and now >= FIRST_REQUEST:
            watch = DeadlockWatch(wires, run)
        next_request = FIRST_REQUEST if watch is None else watch.next_request
        wait = min(job.timeout - now, next_request - now, job.patience - (now - run.progressed))
        if job.on_progress is not None:
            wait = min(wait, _SHOW_EVERY)
        wires.pump(wait)
        collect(run)
        if any(link.channel.closed for link in run.links):
            kill_on_broken_wires(run)
        if _ended(wires, run, stop, watch):
            break
        if job.on_progress is not None and run.seconds() - shown_at >= _SHOW_EVERY and run.running():
            shown_at = run.seconds()
            try:
                job.on_progress(progress_of(run, if_ended_now(wires, run), wires.silence_notice()))
            except BaseException:
                # The caller has failed: the ranks must not be left in the middle of a job that is not followed.
                for link in run.running():
                    link.kill()
                raise
    collect(run)
    return conclude(wires, run)


def _ended(wires: Wires, run: Run, stop: StopRequests, watch: DeadlockWatch | None) -> bool:
    """End the run where there is a reason: the stop button, a proved deadlock, its time, or no progress."""
    if stop.pressed:
        stop.acknowledge()
        run.interrupted = True
        _note_statuses(wires, run)
        end(wires, run, "stopped")
        return True
    if watch is not None and watch.step():
        run.proved = True
        see_details(wires, run)
        end(wires, run, "deadlock", free_first=True)
        return True
    if run.running() and any(link.vanished and link.rank not in run.gone_before for link in wires.links):
        _note_statuses(wires, run)
        end(wires, run, "host", free_first=True)
        return True
    if run.seconds() >= run.job.timeout and run.running():
        _note_statuses(wires, run)
        if run.running():
            run.timed_out = True
            end(wires, run, "timeout")
        return True
    if run.seconds() - run.progressed >= run.job.patience and run.running():
        return _out_of_patience(wires, run)
    return False


def _note_statuses(wires: Wires, run: Run) -> None:
    """Record where the ranks are, while they are still there; some may leave meanwhile."""
    found = run.lasting()
    run.doubts = () if found is None or found.may_resume else found.doubts
    see_where(wires, run)
    collect(run)


def _out_of_patience(wires: Wires, run: Run) -> bool:
    """Report once that nothing has been issued or counted for too long, or return True to end the run."""
    run.stalled_for = run.seconds() - run.progressed
    _note_statuses(wires, run)
    if not run.running():
        return False
    if run.job.on_stall is not None:
        run.job.on_stall(stalled(wires, run))
        run.progressed, run.stalled_for, run.doubts = math.inf, 0.0, ()  # until there is progress again
        run.waiting.clear()
        return False
    run.timed_out = True
    end(wires, run, "timeout")
    return True
