"""Passes of DDP models that only some ranks make: told from counts, and from lines that only some have come through."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from course_lib.doctor.conditions import condition_of, under
from course_lib.doctor.counts import calls_of_line, pass_counts, without_backward
from course_lib.doctor.notes import notes_of
from course_lib.doctor.sentences import Words, diagnosis, text
from course_lib.doctor.sides import IN_A_PASS, Hang, Side, Situation
from course_lib.doctor.words import fewer, names_in_a_row, steps
from course_lib.outcome.facts import NO_FACTS
from course_lib.outcome.outcome import Collective, DDPStage, Diagnosis, Outcome
from course_lib.outcome.places import Frame, Spot, is_learners
from course_lib.ranks.status import MOST_RECORDS

_PASSES = (DDPStage.BUFFERS, DDPStage.GRADIENTS)


def join_on_some_ranks(hang: Hang) -> Diagnosis | None:
    """Some ranks keep Join's books before every step, others do not."""
    for side, rest in hang.pairs:
        inside = [rank for rank, stage in side.stages.items() if stage == DDPStage.JOIN]
        been = [rank for rank in rest.ranks if entered_join(hang.outcome, rank)]
        is_apart = inside and DDPStage.JOIN not in rest.stages.values()
        if is_apart and len(been) < (1 if hang.situation is Situation.LEFT else len(rest.ranks)):
            few = fewer(inside, rest.ranks)
            return diagnosis("join_on_some_ranks", hang.outcome, few, inside=inside, outside=rest.ranks)
    return None


def entered_join(outcome: Outcome, rank: int) -> bool:
    """Whether a rank has issued a collective of Join's."""
    return any(record.stage == DDPStage.JOIN for record in outcome.recorded.get(rank, ()))


def ddp_on_some_ranks(hang: Hang) -> Diagnosis | None:
    """Some ranks construct a DDP model, and the others have left."""
    if not any(w.call == "DistributedDataParallel()" for w in hang.blocked.values()):
        return None
    ranks, gone = hang.one.ranks, hang.other.ranks
    odd = gone if len(gone) <= len(ranks) else ranks
    return diagnosis("ddp_on_some_ranks", hang.outcome, odd, ranks=ranks, where=hang.first.where, gone=gone)


def alternated(hang: Hang) -> Diagnosis | None:
    """Ranks have made as many passes as others, but several forward passes before the backward passes."""
    notes, gone = notes_of(hang.outcome), hang.other.ranks
    if not {hang.first.rank, *gone} <= notes.keys():
        return None
    mine, theirs = notes[hang.first.rank], notes[gone[0]]
    if theirs.bare_backwards <= mine.bare_backwards or theirs.counts.forwards < mine.counts.forwards:
        return None
    place = next((m.events["bare_backward"] for m in theirs.models if "bare_backward" in m.events), "")
    at = f" at {place}" if place else ""
    return diagnosis("passes_in_another_order", hang.outcome, gone, gone=gone, at=at, waits=waits_for(hang))


def waits_for(hang: Hang) -> str:
    """`rank 0 waits in backward() ... at train.py, line 3 for rank 1, which has finished`."""
    clause = "{ranks} {ranks:waits} in {first} for {gone}, which {gone:has} finished"
    return text(clause, ranks=hang.one.ranks, first=hang.first, gone=hang.other.ranks)


def pass_on_some_ranks(hang: Hang) -> Diagnosis | None:
    """Ranks are a pass of DDP's apart because some have made one more, or have left one out."""
    if not _in_different_passes(hang):
        return None
    outcome, left = hang.outcome, hang.situation is Situation.LEFT
    since = "since then {ranks} {ranks:is} in {here} when {others} {others:is} in {there}"
    for side, rest in hang.pairs:
        words = {"ranks": side.ranks, "here": side.what, "others": rest.ranks, "there": rest.what}
        now = f"now {waits_for(hang)}" if left else text(since, **words)
        found = extra_pass(outcome, side.ranks, rest.ranks, now)
        if found is None and left:
            found = missing_forward(outcome, side.ranks[0], rest.ranks, now)
        if found is not None:
            return found
    return None


def _in_different_passes(hang: Hang) -> bool:
    """True where both sides are in passes of DDP's, but not in the same; where ranks have left, when one is in one."""
    if hang.situation is Situation.LEFT:
        return hang.one.collective is not None and not set(IN_A_PASS).isdisjoint(hang.one.stages.values())
    one, other = hang.one.met.stage, hang.other.met.stage
    return bool(one and other) and one != other


