"""Ranks that raised, exited, were killed, crashed, were stopped, or did not finish in time."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from course_lib.doctor.conditions import rank_condition
from course_lib.doctor.drift import swallowed_error
from course_lib.doctor.lessons import taught_in
from course_lib.doctor.mismatches import aborted, and_died
from course_lib.doctor.own_collectives import at_end_of_join, own_inside_join
from course_lib.doctor.words import (
    blocked_in,
    call_of,
    capital,
    collective_text,
    positions,
    rank_list,
    verb,
)
from course_lib.outcome.outcome import (
    AT_WORK,
    EXIT_CUT_OFF,
    Collective,
    Diagnosis,
    Ending,
    Kind,
    Outcome,
    Waiting,
    exit_text,
)
from course_lib.outcome.places import Frame
from course_lib.ranks import nccl_counts

_CRASHES = {-4, -6, -7, -8, -11}
#: Of a rank that has closed its own descriptors, gloo or the course notices first; for the learner it is one thing.
_BROUGHT_DOWN = _CRASHES | {EXIT_CUT_OFF}
#: What gloo says before it ends a rank that receives more bytes than it expects.
_GLOO_MISMATCH = re.compile(r"op\.preamble\.length <= op\.nbytes|doesn't match expected size")
#: What gloo says when its descriptor for waiting is gone.
_NO_DESCRIPTOR = re.compile(r"nfds != -1")


def died(outcome: Outcome) -> Diagnosis | None:
    """A rank's process ended before its part did."""
    if not outcome.exits:
        return None
    dead = tuple(outcome.exits)
    if any(_GLOO_MISMATCH.search(outcome.stderr.get(rank, "")) for rank in dead):
        found = swallowed_error(outcome) or aborted(outcome, dead)
        if found is not None:
            return replace(found, advice=found.advice + _gone(outcome))
        found = _met_a_mismatch(outcome, dead)
        if found is not None:
            return found
    codes = set(outcome.exits.values())
    kind = "rank_crashed" if codes & _BROUGHT_DOWN else "rank_killed" if min(codes) < 0 else "rank_exited"
    how = "; ".join(sorted({exit_text(code) for code in codes}))
    stack = outcome.last_places.get(dead[0]) if kind == "rank_crashed" else None
    place = f" at {stack[-1].where()}" if stack else ""
    left = [rank for rank in outcome.ranks if outcome.endings.get(rank) is Ending.FREED and rank not in dead]
    # A collective does not connect every rank with every other: some wait for one that has been told, and is elsewhere.
    untold = [rank for rank in left if rank in outcome.waiting]
    noticed = [rank for rank in left if rank not in untold]
    also = f"; {rank_list(noticed)} noticed at once, because the connection broke" if noticed else ""
    if noticed and untold:
        also += f"; {rank_list(untold)} {verb(untold, 'waits', 'wait')} for {rank_list(noticed)}"
    return Diagnosis(
        kind,
        f"{capital(rank_list(dead))} died ({how}){place}{also}.",
        dead,
        positions(outcome, dead),
        advice=_why(outcome, codes) + _gone(outcome),
        lesson=taught_in(13, 0),
    )


def _gone(outcome: Outcome) -> str:
    if outcome.what == "cell":
        return " The gang is gone with it; the next %%ranks starts a new one."
    return ""


def _why(outcome: Outcome, codes: Iterable[int]) -> str:
    codes = set(codes)
    closed = any(_NO_DESCRIPTOR.search(text) for text in outcome.stderr.values())
    if closed or EXIT_CUT_OFF in codes:
        return (
            "its code has closed, or written to, descriptors that are not its own (os.closerange does that): the "
            "connection to the notebook is one of them. Or it has replaced something of Python's own that every rank "
            "needs (builtins.len, for example)."
        )
    if -9 in codes:
        return "a SIGKILL that nobody sent on purpose is usually the system's out-of-memory killer."
    if any(_GLOO_MISMATCH.search(text) for text in outcome.stderr.values()):
        return (
            "gloo ends a rank that receives more than it expects: the ranks met in a collective with different sizes, "
            "types or operations. Every rank must issue the same ones."
        )
    if codes & _CRASHES:
        return "this is a crash in C++ code: look at the line, and at what it printed on stderr."
    if any(code < 0 for code in codes):
        return "look for who sends that signal: a scheduler, a limit, somebody else's kill."
    return "look for a call of os._exit, or what its stderr says."


