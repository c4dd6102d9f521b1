"""The doctor's first rules: who is missing from which collective, and why.

Each rule is a function from an outcome to a diagnosis or None; the first that fits speaks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from course_lib.ranks.fold import fold, rank_label, rank_list
from course_lib.ranks.outcome import Diagnosis, Ending, Kind, Outcome, Waiting, exit_text

_FIRST_RANKS = "lesson 00, Your first ranks"


def explained(outcome: Outcome) -> Outcome:
    """The same outcome with its diagnosis filled in."""
    return dataclasses.replace(outcome, diagnosis=diagnose(outcome))


def diagnose(outcome: Outcome) -> Diagnosis | None:
    """Why the run did not simply end well; None when it did."""
    if outcome.kind is Kind.OK and not outcome.interrupted:
        return None
    for rule in _RULES:
        found = rule(outcome)
        if found is not None:
            return found
    return Diagnosis(
        "unknown",
        f"{rank_list(outcome.waiting or outcome.ranks).capitalize()} did not finish, and nothing here says why.",
        evidence=_positions(outcome),
    )


def _call(waiting: Waiting) -> str:
    """The call in the reader's words."""
    names = {
        "backward": "backward() (DDP's gradient all-reduce)",
        "forward": "forward() (DDP's broadcast of the buffers)",
        "wait": "wait()",
        "send": "send()",
        "recv": "recv()",
    }
    call = waiting.call or ""
    return names.get(call, call if call.endswith(")") else f"{call}()")


def _positions(outcome: Outcome) -> tuple[str, ...]:
    """One line a group of ranks: what each is doing, or how its part ended."""
    texts: dict[int, str] = {}
    for rank in outcome.ranks:
        waiting = outcome.waiting.get(rank)
        if waiting is None:
            texts[rank] = _ending(outcome, rank)
        elif waiting.state == "stopped":
            texts[rank] = "stopped by a signal (SIGSTOP): it cannot do anything until somebody continues it"
        elif waiting.state == "silent":
            place = f" at {waiting.where}" if waiting.where else ""
            texts[rank] = f"not answering{place}: busy in code that never lets other threads run"
        elif waiting.state == "computing":
            place = f" at {waiting.where}: {waiting.source}".rstrip(": ") if waiting.where else ""
            texts[rank] = f"computing{place}"
        else:
            texts[rank] = f"waiting in {_call(waiting)} at {waiting.where}: {waiting.source}".rstrip(": ")
    for rank in range(outcome.world_size):
        if rank not in outcome.ranks:
            texts[rank] = "not in this cell"
    rows = fold(texts)
    width = max(len(rank_label(row.ranks)) for row in rows)
    return tuple(f"{rank_label(row.ranks):<{width}}  {row.text}" for row in rows)


def _ending(outcome: Outcome, rank: int) -> str:
    error = outcome.errors.get(rank)
    match outcome.endings.get(rank):
        case Ending.DIED:
            return f"died ({exit_text(outcome.exits.get(rank, 0))})"
        case Ending.RAISED if error is not None:
            return f"raised {error.type} at {error.where}" if error.where else f"raised {error.type}"
        case Ending.FREED if error is not None:
            return f"lost the connection at {error.where}" if error.where else "lost the connection"
        case Ending.KILLED:
            return "could not be freed and was ended"
        case _:
            return "finished the cell"


def _died(outcome: Outcome) -> Diagnosis | None:
    if not outcome.exits:
        return None
    dead = tuple(outcome.exits)
    how = "; ".join(sorted({exit_text(code) for code in outcome.exits.values()}))
    others = [rank for rank in outcome.ranks if rank not in dead]
    noticed = [rank for rank in others if outcome.endings.get(rank) is Ending.FREED]
    summary = f"{rank_list(dead).capitalize()} died ({how})"
    if noticed:
        summary += f"; {rank_list(noticed)} noticed at once, because the connection broke"
    return Diagnosis(
        "rank_died",
        summary + ".",
        culprits=dead,
        evidence=_positions(outcome),
        advice=_why_died(outcome) + " The gang is gone with it; the next %%ranks starts a new one.",
        lesson=_FIRST_RANKS,
    )


def _why_died(outcome: Outcome) -> str:
    codes = set(outcome.exits.values())
    if -9 in codes:
        return "a SIGKILL that nobody sent on purpose is usually the system's out-of-memory killer."
    if any("doesn't match expected size" in text for text in outcome.stderr.values()):
        return (
            "gloo ends a rank that receives more than it expects: the ranks met in a collective with different sizes, "
            "types or operations. Every rank must issue the same ones."
        )
    if codes & {-6, -11}:
        return "a crash in C++ code (SIGABRT, SIGSEGV): what it printed on stderr names the place."
    if any(code < 0 for code in codes):
        return "look for who sends that signal: a scheduler, a limit, somebody else's kill."
    return "look for a call of os._exit, or what its stderr says."


def _interrupted(outcome: Outcome) -> Diagnosis | None:
    if not outcome.interrupted:
        return None
    stopped = [rank for rank in outcome.ranks if outcome.endings.get(rank) is not Ending.FINISHED]
    killed = [rank for rank in outcome.ranks if outcome.endings.get(rank) is Ending.KILLED]
    end = "they keep their variables"
    if killed:
        end = f"{rank_list(killed)} could not be freed and was ended: the next %%ranks starts a new gang"
    return Diagnosis(
        "interrupted",
        f"You pressed stop; {rank_list(stopped)} left the cell, {end}."
        if stopped
        else "You pressed stop when every rank had just finished the cell.",
        evidence=_positions(outcome),
    )


