"""A rank has left out one of several collectives, or issued one more: told from what these ranks did there before.

Up to the collectives that do not fit, the ranks have issued the same ones. What came next on them the last times that
they had come so far is a better witness than what most ranks do now.
"""

from __future__ import annotations

from collections.abc import Sequence

from realranks.doctor.counts import passes_before_calls
from realranks.doctor.hang_table import IN_A_PASS, Hang, Side, Situation
from realranks.doctor.loops import Loop, path_of, seen_from, under_or_in
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import steps
from realranks.outcome.outcome import Collective, Diagnosis, Outcome
from realranks.ranks.status import MAX_RECORDS

Key = tuple[object, ...]
#: Of how many collectives before the last one a pattern may consist.
_LONGEST = 100


def against_the_habit(hang: Hang) -> Diagnosis | None:
    """Detect that one side is in a collective which the other has left out, or has issued once more than before.

    Either that side has issued several at its line in a row and the other has moved on, or the other, in a loop around
    that line, is where it usually comes after it.
    """
    found = (_against_the_habit(hang.outcome, own, rest) for own, rest in hang.pairs)
    return next((each for each in found if each is not None), None)


def a_step_ahead(hang: Hang) -> Diagnosis | None:
    """Detect ranks that have left out a collective between two steps and are in a pass of DDP's already.

    Before it, all ranks made as many backward passes; since then these came to it, but not as often as the others.
    """
    if hang.situation is Situation.CIRCLE:
        outcome, waits = hang.outcome, [rank for rank, w in hang.blocked.items() if w.collective is not None]
        met = {rank: outcome.recorded[rank][-1] for rank in waits if outcome.recorded.get(rank)}
    else:
        outcome, met = hang.when_they_met, {rank: side.met for side in hang.sides for rank in side.ranks}
    own = {rank: record for rank, record in met.items() if not record.stage}
    ahead = {rank: record for rank, record in met.items() if record.stage in IN_A_PASS}
    if not own or not ahead or {*own, *ahead} != set(outcome.ranks):
        return None
    mine, theirs = own[min(own)], ahead[min(ahead)]
    came = {rank: passes_before_calls(outcome.recorded.get(rank, ()), mine) for rank in met}
    passes = max(came[min(own)], default=0)
    here, there = ({came[rank].count(passes) for rank in each} for each in (own, ahead))
    alike = len({record.frames for record in own.values()}) == len(here) == len(there) == 1
    fewer, more = min(there), min(here)
    if not alike or not 0 < fewer < more or any(len(outcome.recorded[rank]) >= MAX_RECORDS for rank in met):
        return None
    words = {"ranks": list(own), "others": list(ahead), "what": mine, "theirs": theirs}
    way = under_or_in(path_of(theirs), path_of(mine))
    numbers = {"fewer": steps(fewer, "time"), "more": steps(more, "time")}
    return diagnosis("skipped_collective.behind", outcome, list(ahead), under=way, **words, **numbers)


def _against_the_habit(outcome: Outcome, own: Side, other: Side) -> Diagnosis | None:
    mine, theirs = own.met, other.met
    if mine.stage or _place(mine) is None or _place(mine) == _place(theirs):
        return None
    if own.condition is not None or other.condition is not None:
        return None  # on the rank: that says more
    before = _before(outcome, min(own.ranks), mine)
    number = _last_in_a_row(before, mine)
    place = seen_from(path_of(theirs), path_of(mine))
    if not number and place not in (Loop.SAME, Loop.OUTER):
        return None
    behind_a_loop = not number and place is Loop.OUTER
    if behind_a_loop and not _whole_round(before, mine, theirs):
        return None
    usual = _key(mine) if behind_a_loop else _usual(before, number)
    way = under_or_in(path_of(theirs), path_of(mine))
    words = {"ranks": own.ranks, "what": mine, "under": way, "others": other.ranks, "theirs": theirs}
    if usual == _key(mine):
        came = f", after {steps(number, 'call')} of it" if number else ""
        return diagnosis("skipped_collective.usual", outcome, other.ranks, came=came, **words)
    if not number:
        return None
    unusual = usual == _key(theirs)
    if not unusual and seen_from(path_of(mine), path_of(theirs)) is Loop.LEFT:
        return None  # the other has left the loop: that says more
    kind = "extra_collective.in_a_row" if unusual else "different_collectives.in_a_row"
    numbers = {"times": number + 1, "often": steps(number, "time"), "calls": steps(number, "call")}
    return diagnosis(kind, outcome, own.ranks if unusual else (), **words, **numbers)


def _before(outcome: Outcome, rank: int, like: Collective) -> list[Collective]:
    """Return what this rank issued in the group of `like` before the ranks diverged."""
    return [r for r in outcome.recorded.get(rank, ()) if r.group == like.group and r.seq < like.seq]


def _last_in_a_row(before: Sequence[Collective], like: Collective) -> int:
    number = 0
    while number < len(before) and _key(before[-1 - number]) == _key(like):
        number += 1
    return number


def _usual(before: Sequence[Collective], number: int) -> Key | None:
    """Predict the next collective from earlier places in the record that end like it; None where these disagree.

    Only the places with the longest common ending count, and only if it is longer than `number`, the run of calls of
    one line at the end of the record.
    """
    keys = [_key(record) for record in before][-4 * _LONGEST :]
    alike = {end: _common_end(keys[:end], keys) for end in range(1, len(keys))}
    longest = max(alike.values(), default=0)
    if longest <= number:
        return None
    following = {keys[end] for end, length in alike.items() if length == longest}
    return following.pop() if len(following) == 1 else None


def _whole_round(before: Sequence[Collective], like: Collective, inner: Collective) -> bool:
    """Check that a rank came as often to what is in a loop as between all its earlier calls behind that loop."""
    times = [0]
    for key in map(_key, before):
        if key == _key(like):
            times.append(0)
        times[-1] += key == _key(inner)
    if len(before) >= MAX_RECORDS - 1:
        del times[0]  # its beginning is no longer known
    return len(times) > 1 and len(set(times)) == 1


def _common_end(one: Sequence[Key], other: Sequence[Key]) -> int:
    length = 0
    while length < min(len(one), _LONGEST) and one[-1 - length] == other[-1 - length]:
        length += 1
    return length


def _place(record: Collective) -> tuple[str, int] | None:
    return (record.origin.file, record.origin.line) if record.origin is not None else None


def _key(record: Collective) -> Key:
    return (record.op, record.stage, _place(record), record.frames)
