"""Ranks that wait for others which have left the code, for each other in a circle, or for what no rank does."""

from __future__ import annotations

from realranks.doctor.counts import calls_of_line
from realranks.doctor.ddp_passes import steps_apart, uneven
from realranks.doctor.hang_table import Hang, to_a_rank
from realranks.doctor.notes import notes_of
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.stops import stopped_early
from realranks.doctor.words import standing, steps
from realranks.outcome.facts import NO_FACTS
from realranks.outcome.outcome import EXIT_UNKNOWN, Collective, Diagnosis, exit_text
from realranks.outcome.probe_notes import MAX_LOADERS
from realranks.ranks.status import MAX_RECORDS

#: More who wait for whom than these are not read any more.
_MAX_CLAUSES = 4


def messages_that_do_not_meet(hang: Hang) -> Diagnosis | None:
    """Detect a rank that sends to one which waits for its message with another tag or in another group."""
    for rank, sender in hang.blocked.items():
        sent = sender.partners
        receiver = hang.blocked.get(sent.to) if sent is not None and sent.to is not None else None
        wanted = receiver.partners if receiver is not None else None
        if sent is None or receiver is None or wanted is None or wanted.call not in ("recv", "irecv"):
            continue
        if wanted.source in (rank, None) and not wanted.meets(sent):
            kind = "different_tags" if sent.tag != wanted.tag else "different_groups.of_messages"
            words = {"sender": sender.rank, "receiver": receiver.rank, "sends": sender, "receives": receiver}
            return diagnosis(kind, hang.outcome, sent=sent.tag, wanted=wanted.tag, **words)
    return None


def each_for_another(hang: Hang) -> Diagnosis | None:
    """Detect sends and receives whose partner waits for yet another rank, or has left."""
    gone = hang.other.ranks
    if not all(map(to_a_rank, hang.blocked.values())) or set(gone).isdisjoint(hang.outcome.ranks):
        return None
    halves = {
        "receiving it" if w.partners is not None and w.partners.to is not None else "sending it"
        for w in hang.blocked.values()
        if set(w.missing) & set(gone)
    }
    half = halves.pop() if len(halves) == 1 else "the other half"
    waits = "; ".join(standing(hang.blocked, for_whom=True))
    words = {"waits": waits, "code": hang.outcome.what, "half": half}
    return diagnosis("nobody_answers.left", hang.outcome, gone, gone=gone, **words)


def rank_left(hang: Hang) -> Diagnosis:
    """Report that the awaited ranks have left the code, or that it never ran on them."""
    outcome, gone = hang.outcome, hang.other.ranks
    if _in_a_pass_over_data(hang) and stopped_early(notes_of(outcome), gone, hang.one.ranks):
        far = steps_apart(outcome, gone, hang.first.rank, hang.one.met)
        return uneven(outcome, gone, hang.one.ranks, far, text("{first}", first=hang.first))
    idle = [rank for rank in gone if rank not in outcome.ranks]
    ways = []
    if idle:
        ways.append(f"{{gone:does}} not run this {outcome.what}")
    if tuple(idle) != gone:
        ways.append(f"{{gone:has}} left the {outcome.what} without joining")
    how = text(" or ".join(ways), gone=gone) + _times(hang)
    words = {"ranks": hang.one.ranks, "first": hang.first, "gone": gone, "how": how}
    met = _unlike_calls(hang) if not idle else ()
    if met:
        return diagnosis("rank_left.parted", outcome, gone, mine=met[0], theirs=met[1], **words)
    return diagnosis("rank_left", outcome, gone, **words)


def _unlike_calls(hang: Hang) -> tuple[Collective, ...]:
    """Return the first calls of the script's own, on the ranks that wait and on the others, that fit by chance.

    Where neither side ever comes to the line of the other, these may be the two branches of an `if`, and meet rightly.
    """
    if hang.one.collective is None:
        return ()
    records = [hang.outcome.recorded.get(side.ranks[0], ()) for side in (hang.one, hang.other)]
    if any(len(each) >= MAX_RECORDS for each in records):
        return ()
    group, last = hang.one.met.group, hang.one.met.seq
    one, two = ({r.seq: r for r in each if r.group == group and r.seq < last} for each in records)
    ways = [{record.frames for record in each} for each in records]
    for mine, theirs in ((one[number], two[number]) for number in sorted(one.keys() & two.keys())):
        by_chance = mine.frames in ways[1] or theirs.frames in ways[0]
        if mine.frames != theirs.frames and by_chance:
            return () if mine.stage or theirs.stage else (mine, theirs)
    return ()