def extra_pass(
    outcome: Outcome, ranks: Collection[int], others: Collection[int], since: str
) -> Diagnosis | None:
    """Ranks have come to DDP's collectives by a code path that no other rank has ever taken.

    Args:
        ranks: those that may have made a pass too many; others: those they are compared with.
        since: what came of it, a clause.
    """
    known = {record.frames for rank in others for record in _passes(outcome, rank)}
    found = {
        rank: [r for r in _passes(outcome, rank) if r.frames not in known and not _old(outcome, rank, r)]
        for rank in ranks
    }
    if not known or not all(found.values()) or _drew_more(outcome, ranks, others):
        return None
    first = next(iter(found.values()))[0]
    theirs = _ways(outcome, others, first.stage)
    if not theirs or not theirs <= _ways(outcome, ranks, first.stage):
        return None  # the others are not so far yet, or have a way of their own that is taken instead
    condition = condition_of(outcome, ranks, first, None)
    if condition is None and len(ranks) >= len(others):
        return None  # which ranks did something else: those that went there, or those that did not?
    backward = any(record.stage == DDPStage.GRADIENTS for record in found[min(found)])
    words = {"where": _distinct(first, known), "under": under(condition), "since": since}
    name = "extra_backward.alone" if backward else "extra_forward"
    return diagnosis(name, outcome, ranks, ranks=ranks, **words)


def _ways(outcome: Outcome, ranks: Collection[int], stage: str) -> set[tuple[Spot, ...]]:
    return {r.frames for rank in ranks for r in _passes(outcome, rank) if r.stage == stage}


def _drew_more(outcome: Outcome, ranks: Collection[int], others: Collection[int]) -> bool:
    """True when these ranks are batches ahead of the others: then they have left something out rather than added it."""
    counts = pass_counts(outcome)
    here, there = ([counts[rank].batches or 0 for rank in each] for each in (ranks, others))
    return min(there) > 0 and min(here) > max(there)


def _passes(outcome: Outcome, rank: int) -> Iterable[Collective]:
    return [r for r in outcome.recorded.get(rank, ()) if r.stage in _PASSES and r.origin is not None]


def _old(outcome: Outcome, rank: int, record: Collective) -> bool:
    """At the beginning of a full record: the same of another rank may have left its record already."""
    records = outcome.recorded[rank]
    return len(records) >= MOST_RECORDS and records.index(record) < MOST_RECORDS // 4


def _distinct(record: Collective, known: Collection[tuple[Spot, ...]]) -> str:
    """The innermost line on the way that no other rank has come through."""
    lines = {line for path in known for line in path}
    own = [frame for frame in record.frames if is_learners(frame.file)]
    frame = next((frame for frame in own if frame not in lines), own[0])
    return Frame(*frame, "").where()


def missing_forward(outcome: Outcome, here: int, gone: Collection[int], since: str) -> Diagnosis | None:
    """Ranks have drawn as many batches as another one and trained on fewer."""
    counts = pass_counts(outcome)
    mine = counts[here]
    trained = set()
    for rank in gone:
        theirs = counts[rank]
        if not mine.batches or theirs.batches != mine.batches:
            return None
        if mine.forwards is None or theirs.forwards is None or theirs.forwards >= mine.forwards:
            return None
        trained.add(theirs.forwards)
    notes = notes_of(outcome)
    told = [notes[rank].loaders for rank in (here, *gone)]
    if not trained or any(not loader.trains for loaders in told for loader in loaders):
        return None  # batches for another purpose than training were counted, too
    number = " or ".join(map(str, sorted(trained)))
    batches = steps(mine.batches or 0, "batch")
    return diagnosis("missing_forward", outcome, gone, gone=gone, batches=batches, number=number, since=since)


def _apart_by_a_backward(hang: Hang) -> tuple[Side, Side] | None:
    """The side that waits in a backward pass, and the one that does not make it."""
    one, other = hang.one, hang.other
    if hang.situation is Situation.MEET:
        side, rest = (one, other) if one.met.stage == DDPStage.GRADIENTS else (other, one)
        if side.met.stage != DDPStage.GRADIENTS or rest.met.stage == DDPStage.GRADIENTS:
            return None
        own_too_many = not rest.met.stage and rest.condition is not None
        return None if own_too_many else (side, rest)
    if not _in_different_passes(hang):
        return None
    counts = pass_counts(hang.outcome)
    more = counts[hang.first.rank].more_passes_than(counts[other.ranks[0]])
    fewer_backwards = one.met.stage == DDPStage.GRADIENTS and more.backwards and not more.forwards
    never_came = DDPStage.GRADIENTS in one.stages.values() and not _came(hang)
    return (one, other) if fewer_backwards or never_came else None


def _came(hang: Hang) -> int:
    """How often each rank that has left came to the line of the wait."""
    calls = calls_of_line(hang.outcome, hang.one.met)
    return min(calls.get(rank, 0) for rank in hang.other.ranks)


