"""A collective of the script's own meets one of DDP's: told from counts of passes and from the loops in the source."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from course_lib.doctor.counts import calls_of_line, done_by, without_backward
from course_lib.doctor.lessons import taught_in
from course_lib.doctor.loops import Loop, at_parting, condition_at, path_of, seen_from
from course_lib.doctor.notes import Notes, notes_of
from course_lib.doctor.passes import missing_forward
from course_lib.doctor.uneven import uneven_batches
from course_lib.doctor.words import collective_text, positions, rank_list, steps, verb
from course_lib.outcome.outcome import Collective, DDPStage, Diagnosis, Outcome
from course_lib.outcome.places import Frame

#: Ranks, and the collective that they are in.
Met = tuple[Collection[int], Collective]
_IN_A_STEP = (DDPStage.GRADIENTS, DDPStage.BUFFERS, DDPStage.REBUILD)


def own_meets(outcome: Outcome, one: Met, two: Met) -> Diagnosis | None:
    """Ranks have come to a collective that is not DDP's, of the script or of a library, while others are elsewhere.

    Either it is one that the others do not come to, or these ranks have left a loop in which the others still are.
    """
    for here, there in ((one, two), (two, one)):
        if not here[1].stage and there[1].stage in ("", *_IN_A_STEP):
            found = _own_meets(outcome, here, there)
            if found is not None:
                return found
    return None


def _own_meets(outcome: Outcome, here: Met, there: Met) -> Diagnosis | None:
    (ranks, mine), (others, theirs) = here, there
    way_here, way_there = path_of(mine), path_of(theirs)
    if way_here == way_there:
        return _in_one_pass(outcome, ranks, mine, others, theirs) if way_here and theirs.stage else None
    # Where every rank has made a backward pass for each of its forward passes, nobody has left one out.
    if theirs.stage and not _equally_whole(outcome, min(ranks), min(others)):
        return None
    if not theirs.stage and not _come_to(outcome, theirs, ranks):
        return None  # which of the two is the one that not all come to?
    there_in, here_in = at_parting(way_there, way_here)
    elsewhere = (
        f"{rank_list(others)} {verb(others, 'is', 'are')} in {collective_text(theirs)} at "
        f"{theirs.where or 'an unknown line'}{there_in}"
    )
    left_out = missing_forward(outcome, min(others), ranks, f"now {elsewhere}") if theirs.stage else None
    if left_out is not None:
        return left_out
    only_here = not _come_to(outcome, mine, others)
    condition = condition_at(way_there, way_here)
    place = seen_from(way_there, way_here)
    if (
        place is Loop.OUTER
        and only_here
        and (condition is not None or _further(notes_of(outcome), others, ranks))
    ):
        # What stands behind a loop for all ranks to meet in stands under no condition, and those that have come past
        # the end of the loop would have met it.
        place = Loop.SAME
    if place is Loop.SAME and only_here:
        return _only_some_come(outcome, ranks, mine, here_in, elsewhere, condition)
    if place in (Loop.LEFT, Loop.OUTER):
        return _fewer_steps(outcome, here, there, here_in, there_in)
    return None


def _come_to(outcome: Outcome, record: Collective, ranks: Collection[int]) -> bool:
    """Whether one of these ranks has ever come to this collective by the same way."""
    came = calls_of_line(outcome, record)
    return any(came.get(rank, 0) for rank in ranks)


def at_end_of_join(line: Frame | None) -> bool:
    """True for the line of a `with` block of Join: a rank comes back to it when it has no batches left."""
    return line is not None and "join(" in line.source.lower()


def own_inside_join(outcome: Outcome, through: Collection[int]) -> Diagnosis | None:
    """Ranks issue a collective of their own inside Join, and it meets Join's on those that are through with their data.

    Args:
        through: the ranks in Join's own collectives at the end of its block.
    """
    own = {rank: _last_inside_join(outcome.recorded.get(rank, ())) for rank in outcome.ranks}
    ranks = [rank for rank, record in own.items() if record is not None and rank not in through]
    if not ranks or not through:
        return None
    mine = own[ranks[0]]
    assert mine is not None
    return Diagnosis(
        "own_collective_in_join",
        f"Inside Join (or model.join()), {rank_list(ranks)} {verb(ranks, 'calls', 'call')} {collective_text(mine)} at "
        f"{mine.where}; {rank_list(through)} {verb(through, 'has', 'have')} no batches left, and "
        f"{verb(through, 'is', 'are')} in Join's own collectives by then: those meet.",
        (),
        positions(outcome),
        advice="for a rank without batches, Join issues the collectives of the models that it was given, and no "
        "others: take yours out of the block.",
        lesson=taught_in(5),
    )


def _last_inside_join(records: Iterable[Collective]) -> Collective | None:
    """The last collective of the script's own in a Join that has not come to its end."""
    inside, at_end, own = False, False, None
    for record in records:
        if at_end and not at_end_of_join(record.origin):  # behind the block
            inside, at_end, own = False, False, None
        if record.stage == DDPStage.JOIN:
            inside, at_end = True, at_end_of_join(record.origin)
        elif inside and not record.stage and record.origin is not None:
            own = record
    return own


