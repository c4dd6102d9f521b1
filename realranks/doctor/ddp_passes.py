"""Passes of DDP models that only some ranks make: told from counts, and from lines that only some have come through."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from realranks.doctor.conditions import condition_of, stands, under
from realranks.doctor.counts import (
    calls_of_line,
    in_ddp_forward,
    pass_counts,
    passes_before_calls,
    steps_begun,
    without_backward,
)
from realranks.doctor.hang_table import IN_A_PASS, Hang, Side, Situation
from realranks.doctor.loops import Loop, breaks_around, path_of, seen_from, step_condition
from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import Words, diagnosis, text
from realranks.doctor.stops import evaluates, only_training_loader, stopped_early
from realranks.doctor.words import fewer, names_in_a_row, rank_list, steps
from realranks.outcome.facts import NO_FACTS
from realranks.outcome.fold import fold
from realranks.outcome.outcome import Collective, DDPStage, Diagnosis, Outcome
from realranks.outcome.places import Frame, Spot, is_learners
from realranks.ranks.status import MAX_RECORDS

_PASSES = (DDPStage.BUFFERS, DDPStage.GRADIENTS)


def join_on_some_ranks(hang: Hang) -> Diagnosis | None:
    """Detect that only some ranks train inside `with Join(...)`, which adds a collective to every step."""
    for side, rest in hang.pairs:
        inside = [rank for rank, stage in side.stages.items() if stage == DDPStage.JOIN]
        been = [rank for rank in rest.ranks if entered_join(hang.outcome, rank)]
        is_apart = inside and DDPStage.JOIN not in rest.stages.values()
        if is_apart and len(been) < (1 if hang.situation is Situation.LEFT else len(rest.ranks)):
            few = fewer(inside, rest.ranks)
            return diagnosis("join_on_some_ranks", hang.outcome, few, inside=inside, outside=rest.ranks)
    return None


def entered_join(outcome: Outcome, rank: int) -> bool:
    """Check whether a rank has issued a collective of Join's."""
    return any(record.stage == DDPStage.JOIN for record in outcome.recorded.get(rank, ()))


def ddp_on_some_ranks(hang: Hang) -> Diagnosis | None:
    """Detect that some ranks construct a DDP model after the others have left."""
    if not any(w.call == "DistributedDataParallel()" for w in hang.blocked.values()):
        return None
    ranks, gone = hang.one.ranks, hang.other.ranks
    odd = gone if len(gone) <= len(ranks) else ranks
    return diagnosis("ddp_on_some_ranks", hang.outcome, odd, ranks=ranks, where=hang.first.where, gone=gone)


def alternated(hang: Hang) -> Diagnosis | None:
    """Detect ranks that made as many passes as others, but several forward passes before the backward passes."""
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
    """Describe the wait: `rank 0 waits in backward() ... at train.py, line 3 for rank 1, which has finished`."""
    clause = "{ranks} {ranks:waits} in {first} for {gone}, which {gone:has} finished"
    return text(clause, ranks=hang.one.ranks, first=hang.first, gone=hang.other.ranks)


def pass_on_some_ranks(hang: Hang) -> Diagnosis | None:
    """Detect ranks that are one of DDP's passes apart because some made one more, or left one out."""
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
    """Check that both sides are in passes of DDP, but not in the same; if ranks have left, that one side is in one."""
    if hang.situation is Situation.LEFT:
        return hang.one.collective is not None and not set(IN_A_PASS).isdisjoint(hang.one.stages.values())
    one, other = hang.one.met.stage, hang.other.met.stage
    return bool(one and other) and one != other


