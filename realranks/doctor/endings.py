"""Ranks that raised, were stopped by a person or a signal, or did not finish in time. Those that died: `deaths`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from realranks.doctor.gpu_waits import left_out_on_gpus, waits_for_gpus
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import at_line, blocked_in, call_of, rank_list, verb
from realranks.outcome.outcome import (
    AT_WORK,
    Diagnosis,
    Ending,
    Kind,
    Outcome,
    RankError,
    RankState,
    Waiting,
)

#: What a spawned process says that cannot find the function it was given.
_NOT_IN_MAIN = re.compile(r"Can't get attribute '(\w+)' on <module '__(?:mp_)?main__'")


def interrupted(outcome: Outcome) -> Diagnosis | None:
    """Report that the stop button ended the run."""
    if not outcome.interrupted:
        return None
    stopped = [rank for rank in outcome.ranks if outcome.endings.get(rank) is not Ending.FINISHED]
    killed = [rank for rank in outcome.ranks if outcome.endings.get(rank) is Ending.KILLED]
    end = verb(stopped, "it keeps its variables", "they keep their variables")
    if killed:
        end = text("{killed} could not be freed and {killed:was} ended. ", killed=killed) + (
            "The variables of all ranks are lost: the next %%ranks starts new ranks"
        )
    name = "interrupted" if stopped else "interrupted.all_finished"
    if outcome.what == "script":
        name = "interrupted.script"
    return diagnosis(name, outcome, left=_left(outcome, stopped, killed), end=end, code=outcome.what)


def _left(outcome: Outcome, stopped: list[int], killed: list[int]) -> str:
    gentle = [rank for rank in stopped if rank not in killed]
    return f"{rank_list(gentle)} left the {outcome.what}, " if gentle else ""


def left_behind(outcome: Outcome) -> Diagnosis | None:
    """Detect spawned ranks that lack what only the process that started them has."""
    if outcome.kind is not Kind.RAISES:
        return None
    lacking = {
        rank: f.left_behind for rank, f in outcome.facts.items() if f.left_behind and rank in outcome.errors
    }
    unknown = next(filter(None, map(_NOT_IN_MAIN.search, outcome.stderr.values())), None)
    if lacking:
        error, (key, table) = outcome.errors[min(lacking)], lacking[min(lacking)]
        words = {"type": error.type, "where": error.where or "an unknown line", "key": key}
        what = f"in {table}" if table else "a name"
        return diagnosis("left_behind_by_spawn", outcome, ranks=lacking, what=what, **words)
    return (
        diagnosis("left_behind_by_spawn.function", outcome, name=unknown[1]) if unknown is not None else None
    )


def raised(outcome: Outcome) -> Diagnosis | None:
    """Report ranks that raised an error of their own, for which others may wait."""
    found = {rank: error for rank, error in outcome.errors.items() if outcome.endings[rank] is Ending.RAISED}
    if outcome.kind is not Kind.RAISES or not found:
        return None
    names = sorted({error.type for error in found.values()})
    if names == ["SystemExit"]:
        return _exited(outcome, found)
    waiting, words = blocked_in(outcome), {"ranks": found, "names": " / ".join(names)}
    if not waiting and (outcome.what == "cell" or len(found) >= len(outcome.ranks)):
        return diagnosis("raised", None, found, **words)
    behind = only = ""
    if waiting:
        clause, call = (
            ", and {waiting} {waiting:waits} for it in {call}. ",
            call_of(next(iter(waiting.values()))),
        )
        behind = text(clause, waiting=waiting, call=call) + _how_long(outcome, found)
        only = "; the others only wait for it"
    return diagnosis("rank_raised", outcome, found, behind=behind, only=only, **words)


def _exited(outcome: Outcome, found: Mapping[int, RankError]) -> Diagnosis:
    codes = sorted({error.message or "1" for error in found.values()})
    where = next(iter(found.values())).where or "an unknown line"
    return diagnosis("rank_exited", outcome, found, ranks=found, codes=" / ".join(codes), where=where)


def _how_long(outcome: Outcome, raised: Collection[int]) -> str:
    """Describe what ends the wait for ranks that have raised."""
    ends = f"{rank_list(raised)}'s process" if len(raised) == 1 else "their processes"
    wait = "The wait" if outcome.what == "script" else "In a script, the wait"
    return (
        f"{wait} ends in an error: with gloo when {ends} {verb(raised, 'has', 'have')} ended, with NCCL when torchrun "
        "ends the others or at the timeout"
    )


def timed_out(outcome: Outcome) -> Diagnosis | None:
    """Report that the time limit was reached without a proved deadlock, since a rank still computes."""
    if not outcome.timed_out:
        return None
    unheard = [rank for rank, w in outcome.waiting.items() if w.state == RankState.UNHEARD]
    if unheard:
        names = sorted({outcome.hosts.get(rank, "") for rank in unheard})
        return diagnosis("unheard", outcome, unheard, ranks=unheard, hosts=" and ".join(names))
    waiting = blocked_in(outcome)
    on_gpus = {rank: w for rank, w in outcome.waiting.items() if w.state == RankState.GPU}
    if on_gpus:
        return left_out_on_gpus(outcome) or waits_for_gpus(outcome, on_gpus)
    busy = {rank: w for rank, w in outcome.waiting.items() if w.state in AT_WORK}
    if waiting and busy:
        return _straggler(outcome, waiting, busy)
    return diagnosis("timeout.attached" if outcome.from_outside else "timeout", outcome, late=outcome.waiting)


def _straggler(outcome: Outcome, waiting: Mapping[int, Waiting], busy: Mapping[int, Waiting]) -> Diagnosis:
    first, other = next(iter(busy.values())), next(iter(waiting.values()))
    doing = f"in {first.pause[0]}" if first.state == RankState.ASLEEP and first.pause else "at work"
    words = {"doing": doing, "place": at_line(first.where), "them": verb(busy, "it", "them"), "first": other}
    long = _for_long(waiting.values())
    name = "straggler.attached" if outcome.from_outside else "straggler"
    return diagnosis(name, outcome, busy, busy=busy, waiting=waiting, long=long, **words)


#: Seconds a wait is rounded down to: what is said stays the same from run to run.
_LONG = ((1, "1 s"), (2, "2 s"), (5, "5 s"), (10, "10 s"), (30, "30 s"), (60, "a minute"), (300, "5 minutes"))
_LONGER = ((600, "10 minutes"), (1800, "half an hour"), (3600, "an hour"))


def _for_long(waiting: Iterable[Waiting]) -> str:
    """Format a wait as ` for more than 2 s`; '' if it is unknown or short."""
    longest = max((w.seconds or 0.0 for w in waiting), default=0.0)
    return next(
        (f" for more than {text}" for least, text in reversed((*_LONG, *_LONGER)) if longest >= least), ""
    )


def stopped(outcome: Outcome) -> Diagnosis | None:
    """Detect ranks that a signal has stopped (SIGSTOP, Ctrl-Z)."""
    halted = [rank for rank, waiting in outcome.waiting.items() if waiting.state == RankState.STOPPED]
    if not halted:
        return None
    others = [rank for rank in outcome.waiting if rank not in halted]
    behind = f"; {rank_list(others)} can only wait" if others else ""
    return diagnosis("rank_stopped", outcome, halted, halted=halted, behind=behind)