def _in_one_pass(
    outcome: Outcome, ranks: Collection[int], mine: Collective, others: Collection[int], theirs: Collective
) -> Diagnosis:
    """A hook (DDP's communication hook, or one of a tensor's) issues collectives in the very pass that DDP reduces."""
    return Diagnosis(
        "different_collectives",
        f"In the same pass at {mine.where}, {rank_list(ranks)} {verb(ranks, 'is', 'are')} in {collective_text(mine)} "
        f"and {rank_list(others)} {verb(others, 'is', 'are')} in {collective_text(theirs)}: a hook issues collectives "
        "of its own there, and not in the same order on all ranks.",
        (),
        positions(outcome),
        advice="a communication hook that issues a collective when another has ended (PowerSGD) races with DDP's own, "
        "such as those of find_unused_parameters=True: leave that option out, or give the hook's collectives a "
        "group of their own.",
        lesson=taught_in(4, 13),
    )


def _fewer_steps(outcome: Outcome, here: Met, there: Met, here_in: str, there_in: str) -> Diagnosis | None:
    """These ranks have left the loop after fewer steps than the others, which are in a step now."""
    (ranks, mine), (others, theirs) = here, there
    done, came = done_by(outcome), calls_of_line(outcome, theirs)
    late, early = done[min(others)], done[min(ranks)]
    if (early.forwards or 0) < (late.forwards or 0):
        reached = late.forwards or 0
    elif early.forwards == late.forwards and came.get(min(ranks), 0) < came.get(min(others), 0):
        reached = (
            early.forwards or 0
        ) + 1  # the others have come once more to what stands before the forward pass
    else:
        return None
    word, made = "training step", early.forwards or 0
    if late.batches and early.batches and early.batches < late.batches and not there_in:
        word, made, reached = "batch", early.batches, late.batches
    where = f"{word} {reached} in {collective_text(theirs)} at {theirs.where}{there_in}"
    if not here_in:
        return uneven_batches(outcome, ranks, others, steps(made, word), where)
    now = f" and {verb(ranks, 'is', 'are')} in {collective_text(mine)} at {mine.where}{here_in}"
    return uneven_batches(outcome, ranks, others, steps(made, word), where, "left the loop", now)


def _equally_whole(outcome: Outcome, one: int, other: int) -> bool:
    """True when both ranks are known to have left out the same number of backward passes: as a rule, none."""
    left_out = {without_backward(outcome, rank) for rank in (one, other)}
    return None not in left_out and len(left_out) == 1


def _further(notes: Notes, others: Collection[int], ranks: Collection[int]) -> bool:
    """True when these ranks have begun more epochs of a loader for training than those."""

    def begun(rank: int) -> int:
        return sum(len(loader.epochs) for loader in notes[rank].loaders if loader.trains)

    known = set(notes)
    return known.issuperset((*others, *ranks)) and min(map(begun, others)) > max(map(begun, ranks))


def _only_some_come(
    outcome: Outcome,
    ranks: Collection[int],
    mine: Collective,
    inside: str,
    elsewhere: str,
    condition: str | None,
) -> Diagnosis:
    under = f" (under `{condition}`)" if condition is not None else ""
    return Diagnosis(
        "rank_only_collective",
        f"Only {rank_list(ranks)} {verb(ranks, 'comes', 'come')} to {collective_text(mine)} at "
        f"{mine.where}{inside}{under}: no other rank has ever called it there; {elsewhere}.",
        tuple(ranks),
        positions(outcome, ranks),
        advice="what only some ranks run (a progress display, saving, logging) must not call a collective: let all "
        "ranks call it, and only one of them print what comes out. Before a rank ends a loop early, let all agree to.",
        lesson=taught_in(14, 6, 0),
    )
