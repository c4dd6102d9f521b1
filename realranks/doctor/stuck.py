"""Ranks that make no progress outside communication while others wait for them, and standstills without a proof."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import LOCKED, at_line, blocked_in, rank_list, verb
from realranks.outcome.facts import NO_FACTS
from realranks.outcome.outcome import Diagnosis, Ending, Outcome, PauseKind, RankState, Waiting


def asleep_in(outcome: Outcome) -> dict[int, Waiting]:
    """Return the ranks that sleep outside of communication."""
    return {rank: waiting for rank, waiting in outcome.waiting.items() if waiting.state == RankState.ASLEEP}


def stuck_outside(outcome: Outcome) -> Diagnosis | None:
    """Detect ranks that wait for others which sleep outside communication, for a lock or a process."""
    asleep, blocked = asleep_in(outcome), blocked_in(outcome)
    kinds = [waiting.pause[1] for waiting in asleep.values() if waiting.pause is not None]
    if not asleep or len(kinds) < len(asleep) or not {PauseKind.LOCK, PauseKind.CHILD}.issuperset(kinds):
        return None
    waiting_for = {rank: w for rank, w in blocked.items() if not w.missing or asleep.keys() & set(w.missing)}
    first = next(iter(waiting_for.values()), None)
    clause = ", and {ranks} {ranks:waits} for {them} in {first}"
    waits = (
        text(clause, ranks=waiting_for, them=verb(asleep, "it", "them"), first=first) if waiting_for else ""
    )
    name = "stuck_outside.child" if kinds[0] is PauseKind.CHILD else "stuck_outside"
    return diagnosis(name, outcome, asleep, asleep=asleep, sleeps=sleeps_at(asleep.values()), waits=waits)


def locked(outcome: Outcome) -> Diagnosis | None:
    """Detect a rank that waits in C++ for a thread of its process and holds the GIL, which that thread may need."""
    inside = {rank: waiting for rank, waiting in outcome.waiting.items() if waiting.state == RankState.LOCKED}
    if not inside:
        return None
    blocked = blocked_in(outcome)
    first = next(iter(inside.values()))
    place = at_line(first.where)
    those, them = verb(inside, "that process", "those processes"), verb(inside, "it", "them")
    behind = text("; {ranks} {ranks:waits} for {them}", ranks=blocked, them=them) if blocked else ""
    words = {"place": place, "those": those, "behind": behind}
    return diagnosis("waits_with_the_gil", outcome, inside, inside=inside, **words)


def sleeps_at(asleep: Collection[Waiting]) -> str:
    """Format as `sleeps in lock.acquire() at line 3 of this cell`, one clause per place."""
    places = {(f" in {w.pause[0]}" if w.pause else "") + at_line(w.where): None for w in asleep}
    return f"sleep{'s' if len(asleep) == 1 else ''}" + " and".join(filter(None, places))


def as_probable(outcome: Outcome, found: Diagnosis) -> Diagnosis:
    """Rephrase a diagnosis as a probable deadlock, and add why it is not proved."""
    return replace(
        found,
        summary=f"Probably a deadlock: {found.summary}",
        evidence=(
            *found.evidence,
            f"Not proved: nothing has moved on any rank for seconds, but {_in_a_row(outcome.doubts)}.",
        ),
    )


def _in_a_row(doubts: tuple[str, ...], most: int = 3) -> str:
    shown = list(doubts[:most])
    if len(doubts) > most:
        return f"{', '.join(shown)}, and for {len(doubts) - most} more reasons"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def no_progress(outcome: Outcome) -> Diagnosis | None:
    """Diagnose ranks that have long issued no operation and made no step, though one is at work or seems to be."""
    if not outcome.stalled_for:
        return None
    at_work = {rank: w for rank, w in outcome.waiting.items() if w.state != RankState.BLOCKED}
    blocked = blocked_in(outcome)
    odd = tuple(at_work) if blocked else ()
    clauses = [f"{rank_list(ranks)} {what}" for what, ranks in _doing(at_work).items()]
    started = sorted({name for waiting in at_work.values() for name in waiting.children})
    if blocked:
        whom = f" for {verb(at_work, 'it', 'them')}" if at_work else ""
        waits = {"ranks": blocked, "first": next(iter(blocked.values()))}
        clauses.append(text("{ranks} {ranks:waits} in {first}", **waits) + whom)
    process = f", and at what the process that it has started ({', '.join(started)}) does" if started else ""
    words = {"seconds": outcome.stalled_for, "doing": ", and ".join(clauses), "started": process}
    return diagnosis("no_progress", outcome, odd, **words)


def _doing(at_work: dict[int, Waiting]) -> dict[str, list[int]]:
    ranks: dict[str, list[int]] = {}
    for rank, waiting in at_work.items():
        place = f" at {waiting.where}: {waiting.source}".rstrip(": ") if waiting.where else ""
        doing = {
            RankState.ASLEEP: f"asleep in {waiting.pause[0]}" if waiting.pause else RankState.ASLEEP,
            RankState.GPU: f"waiting for its GPU in {waiting.pause[0]}"
            if waiting.pause
            else "waiting for its GPU",
            RankState.LOCKED: LOCKED,
            RankState.SILENT: "not answering",
            RankState.UNHEARD: "on a machine that does not answer",
            RankState.STOPPED: "stopped by a signal",
        }.get(waiting.state, "computing")
        ranks.setdefault(f"is {doing}{place}", []).append(rank)
    return {what if len(who) == 1 else what.replace("is ", "are ", 1): who for what, who in ranks.items()}


def with_threads(outcome: Outcome, found: Diagnosis) -> Diagnosis:
    """Add which threads would keep the process of a finished rank from ending."""
    lines = []
    for rank in found.culprits:
        if outcome.endings.get(rank) is not Ending.FINISHED or rank in outcome.waiting:
            continue
        for name, place in outcome.facts.get(rank, NO_FACTS).threads:
            at = f" at {place}" if place else ""
            lines.append(
                f"rank {rank} has come to the end, and its process could not end: thread {name!r}{at} is no daemon and "
                "still runs."
            )
    return replace(found, evidence=(*found.evidence, *lines)) if lines and outcome.waiting else found
