"""Run one job on a gang, from sending it to the `Outcome`: stream output, watch for deadlocks, stop what must stop.

What a job is stands in `job`, when ranks are asked for their status in `deadlock_watch`, how they are made to leave it
in `stop_ranks`, how its outcome is made in `make_outcome`, and how the gang is made usable again in `rebuild_group`.
`follow` does the same for ranks that another launcher has started.
"""

from __future__ import annotations

import dataclasses
import math
import time

from realranks.outcome.outcome import Outcome
from realranks.ranks.kernel import deadlock, deadlock_watch
from realranks.ranks.kernel.deadlock_watch import DeadlockWatch
from realranks.ranks.kernel.event_loop import Wires
from realranks.ranks.kernel.interrupts import StopRequests
from realranks.ranks.kernel.job import Job, Run, collect, progress_of
from realranks.ranks.kernel.live_outcome import Handle, LiveOutcome
from realranks.ranks.kernel.make_outcome import conclude, if_ended_now, stalled
from realranks.ranks.kernel.rank_handle import Link
from realranks.ranks.kernel.ready_gang import ReadyGang
from realranks.ranks.kernel.rebuild_group import repair_group
from realranks.ranks.kernel.stop_ranks import (
    end,
    kill_on_broken_wires,
    see_details,
    see_where,
)
from realranks.ranks.messages import encode_message

_SHOW_EVERY = 0.1
#: Ranks that are idle say which line issued what within this; the first time it takes a second to load the symbols.
_LINES_SECONDS = 5.0


def run(gang: ReadyGang, job: Job, stop: StopRequests) -> Outcome:
    """Run the job to its end, whatever that is, and leave the gang usable if that is possible."""
    links: list[Link] = [link for link in gang.links if job.only is None or link.rank in job.only]
    gang.job += 1
    gone = frozenset(link.rank for link in gang.links if link.vanished)
    run = Run(job, gang.job, links, gone_before=gone)
    for link in gang.links:
        link.forget_last_job()
    work = dataclasses.replace(job.work, trace=job.trace, around=job.around)
    message = encode_message(work, run.number).encode()
    for taking_part in links:
        taking_part.awaited = run.number
        taking_part.channel.send_encoded(message)
    outcome = follow(gang, run, stop)
    if outcome.ok and not outcome.recorded and _in_step(gang, run):
        gang.numbers = {rank: done.sequence for rank, done in run.done.items()}
        return LiveOutcome.of(outcome, Handle(gang, run.started_ns, time.time_ns()))
    return _with_group_repaired(gang, run, outcome)


def _in_step(gang: ReadyGang, run: Run) -> bool:
    """Check that all ranks have issued the same number of operations, in this job and before.

    Most cells end like this, and nothing more has to be asked.
    """
    before = [gang.numbers.get(link.rank, {}) for link in gang.links]
    return (
        len(run.links) == len(gang.links)
        and run.well_and_even()
        and not any(done.gpu_busy for done in run.done.values())
        and not _differ_on_gpus(run)
        and all(numbers == before[0] for numbers in before)
    )


def _with_group_repaired(gang: ReadyGang, run: Run, outcome: Outcome) -> Outcome:
    """Make the gang usable again if possible, and add to the outcome what else there is to report."""
    notes = repair_group(gang, run)
    fetchable = not run.killed and not outcome.exits
    started, ended = run.started_ns, time.time_ns()
    if outcome.ok and (_has_mismatch(outcome) or _differ_on_gpus(run) or _has_open_collective(gang, run)):
        # Which lines were those? Only now is it worth asking for them.
        statuses = gang.get_statuses(_LINES_SECONDS, detail=True)
        outcome = dataclasses.replace(
            outcome,
            recorded=deadlock.issued_between(statuses, started, ended),
            facts=outcome.facts
            or {rank: status.facts for rank, status in sorted(statuses.items()) if status.facts is not None},
        )
    outcome = dataclasses.replace(outcome, notes=notes)
    return LiveOutcome.of(outcome, Handle(gang, started, ended)) if fetchable else outcome


def _has_mismatch(outcome: Outcome) -> bool:
    """Check for ranks that met in collectives which do not match."""
    groups = {rank: facts.all_groups() for rank, facts in outcome.facts.items()}
    return bool(outcome.recorded) and deadlock.first_misfit(outcome.recorded, groups) is not None


def _differ_on_gpus(run: Run) -> bool:
    """Check for mismatched NCCL collectives under one number: then it is worth asking who is in the group."""
    recorded = {rank: done.on_gpu for rank, done in run.done.items() if done.on_gpu}
    if len(recorded) < 2:
        return False
    names = {record.group.partition("/")[0] for records in recorded.values() for record in records}
    everyone = dict.fromkeys(names, tuple(recorded))
    return deadlock.first_misfit(recorded, dict.fromkeys(recorded, everyone)) is not None


def _has_open_collective(gang: ReadyGang, run: Run) -> bool:
    """Check whether members of a group have issued unequal numbers of collectives in this job.

    Each reply carries the groups' own numbers. They also count messages between two ranks, so unequal ones are only a
    reason to look.
    """
    before, gang.numbers = gang.numbers, {rank: done.sequence for rank, done in run.done.items()}
    grown = {
        rank: {name: number - before.get(rank, {}).get(name, 0) for name, number in numbers.items()}
        for rank, numbers in gang.numbers.items()
    }
    names = {name for numbers in grown.values() for name in numbers}
    if all(len({each[name] for each in grown.values() if name in each}) < 2 for name in names):
        return False
    statuses = gang.get_statuses(_LINES_SECONDS)
    for name in names:
        members = {status.members[name] for status in statuses.values() if name in status.members}
        if len(members) != 1 or not set(*members) <= set(statuses):
            continue
        if len({statuses[rank].issued(name) for rank in next(iter(members))}) > 1:
            return True
    return False


def follow(wires: Wires, run: Run, stop: StopRequests) -> Outcome:
    """Watch ranks that run a job until every one of them has left it, and end it when they never would."""
    job = run.job
    watch: DeadlockWatch | None = None  # most cells are over before the first request
    shown_at = 0.0
    while run.running():
        now = run.seconds()
        if watch is None and now >= deadlock_watch.FIRST_REQUEST:
            watch = DeadlockWatch(wires, run)
        next_request = deadlock_watch.FIRST_REQUEST if watch is None else watch.next_request
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