def _met_a_mismatch(outcome: Outcome, dead: tuple[int, ...]) -> Diagnosis | None:
    """gloo has ended a rank because of what it received: where was it, and where were the others?"""
    stack = outcome.last_places.get(dead[0])
    at = stack[-1] if stack else None
    meeting = [(rank, record) for rank in outcome.ranks if (record := _under_way(outcome, rank)) is not None]
    others = [(rank, record) for rank, record in meeting if rank not in dead]
    if at is None or not others:
        return None
    if at_end_of_join(at):
        found = own_inside_join(outcome, dead)
        if found is not None:
            return replace(and_died(found, dead), advice=found.advice + _gone(outcome))
    there = [rank for rank, record in others if record.origin is not None and _elsewhere(record.origin, at)]
    if not there:
        kind, what = "different_sizes", "the same line with different sizes or types"
    else:
        kind, what = "different_collectives", "different collectives"
    other = next(record for rank, record in others if not there or rank in there)
    condition = rank_condition(at.file, at.line) if kind == "different_collectives" else None
    culprits = dead if there and len(dead) < len(there) else ()
    if condition is not None:
        kind, culprits = "rank_only_collective", dead
    because = f" (under `{condition}`)" if condition else ""
    return Diagnosis(
        kind,
        f"{capital(rank_list(dead))} died (gloo aborts a rank that receives more than it expects): the ranks met in "
        f"{what}. {capital(rank_list(dead))} {verb(dead, 'was', 'were')} at {at.where()}: "
        f"{at.source.rstrip(':')}{because}; "
        f"{rank_list(rank for rank, _ in others)} in {collective_text(other)} at {other.where or 'an unknown line'}.",
        culprits,
        positions(outcome, culprits),
        advice="every rank must issue the same collectives in the same order, with equal shapes and types."
        + _gone(outcome),
        lesson=taught_in(13, 0),
    )


def _elsewhere(one: Frame, other: Frame) -> bool:
    return (one.file, one.line) != (other.file, other.line)


def _under_way(outcome: Outcome, rank: int) -> Collective | None:
    open_ones = [record for record in outcome.recorded.get(rank, ()) if not record.done]
    if open_ones:
        return open_ones[0]
    records = outcome.recorded.get(rank, ())
    return records[-1] if records else None


