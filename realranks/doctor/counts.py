"""Counts of what each rank has done so far, from the flight recorder and, if it was watched, from the probe."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from realranks.outcome.facts import NO_FACTS
from realranks.outcome.outcome import Collective, DDPStage, Outcome, Waiting
from realranks.outcome.wrapped import WrappedModel
from realranks.ranks.status import MAX_RECORDS


class More(NamedTuple):
    """Of which passes one rank has made more than another."""

    forwards: bool
    backwards: bool


@dataclass(frozen=True)
class PassCounts:
    """Counts of what a rank has done; None for what was not counted.

    Attributes:
        forwards: calls of DDP models with gradients on. backwards: backward passes that reduce gradients, the one
            under way included. batches: taken from data loaders. steps: of optimizers.
    """

    forwards: int | None = None
    backwards: int | None = None
    batches: int | None = None
    steps: int | None = None

    def more_passes_than(self, other: PassCounts) -> More:
        """Determine of which passes this rank has made more than the other; of none if they were not counted."""
        if (
            self.forwards is None
            or self.backwards is None
            or other.forwards is None
            or other.backwards is None
        ):
            return More(False, False)
        return More(self.forwards > other.forwards, self.backwards > other.backwards)


def pass_counts(outcome: Outcome) -> dict[int, PassCounts]:
    """Count the passes of every rank, also of ranks outside this run: others may wait for them."""
    return {rank: _counts_of(outcome, rank) for rank in range(outcome.world_size)}


def without_backward(outcome: Outcome, rank: int) -> int | None:
    """Count a rank's forward passes without a backward pass, except the current one; None if not counted."""
    counts = pass_counts(outcome)[rank]
    if counts.forwards is None or counts.backwards is None:
        return None
    waiting = outcome.waiting.get(rank)
    record = waiting.collective if waiting is not None else None
    begins = record is not None and record.stage in (DDPStage.BUFFERS, DDPStage.REBUILD)
    inside = begins or in_ddp_forward(waiting)
    return counts.forwards - counts.backwards - inside


def in_ddp_forward(waiting: Waiting | None) -> bool:
    """Check for a rank inside DDP's forward pass, in code of the model that issues collectives itself.

    Lightning calls `training_step` there.
    """
    return any(
        frame.function == "forward" and frame.file.endswith("torch/nn/parallel/distributed.py")
        for frame in (waiting.stack if waiting is not None else ())
    )


def _counts_of(outcome: Outcome, rank: int) -> PassCounts:
    facts = outcome.facts.get(rank, NO_FACTS)
    if facts.probe is not None:
        noted = facts.probe.counts
        return PassCounts(noted.forwards, noted.backwards, noted.batches, noted.steps)
    records = outcome.recorded.get(rank, ())
    return PassCounts(backwards=_backwards(records, facts.models))


def _backwards(records: Collection[Collective], models: Iterable[WrappedModel]) -> int | None:
    """Count the backward passes: each reduces every parameter of one model, or of all, once, in any number of buckets.

    None if the record is full, or could consist of different numbers of passes.
    """
    # With find_unused_parameters, a pass also counts for each parameter, in integers, how many ranks have used it.
    reduced = [
        sum(map(math.prod, record.sizes))
        for record in records
        if record.stage == DDPStage.GRADIENTS and "Int" not in record.dtypes
    ]
    sizes = [size for size in map(_elements, models) if size]
    passes = [_passes(reduced, size) for size in (*sizes, sum(sizes)) if size]
    begun = {each.begun for each in passes if each is not None and each.whole}
    begun = begun or {each.begun for each in passes if each is not None}
    return begun.pop() if len(begun) == 1 and len(records) < MAX_RECORDS else None


class _Passes(NamedTuple):
    """The number of passes begun; whole if the last of them has sent everything."""

    begun: int
    whole: bool


def _passes(reduced: Iterable[int], size: int) -> _Passes | None:
    """Count the passes in a row of reduced buckets, `size` elements per pass; None if the buckets do not add up."""
    done = 0
    for number in reduced:
        if done % size + number > size:
            return None
        done += number
    return _Passes(math.ceil(done / size), done % size == 0)


def _elements(model: WrappedModel) -> int:
    shapes = model.parameters
    return sum(math.prod(shape) for _, shape in shapes) if len(shapes) == model.number else 0


def steps_begun(outcome: Outcome, rank: int, like: Collective) -> int | None:
    """Count the training steps a rank has begun, at one of DDP's collectives; None if they were not counted.

    A step is a backward pass that reduces gradients. Only passes that took the same path as this one count, because a
    step may consist of passes of several models.
    """
    in_backward, records = like.stage == DDPStage.GRADIENTS, outcome.recorded.get(rank, ())
    if in_backward and 0 < len(records) < MAX_RECORDS:
        own = [record for record in records if record.frames == like.frames]
        # A script that is over has no models any more; those of the other ranks are alike.
        models = [outcome.facts.get(each, NO_FACTS).models for each in (rank, *outcome.ranks)]
        passes = _backwards(own, next(filter(None, models), ()))
        if passes is not None:
            return passes
    made, waiting = pass_counts(outcome)[rank].backwards, outcome.waiting.get(rank)
    here = waiting.collective if waiting is not None and not in_backward else None
    return made + (here is not None and here.frames == like.frames) if made is not None else None


def calls_of_line(outcome: Outcome, like: Collective) -> dict[int, int]:
    """Count each rank's collectives with the same purpose, path and kind of thread."""
    return {
        rank: sum(
            1
            for record in outcome.recorded.get(rank, ())
            if record.frames
            and record.frames == like.frames
            and (record.stage, record.op, bool(record.thread)) == (like.stage, like.op, bool(like.thread))
        )
        for rank in outcome.ranks
    }


def passes_before_calls(records: Iterable[Collective], like: Collective) -> list[int]:
    """Return for each call at this line, by this path, how many collectives of backward passes came before."""
    passes, found = 0, []
    for record in records:
        passes += record.stage == DDPStage.GRADIENTS
        if not record.stage and record.frames == like.frames:
            found.append(passes)
    return found
