"""Forward and backward passes that only some ranks make: told from the lines that only some ranks have come through."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from course_lib.doctor.conditions import condition_of
from course_lib.doctor.counts import done_by
from course_lib.doctor.lessons import taught_in
from course_lib.doctor.notes import notes_of
from course_lib.doctor.words import capital, positions, rank_list, steps, verb
from course_lib.outcome.outcome import Collective, DDPStage, Diagnosis, Outcome
from course_lib.outcome.places import Frame, Spot, is_learners
from course_lib.ranks.look import MOST_RECORDS

_PASSES = (DDPStage.BUFFERS, DDPStage.GRADIENTS)


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
    if any(record.stage == DDPStage.GRADIENTS for record in found[min(found)]):
        what, instead = "backward", ", or leave the extra backward() to model.module."
    else:
        what, instead = "forward", ", or model.module for a look at it."
    because = f" (under `{condition}`)" if condition else ""
    return Diagnosis(
        f"extra_{what}",
        f"Only {rank_list(ranks)} {verb(ranks, 'makes', 'make')} a {what} pass of the DDP model at "
        f"{_distinct(first, known)}{because}; {since}.",
        tuple(ranks),
        positions(outcome, ranks),
        advice=f"call a DDP model equally often on every rank{instead}",
        lesson=taught_in(6),
    )


def _ways(outcome: Outcome, ranks: Collection[int], stage: str) -> set[tuple[Spot, ...]]:
    return {r.frames for rank in ranks for r in _passes(outcome, rank) if r.stage == stage}


def _drew_more(outcome: Outcome, ranks: Collection[int], others: Collection[int]) -> bool:
    """True when these ranks are batches ahead of the others: then they have left something out rather than added it."""
    done = done_by(outcome)
    here, there = ([done[rank].batches or 0 for rank in each] for each in (ranks, others))
    return min(there) > 0 and min(here) > max(there)


def missing_forward(outcome: Outcome, here: int, gone: Collection[int], since: str) -> Diagnosis | None:
    """Ranks have drawn as many batches as another one and trained on fewer."""
    done = done_by(outcome)
    mine = done[here]
    trained = set()
    for rank in gone:
        theirs = done[rank]
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
    return Diagnosis(
        "missing_forward",
        f"{capital(rank_list(gone))} {verb(gone, 'has', 'have')} drawn {steps(mine.batches or 0, 'batch')} like the "
        f"others, but {verb(gone, 'has', 'have')} trained on only {number}; {since}.",
        tuple(gone),
        positions(outcome, gone),
        advice="every rank must make every step. For a batch to be left out, multiply its loss by 0, or agree with an "
        "all_reduce first and leave it out on all ranks.",
        lesson=taught_in(6),
    )


def join_on_some_ranks(outcome: Outcome, inside: Collection[int], outside: Collection[int]) -> Diagnosis:
    """Some ranks keep Join's books before every step, others do not."""
    few = tuple(inside if len(inside) < len(outside) else outside if len(outside) < len(inside) else ())
    return Diagnosis(
        "join_on_some_ranks",
        f"Only {rank_list(inside)} {verb(inside, 'trains', 'train')} inside Join (or model.join()); "
        f"{rank_list(outside)} {verb(outside, 'does', 'do')} not, and so never "
        f"{verb(outside, 'answers', 'answer')} the collectives by which Join counts who is still there.",
        few,
        positions(outcome, few),
        advice="enter Join on every rank of the group, also on those with most batches.",
        lesson=taught_in(5, 3),
    )


def _passes(outcome: Outcome, rank: int) -> Iterable[Collective]:
    return [r for r in outcome.recorded.get(rank, ()) if r.stage in _PASSES and r.origin is not None]


def _old(outcome: Outcome, rank: int, record: Collective) -> bool:
    """At the beginning of a full record: the same of another rank may have left its record already."""
    records = outcome.recorded[rank]
    return len(records) >= MOST_RECORDS and records.index(record) < MOST_RECORDS // 4


def _distinct(record: Collective, known: Collection[tuple[Spot, ...]]) -> str:
    """The innermost line on the way that nobody else has come through."""
    lines = {line for path in known for line in path}
    own = [frame for frame in record.frames if is_learners(frame.file)]
    frame = next((frame for frame in own if frame not in lines), own[0])
    return Frame(*frame, "").where()
