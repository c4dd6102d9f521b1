"""From what is known of a job that is over to its `Outcome`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from realranks.outcome.facts import Facts
from realranks.outcome.outcome import Collective, Ending, Kind, Outcome, RankError, Waiting
from realranks.outcome.places import Frame, is_learners
from realranks.ranks.kernel.event_loop import Wires
from realranks.ranks.kernel.job import Run, what_was_run
from realranks.ranks.kernel.stop_ranks import get_all_statuses, main_stack
from realranks.ranks.messages import TerminateReport
from realranks.ranks.status import RankStatus

#: What torch says on a rank whose peers are gone.
PEER_LOST = (
    "connection closed by peer",
    "connection reset",
    "broken pipe",
    "connectfullmesh",
    "socket closed",
    # NCCL: what ncclRemoteError means, in torch's words.
    "remote process exited",
)


def conclude(wires: Wires, run: Run) -> Outcome:
    """Judge how each rank's part ended, ask what it takes to explain it, and put it all into one object."""
    parts = {link.rank: _ending(run, link.rank) for link in run.links}
    exits = _exits(wires, run, parts)
    errors = {
        rank: done.error
        for rank, done in sorted(run.done.items())
        if done.error is not None and parts[rank] is Ending.RAISED
    }
    endings = {
        rank: Ending.FREED if _was_freed(run, rank, ending, errors.get(rank), bool(exits)) else ending
        for rank, ending in parts.items()
    }
    kind = _kind(run, endings, exits)
    if kind is not Kind.OK and not run.details:
        run.details = get_all_statuses(wires, run)
    run.details = {**run.details, **_final_statuses(run)}
    waiting = {rank: seen for rank, seen in run.waiting.items() if rank in run.stopped_at}
    return Outcome(
        kind=kind,
        world_size=wires.world_size,
        ranks=tuple(link.rank for link in run.links),
        stdout={link.rank: link.stdout.text() for link in run.links},
        stderr={link.rank: link.stderr.text() for link in run.links},
        shown={rank: done.shown for rank, done in sorted(run.done.items()) if done.shown is not None},
        errors=errors,
        exits=exits,
        endings=endings,
        waiting=dict(sorted(waiting.items())),
        pictures={link.rank: tuple(link.pictures) for link in run.links if link.pictures},
        proved=run.proved,
        doubts=run.doubts,
        stalled_for=run.stalled_for,
        interrupted=run.interrupted,
        timed_out=run.timed_out,
        seconds=run.seconds(),
        what=what_was_run(run.job),
        recorded=_recorded(run, kind),
        facts=_facts(run),
        last_places={rank: _last_place(run, rank) for rank in sorted(run.died_first)},
        trace_events={rank: done.trace for rank, done in sorted(run.done.items()) if done.trace},
        never_struck=tuple(
            sentence for _, done in sorted(run.done.items()) for sentence in done.never_struck
        ),
        hosts={link.rank: link.host_name for link in wires.links if link.host_name},
        packed={
            rank: (done.value, done.not_sent) for rank, done in sorted(run.done.items()) if done.has_value
        },
    )


def if_ended_now(wires: Wires, run: Run) -> Outcome | None:
    """Build the outcome that a run without progress would have if it ended now; None while it makes progress."""
    found = run.lasting()
    if found is None:
        return None
    return _so_far(wires, run, found.waiting, () if found.may_resume else found.doubts)


def stalled(wires: Wires, run: Run) -> Outcome:
    """Build the outcome of a run without progress, from statuses that were just read."""
    return dataclasses.replace(_so_far(wires, run, run.waiting, run.doubts), stalled_for=run.stalled_for)


def _so_far(wires: Wires, run: Run, waiting: Mapping[int, Waiting], doubts: tuple[str, ...]) -> Outcome:
    return Outcome(
        kind=Kind.HANG,
        world_size=wires.world_size,
        ranks=tuple(link.rank for link in run.links),
        stdout={},
        stderr={},
        shown={},
        errors={rank: done.error for rank, done in sorted(run.done.items()) if done.error is not None},
        exits={},
        endings={
            link.rank: Ending.RAISED if run.done[link.rank].error is not None else Ending.FINISHED
            for link in run.links
            if link.rank in run.done
        },
        waiting=waiting,
        pictures={},
        doubts=doubts,
        timed_out=True,
        seconds=run.seconds(),
        what=what_was_run(run.job),
        recorded=_seen(run),
        facts=_facts(run),
    )


