"""A rank has left out one of several collectives, or issued one more: told from what these ranks did there before.

Up to the collectives that do not fit, the ranks have issued the same ones. What came next on them the last times that
they had come so far is a better witness than what most ranks do now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.loops import Loop, path_of, seen_from
from course_lib.doctor.words import capital, collective_text, positions, rank_list, steps, verb
from course_lib.outcome.outcome import Collective, Diagnosis, Outcome

Key = tuple[object, ...]
#: Of how many collectives before the last one a pattern may consist.
_LONGEST = 100


def against_the_habit(
    outcome: Outcome,
    own: tuple[Collection[int], Collective],
    other: tuple[Collection[int], Collective],
    in_a_row: bool = True,
) -> Diagnosis | None:
    """Ranks have come to a collective of the script's own, and others have come past it, or not so far.

    Args:
        own, other: ranks, and the collective they are in.
        in_a_row: where these ranks have just issued others at the very line of `own`; else where both are in one loop.
    """
    (ranks, mine), (_, theirs) = own, other
    if mine.stage or _place(mine) is None or _place(mine) == _place(theirs):
        return None
    before = _before(outcome, min(ranks), mine)
    number = _last_in_a_row(before, mine)
    in_one_loop = seen_from(path_of(theirs), path_of(mine)) is Loop.SAME
    if not (number if in_a_row else in_one_loop):
        return None
    usual = _usual(before, number)
    if usual == _key(mine):
        return _left_out(outcome, own, other, number)
    if not number:
        return None
    return _once_more(outcome, own, other, number, usual == _key(theirs))


def _left_out(
    outcome: Outcome,
    own: tuple[Collection[int], Collective],
    other: tuple[Collection[int], Collective],
    number: int,
) -> Diagnosis:
    (ranks, mine), (others, theirs) = own, other
    came = f", after {steps(number, 'call')} of it" if number else ""
    return Diagnosis(
        "skipped_collective",
        f"{capital(rank_list(others))} {verb(others, 'has', 'have')} left out {collective_text(mine)} at {mine.where}: "
        f"before, all ranks came to it at this point{came}; now {verb(others, 'it is', 'they are')} in "
        f"{collective_text(theirs)} at {theirs.where or 'an unknown line'}, and {rank_list(ranks)} "
        f"{verb(ranks, 'waits', 'wait')} in it.",
        tuple(others),
        positions(outcome, others),
        advice=_ADVICE,
        lesson=taught_in(13, 0),
    )


def _once_more(
    outcome: Outcome,
    own: tuple[Collection[int], Collective],
    other: tuple[Collection[int], Collective],
    number: int,
    unusual: bool,
) -> Diagnosis:
    (ranks, mine), (others, theirs) = own, other
    habit = (
        f"; before, all ranks went on after {steps(number, 'call')}"
        if unusual
        else ", and what is right is not known: the ranks have not come here before in the same way"
    )
    return Diagnosis(
        "extra_collective" if unusual else "different_collectives",
        f"{capital(rank_list(ranks))} {verb(ranks, 'calls', 'call')} {collective_text(mine)} at {mine.where} "
        f"{number + 1} times in a row, and {rank_list(others)} {steps(number, 'time')}: "
        f"{verb(others, 'it is', 'they are')} in {collective_text(theirs)} at {theirs.where or 'an unknown line'}"
        f"{habit}.",
        tuple(ranks) if unusual else (),
        positions(outcome, ranks if unusual else ()),
        advice=_ADVICE,
        lesson=taught_in(13, 0),
    )


_ADVICE = (
    "let every rank issue it equally often: a loop over names goes over the same ones on all ranks, and a rank that "
    "has nothing to add takes part with zeros."
)


def _before(outcome: Outcome, rank: int, like: Collective) -> list[Collective]:
    """What the ranks have issued in this group before they came apart."""
    return [r for r in outcome.recorded.get(rank, ()) if r.group == like.group and r.seq < like.seq]


def _last_in_a_row(before: Sequence[Collective], like: Collective) -> int:
    number = 0
    while number < len(before) and _place(before[-1 - number]) == _place(like):
        number += 1
    return number


def _usual(before: Sequence[Collective], number: int) -> Key | None:
    """What came next whenever the last collectives were the same as now; None where that was never so, or varied.

    Of all the places in the record that end like it, those count that are like it for longest, and for longer than the
    `number` of calls of one line at its end.
    """
    keys = [_key(record) for record in before][-4 * _LONGEST :]
    alike = {end: _common_end(keys[:end], keys) for end in range(1, len(keys))}
    longest = max(alike.values(), default=0)
    if longest <= number:
        return None
    following = {keys[end] for end, length in alike.items() if length == longest}
    return following.pop() if len(following) == 1 else None


def _common_end(one: Sequence[Key], other: Sequence[Key]) -> int:
    length = 0
    while length < min(len(one), _LONGEST) and one[-1 - length] == other[-1 - length]:
        length += 1
    return length


def _place(record: Collective) -> tuple[str, int] | None:
    return (record.origin.file, record.origin.line) if record.origin is not None else None


def _key(record: Collective) -> Key:
    return (record.op, record.stage, _place(record), record.frames)
