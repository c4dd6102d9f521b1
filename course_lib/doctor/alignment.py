"""Lay the ranks' sequences of collectives side by side: which one has a rank left out, or issued alone?

Collectives of a group are matched by their number. A rank that leaves one out brings each later one under a number too
low, so that the ranks stick at a line that is innocent; the one to name is the first that has no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from course_lib.doctor.conditions import condition_of, under
from course_lib.doctor.counts import calls_of_line
from course_lib.doctor.sentences import diagnosis
from course_lib.doctor.sides import Hang
from course_lib.doctor.words import lines_of, located, rank_list, steps
from course_lib.outcome.facts import NO_FACTS
from course_lib.outcome.outcome import Collective, Diagnosis, Outcome


def left_out(mine: Sequence[Collective], theirs: Sequence[Collective]) -> tuple[Collective, ...]:
    """What `theirs` has and `mine` lacks, when that alone sets them apart; empty when it does not.

    What follows the last collective that both have says nothing: one of the two may be stuck before it.
    """
    ours = [_key(record) for record in mine]
    between = SequenceMatcher(None, ours, [_key(r) for r in theirs], autojunk=False).get_opcodes()
    last = max((place for place, (tag, *_) in enumerate(between) if tag == "equal"), default=-1)
    after = {key for _, start, end, *_ in between[last + 1 :] for key in ours[start:end]}
    found = [
        record for tag, _, _, start, end in between[:last] if tag == "insert" for record in theirs[start:end]
    ]
    exchanged = any(tag in ("replace", "delete") for tag, *_ in between[:last])
    if exchanged or any(_key(record) in after for record in found):
        return ()  # in another order
    return tuple(found)


def out_of_step(
    outcome: Outcome, group: str, first: int, ranks: tuple[int, ...], others: tuple[int, ...]
) -> Diagnosis | None:
    """Ranks that meet in different collectives from number `first` on, because one side has left out what others have.

    Args:
        ranks, others: the two sides.
    """
    one, two = (_sequence(outcome, side[0], group, first) for side in (ranks, others))
    lacking = left_out(one, two)
    if lacking:
        return _said(outcome, group, ranks, others, lacking)
    lacking = left_out(two, one)
    return _said(outcome, group, others, ranks, lacking) if lacking else None


def threads_share_a_group(hang: Hang) -> Diagnosis | None:
    """Two threads of a rank issue collectives of the group in which the sides meet."""
    return threads_share(hang.outcome, hang.one.met.group)


def threads_share(outcome: Outcome, group: str) -> Diagnosis | None:
    """Two threads of a rank issue collectives of one group: from which number on do they come in another order?"""
    issued = {rank: {r.seq: r for r in _sequence(outcome, rank, group, 0)} for rank in outcome.ranks}
    issued = {rank: records for rank, records in issued.items() if records}
    for number in sorted(set.intersection(*map(set, issued.values())) if issued else ()):
        met = {rank: records[number] for rank, records in issued.items()}
        if len({bool(record.thread) for record in met.values()}) > 1:
            lines = {
                rank: f"number {number} of the group is {located(record)}, "
                f"in {'a' if record.thread else 'the main'} thread"
                for rank, record in met.items()
            }
            inside = [rank for rank, record in met.items() if record.thread]
            outside = [rank for rank in met if rank not in inside]
            words = {"inside": inside, "outside": outside, "what": met[inside[0]]}
            return diagnosis("threads_share_a_group", None, (), lines_of(lines), **words)
    return None


def unequal_numbers(outcome: Outcome) -> Diagnosis | None:
    """All ranks have ended well, and some have issued more collectives of a group than others: those are still open."""
    members = {group: ranks for facts in outcome.facts.values() for group, ranks in facts.groups.items()}
    for group, ranks in sorted(members.items()):
        told = [outcome.facts.get(rank, NO_FACTS).groups.get(group) for rank in ranks]
        if not set(ranks) <= set(outcome.ranks) or any(each != ranks for each in told):
            continue
        issued = {rank: _sequence(outcome, rank, group, 0) for rank in ranks}
        most = max(map(len, issued.values()))
        fewer = tuple(rank for rank in ranks if len(issued[rank]) < most)
        more = tuple(rank for rank in ranks if len(issued[rank]) == most)
        if not fewer:
            continue
        lacking = [r for r in issued[more[0]] if not r.done][:1] or list(issued[more[0]][-1:])
        record = left_out([*issued[fewer[0]], lacking[-1]], [*issued[more[0]], lacking[-1]])
        lines = {rank: f"{steps(len(records), 'collective')} issued" for rank, records in issued.items()}
        words = {"code": outcome.what, "more": more, "what": (record or lacking)[0], "fewer": fewer}
        # That fewer ranks issued it is no reason to call it one too many, nor the other way round: no culprits.
        return diagnosis("unequal_collectives", None, (), lines_of(lines), **words)
    return None


def _said(
    outcome: Outcome,
    group: str,
    without: tuple[int, ...],
    having: tuple[int, ...],
    lacking: tuple[Collective, ...],
) -> Diagnosis:
    record = lacking[0]
    condition = condition_of(outcome, having, record, None)
    times = calls_of_line(outcome, record)
    fewer, more = times.get(without[0], 0), times.get(having[0], 0)
    further = f", and {steps(len(lacking) - 1, 'more collective')}" if len(lacking) > 1 else ""
    is_guarded = condition is not None and len(having) <= len(without)
    extra = is_guarded or (not fewer and len(having) < len(without))
    odd = having if extra else min((having, without), key=len) if len(having) != len(without) else ()
    came = f" ({steps(fewer, 'time')} there, and {rank_list(having)} {steps(more, 'time')})" if fewer else ""
    kind = "skipped_collective"
    if extra:
        kind = "rank_only_collective.once" if condition else "extra_collective"
    lines = {
        rank: f"number {first.seq} of the group is {located(first)}"
        for rank in outcome.ranks
        if (first := next(iter(_sequence(outcome, rank, group, record.seq)), None)) is not None
    }
    words = {"what": record, "under": under(condition), "further": further, "came": came}
    return diagnosis(kind, None, odd, lines_of(lines, odd), having=having, without=without, **words)


def _sequence(outcome: Outcome, rank: int, group: str, first: int) -> list[Collective]:
    return [r for r in outcome.recorded.get(rank, ()) if r.group == group and r.seq >= first]


def _key(record: Collective) -> str:
    place = " ".join(f"{frame.file}:{frame.line}" for frame in record.up_to_origin())
    return f"{record.op} {record.sizes} {record.dtypes} {place}"