def _left_out(outcome: Outcome, side: Side) -> int:
    """How many backward passes are known to be missing after the forward passes of these ranks."""
    return max(without_backward(outcome, side.ranks[0]) or 0, 0)


def backward_on_some_ranks(hang: Hang) -> Diagnosis | None:
    """Ranks wait in a backward pass that others do not make: is it one too many, or have these left it out?"""
    apart = _apart_by_a_backward(hang)
    if apart is None:
        return None
    side, rest = apart
    outcome, left, left_out = hang.outcome, hang.situation is Situation.LEFT, _left_out(hang.outcome, rest)
    words: Words = {"ranks": side.ranks, "what": side, "others": rest.ranks}
    is_few = left and len(side.ranks) < len(rest.ranks)
    is_alone = len(side.ranks) <= len(rest.ranks) if left else rest.condition is None
    if (side.condition is not None and is_alone) or (is_few and not left_out):
        because = f", because the line stands under `{side.condition}`" if side.condition else ""
        words |= {"where": side.where, "condition": side.condition, "because": because, "instead": rest}
        return diagnosis("extra_backward.left" if left else "extra_backward", outcome, side.ranks, **words)
    found = _unused_parameters(hang) if left else _fewer_batches(outcome, side, rest)
    if found is not None:
        return found
    odd = rest.ranks if left_out else fewer(rest.ranks, side.ranks)
    if left and not left_out:
        return diagnosis("missing_backward.left", outcome, odd, waits=waits_for(hang))
    number = f"{left_out} backward passes" if left_out > 1 else "a backward pass"
    words |= {"number": number, "first": side.waiting, "now": "" if left else rest.text}
    return diagnosis("missing_backward.counted" if left else "missing_backward", outcome, odd, **words)


def _unused_parameters(hang: Hang) -> Diagnosis | None:
    """Ranks that sent no gradients did make a backward pass: some of their parameters have one, and some have none."""
    outcome, gone = hang.outcome, hang.other.ranks
    notes = notes_of(outcome)
    missing: dict[int, tuple[str, ...]] = {}
    for rank in gone:
        noted = [(m.without_gradient, m.parameters) for m in notes[rank].models] if rank in notes else []
        seen = [(m.without_gradient, m.number) for m in outcome.facts.get(rank, NO_FACTS).models]
        for without, number in noted or seen:
            if 0 < len(without) < number:
                missing[rank] = without
    if set(missing) != set(gone):
        return None
    names = names_in_a_row(list(dict.fromkeys(name for listed in missing.values() for name in listed)))
    words = {"names": names, "ranks": hang.one.ranks, "first": hang.first}
    return diagnosis("unused_parameters", outcome, gone, gone=gone, **words)


def _fewer_batches(outcome: Outcome, side: Side, rest: Side) -> Diagnosis | None:
    """Ranks are through with their data, and past the backward pass of the last batch."""
    here, there = (pass_counts(outcome)[each.ranks[0]] for each in (side, rest))
    if (there.batches or math.inf) >= (here.batches or 0) or there.forwards != there.backwards:
        return None
    reached = f"batch {here.batches} in {side}"
    return uneven(outcome, rest.ranks, side.ranks, steps(there.batches or 0, "batch"), reached)


def uneven_batches(hang: Hang) -> Diagnosis | None:
    """The ranks that have left have made fewer steps: their data ended earlier."""
    if not _in_different_passes(hang):
        return None
    counts = pass_counts(hang.outcome)
    mine, theirs = counts[hang.first.rank], counts[hang.other.ranks[0]]
    more = mine.more_passes_than(theirs)
    there = _came(hang)
    if not there and not more.forwards:
        return None
    word, here = "training step", calls_of_line(hang.outcome, hang.one.met).get(hang.first.rank, 0)
    if mine.batches and theirs.batches and mine.batches != theirs.batches:
        word, here, there = "batch", mine.batches, theirs.batches
    elif more.forwards:
        here, there = mine.forwards or 0, theirs.forwards or 0
    reached = text("{word} {here} in {first}", word=word, here=here, first=hang.first)
    return uneven(hang.outcome, hang.other.ranks, hang.one.ranks, steps(there, word), reached)


def uneven(
    outcome: Outcome,
    early: Collection[int],
    late: Collection[int],
    done: str,
    reached: str,
    left: str = "finished",
    now: str = "",
) -> Diagnosis:
    """Ranks have come to an end after fewer batches or steps than others.

    Args:
        done: how far the early ones came, such as `4 batches`. reached: where the others wait, such as `batch 5 in
            backward() at line 3 of this cell`. left: what the early ones have done after that. now: where they are.
    """
    words = {"done": done, "reached": reached, "left": left, "now": now}
    return diagnosis("uneven_batches", outcome, early, early=early, late=late, **words)