def _raised(outcome: Outcome) -> Diagnosis | None:
    raised = {rank: error for rank, error in outcome.errors.items() if outcome.endings[rank] is Ending.RAISED}
    if outcome.kind is not Kind.RAISES or not raised:
        return None
    names = sorted({error.type for error in raised.values()})
    summary = f"{rank_list(raised).capitalize()} raised {' / '.join(names)}"
    left = [waiting for waiting in outcome.waiting.values() if waiting.state == "blocked"]
    if left:
        waiters = [waiting.rank for waiting in left]
        verb = "waits" if len(waiters) == 1 else "wait"
        summary += (
            f", and {rank_list(waiters)} {verb} for it in {_call(left[0])}: in a script, until the timeout"
        )
        return Diagnosis(
            "rank_raised", summary + ".", tuple(raised), _positions(outcome), lesson=_FIRST_RANKS
        )
    return Diagnosis("raised", summary + ".", tuple(raised))


def _timed_out(outcome: Outcome) -> Diagnosis | None:
    if not outcome.timed_out:
        return None
    late = rank_list(outcome.waiting)
    return Diagnosis(
        "timeout",
        f"{late.capitalize()} did not finish in time and was stopped."
        if len(outcome.waiting) == 1
        else f"{late.capitalize()} did not finish in time and were stopped.",
        evidence=_positions(outcome),
        advice="being slow proves nothing: give the cell more time with --timeout if this was work, not a fault.",
        lesson=_FIRST_RANKS,
    )


def _stopped(outcome: Outcome) -> Diagnosis | None:
    stopped = [rank for rank, waiting in outcome.waiting.items() if waiting.state == "stopped"]
    if not stopped:
        return None
    verb = "was" if len(stopped) == 1 else "were"
    others = [rank for rank in outcome.waiting if rank not in stopped]
    behind = f"; {rank_list(others)} can only wait" if others else ""
    return Diagnosis(
        "rank_stopped",
        f"{rank_list(stopped).capitalize()} {verb} stopped by a signal{behind}.",
        tuple(stopped),
        _positions(outcome),
        advice="the course has sent SIGCONT; look for who sends SIGSTOP (a debugger, a scheduler, Ctrl-Z).",
    )


def _different_collectives(outcome: Outcome) -> Diagnosis | None:
    for waiting in outcome.waiting.values():
        if waiting.mismatch and waiting.collective is not None:
            _other, met = next(iter(waiting.mismatch.items()))
            by_op: dict[str, list[int]] = {str(waiting.collective): [waiting.rank]}
            for rank, collective in waiting.mismatch.items():
                by_op.setdefault(str(collective), []).append(rank)
            for rank, also in outcome.waiting.items():
                if also.collective is not None and rank not in {r for ranks in by_op.values() for r in ranks}:
                    by_op.setdefault(str(also.collective), []).append(rank)
            same_op = met.op == waiting.collective.op
            what = "the same collective with different sizes or types" if same_op else "different collectives"
            sides = "; ".join(
                f"{rank_list(ranks)}: {op}" for op, ranks in sorted(by_op.items(), key=lambda e: e[1])
            )
            fewest = min(by_op.values(), key=len)
            culprits = tuple(sorted(fewest)) if len(fewest) * 2 < outcome.world_size else ()
            return Diagnosis(
                "different_sizes" if same_op else "different_collectives",
                f"Ranks meet in {what} and wait for each other: {sides}.",
                culprits,
                _positions(outcome),
                advice="every rank must issue the same collectives in the same order, with equal shapes and types.",
                lesson=_FIRST_RANKS,
            )
    return None


def _rank_left(outcome: Outcome) -> Diagnosis | None:
    if outcome.kind is not Kind.HANG:
        return None
    blocked = {rank: waiting for rank, waiting in outcome.waiting.items() if waiting.state == "blocked"}
    missing = sorted({rank for waiting in blocked.values() for rank in waiting.missing})
    gone = [rank for rank in missing if rank not in blocked]
    if not blocked:
        return None
    first = next(iter(blocked.values()))
    waiters = rank_list(blocked)
    verb = "waits" if len(blocked) == 1 else "wait"
    if gone:
        idle = [rank for rank in gone if rank not in outcome.ranks]
        left = "does not run this cell" if idle == gone else "has left the cell without joining"
        if len(gone) > 1:
            left = left.replace("does", "do").replace("has", "have")
        return Diagnosis(
            "rank_left",
            f"{waiters.capitalize()} {verb} in {_call(first)} at {first.where} for {rank_list(gone)}, which {left}.",
            tuple(gone),
            _positions(outcome),
            advice="make every rank of the group reach this call, or none.",
            lesson=_FIRST_RANKS,
        )
    if missing:
        return Diagnosis(
            "waiting_in_a_circle",
            "The ranks wait for each other in different places: none can go on.",
            (),
            _positions(outcome),
            advice="every rank must issue the same collectives in the same order.",
            lesson=_FIRST_RANKS,
        )
    return Diagnosis(
        "nobody_answers",
        f"{waiters.capitalize()} {verb} in {_call(first)} at {first.where} for something no other rank will send.",
        (),
        _positions(outcome),
        advice="look for the rank that should have sent, stored or joined, and did not.",
        lesson=_FIRST_RANKS,
    )


_RULES: tuple[Callable[[Outcome], Diagnosis | None], ...] = (
    _died,
    _interrupted,
    _raised,
    _timed_out,
    _stopped,
    _different_collectives,
    _rank_left,
)
