"""What each rank has done so far, counted from the flight recorder and, where it was watched, from the probe."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.outcome.facts import NO_FACTS
from course_lib.outcome.outcome import Collective, DDPStage, Outcome
from course_lib.outcome.wrapped import WrappedModel


class More(NamedTuple):
    """Of which passes one rank has made more than another."""

    forwards: bool
    backwards: bool


@dataclass(frozen=True)
class PassCounts:
    """How often a rank has done a thing; None where it was not counted.

    Attributes:
        forwards: calls of DDP models with gradients on. backwards: backward passes that reduce gradients, the one
            under way included. batches: taken from data loaders. steps: of optimizers.
    """

    forwards: int | None = None
    backwards: int | None = None
    batches: int | None = None
    steps: int | None = None

    def more_passes_than(self, other: PassCounts) -> More:
        """Of which passes this rank has made more than the other; of none where one of these was not counted."""
        if (
            self.forwards is None
            or self.backwards is None
            or other.forwards is None
            or other.backwards is None
        ):
            return More(False, False)
        return More(self.forwards > other.forwards, self.backwards > other.backwards)


def pass_counts(outcome: Outcome) -> dict[int, PassCounts]:
    """The counts of every rank, also of those that the code did not run on: others may wait for them."""
    return {rank: _counts_of(outcome, rank) for rank in range(outcome.world_size)}


def without_backward(outcome: Outcome, rank: int) -> int | None:
    """Forward passes of a rank that no backward pass has followed, the one apart that it is in; None if not counted."""
    counts = pass_counts(outcome)[rank]
    if counts.forwards is None or counts.backwards is None:
        return None
    waiting = outcome.waiting.get(rank)
    record = waiting.collective if waiting is not None else None
    inside = record is not None and record.stage in (DDPStage.BUFFERS, DDPStage.REBUILD)
    return counts.forwards - counts.backwards - inside


def _counts_of(outcome: Outcome, rank: int) -> PassCounts:
    facts = outcome.facts.get(rank, NO_FACTS)
    if facts.probe is not None:
        noted = facts.probe.counts
        return PassCounts(noted.forwards, noted.backwards, noted.batches, noted.steps)
    records = outcome.recorded.get(rank, ())
    return PassCounts(backwards=_backwards(records, facts.models))


def _backwards(records: Iterable[Collective], models: Iterable[WrappedModel]) -> int | None:
    """Backward passes: each reduces every parameter of the model once, in however many buckets."""
    sizes = [_elements(model) for model in models]
    if len(sizes) != 1 or not sizes[0]:
        return None
    reduced = sum(
        math.prod(size) for record in records if record.stage == DDPStage.GRADIENTS for size in record.sizes
    )
    return math.ceil(reduced / sizes[0])


def _elements(model: WrappedModel) -> int:
    told = model.parameters
    return sum(math.prod(shape) for _, shape in told) if len(told) == model.number else 0


def calls_of_line(outcome: Outcome, like: Collective) -> dict[int, int]:
    """How often each rank has issued a collective for the same purpose by the same way, on the same sort of thread."""
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
