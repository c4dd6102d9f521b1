"""A collective of the script's own that not all ranks come to: told from counts of passes and from the source."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from realranks.doctor.conditions import stands, under
from realranks.doctor.counts import calls_of_line, pass_counts, without_backward
from realranks.doctor.ddp_passes import (
    batches_or_steps_apart,
    entered_join,
    missing_forward,
    steps_apart,
    uneven,
)
from realranks.doctor.hang_table import IN_A_PASS, Hang, Side, Situation
from realranks.doctor.loops import Loop, at_parting, condition_at, own_loops_at, path_of, seen_from
from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import located
from realranks.outcome.outcome import Collective, DDPStage, Diagnosis, Outcome
from realranks.outcome.places import Frame


def under_a_condition(hang: Hang) -> Diagnosis | None:
    """Detect that only some ranks come to a collective because a condition on the rank guards its line."""
    left = hang.situation is Situation.LEFT
    for side, rest in hang.pairs:
        # Where ranks run code of their own: which of them does what the others do not?
        if side.condition is None or rest.condition is not None:
            continue
        if left and (len(side.came) > len(rest.ranks) or _stage(side) == DDPStage.GRADIENTS):
            continue
        instead = "" if left else text("; {ranks} {ranks:is} in {side}", ranks=rest.ranks, side=rest)
        words = {"what": side.what, "where": side.where, "stands": stands(side.condition), "instead": instead}
        return diagnosis("rank_only_collective", hang.outcome, side.came, ranks=side.came, **words)
    return None


def _stage(side: Side) -> DDPStage | None:
    return side.collective.stage if side.collective is not None else None


def own_meets(hang: Hang) -> Diagnosis | None:
    """Detect a collective of the script or a library, not DDP's, that some ranks are in while others are elsewhere.

    Either the others do not come to it, or these ranks have left a loop in which the others still are.
    """
    if hang.one.condition is not None or hang.other.condition is not None:
        return None
    for here, there in hang.pairs:
        if not here.met.stage and there.met.stage in ("", *IN_A_PASS):
            found = _own_meets(hang.when_they_met, here, there)
            if found is not None:
                return found
    return None


def _own_meets(outcome: Outcome, here: Side, there: Side) -> Diagnosis | None:
    ranks, mine, others, theirs = here.ranks, here.met, there.ranks, there.met
    way_here, way_there = path_of(mine), path_of(theirs)
    if way_here == way_there:
        return _in_one_pass(outcome, here, there) if way_here and theirs.stage else None
    # Where every rank has made a backward pass for each of its forward passes, no rank has left one out.
    if theirs.stage and not _equally_whole(outcome, min(ranks), min(others)):
        return None
    if not theirs.stage and not _come_to(outcome, theirs, ranks):
        return None  # which of the two is the one that not all come to?
    there_in, here_in = at_parting(way_there, way_here)
    elsewhere = text("{others} {others:is} in {theirs}", others=others, theirs=theirs) + there_in
    place = seen_from(way_there, way_here)
    notes = notes_of(outcome)
    broken_off = place is Loop.LEFT and any(
        loader.under_way for rank in ranks if rank in notes for loader in notes[rank].loaders
    )
    left_out = missing_forward(outcome, min(others), ranks, f"now {elsewhere}") if theirs.stage else None
    if left_out is not None and not broken_off:
        return left_out
    only_here = not _come_to(outcome, mine, others)
    condition = condition_at(way_there, way_here)
    is_beyond = condition is not None or _further(notes, others, ranks)
    if place is Loop.OUTER and only_here and is_beyond:
        # What stands behind a loop for all ranks to meet in stands under no condition, and those that have come past
        # the end of the loop would have met it.
        place = Loop.SAME
    if place is Loop.SAME and only_here:
        words = {"what": mine, "inside": here_in, "under": under(condition), "elsewhere": elsewhere}
        return diagnosis("rank_only_collective.never", outcome, ranks, ranks=ranks, **words)
    # Behind a loop that the others have begun anew: they have left out something there.
    if place is Loop.LEFT or (place is Loop.OUTER and not _further(notes, others, ranks)):
        return _fewer_steps(outcome, here, there, here_in, there_in)
    return None


def _come_to(outcome: Outcome, record: Collective, ranks: Collection[int]) -> bool:
    """Check whether one of these ranks has ever come to this collective by the same path."""
    came = calls_of_line(outcome, record)
    return any(came.get(rank, 0) for rank in ranks)


def at_end_of_join(line: Frame | None) -> bool:
    """Check for the `with` line of Join: a rank returns to it when it has no batches left."""
    return line is not None and "join(" in line.source.lower()


def own_at_end_of_join(hang: Hang) -> Diagnosis | None:
    """Detect that some ranks are in Join's collectives at the end of its block, and others in their own inside it."""
    for side, rest in hang.pairs:
        at_end = side.met.stage == DDPStage.JOIN and at_end_of_join(side.met.origin)
        if not at_end or not all(entered_join(hang.outcome, rank) for rank in rest.ranks):
            continue
        # Where DDP's own collectives meet by now, one of the script's has come between them before.
        if not rest.met.stage or _own_more_often(hang.outcome, rest.ranks, side.ranks):
            return own_inside_join(hang.outcome, side.ranks)
    return None