def interrupted(outcome: Outcome) -> Diagnosis | None:
    """The stop button was pressed."""
    if not outcome.interrupted:
        return None
    stopped = [rank for rank in outcome.ranks if outcome.endings.get(rank) is not Ending.FINISHED]
    killed = [rank for rank in outcome.ranks if outcome.endings.get(rank) is Ending.KILLED]
    end = "they keep their variables"
    if killed:
        end = (
            f"{rank_list(killed)} could not be freed and {verb(killed, 'was', 'were')} ended. The variables of all "
            "ranks are lost: the next %%ranks starts a new gang"
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


def raised(outcome: Outcome) -> Diagnosis | None:
    """Ranks raised something of their own; others may wait for them."""
    found = {rank: error for rank, error in outcome.errors.items() if outcome.endings[rank] is Ending.RAISED}
    if outcome.kind is not Kind.RAISES or not found:
        return None
    names = sorted({error.type for error in found.values()})
    summary = f"{capital(rank_list(found))} raised {' / '.join(names)}"
    if names == ["SystemExit"]:
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
    waiting = blocked_in(outcome)
    if waiting:
        first = next(iter(waiting.values()))
        summary += (
            f", and {rank_list(waiting)} {verb(waiting, 'waits', 'wait')} for it in {call_of(first)}. "
            + _how_long(outcome, found)
        )
        kind = "rank_raised"
    else:
        kind = "rank_raised" if len(found) < len(outcome.ranks) else "raised"
        if kind == "rank_raised" and outcome.what == "cell":
            return Diagnosis("raised", summary + ".", tuple(found))
    if kind == "raised":
        return Diagnosis(kind, summary + ".", tuple(found))
    return Diagnosis(
        kind,
        summary + ".",
        tuple(found),
        positions(outcome, found),
        advice=f"fix the exception on {rank_list(found)}{'; the others only wait for it' if waiting else ''}.",
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
    on_gpus = {rank: w for rank, w in outcome.waiting.items() if w.state == "gpu"}
    if on_gpus:
        return left_out_on_gpus(outcome) or _waits_for_gpus(outcome, on_gpus)
    busy = {rank: w for rank, w in outcome.waiting.items() if w.state in AT_WORK}
    if waiting and busy:
        first, other = next(iter(busy.values())), next(iter(waiting.values()))
        doing = f"in {first.pause[0]}" if first.state == "asleep" and first.pause else "at work"
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
    late = rank_list(outcome.waiting)
    return Diagnosis(
        "timeout",
        f"{capital(late)} did not finish in time and {verb(outcome.waiting, 'was', 'were')} stopped.",
        evidence=positions(outcome),
        advice="being slow proves nothing: give the cell more time with --timeout if this was work, not a fault.",
        lesson=taught_in(0),
    )


def left_out_on_gpus(outcome: Outcome) -> Diagnosis | None:
    """Ranks wait for their GPUs, which have not finished a collective of NCCL's that others have never issued."""
    lacking = {rank: w for rank, w in outcome.waiting.items() if w.state == "gpu" and w.missing}
    if not lacking:
        return None
    first = next(iter(lacking.values()))
    call = f" in {first.pause[0]}" if first.pause else ""
    place = f" at {first.where}" if first.where else ""
    what = "a collective"
    if first.collective is not None:
        what = f"{first.collective}{f' at {first.collective.where}' if first.collective.where else ''}"
    whose = "whose GPU has" if len(lacking) == 1 else "whose GPUs have"
    missing = f"{rank_list(first.missing)} {verb(first.missing, 'has', 'have')}"
    return Diagnosis(
        "waits_for_gpu",
        f"{capital(rank_list(lacking))}, {whose} not finished {what}, {verb(lacking, 'waits', 'wait')}{call}{place}: "
        f"{missing} never issued that collective.",
        first.missing,
        positions(outcome, first.missing),
        advice=f"find out why {rank_list(first.missing)} {verb(first.missing, 'leaves', 'leave')} it out. NCCL's "
        "collectives return at once, so that the line that waits is not the one that hangs.",
        lesson=taught_in(13),
    )


def _waits_for_gpus(outcome: Outcome, waiting: Mapping[int, Waiting]) -> Diagnosis:
    first = next(iter(waiting.values()))
    call = f" in {first.pause[0]}" if first.pause else ""
    place = f" at {first.where}" if first.where else ""
    whose = "its GPU" if len(waiting) == 1 else "their GPUs"
    who = f"{rank_list(waiting)} {verb(waiting, 'was', 'were')}"
    summary = f"When the time was up, {who} waiting for {whose}{call}{place}. "
    apart = nccl_counts.apart({rank: facts.issued for rank, facts in outcome.facts.items()})
    if apart:
        counts = next(iter(apart.values()))
        behind = tuple(rank for rank, number in counts.items() if number == min(counts.values()))
        return Diagnosis(
            "waits_for_gpu",
            f"{summary}{capital(nccl_counts.sentence(counts))}: probably the GPUs wait for {rank_list(behind)}.",
            behind,
            positions(outcome, behind),
            advice=f"find the collective that {rank_list(behind)} {verb(behind, 'leaves', 'leave')} out. NCCL's return "
            "at once, so that the line that waits is not the one that hangs; with --backend gloo the same code on CPU "
            "tensors stops where it hangs.",
            lesson=taught_in(13),
        )
    return Diagnosis(
        "waits_for_gpu",
        f"{summary}What a GPU waits for cannot be seen: it may still compute, or be in an NCCL collective that another "
        "rank has not joined.",
        evidence=positions(outcome),
        advice="compare which collectives each rank issued before that line: NCCL's return at once, so that the line "
        "that waits is not the one that hangs. With --backend gloo the same code on CPU tensors stops where it hangs. "
        "If it is work, give it more time (--timeout).",
        lesson=taught_in(13),
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
    halted = [rank for rank, waiting in outcome.waiting.items() if waiting.state == "stopped"]
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