def extra_pass(
    outcome: Outcome, ranks: Collection[int], others: Collection[int], since: str
) -> Diagnosis | None:
    """Detect ranks that came to DDP's collectives by a code path that no other rank has ever taken.

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
    """Check that these ranks are batches ahead: then they have skipped something rather than added it."""
    counts = pass_counts(outcome)
    here, there = ([counts[rank].batches or 0 for rank in each] for each in (ranks, others))
    return min(there) > 0 and min(here) > max(there)


def _passes(outcome: Outcome, rank: int) -> Iterable[Collective]:
    return [r for r in outcome.recorded.get(rank, ()) if r.stage in _PASSES and r.origin is not None]


def _old(outcome: Outcome, rank: int, record: Collective) -> bool:
    """Check for a collective at the beginning of a full record: another rank's record may have dropped it already."""
    records = outcome.recorded[rank]
    return len(records) >= MAX_RECORDS and records.index(record) < MAX_RECORDS // 4


def _distinct(record: Collective, known: Collection[tuple[Spot, ...]]) -> str:
    """Return the innermost line on the way to this collective that no other rank has come through."""
    lines = {line for path in known for line in path}
    own = [frame for frame in record.frames if is_learners(frame.file)]
    frame = next((frame for frame in own if frame not in lines), own[0])
    return Frame(*frame, "").where()


def missing_forward(outcome: Outcome, here: int, gone: Collection[int], since: str) -> Diagnosis | None:
    """Detect ranks that drew as many batches as another one but trained on fewer."""
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
    by_rank = [notes[rank].loaders for rank in (here, *gone)]
    if not trained or any(not loader.trains for loaders in by_rank for loader in loaders):
        return None  # batches for another purpose than training were counted, too
    number = " or ".join(map(str, sorted(trained)))
    batches = steps(mine.batches or 0, "batch")
    return diagnosis("missing_forward", outcome, gone, gone=gone, batches=batches, number=number, since=since)


def _apart_by_a_backward(hang: Hang) -> tuple[Side, Side] | None:
    """Split the ranks into the side that waits in a backward pass and the one that does not run it."""
    one, other = hang.one, hang.other
    if hang.situation is Situation.MEET:
        side, rest = (one, other) if one.met.stage == DDPStage.GRADIENTS else (other, one)
        if side.met.stage != DDPStage.GRADIENTS or rest.met.stage == DDPStage.GRADIENTS:
            return None
        own_too_many = not rest.met.stage and (rest.condition is not None or in_ddp_forward(rest.waiting))
        return None if own_too_many else (side, rest)
    if not _in_different_passes(hang):
        return None
    counts = pass_counts(hang.outcome)
    more = counts[hang.first.rank].more_passes_than(counts[other.ranks[0]])
    fewer_backwards = one.met.stage == DDPStage.GRADIENTS and more.backwards and not more.forwards
    never_came = DDPStage.GRADIENTS in one.stages.values() and not _came(hang)
    return (one, other) if fewer_backwards or never_came else None


def _came(hang: Hang) -> int:
    """Count how often each rank that has left came to the line of the wait; return the least."""
    calls = calls_of_line(hang.outcome, hang.one.met)
    return min(calls.get(rank, 0) for rank in hang.other.ranks)


def _left_out(outcome: Outcome, side: Side) -> int:
    """Count the backward passes known to be missing after the forward passes of these ranks."""
    return max(without_backward(outcome, side.ranks[0]) or 0, 0)


def backward_on_some_ranks(hang: Hang) -> Diagnosis | None:
    """Detect a backward pass that only some ranks run: one too many, or one that the others left out."""
    apart = _apart_by_a_backward(hang)
    if apart is None:
        return None
    side, rest = apart
    outcome, left, left_out = hang.outcome, hang.situation is Situation.LEFT, _left_out(hang.outcome, rest)
    words: Words = {"ranks": side.ranks, "what": side, "others": rest.ranks}
    is_few = left and len(side.ranks) < len(rest.ranks)
    is_alone = len(side.ranks) <= len(rest.ranks) if left else rest.condition is None
    if (side.condition is not None and is_alone) or (is_few and not left_out):
        because = f", because the line stands {stands(side.condition)}" if side.condition else ""
        words |= {"where": side.where, "stands": stands(side.condition), "because": because, "instead": rest}
        return diagnosis("extra_backward.left" if left else "extra_backward", outcome, side.ranks, **words)
    found = _unused_parameters(hang) if left else _fewer_batches(outcome, side, rest)
    if found is not None:
        return found
    odd = rest.ranks if left_out else fewer(rest.ranks, side.ranks)
    skips = under(step_condition(path_of(side.met)) if side.collective is not None else None)
    if left and not left_out:
        return diagnosis("missing_backward.left", outcome, odd, waits=waits_for(hang), skips=skips)
    number = f"{left_out} backward passes" if left_out > 1 else "a backward pass"
    words |= {"number": number, "skips": skips, "first": side.waiting, "now": "" if left else rest.text}
    return diagnosis("missing_backward.counted" if left else "missing_backward", outcome, odd, **words)


