"""One moment of all ranks, side by side: where each was, what it had issued, how it ended.

Taken when a run went wrong, also of ranks that were blocked; read from an `Outcome`, so it needs no rank and no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from realranks.outcome.facts import NO_FACTS
from realranks.outcome.fold import Folded, beside, fold, rank_label
from realranks.outcome.html import panel, pre, table
from realranks.outcome.outcome import Collective, DDPStage, Outcome, exit_text
from realranks.outcome.places import Frame, is_learners
from realranks.outcome.wrapped import NamedShape, WrappedModel

_NEWEST, _NAMES = 4, 4


@dataclass(frozen=True)
class RankSnapshot:
    """The known state of one rank.

    Attributes:
        state: `finished`, `raised`, `freed`, `died`, `killed` or `ended` for ranks whose part was over, `blocked`,
            `computing`, `stopped`, `locked` or `silent` for the others (see `Waiting.state`).
        stack: the learner's frames, outermost first; empty where the rank was in none of them.
        collectives: all it had issued in this run, oldest first; the last ones may still be under way (`done`).
        parameters: for DDP's gradient all-reduces, by position in `collectives`: the names of the parameters in the
            bucket, where their number of elements says which they are.
        memory_bytes: resident memory, None where it was not asked for.
        error: what was raised.
        exit: how the process ended.
    """

    rank: int
    state: str
    stack: tuple[Frame, ...] = ()
    collectives: tuple[Collective, ...] = ()
    parameters: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    memory_bytes: int | None = None
    error: str = ""
    exit: str = ""

    def lines(self) -> Iterator[str]:
        """Yield lines of text about this rank, without its memory, which changes from run to run."""
        ended = ", ".join(filter(None, (self.error, self.exit)))
        yield f"{self.state}: {ended}" if ended else self.state
        for frame in self.stack:
            yield f"  at {frame.where()}: {frame.source}".rstrip(": ")
        first = max(0, len(self.collectives) - _NEWEST)
        if first:
            yield f"  {first} earlier collectives"
        for position, record in list(enumerate(self.collectives))[first:]:
            purpose = f", DDP's {record.stage}" if record.stage else ""
            names = f" of {_listed(self.parameters[position])}" if position in self.parameters else ""
            place = f" at {record.where}" if record.where else ""
            way = "done" if record.done else "under way"
            yield f"  #{record.seq} {record}{purpose}{names}{place}: {way}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Snapshot:
    """All ranks at the moment a run ended or was ended: `snapshot[2]` is rank 2."""

    ranks: Mapping[int, RankSnapshot]

    def __getitem__(self, rank: int) -> RankSnapshot:
        return self.ranks[rank]

    def _folded(self) -> list[Folded]:
        return fold({rank: "\n".join(seen.lines()) for rank, seen in self.ranks.items()})

    def __repr__(self) -> str:
        rows = self._folded()
        width = max((len(rank_label(row.ranks)) for row in rows), default=0)
        return "\n".join(beside(rank_label(row.ranks), row.text, width) for row in rows)

    def _repr_html_(self) -> str:

        return panel(table((rank_label(row.ranks), pre(row.text)) for row in self._folded()))


def snapshot(outcome: Outcome) -> Snapshot:
    """Return the state in which each rank was when the run ended or was ended."""
    return Snapshot({rank: _of_rank(outcome, rank) for rank in outcome.ranks})


def _of_rank(outcome: Outcome, rank: int) -> RankSnapshot:
    waiting = outcome.waiting.get(rank)
    facts = outcome.facts.get(rank, NO_FACTS)
    error = outcome.errors.get(rank)
    records = tuple(outcome.collectives.get(rank, ()))
    freed = waiting is not None
    if waiting is not None:
        stack = tuple(frame for frame in waiting.stack if is_learners(frame.file))
    else:
        stack = outcome.last_places.get(rank, ())
    return RankSnapshot(
        rank,
        waiting.state if waiting is not None else str(outcome.endings[rank]),
        stack,
        records,
        _in_buckets(records, facts.models),
        facts.memory_bytes,
        "" if freed or error is None else str(error).partition("\n")[0],
        exit_text(outcome.exits[rank]) if rank in outcome.exits else "",
    )


def _in_buckets(records: Sequence[Collective], models: Sequence[WrappedModel]) -> dict[int, tuple[str, ...]]:
    """Assign parameters to DDP's all-reduces of gradients, by position; empty unless all can be assigned.

    Buckets collect the gradients in the order in which they become ready, which is nearly always the reverse order of
    the parameters. The assignment is accepted only if the sizes of all all-reduces fit one model.
    """
    fitting = [found for model in models if (found := _partition(records, model.parameters))]
    return fitting[0] if all(found == fitting[0] for found in fitting[1:]) and fitting else {}


def _partition(records: Sequence[Collective], parameters: Sequence[NamedShape]) -> dict[int, tuple[str, ...]]:
    backwards = [(name, math.prod(shape)) for name, shape in reversed(parameters)]
    found: dict[int, tuple[str, ...]] = {}
    start = 0
    for position, record in enumerate(records):
        if record.stage == DDPStage.GRADIENTS:
            left, end = sum(math.prod(size) for size in record.sizes), start
            while left > 0 and end < len(backwards):
                left -= backwards[end][1]
                end += 1
            if left:
                return {}
            found[position] = tuple(name for name, _ in backwards[start:end])
            start = end % len(backwards)
    return found
