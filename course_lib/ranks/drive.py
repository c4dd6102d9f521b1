"""Run one job on a gang, from sending it to the `Outcome`: stream output, watch for deadlocks, stop what must stop.

What a job is stands in `job`, how ranks are made to leave it in `ending`, how its outcome is made in `conclude`, and
how the gang is made usable again in `repair`. `follow` does the same for ranks that somebody else has started.
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING

from course_lib.ranks import deadlock
from course_lib.ranks.conclude import conclude
from course_lib.ranks.ending import end, give_up_on_broken_wires, see_details, see_where
from course_lib.ranks.facts import groups_told
from course_lib.ranks.interrupts import StopRequests
from course_lib.ranks.job import Job, Run, collect, progress_of
from course_lib.ranks.link import Link
from course_lib.ranks.outcome import Outcome, Waiting
from course_lib.ranks.protocol import Message
from course_lib.ranks.repair import put_right
from course_lib.ranks.wires import Wires

if TYPE_CHECKING:
    from course_lib.ranks.gang import Gang

#: Pace of looking for a deadlock: first look, then while somebody computes, then between the two looks of a proof.
_FIRST_LOOK, _IDLE_LOOK, _PROOF_LOOK = 0.2, 0.4, 0.12
_SHOW_EVERY = 0.1
#: A rank that looks for rank 0's store before that listens tries again for some seconds, asleep between: no proof yet.
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
    data = {**job.data, "id": this.number, "trace": job.trace, "around": job.around}
    message = Message(job.kind, data, job.blob).encode()
    for taking_part in links:
        taking_part.awaited = this.number
        taking_part.channel.send_encoded(message)
    outcome = follow(gang, this, stop)
    notes = put_right(gang, this)
    fetchable = not this.killed and not outcome.exits
    started, ended = this.started_ns, time.time_ns()
    if outcome.ok and outcome.recorded:
        groups = {rank: groups_told(facts) for rank, facts in outcome.facts.items()}
        if deadlock.first_misfit(outcome.recorded, groups) is not None:
            # Which lines met? Only now is it worth asking for them.
            outcome = dataclasses.replace(outcome, recorded=gang.collectives_between(started, ended))
    return dataclasses.replace(
        outcome,
        notes=notes,
        _fetch=gang.fetch if fetchable else None,
        _read_collectives=(lambda: gang.collectives_between(started, ended)) if fetchable else None,
    )


def follow(wires: Wires, this: Run, stop: StopRequests) -> Outcome:
    """Watch ranks that run a job until every one of them has left it, and end it when they never would."""
    job = this.job
    watch = Watch(wires, this)
    shown_at = 0.0
    while this.running():
        now = this.seconds()
        wait = min(job.timeout - now, watch.next_look - now)
        if job.on_progress is not None:
            wait = min(wait, _SHOW_EVERY)
        wires.pump(wait)
        collect(this)
        give_up_on_broken_wires(this)
        if stop.pressed:
            stop.heed()
            this.interrupted = True
            see_where(wires, this)
            collect(this)
            end(wires, this, "stopped")
            break
        if watch.step():
            this.proved = True
            see_details(wires, this)
            end(wires, this, "deadlock", free_first=True)
            break
        if this.seconds() >= job.timeout and this.running():
            see_where(wires, this)
            collect(this)
            if this.running():
                this.timed_out = True
                end(wires, this, "timeout")
            break
        if job.on_progress is not None and this.seconds() - shown_at >= _SHOW_EVERY and this.running():
            shown_at = this.seconds()
            try:
                job.on_progress(progress_of(this))
            except BaseException:
                # Whoever watches has failed: the ranks must not be left in the middle of a job nobody waits for.
                for link in this.running():
                    link.kill()
                raise
    collect(this)
    return conclude(wires, this)


class Watch:
    """Looks at the ranks now and then, and says when a deadlock is proved."""

    def __init__(self, wires: Wires, this: Run) -> None:
        self.wires = wires
        self.this = this
        self.next_look = _FIRST_LOOK
        self.before: dict[int, deadlock.Look] = {}
        self.asked: int | None = None
        self.replies: dict[int, deadlock.Look] = {}
        self.connecting_since: float | None = None
        self.suspicion = False  # two brief looks speak for a deadlock: the next one reads the collectives

    def step(self) -> bool:
        """Ask, or read the answers; True when the proof is complete (it is then in the run's `waiting`)."""
        if self.asked is None:
            if self.this.seconds() >= self.next_look:
                self._ask()
            return False
        for link in self.wires.links:
            message = link.take("seen", self.asked)
            if message is not None:
                self.replies[link.rank] = deadlock.Look.from_message(link.rank, message.data)
        living = [link for link in self.wires.links if link.alive]
        if len(self.replies) < len(living) and self.this.seconds() < self.next_look:
            return False
        return self._judge()

    def _ask(self) -> None:
        self.wires.job += 1
        self.asked = self.wires.job
        self.replies = {}
        self.next_look = self.this.seconds() + _IDLE_LOOK
        for link in self.wires.links:
            if link.alive:
                link.channel.send(Message("look", {"id": self.asked, "brief": not self.suspicion}))

    def _judge(self) -> bool:
        self.asked = None
        now, before = self.replies, self.before
        thorough, self.suspicion = self.suspicion, False
        self.before = now
        running = frozenset(link.rank for link in self.this.running())
        silent = [link for link in self.this.running() if link.rank not in now]
        stopped = frozenset(link.rank for link in silent if link.is_stopped())
        self.this.looks = now
        self.next_look = self.this.seconds() + _IDLE_LOOK
        if len(stopped) == len(silent):
            awake = [now[rank] for rank in running - stopped]
            if all(look.waiting_in is not None for look in awake):
                self.next_look = self.this.seconds() + _PROOF_LOOK
            proof = deadlock.judge(before, now, running, stopped)
            if proof is None and stopped == running and running:
                proof = {rank: Waiting(rank, None, "", "", state="stopped") for rank in sorted(stopped)}
            if proof is not None and self._connecting(now):
                proof = None
            # A rank may have left the code since it was looked at: then this is no proof of anything.
            if proof is not None and frozenset(link.rank for link in self.this.running()) == running:
                if not thorough:
                    self.suspicion, self.next_look = True, self.this.seconds()
                    return False
                self.this.waiting = proof
                return True
        return False

    def _connecting(self, looks: dict[int, deadlock.Look]) -> bool:
        """True while ranks may still be finding each other: what they wait for may be a thread that gets no core."""
        grace = self._grace(looks)
        if not grace:
            self.connecting_since = None
            return False
        if self.connecting_since is None:
            self.connecting_since = self.this.seconds()
        return self.this.seconds() - self.connecting_since < grace

    def _grace(self, looks: dict[int, deadlock.Look]) -> float:
        """How long ranks that stand still may look like this before it means something, in seconds."""
        stacks = [[frame.function for frame in look.stack] for look in looks.values()]
        # The store is rank 0's: it does not come once that has left.
        if 0 not in self.this.done and any(stack[-1:] == ["_create_c10d_store"] for stack in stacks):
            return _CONNECT_SECONDS
        if any(_STARTING.intersection(stack) for stack in stacks) and _is_busy():
            return _BUSY_SECONDS
        return 0.0


def _is_busy() -> bool:
    """True when much more wants to run than the machine has cores for."""
    return os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)
