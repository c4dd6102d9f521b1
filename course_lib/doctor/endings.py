"""Ranks that raised, were stopped by a person or a signal, or did not finish in time. Those that died: `deaths`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from course_lib.doctor.gpu_waits import left_out_on_gpus, waits_for_gpus
from course_lib.doctor.lessons import taught_in
from course_lib.doctor.words import blocked_in, call_of, capital, positions, rank_list, verb
from course_lib.outcome.outcome import (
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
    """The stop button was pressed."""
    if not outcome.interrupted:
        return None
    stopped = [rank for rank in outcome.ranks if outcome.endings.get(rank) is not Ending.FINISHED]
    killed = [rank for rank in outcome.ranks if outcome.endings.get(rank) is Ending.KILLED]
    end = verb(stopped, "it keeps its variables", "they keep their variables")
    if killed:
        end = (
            f"{rank_list(killed)} could not be freed and {verb(killed, 'was', 'were')} ended. The variables of all "
            "ranks are lost: the next %%ranks starts new ranks"
        )
    if outcome.what == "script":
        return Diagnosis("interrupted", "The script was interrupted.", evidence=positions(outcome))
    return Diagnosis(
        "interrupted",
        f"You pressed stop; {_left(outcome, stopped, killed)}{end}."
        if stopped
        else f"You pressed stop when every rank had just finished the {outcome.what}.",
        evidence=positions(outcome),
    )


def _left(outcome: Outcome, stopped: list[int], killed: list[int]) -> str:
    gentle = [rank for rank in stopped if rank not in killed]
    return f"{rank_list(gentle)} left the {outcome.what}, " if gentle else ""


def left_behind(outcome: Outcome) -> Diagnosis | None:
    """Spawned ranks miss what only the process that has started them has."""
    if outcome.kind is not Kind.RAISES:
        return None
    lacking = {
        rank: f.left_behind for rank, f in outcome.facts.items() if f.left_behind and rank in outcome.errors
    }
    unknown = next(filter(None, map(_NOT_IN_MAIN.search, outcome.stderr.values())), None)
    if lacking:
        error, (key, table) = outcome.errors[min(lacking)], lacking[min(lacking)]
        summary = (
            f"{capital(rank_list(lacking))} raised {error.type} at {error.where or 'an unknown line'}: {key!r} is "
            f"{f'in {table}' if table else 'a name'} of the process that has started them, and not of their own."
        )
    elif unknown is not None:
        summary = (
            f"The processes that the script has started do not know {unknown[1]}, which they were to run."
        )
    else:
        return None
    return Diagnosis(
        "left_behind_by_spawn",
        summary,
        (),
        positions(outcome),
        advice='a spawned process imports the script anew, and what stands under `if __name__ == "__main__":` is not '
        "run there: register and define at the top level of a module, or in the function that the ranks run.",
        lesson=taught_in(2),
    )


def raised(outcome: Outcome) -> Diagnosis | None:
    """Ranks raised something of their own; others may wait for them."""
    found = {rank: error for rank, error in outcome.errors.items() if outcome.endings[rank] is Ending.RAISED}
    if outcome.kind is not Kind.RAISES or not found:
        return None
    names = sorted({error.type for error in found.values()})
    summary = f"{capital(rank_list(found))} raised {' / '.join(names)}"
    if names == ["SystemExit"]:
        return _exited(outcome, found)
    waiting = blocked_in(outcome)
    if not waiting and (outcome.what == "cell" or len(found) >= len(outcome.ranks)):
        return Diagnosis("raised", f"{summary}.", tuple(found))
    advice = f"fix the exception on {rank_list(found)}"
    if waiting:
        call = call_of(next(iter(waiting.values())))
        summary += f", and {rank_list(waiting)} {verb(waiting, 'waits', 'wait')} for it in {call}. "
        summary += _how_long(outcome, found)
        advice += "; the others only wait for it"
    return Diagnosis(
        "rank_raised",
        f"{summary}.",
        tuple(found),
        positions(outcome, found),
        advice=f"{advice}.",
        lesson=taught_in(0),
    )


def _exited(outcome: Outcome, found: Mapping[int, RankError]) -> Diagnosis:
    codes = sorted({error.message or "1" for error in found.values()})
    return Diagnosis(
        "rank_exited",
        f"{capital(rank_list(found))} called sys.exit({' / '.join(codes)})"
        f" at {next(iter(found.values())).where or 'an unknown line'}.",
        tuple(found),
        positions(outcome, found),
        advice="let all ranks agree to stop (one all_reduce of a flag), and leave together.",
        lesson=taught_in(0),
    )


def _how_long(outcome: Outcome, raised: Collection[int]) -> str:
    """What ends the wait for ranks that have raised."""
    ends = f"{rank_list(raised)}'s process" if len(raised) == 1 else "their processes"
    wait = "The wait" if outcome.what == "script" else "In a script, the wait"
    return (
        f"{wait} ends in an error: with gloo when {ends} {verb(raised, 'has', 'have')} ended, with NCCL when torchrun "
        "ends the others or at the timeout"
    )


def timed_out(outcome: Outcome) -> Diagnosis | None:
    """Not proved to be a deadlock: somebody still computes."""
    if not outcome.timed_out:
        return None
    waiting = blocked_in(outcome)
    on_gpus = {rank: w for rank, w in outcome.waiting.items() if w.state == RankState.GPU}
    if on_gpus:
        return left_out_on_gpus(outcome) or waits_for_gpus(outcome, on_gpus)
    busy = {rank: w for rank, w in outcome.waiting.items() if w.state in AT_WORK}
    if waiting and busy:
        return _straggler(outcome, waiting, busy)
    late = rank_list(outcome.waiting)
    return Diagnosis(
        "timeout",
        f"{capital(late)} did not finish in time and {verb(outcome.waiting, 'was', 'were')} stopped.",
        evidence=positions(outcome),
        advice="being slow proves nothing: give the cell more time with --timeout if this was work, not a fault.",
        lesson=taught_in(0),
    )


def _straggler(outcome: Outcome, waiting: Mapping[int, Waiting], busy: Mapping[int, Waiting]) -> Diagnosis:
    first, other = next(iter(busy.values())), next(iter(waiting.values()))
    doing = f"in {first.pause[0]}" if first.state == RankState.ASLEEP and first.pause else "at work"
    place = f" at {first.where}" if first.where else ""
    return Diagnosis(
        "straggler",
        f"Not a deadlock: when the time was up, {rank_list(busy)} {verb(busy, 'was', 'were')} still "
        f"{doing}{place}, and {rank_list(waiting)} waited for {verb(busy, 'it', 'them')} in {call_of(other)} at "
        f"{other.where}{_for_long(waiting.values())}.",
        tuple(busy),
        positions(outcome, busy),
        advice="being slow proves nothing: give it more time (--timeout) if this was work, not a fault.",
        lesson=taught_in(5, 0),
    )


#: Seconds a wait is rounded down to: what is said stays the same from run to run.
_LONG = ((1, "1 s"), (2, "2 s"), (5, "5 s"), (10, "10 s"), (30, "30 s"), (60, "a minute"), (300, "5 minutes"))
_LONGER = ((600, "10 minutes"), (1800, "half an hour"), (3600, "an hour"))


def _for_long(waiting: Iterable[Waiting]) -> str:
    """` for more than 2 s`; empty where it is not known or short."""
    longest = max((w.seconds or 0.0 for w in waiting), default=0.0)
    return next(
        (f" for more than {text}" for least, text in reversed((*_LONG, *_LONGER)) if longest >= least), ""
    )


def stopped(outcome: Outcome) -> Diagnosis | None:
    """A signal has stopped a rank."""
    halted = [rank for rank, waiting in outcome.waiting.items() if waiting.state == RankState.STOPPED]
    if not halted:
        return None
    others = [rank for rank in outcome.waiting if rank not in halted]
    behind = f"; {rank_list(others)} can only wait" if others else ""
    return Diagnosis(
        "rank_stopped",
        f"{capital(rank_list(halted))} {verb(halted, 'was', 'were')} stopped by a signal{behind}.",
        tuple(halted),
        positions(outcome, halted),
        advice="the course has sent SIGCONT; look for who sends SIGSTOP (a debugger, a scheduler, Ctrl-Z).",
        lesson=taught_in(13),
    )
