"""Lay the ranks' sequences of collectives side by side: which one has a rank left out, or issued alone?

Collectives of a group are matched by their number. A rank that leaves one out brings each later one under a number too
low, so that the ranks stick at a line that is innocent; the one to name is the first that has no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from realranks.doctor.conditions import condition_of
from realranks.doctor.counts import calls_of_line
from realranks.doctor.hang_table import Hang
from realranks.doctor.loops import called_from, path_of, under_or_in
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import collective_text, lines_of, located, rank_list, steps
from realranks.outcome.facts import NO_FACTS
from realranks.outcome.outcome import Collective, Diagnosis, Outcome


def left_out(mine: Sequence[Collective], theirs: Sequence[Collective]) -> tuple[Collective, ...]:
    """Return the collectives that `theirs` has and `mine` lacks; empty unless these are the only difference.

    Collectives after the last common one do not count: one of the two ranks may be stuck before them.
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


def first_apart(
    outcome: Outcome, group: str, last: int, ranks: tuple[int, ...], others: tuple[int, ...]
) -> int:
    """Return the first number at which two sides brought calls of different lines, even if these fit; else `last`."""
    one, two = ({r.seq: r for r in _sequence(outcome, side[0], group, 0)} for side in (ranks, others))
    both = sorted(number for number in one.keys() & two.keys() if number <= last)
    return next((number for number in both if _key(one[number]) != _key(two[number])), last)


def out_of_step(
    outcome: Outcome, group: str, first: int, ranks: tuple[int, ...], others: tuple[int, ...]
) -> Diagnosis | None:
    """Detect that one side has left out a collective, so that different ones meet from number `first` on.

    Args:
        ranks, others: the two sides.
    """
    one, two = (_sequence(outcome, side[0], group, first) for side in (ranks, others))
    for mine, theirs, without, having in ((one, two, ranks, others), (two, one, others, ranks)):
        lacking = left_out(mine, theirs)
        here, there = next(
            ((a, b) for a, b in zip(mine, theirs, strict=False) if _key(a) != _key(b)), (None,) * 2
        )
        if lacking and here and there and here.frames and here.frames == there.frames:
            return _another_order(outcome, {having: there, without: here})
        if lacking:
            return _said(outcome, group, without, having, lacking)
    return None


def _another_order(outcome: Outcome, met: dict[tuple[int, ...], Collective]) -> Diagnosis:
    """Report ranks that bring different tensors to one call of one line, which does not mean that one was left out."""
    having, mine = next(iter(met.items()))
    before = [r for r in outcome.recorded.get(having[0], ()) if r.frames == mine.frames and r.seq <= mine.seq]
    lines = lines_of({rank: f"brings {collective_text(r)}" for ranks, r in met.items() for rank in ranks})
    words = {"number": len(before), "op": mine.call or mine.op, "where": mine.where}
    return diagnosis("different_sizes.another_order", None, (), lines, **words)


def threads_share_a_group(hang: Hang) -> Diagnosis | None:
    """Detect that two threads of a rank issue collectives of the group in which the sides meet."""
    return threads_share(hang.outcome, hang.one.met.group)


def threads_share(outcome: Outcome, group: str) -> Diagnosis | None:
    """Detect that two threads of a rank issue collectives of one group, and from which number on the order differs."""
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
    """Detect, after all ranks ended well, that some issued more collectives of a group: those are still open."""
    members = {group: ranks for facts in outcome.facts.values() for group, ranks in facts.groups.items()}
    for group, ranks in sorted(members.items()):
        reported = [outcome.facts.get(rank, NO_FACTS).groups.get(group) for rank in ranks]
        if not set(ranks) <= set(outcome.ranks) or any(each != ranks for each in reported):
            continue
        issued = {rank: _sequence(outcome, rank, group, 0) for rank in ranks}
        most = max(map(len, issued.values()))
        fewer = tuple(rank for rank in ranks if len(issued[rank]) < most)
        more = tuple(rank for rank in ranks if len(issued[rank]) == most)
        if all(group in outcome.facts[rank].left for rank in fewer):
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
    met = next(iter(_sequence(outcome, without[0], group, record.seq)), None)
    here, there = path_of(record), path_of(met) if met is not None else ()
    way = called_from(there, here) + under_or_in(there, here, condition)
    words = {"what": record, "under": way, "further": further, "came": came}
    return diagnosis(kind, None, odd, lines_of(lines, odd), having=having, without=without, **words)


def _sequence(outcome: Outcome, rank: int, group: str, first: int) -> list[Collective]:
    return [r for r in outcome.recorded.get(rank, ()) if r.group == group and r.seq >= first]


def _key(record: Collective) -> str:
    place = " ".join(f"{frame.file}:{frame.line}" for frame in record.frames)
    return f"{record.op} {record.sizes} {record.dtypes} {place}"