def _unused_parameters(hang: Hang) -> Diagnosis | None:
    """Detect that ranks sent no gradients because some parameters were unused in their backward pass."""
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
    """Detect ranks that have used up their data and finished the backward pass of the last batch."""
    here, there = (pass_counts(outcome)[each.ranks[0]] for each in (side, rest))
    if (there.batches or math.inf) >= (here.batches or 0) or there.forwards != there.backwards:
        return None
    notes = notes_of(outcome)
    if any(evaluates(notes[rank]) for rank in rest.ranks if rank in notes):
        return None  # it is not through, and the others have left something out
    far = "batch", there.batches, here.batches
    return uneven(outcome, rest.ranks, side.ranks, far, str(side), "left the loop")


def _unreached(hang: Hang) -> Diagnosis:
    """Report that all ranks made as many passes, but DDP did not learn of some of them and reduced fewer."""
    gone, waits = hang.other.ranks, waits_for(hang)
    words = {"ranks": hang.one.ranks, "waits": waits}
    return diagnosis("missing_backward.unreached", hang.outcome, gone, gone=gone, **words)


def uneven_batches(hang: Hang) -> Diagnosis | None:
    """Detect that the ranks which have left made fewer steps, because their data ended earlier."""
    if not _in_different_passes(hang):
        return None
    counts = pass_counts(hang.outcome)
    mine, theirs = counts[hang.first.rank], counts[hang.other.ranks[0]]
    more = mine.more_passes_than(theirs)
    if not _came(hang) and not more.forwards:
        return None
    alike = (mine.forwards, mine.backwards, mine.batches) == (
        theirs.forwards,
        theirs.backwards,
        theirs.batches,
    )
    if mine.forwards and alike and hang.one.met.stage == DDPStage.GRADIENTS:
        return _unused_parameters(hang) or _unreached(hang)
    far = batches_or_steps_apart(hang.outcome, hang.other.ranks, hang.first.rank, hang.one.met)
    return uneven(hang.outcome, hang.other.ranks, hang.one.ranks, far, text("{first}", first=hang.first))


#: What is counted, and how many the early and the late ranks have begun; None where that is not known.
Far = tuple[str, int | None, int | None]


def batches_or_steps_apart(outcome: Outcome, early: Collection[int], late: int, like: Collective) -> Far:
    """Count batches where no rank draws others than it trains on, ahead or to evaluate; else training steps."""
    mine, theirs = (pass_counts(outcome)[rank] for rank in (late, min(early)))
    if (
        theirs.batches
        and theirs.batches < (mine.batches or 0)
        and theirs.batches <= (theirs.forwards or math.inf)
    ):
        return "batch", theirs.batches, mine.batches
    return steps_apart(outcome, early, late, like)


