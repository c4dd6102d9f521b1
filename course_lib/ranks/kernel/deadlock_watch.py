"""When a run is looked at for a deadlock, how closely, and what two looks in a row say; what proves one: `deadlock`."""

from __future__ import annotations

import contextlib
import dataclasses

from course_lib.outcome.fold import rank_list
from course_lib.outcome.outcome import RankState, Waiting
from course_lib.ranks.codec import MalformedError
from course_lib.ranks.kernel import deadlock
from course_lib.ranks.kernel.at_rest import AtRest
from course_lib.ranks.kernel.event_loop import Wires
from course_lib.ranks.kernel.job import Run, Still
from course_lib.ranks.kernel.rank_handle import Link
from course_lib.ranks.kernel.stop_ranks import failed_ranks, machine_is_busy, of_unanswering
from course_lib.ranks.look import Look
from course_lib.ranks.messages import Seen, Where, written

#: Pace of looking for a deadlock: first look, then while somebody computes, then between the two looks of a proof.
FIRST_LOOK, _IDLE_LOOK, _PROOF_LOOK = 0.2, 0.4, 0.12
#: Ranks that make no progress without a proof are looked at closely as often as this, in seconds.
_CLOSE_LOOK = 4.0
#: A rank that connects before rank 0's store listens sleeps and retries for several seconds; that is not a deadlock.
_CONNECT_SECONDS = 10.0
#: Making a group goes back and forth between ranks and store: on a busy machine a look may miss all of its progress.
_STARTING, _BUSY_SECONDS = {"init_process_group", "new_group"}, 3.0


class DeadlockWatch:
    """Looks at the ranks now and then, and says when a deadlock is proved."""

    def __init__(self, wires: Wires, run: Run) -> None:
        self.wires = wires
        self.run = run
        self.next_look = FIRST_LOOK
        self.before: dict[int, Look] = {}
        self.asked: int | None = None
        self.replies: dict[int, Look] = {}
        self.connecting_since: float | None = None
        self.thorough = False  # two brief looks speak for a standstill: the next one reads the collectives
        self.looked_closely = 0.0
        self.rests: dict[int, AtRest] = {}  # of ranks that do not answer
        self.locked: dict[int, Waiting] = {}

    def step(self) -> bool:
        """Ask, or read the answers; True when the proof is complete (it is then in the run's `waiting`)."""
        if self.asked is None:
            if self.run.seconds() >= self.next_look:
                self._ask()
            return False
        for link in self.wires.links:
            with contextlib.suppress(MalformedError):  # then it has not answered, for all that is known
                seen = link.take(Seen, self.asked)
                if seen is not None:
                    self.replies[link.rank] = link.where(seen)
        living = [link for link in self.wires.links if link.alive]
        if len(self.replies) < len(living) and self.run.seconds() < self.next_look:
            return False
        return self._judge()

    def _ask(self) -> None:
        self.wires.job += 1
        self.asked = self.wires.job
        self.replies = {}
        self.next_look = self.run.seconds() + _IDLE_LOOK
        question = written(Where(brief=not self.thorough), self.asked).encode()
        for link in self.wires.links:
            if link.alive:
                link.channel.send_encoded(question)

    def _judge(self) -> bool:
        self.asked = None
        now, before = self.replies, self.before
        thorough, self.thorough = self.thorough, False
        self.before = now
        self.run.looks = now
        self.next_look = self.run.seconds() + _IDLE_LOOK
        self._note_progress(now)
        running = frozenset(link.rank for link in self.run.running())
        silent = [link for link in self.run.running() if link.rank not in now]
        stopped = frozenset(link.rank for link in silent if link.is_stopped())
        self._note_locked([link for link in silent if link.rank not in stopped])
        halted = stopped | self.locked.keys()
        found = None
        if len(halted) == len(silent):  # who does not answer otherwise is busy, for all that is known
            if all(now[rank].waiting_in is not None for rank in running - halted):
                self.next_look = self.run.seconds() + _PROOF_LOOK
            found = self._both_looks(before, running, stopped)
        # A rank may have left the code since it was looked at: then this is no proof of anything.
        if found is None or self._connecting(now) or running != {link.rank for link in self.run.running()}:
            self.run.still = None
            return False
        return self._stands_still(found, thorough, before)

    def _both_looks(
        self, before: dict[int, Look], running: frozenset[int], stopped: frozenset[int]
    ) -> deadlock.StandStill | None:
        """What the last two looks say, with the ranks that do not answer because they are stopped or locked."""
        halted = stopped | self.locked.keys()
        found = deadlock.judge(before, self.replies, running, halted, failed_ranks(self.run))
        if found is None and halted == running and running:
            found = deadlock.StandStill(
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
        """Which of the ranks that do not answer wait inside of themselves, and where."""
        self.rests = {
            link.rank: self.rests.get(link.rank) or AtRest(link.pid)
            for link in silent
            if link.pid is not None
        }
        resting = [link for link in silent if link.rank in self.rests and self.rests[link.rank].look()]
        self.run.locked = {link.rank for link in resting}
        self.locked = {
            link.rank: self.locked.get(link.rank) or of_unanswering(self.wires, self.run, link)
            for link in resting
        }

    def _stands_still(self, found: deadlock.StandStill, thorough: bool, before: dict[int, Look]) -> bool:
        since = self.run.still.since if self.run.still is not None else self.run.seconds()
        if not thorough and (found.proved or self.run.seconds() - self.looked_closely >= _CLOSE_LOOK):
            self.thorough, self.next_look = True, self.run.seconds()
            # It comes at once: a standstill is compared with the look some time ago, not against the last one.
            self.before = before
        if thorough:
            self.looked_closely = self.run.seconds()
            if found.proved:
                self.run.waiting = dict(found.waiting)
                return True
            self.next_look = self.run.seconds() + _IDLE_LOOK
        elif self.run.still is not None and not found.proved:
            found = dataclasses.replace(
                found, waiting=self.run.still.found.waiting
            )  # those say who waits for whom
        self.run.still = Still(since, found)
        return False

    def _note_progress(self, looks: dict[int, Look]) -> None:
        """Has any rank issued or counted anything since the last look?"""
        counts = {rank: (look.progress, sum(look.sequence.values())) for rank, look in looks.items()}
        known = self.run.counts
        if any(known.get(rank) != count for rank, count in counts.items()):
            self.run.counts, self.run.progressed = {**known, **counts}, self.run.seconds()

    def _connecting(self, looks: dict[int, Look]) -> bool:
        """True while ranks may still be finding each other: what they wait for may be a thread that gets no core."""
        grace = self._grace(looks)
        if not grace:
            self.connecting_since = None
            return False
        if self.connecting_since is None:
            self.connecting_since = self.run.seconds()
        return self.run.seconds() - self.connecting_since < grace

    def _grace(self, looks: dict[int, Look]) -> float:
        """How long ranks without progress may look like this before it means something, in seconds."""
        stacks = [[frame.function for frame in look.stack] for look in looks.values()]
        # The store is rank 0's: it does not come once that has left. To one that all others have left, nobody comes.
        awaited = 0 not in self.run.done and len(self.run.running()) > 1
        if awaited and any(stack[-1:] == ["_create_c10d_store"] for stack in stacks):
            return _CONNECT_SECONDS
        if any(_STARTING.intersection(stack) for stack in stacks) and machine_is_busy():
            return _BUSY_SECONDS
        return 0.0
