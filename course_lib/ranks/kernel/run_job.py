"""Run one job on a gang, from sending it to the `Outcome`: stream output, watch for deadlocks, stop what must stop.

What a job is stands in `job`, how ranks are made to leave it in `stop_ranks`, how its outcome is made in
`make_outcome`, and how the gang is made usable again in `rebuild_group`. `follow` does the same for ranks that somebody
else has started.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from typing import TYPE_CHECKING

from course_lib.outcome.fold import rank_list
from course_lib.outcome.outcome import Outcome, Waiting
from course_lib.ranks.codec import MalformedError
from course_lib.ranks.kernel import deadlock
from course_lib.ranks.kernel.at_rest import AtRest
from course_lib.ranks.kernel.event_loop import Wires
from course_lib.ranks.kernel.interrupts import StopRequests
from course_lib.ranks.kernel.job import Job, Run, Still, collect, progress_of
from course_lib.ranks.kernel.live_outcome import Handle, LiveOutcome
from course_lib.ranks.kernel.make_outcome import conclude, if_ended_now, stalled
from course_lib.ranks.kernel.rank_handle import Link
from course_lib.ranks.kernel.rebuild_group import put_right
from course_lib.ranks.kernel.stop_ranks import (
    end,
    failed_ranks,
    give_up_on_broken_wires,
    machine_is_busy,
    of_unanswering,
    see_details,
    see_where,
)
from course_lib.ranks.look import Look
from course_lib.ranks.messages import Seen, Where, written

if TYPE_CHECKING:
    from course_lib.ranks.kernel.gang import Gang

#: Pace of looking for a deadlock: first look, then while somebody computes, then between the two looks of a proof.
_FIRST_LOOK, _IDLE_LOOK, _PROOF_LOOK = 0.2, 0.4, 0.12
#: Ranks that make no progress without a proof are looked at closely as often as this, in seconds.
_CLOSE_LOOK = 4.0
_SHOW_EVERY = 0.1
#: Ranks that are idle say which line issued what within this; the first time it takes a second to load the symbols.
_LINES_SECONDS = 5.0
#: A rank that connects before rank 0's store listens sleeps and retries for several seconds; that is not a deadlock.
_CONNECT_SECONDS = 10.0
#: Making a group goes back and forth between ranks and store: on a busy machine a look may miss all of its progress.
_STARTING, _BUSY_SECONDS = {"init_process_group", "new_group"}, 3.0


def run(gang: Gang, job: Job, stop: StopRequests) -> Outcome:
    """Run the job to its end, whatever that is, and leave the gang usable if that is possible."""
    links: list[Link] = [link for link in gang.links if job.only is None or link.rank in job.only]
    gang.job += 1
    this = Run(job, gang.job, links)
    for link in gang.links:
        link.forget_last_job()
    work = dataclasses.replace(job.work, trace=job.trace, around=job.around)
    message = written(work, this.number).encode()
    for taking_part in links:
        taking_part.awaited = this.number
        taking_part.channel.send_encoded(message)
    outcome = follow(gang, this, stop)
    if outcome.ok and not outcome.recorded and _in_step(gang, this):
        gang.numbers = {rank: done.sequence for rank, done in this.done.items()}
        return LiveOutcome.of(outcome, Handle(gang, this.started_ns, time.time_ns()))
    return _put_right(gang, this, outcome)


def _in_step(gang: Gang, this: Run) -> bool:
    """All ranks have issued as many operations as the others, in this job and before: there is nothing to be asked.

    Most cells end like this.
    """
    before = [gang.numbers.get(link.rank, {}) for link in gang.links]
    return (
        len(this.links) == len(gang.links)
        and this.well_and_even()
        and not any(done.gpu_busy for done in this.done.values())
        and all(numbers == before[0] for numbers in before)
    )


def _put_right(gang: Gang, this: Run, outcome: Outcome) -> Outcome:
    """What else there is to be said of a job that has not simply gone well; the gang is usable again if possible."""
    notes = put_right(gang, this)
    fetchable = not this.killed and not outcome.exits
    started, ended = this.started_ns, time.time_ns()
    if outcome.ok and (_met_wrongly(outcome) or _left_open(gang, this)):
        # Which lines were those? Only now is it worth asking for them.
        looks = gang.look(_LINES_SECONDS, detail=True)
        outcome = dataclasses.replace(
            outcome,
            recorded=deadlock.issued_between(looks, started, ended),
            facts=outcome.facts
            or {rank: look.facts for rank, look in sorted(looks.items()) if look.facts is not None},
        )
    outcome = dataclasses.replace(outcome, notes=notes)
    return LiveOutcome.of(outcome, Handle(gang, started, ended)) if fetchable else outcome


def _met_wrongly(outcome: Outcome) -> bool:
    """True when ranks that told of their collectives have met in some that do not fit."""
    groups = {rank: facts.all_groups() for rank, facts in outcome.facts.items()}
    return bool(outcome.recorded) and deadlock.first_misfit(outcome.recorded, groups) is not None


def _left_open(gang: Gang, this: Run) -> bool:
    """True when members of a group have issued unequal numbers of collectives in this job.

    The groups' own numbers come with every answer; they also count what is sent from one rank to another, so that
    unequal ones are only a reason to look.
    """
    before, gang.numbers = gang.numbers, {rank: done.sequence for rank, done in this.done.items()}
    grown = {
        rank: {name: number - before.get(rank, {}).get(name, 0) for name, number in numbers.items()}
        for rank, numbers in gang.numbers.items()
    }
    names = {name for numbers in grown.values() for name in numbers}
    if all(len({each[name] for each in grown.values() if name in each}) < 2 for name in names):
        return False
    looks = gang.look(_LINES_SECONDS)
    for name in names:
        members = {look.members[name] for look in looks.values() if name in look.members}
        if len(members) != 1 or not set(*members) <= set(looks):
            continue
        if len({looks[rank].issued(name) for rank in next(iter(members))}) > 1:
            return True
    return False


def follow(wires: Wires, this: Run, stop: StopRequests) -> Outcome:
    """Watch ranks that run a job until every one of them has left it, and end it when they never would."""
    job = this.job
    watch = Watch(wires, this)
    shown_at = 0.0
    while this.running():
        now = this.seconds()
        wait = min(job.timeout - now, watch.next_look - now, job.patience - (now - this.progressed))
        if job.on_progress is not None:
            wait = min(wait, _SHOW_EVERY)
        wires.pump(wait)
        collect(this)
        if any(link.channel.closed for link in this.links):
            give_up_on_broken_wires(this)
        if _ended(wires, this, stop, watch):
            break
        if job.on_progress is not None and this.seconds() - shown_at >= _SHOW_EVERY and this.running():
            shown_at = this.seconds()
            try:
                job.on_progress(progress_of(this, if_ended_now(wires, this)))
            except BaseException:
                # Whoever watches has failed: the ranks must not be left in the middle of a job nobody waits for.
                for link in this.running():
                    link.kill()
                raise
    collect(this)
    return conclude(wires, this)


def _ended(wires: Wires, this: Run, stop: StopRequests, watch: Watch) -> bool:
    """End the run where there is a reason: the stop button, a proved deadlock, its time, or no progress."""
    if stop.pressed:
        stop.heed()
        this.interrupted = True
        _look_before_the_end(wires, this)
        end(wires, this, "stopped")
        return True
    if watch.step():
        this.proved = True
        see_details(wires, this)
        end(wires, this, "deadlock", free_first=True)
        return True
    if this.seconds() >= this.job.timeout and this.running():
        _look_before_the_end(wires, this)
        if this.running():
            this.timed_out = True
            end(wires, this, "timeout")
        return True
    if this.seconds() - this.progressed >= this.job.patience and this.running():
        return _out_of_patience(wires, this)
    return False


def _look_before_the_end(wires: Wires, this: Run) -> None:
    """Where the ranks are, while they still are there; some may leave meanwhile."""
    this.doubts = _doubts(this)
    see_where(wires, this)
    collect(this)


def _out_of_patience(wires: Wires, this: Run) -> bool:
    """Nothing has been issued or counted for as long as patience lasts: say so once, or end the run (then True)."""
    this.stalled_for = this.seconds() - this.progressed
    _look_before_the_end(wires, this)
    if not this.running():
        return False
    if this.job.on_stall is not None:
        this.job.on_stall(stalled(wires, this))
        this.progressed, this.stalled_for, this.doubts = math.inf, 0.0, ()  # until there is progress again
        this.waiting.clear()
        return False
    this.timed_out = True
    end(wires, this, "timeout")
    return True


def _doubts(this: Run) -> tuple[str, ...]:
    """Why the present standstill is probably a deadlock and no proof of one; none where it is not even that."""
    found = this.lasting()
    return () if found is None or found.passing else found.doubts


class Watch:
    """Looks at the ranks now and then, and says when a deadlock is proved."""

    def __init__(self, wires: Wires, this: Run) -> None:
        self.wires = wires
        self.this = this
        self.next_look = _FIRST_LOOK
        self.before: dict[int, Look] = {}
        self.asked: int | None = None
        self.replies: dict[int, Look] = {}
        self.connecting_since: float | None = None
        self.thorough = False  # two brief looks speak for a stand-still: the next one reads the collectives
        self.looked_closely = 0.0
        self.rests: dict[int, AtRest] = {}  # of ranks that do not answer
        self.locked: dict[int, Waiting] = {}

    def step(self) -> bool:
        """Ask, or read the answers; True when the proof is complete (it is then in the run's `waiting`)."""
        if self.asked is None:
            if self.this.seconds() >= self.next_look:
                self._ask()
            return False
        for link in self.wires.links:
            with contextlib.suppress(MalformedError):  # then it has not answered, for all that is known
                seen = link.take(Seen, self.asked)
                if seen is not None:
                    self.replies[link.rank] = link.where(seen)
        living = [link for link in self.wires.links if link.alive]
        if len(self.replies) < len(living) and self.this.seconds() < self.next_look:
            return False
        return self._judge()

    def _ask(self) -> None:
        self.wires.job += 1
        self.asked = self.wires.job
        self.replies = {}
        self.next_look = self.this.seconds() + _IDLE_LOOK
        question = written(Where(brief=not self.thorough), self.asked).encode()
        for link in self.wires.links:
            if link.alive:
                link.channel.send_encoded(question)

    def _judge(self) -> bool:
        self.asked = None
        now, before = self.replies, self.before
        thorough, self.thorough = self.thorough, False
        self.before = now
        self.this.looks = now
        self.next_look = self.this.seconds() + _IDLE_LOOK
        self._note_progress(now)
        running = frozenset(link.rank for link in self.this.running())
        silent = [link for link in self.this.running() if link.rank not in now]
        stopped = frozenset(link.rank for link in silent if link.is_stopped())
        self._note_locked([link for link in silent if link.rank not in stopped])
        halted = stopped | self.locked.keys()
        if len(halted) < len(silent):
            self.this.still = None  # who does not answer is busy, for all that is known
            return False
        if all(now[rank].waiting_in is not None for rank in running - halted):
            self.next_look = self.this.seconds() + _PROOF_LOOK
        found = deadlock.judge(before, now, running, halted, failed_ranks(self.this))
        if found is None and halted == running and running:
            signalled = {rank: Waiting(rank, None, "", "", state="stopped") for rank in sorted(stopped)}
            found = deadlock.StandStill(signalled)
        if found is not None and self.locked:
            found = dataclasses.replace(
                found,
                waiting={**found.waiting, **self.locked},
                doubts=(*found.doubts, f"{rank_list(self.locked)} cannot be looked into"),
            )
        # A rank may have left the code since it was looked at: then this is no proof of anything.
        if found is None or self._connecting(now) or running != {link.rank for link in self.this.running()}:
            self.this.still = None
            return False
        return self._stands_still(found, thorough, before)

    def _note_locked(self, silent: list[Link]) -> None:
        """Which of the ranks that do not answer wait inside of themselves, and where."""
        self.rests = {
            link.rank: self.rests.get(link.rank) or AtRest(link.pid)
            for link in silent
            if link.pid is not None
        }
        resting = [link for link in silent if link.rank in self.rests and self.rests[link.rank].look()]
        self.this.locked = {link.rank for link in resting}
        self.locked = {
            link.rank: self.locked.get(link.rank) or of_unanswering(self.wires, self.this, link)
            for link in resting
        }

    def _stands_still(self, found: deadlock.StandStill, thorough: bool, before: dict[int, Look]) -> bool:
        since = self.this.still.since if self.this.still is not None else self.this.seconds()
        if not thorough and (found.proved or self.this.seconds() - self.looked_closely >= _CLOSE_LOOK):
            self.thorough, self.next_look = True, self.this.seconds()
            # It comes at once: a standstill is compared with the look some time ago, not against the last one.
            self.before = before
        if thorough:
            self.looked_closely = self.this.seconds()
            if found.proved:
                self.this.waiting = dict(found.waiting)
                return True
            self.next_look = self.this.seconds() + _IDLE_LOOK
        elif self.this.still is not None and not found.proved:
            found = dataclasses.replace(
                found, waiting=self.this.still.found.waiting
            )  # those say who waits for whom
        self.this.still = Still(since, found)
        return False

    def _note_progress(self, looks: dict[int, Look]) -> None:
        """Has any rank issued or counted anything since the last look?"""
        counts = {rank: (look.progress, sum(look.sequence.values())) for rank, look in looks.items()}
        known = self.this.counts
        if any(known.get(rank) != count for rank, count in counts.items()):
            self.this.counts, self.this.progressed = {**known, **counts}, self.this.seconds()

    def _connecting(self, looks: dict[int, Look]) -> bool:
        """True while ranks may still be finding each other: what they wait for may be a thread that gets no core."""
        grace = self._grace(looks)
        if not grace:
            self.connecting_since = None
            return False
        if self.connecting_since is None:
            self.connecting_since = self.this.seconds()
        return self.this.seconds() - self.connecting_since < grace

    def _grace(self, looks: dict[int, Look]) -> float:
        """How long ranks without progress may look like this before it means something, in seconds."""
        stacks = [[frame.function for frame in look.stack] for look in looks.values()]
        # The store is rank 0's: it does not come once that has left. To one that all others have left, nobody comes.
        awaited = 0 not in self.this.done and len(self.this.running()) > 1
        if awaited and any(stack[-1:] == ["_create_c10d_store"] for stack in stacks):
            return _CONNECT_SECONDS
        if any(_STARTING.intersection(stack) for stack in stacks) and machine_is_busy():
            return _BUSY_SECONDS
        return 0.0