def _ending(run: Run, rank: int) -> Ending:
    """Determine how the rank's part ended, from its own reports."""
    done = run.done.get(rank)
    if rank in run.killed:
        return Ending.KILLED
    if rank in run.ended:
        return Ending.ENDED
    if done is None:
        return Ending.DIED
    return Ending.FINISHED if done.error is None else Ending.RAISED


def _exits(wires: Wires, run: Run, parts: Mapping[int, Ending]) -> dict[int, int]:
    """Collect the exit codes of the ranks that died."""
    exits = {
        link.rank: run.died_first.get(link.rank, link.exit_code or 0)
        for link in run.links
        if parts[link.rank] is Ending.DIED
    }
    # Ranks outside the job can die as well (a fault of an earlier cell, a kill from outside).
    for link in wires.links:
        known = link.rank in parts or link.rank in run.gone_before or link.killed_by_course
        if not link.alive and not known:
            exits[link.rank] = link.exit_code or 0
    return dict(sorted(exits.items()))


def lost_a_peer(message: str) -> bool:
    """Check for an error that torch raises because another rank is gone, or was freed."""
    return any(sign in message.lower() for sign in PEER_LOST)


def _was_freed(run: Run, rank: int, ending: Ending, error: RankError | None, a_rank_died: bool) -> bool:
    """Check whether a rank's part was ended from outside: by an interrupt, or by the death of a peer."""
    why = run.stopped_at.get(rank)
    if ending is Ending.RAISED and why not in (None, "stopped"):
        return True
    if ending is Ending.FINISHED and why == "deadlock":
        return True
    return a_rank_died and error is not None and lost_a_peer(error.message)


def _kind(run: Run, endings: dict[int, Ending], exits: dict[int, int]) -> Kind:
    if exits:
        return Kind.DIED
    if Ending.RAISED in endings.values():
        return Kind.RAISES
    if run.proved or run.timed_out:
        return Kind.HANG
    if run.interrupted and run.killed:
        return Kind.RAISES
    return Kind.OK


def _final_statuses(run: Run) -> dict[int, RankStatus]:
    """Take the last statuses of ranks that C++ code terminated."""
    last = {link.rank: link.take(TerminateReport, 0) for link in run.links if link.rank in run.died_first}
    return {rank: words.status.of_rank(rank) for rank, words in last.items() if words is not None}


def _recorded(run: Run, kind: Kind) -> dict[int, tuple[Collective, ...]]:
    """Return the collectives if the run went wrong (rebuilding the group discards them) or was watched."""
    if kind is Kind.OK and not run.doubts:
        return {rank: done.records for rank, done in sorted(run.done.items()) if done.records is not None}
    return _seen(run)


def _seen(run: Run) -> dict[int, tuple[Collective, ...]]:
    """Collect the run's collectives from the ranks' last statuses or final replies."""
    at_end = {rank: done.records for rank, done in run.done.items() if done.records is not None}
    latest = {
        # What an earlier cell has left open is part of the story.
        rank: tuple(
            record for record in status.records if record.time_ns >= run.started_ns or not record.done
        )
        for rank, status in {**run.statuses, **run.details}.items()
    }
    return dict(sorted({**at_end, **latest}.items()))


def _facts(run: Run) -> dict[int, Facts]:
    """Collect what the ranks reported about themselves: while blocked, when they raised, or at the end."""
    facts = {rank: status.facts for rank, status in run.details.items() if status.facts is not None}
    facts.update({rank: done.facts for rank, done in run.done.items() if done.facts is not None})
    return dict(sorted(facts.items()))


def _last_place(run: Run, rank: int) -> tuple[Frame, ...]:
    """Return the stack of a rank that crashed, as far as it could still report it."""
    if rank in run.details:
        # C++ has ended it, and it could still be asked: what had it issued that was not over? Its main thread may have
        # gone on meanwhile, and a dump of frames that move breaks off.
        status = run.details[rank]
        issued = [record.origin for record in status.records if not record.done and record.origin is not None]
        return tuple(issued[:1]) or tuple(frame for frame in status.stack if is_learners(frame.file))
    return main_stack(next(link for link in run.links if link.rank == rank))