def _times(hang: Hang) -> str:
    """Describe how often the ranks came to this line, if it is in a loop."""
    if hang.one.collective is None:
        return ""
    gone = hang.other.ranks
    calls = calls_of_line(hang.outcome, hang.one.collective)
    absent = {calls.get(rank, 0) for rank in gone}
    here = calls.get(hang.first.rank, 0)
    if len(absent) != 1 or here <= 1 or not max(absent):
        return ""
    words = {"there": steps(absent.pop(), "time"), "first": [hang.first.rank], "here": steps(here, "time")}
    return text(" ({gone:it} came to this line {there}, and {first} came {here})", gone=gone, **words)


def _in_a_pass_over_data(hang: Hang) -> bool:
    """Check that the ranks that have left came to this line more often than they have begun passes over their data."""
    if hang.one.collective is None:
        return False
    calls, notes = calls_of_line(hang.outcome, hang.one.collective), notes_of(hang.outcome)
    return all(
        rank in notes
        and len(notes[rank].loaders) < MAX_LOADERS
        and calls.get(rank, 0) > sum(loader.passes for loader in notes[rank].loaders)
        for rank in hang.other.ranks
    )


def rank_died(hang: Hang) -> Diagnosis | None:
    """Detect ranks that wait for ended processes and were not freed, because they are only observed from outside."""
    outcome, gone = hang.outcome, [rank for rank in hang.other.ranks if rank in hang.outcome.exits]
    if not gone or not outcome.from_outside:
        return None
    codes = {outcome.exits[rank] for rank in gone}
    how = text("{gone:has} no process here any more", gone=gone)
    if codes != {EXIT_UNKNOWN}:
        how = text("{gone:has} died ({codes})", gone=gone, codes="; ".join(sorted(map(exit_text, codes))))
    return diagnosis(
        "rank_left.died", outcome, gone, ranks=hang.one.ranks, first=hang.first, gone=gone, how=how
    )


def in_the_same_call(hang: Hang) -> Diagnosis | None:
    """Report that all observed ranks wait at one line, where their arguments cannot be read from outside."""
    if not hang.outcome.from_outside or len(hang.blocked) < 2 or hang.first.collective is None:
        return None
    return diagnosis("nobody_answers.at_one_line", hang.outcome, ranks=hang.one.ranks, first=hang.first)


def in_different_groups(hang: Hang) -> Diagnosis | None:
    """Detect that all ranks are in one collective at one line, but in different groups of the same members."""
    records = [w.collective for w in hang.blocked.values() if w.collective is not None]
    groups = {record.group for record in records}
    facts = [hang.outcome.facts.get(rank, NO_FACTS) for rank in hang.blocked]
    members = {each.groups.get(group) for each in facts for group in groups}
    calls = {(record.op, record.sizes) for record in records}
    lines = {w.where for w in hang.blocked.values()}
    if len(groups) < 2 or not len(members) == len(calls) == len(lines) == 1:
        return None
    return diagnosis("different_groups", hang.outcome, where=lines.pop())


def some_wait_for_no_rank(hang: Hang) -> Diagnosis | None:
    """Detect ranks that wait for a key or a message nobody has sent, while the others wait for them."""
    alone = {
        rank: w
        for rank, w in hang.blocked.items()
        if not w.missing and w.collective is None and "send" not in (w.call or "")
    }
    others = {rank: w for rank, w in hang.blocked.items() if rank not in alone}
    if not alone or not others or not all(w.missing for w in others.values()):
        return None
    words = {"places": "; ".join(standing(alone)), "waits": "; ".join(standing(others))}
    return diagnosis("nobody_answers.some", hang.outcome, **words)


def waiting_in_a_circle(hang: Hang) -> Diagnosis:
    """Report that all ranks wait for others that wait as well."""
    clauses = standing(hang.blocked, for_whom=True)
    waits = "; ".join(clauses if len(clauses) <= _MAX_CLAUSES else standing(hang.blocked))
    kind = (
        "waiting_in_a_circle.of_messages"
        if all(map(to_a_rank, hang.blocked.values()))
        else "waiting_in_a_circle"
    )
    return diagnosis(kind, hang.outcome, waits=waits)


def nobody_answers(hang: Hang) -> Diagnosis:
    """Report that all ranks wait for something that no rank does."""
    kind = "nobody_answers.sent" if "send" in (hang.first.call or "") else "nobody_answers"
    return diagnosis(kind, hang.outcome, ranks=hang.one.ranks, first=hang.first)