def steps_apart(outcome: Outcome, early: Collection[int], late: int, like: Collective) -> Far:
    """Count the training steps the early ranks have made, and the one that a waiting rank has begun.

    Where no DDP model is trained between two calls of its line, count these since the last backward pass, as rounds;
    or an optimizer's steps, if ranks average by themselves.
    """
    counts = pass_counts(outcome)
    came, theirs = _since_last_pass(outcome, late, like), [_since_last_pass(outcome, r, like) for r in early]
    passes = [record for record in outcome.recorded.get(late, ()) if record.stage == DDPStage.GRADIENTS]
    is_apart = not passes or seen_from(path_of(like), path_of(passes[-1])) is not Loop.SAME
    if is_apart and (came > max(1, *theirs) or (came and not counts[late].backwards)):
        is_full = len(outcome.recorded[late]) >= MAX_RECORDS
        word, made, begun = _own_steps_apart(outcome, early, late, like) or ("round", min(theirs), came)
        return (word, None, None) if is_full else (word, made, begun)
    here, there = steps_begun(outcome, late, like), [steps_begun(outcome, rank, like) for rank in early]
    known = [number for number in there if number is not None]
    if here is None or len(known) < len(there) or min(known) >= here:
        return "training step", None, None
    return "training step", min(known), here


def _own_steps_apart(outcome: Outcome, early: Collection[int], late: int, like: Collective) -> Far | None:
    """Count an optimizer's steps where DDP averages nothing; None if the line is called outside of them.

    A call of the line is one before the next step if the late rank has come more often to it, per step, than the early.
    """
    counts, calls = pass_counts(outcome), calls_of_line(outcome, like)
    least = min(early, key=lambda rank: counts[rank].steps or 0)
    done, made, came = counts[least].steps or 0, counts[late].steps or 0, calls.get(least, 0)
    if counts[late].backwards or not made or (made == done and came < done):
        return None
    return "training step", done, max(1, made + (calls[late] * done > came * made))


def _since_last_pass(outcome: Outcome, rank: int, like: Collective) -> int:
    records = outcome.recorded.get(rank, ())
    return passes_before_calls(records, like).count(sum(r.stage == DDPStage.GRADIENTS for r in records))


def uneven(
    outcome: Outcome,
    early: Collection[int],
    late: Collection[int],
    far: Far,
    waits_in: str,
    left: str = "finished",
    now: str = "",
) -> Diagnosis:
    """Report ranks that ended after fewer batches or steps than others, and whether that was their own decision.

    Args:
        waits_in: what the late ones wait in, and where. left: what the early ones have done after that. now: where
            they are.
    """
    word, made, begun = far
    done = f"fewer {word}s" if made is None else steps(made, word)
    reached = waits_in if begun is None else f"{word} {begun} in {waits_in}"
    # The data of the training does not explain the rounds of another loop.
    more = "" if word == "round" else stopped_early(notes_of(outcome), early, late)
    rows = "" if more or word == "round" else _unequal_datasets(notes_of(outcome), early, late)
    last = () if more or rows or word == "batch" else outcome.recorded.get(min(late), ())[-1:]
    breaks = tuple(condition for record in last for condition in breaks_around(path_of(record)))
    ends = f" A loop there may end early by `{'` or `'.join(breaks[:2])}`." if breaks else rows
    words = {"done": done, "reached": reached, "left": left, "now": now, "more": more, "ends": ends}
    variant = ".stopped" if more else ".datasets" if rows else ".rounds" if word == "round" else ""
    return diagnosis(f"uneven_batches{variant}", outcome, early, early=early, late=late, **words)


def _unequal_datasets(notes: Notes, early: Collection[int], late: Collection[int]) -> str:
    """Say how many samples the datasets have that the ranks train on, if those of `early` are shorter; else ''."""
    ranks = sorted({*early, *late} & notes.keys())
    trained = {rank: only_training_loader(notes[rank]).samples for rank in ranks}
    if len(trained) < len({*early, *late}) or min(trained.values()) <= 0:
        return ""
    if max(trained[rank] for rank in early) >= min(trained[rank] for rank in late):
        return ""
    rows = fold({rank: f"{samples} samples" for rank, samples in trained.items()})
    return f" The datasets differ in length: {', '.join(f'{row.text} on {rank_list(row.ranks)}' for row in rows)}."