def _own_more_often(outcome: Outcome, ranks: Collection[int], through: Collection[int]) -> bool:
    """Check whether these ranks issued their own collective in Join more often than those that are through."""
    for rank in ranks:
        own = _last_inside_join(outcome.recorded.get(rank, ()))
        came = calls_of_line(outcome, own) if own is not None else {}
        if came.get(rank, 0) <= max(came.get(each, 0) for each in through):
            return False
    return True


def own_inside_join(outcome: Outcome, through: Collection[int]) -> Diagnosis | None:
    """Detect a collective of the script inside Join that meets Join's own on ranks whose data has ended.

    Args:
        through: the ranks in Join's own collectives at the end of its block.
    """
    own = {rank: _last_inside_join(outcome.recorded.get(rank, ())) for rank in outcome.ranks}
    ranks = [rank for rank, record in own.items() if record is not None and rank not in through]
    if not ranks or not through:
        return None
    return diagnosis("own_collective_in_join", outcome, ranks=ranks, what=own[ranks[0]], through=through)


def _last_inside_join(records: Iterable[Collective]) -> Collective | None:
    """Return the script's last own collective in a Join block that has not ended."""
    inside, at_end, own = False, False, None
    for record in records:
        if at_end and not at_end_of_join(record.origin):  # behind the block
            inside, at_end, own = False, False, None
        if record.stage == DDPStage.JOIN:
            inside, at_end = True, at_end_of_join(record.origin)
        elif inside and not record.stage and record.origin is not None:
            own = record
    return own


def _in_one_pass(outcome: Outcome, here: Side, there: Side) -> Diagnosis:
    """Report a hook (DDP's communication hook, or a tensor's) that issues collectives while DDP reduces gradients."""
    words = {"ranks": here.ranks, "what": here.what, "others": there.ranks, "theirs": there.what}
    return diagnosis("different_collectives.in_one_pass", outcome, where=here.met.where, **words)


def _fewer_steps(outcome: Outcome, here: Side, there: Side, here_in: str, there_in: str) -> Diagnosis | None:
    """Detect that these ranks left the loop after fewer steps than the others, which are in a step now."""
    ranks, mine, others, theirs = here.ranks, here.met, there.ranks, there.met
    counts, came = pass_counts(outcome), calls_of_line(outcome, theirs)
    late, early = counts[min(others)], counts[min(ranks)]
    # The others may have come once more to what stands before the forward pass.
    once_more = early.forwards == late.forwards and came.get(min(ranks), 0) < came.get(min(others), 0)
    if (early.forwards or 0) >= (late.forwards or 0) and not once_more:
        return None
    counted_by = steps_apart if there_in else batches_or_steps_apart
    far = counted_by(outcome, ranks, min(others), theirs)
    waits_in = located(theirs) + there_in
    now = text(" and {ranks:is} in {mine}", ranks=ranks, mine=mine) + here_in if here_in else ""
    loops = own_loops_at(path_of(theirs), path_of(mine)) if far[0] == "round" else []
    left = f"left the loop `{loops[0]}`" if loops else "left the loop"
    if len(loops) > 1:
        far = "round", None, None  # its line is called several times in one
    return uneven(outcome, ranks, others, far, waits_in, left, now)


def _equally_whole(outcome: Outcome, one: int, other: int) -> bool:
    """Check that both ranks skipped the same number of backward passes, normally none."""
    left_out = {without_backward(outcome, rank) for rank in (one, other)}
    return None not in left_out and len(left_out) == 1


def _further(notes: Notes, others: Collection[int], ranks: Collection[int]) -> bool:
    """Check that `others` have begun more epochs of a training loader than `ranks`."""

    def begun(rank: int) -> int:
        return sum(len(loader.epochs) for loader in notes[rank].loaders if loader.trains)

    known = set(notes)
    return known.issuperset((*others, *ranks)) and min(map(begun, others)) > max(map(begun, ranks))
