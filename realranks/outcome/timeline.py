"""A timeline of each rank - forward, backward, optimizer, waiting, communication - merged from the ranks' traces."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from realranks.draw import LaneDrawing, Replay
from realranks.outcome.chrome import chrome_events
from realranks.outcome.fold import fold, rank_label, rank_list
from realranks.outcome.spans import Interval, Span, Stage, ranks_of, spans_of, union
from realranks.outcome.timeline_drawing import draw, replay
from realranks.outcome.trace import TRACED, TraceEvent


@dataclass(frozen=True)
class Timeline:
    """The spans of all ranks on one clock; `spans` says what counts as a bucket, and what as waiting.

    Attributes:
        cells: by rank, when its code began and ended, in seconds; also of a rank that has no spans.
    """

    spans: tuple[Span, ...]
    cells: Mapping[int, Interval] = field(default_factory=dict)

    @classmethod
    def from_traces(cls, traces: Mapping[int, Iterable[TraceEvent]]) -> Timeline:
        """Merge the events of each rank (see `ranks.tracing`); events of no interest are left out."""
        events = {rank: list(found) for rank, found in sorted(traces.items())}
        zero = min((event["start_ns"] for found in events.values() for event in found), default=0)
        cells = {
            rank: ((event["start_ns"] - zero) / 1e9, (event["start_ns"] + event["duration_ns"] - zero) / 1e9)
            for rank, found in events.items()
            for event in found
            if event["name"] == TRACED
        }
        spans = tuple(span for rank, found in events.items() for span in spans_of(rank, found, zero))
        return cls(spans, cells)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that were traced."""
        return tuple(sorted({*ranks_of(self.spans), *self.cells}))

    def seconds(self, rank: int, stage: Stage | str) -> float:
        """Return the seconds a rank spent in a stage; overlapping spans of one stage count once."""
        found = ((span.start, span.end) for span in self.spans if span.rank == rank and span.stage == stage)
        return sum(end - start for start, end in union(found))

    def waiting(self, rank: int) -> float:
        """Return the seconds a rank's main thread was in a communication call and did nothing else."""
        return self.seconds(rank, Stage.WAITING)

    def buckets(self, rank: int) -> tuple[Span, ...]:
        """Return the all-reduces of DDP's buckets on a rank, in the order in which they started."""
        found = (span for span in self.spans if span.rank == rank and span.bucket is not None)
        return tuple(sorted(found, key=lambda span: span.start))

    def summary(self) -> str:
        """Format the milliseconds of every rank in every stage as a table; they differ from run to run."""
        head = "milliseconds".ljust(14) + "".join(f"{stage:>15}" for stage in Stage)
        rows = (
            rank_label([rank]).ljust(14)
            + "".join(f"{1e3 * self.seconds(rank, stage):>15.1f}" for stage in Stage)
            for rank in self.ranks
        )
        return "\n".join([head, *rows])

    def plot(self, title: str = "What each rank did, and when") -> LaneDrawing:
        """Draw a lane per rank: what its main thread does, and below that the collectives under way."""
        return draw(self.spans, self.ranks, title, self.counts())

    def replay(
        self,
        title: str = "What each rank did, and when",
        *,
        one_group: bool = True,
        endings: Mapping[int, str] | None = None,
    ) -> Replay:
        """Return a player for the drawing (play, step, slow motion): what each rank does, and whom it awaits.

        Args:
            one_group: all collectives were of one process group; with several, no rank is named as late.
            endings: what became of each rank in the end, such as `freed`; these ranks have lanes, traced or not.
        """
        ranks = sorted({*self.ranks, *(endings or ())})
        cells = {rank: self.cells.get(rank) for rank in ranks}
        ended = (f"{rank_list(row.ranks)} {row.text}" for row in fold(endings or {}))
        said = "; ".join(part for part in (self.counts(), *ended) if part)
        return replay(self.spans, cells, endings or {}, title, said, one_group=one_group)

    def save(self, path: str | Path) -> Path:
        """Write a Chrome trace (chrome://tracing, ui.perfetto.dev): one process a rank."""
        target = Path(path)
        target.write_text(json.dumps({"traceEvents": chrome_events(self.spans)}), encoding="utf-8")
        return target

    def _counts(self, rank: int) -> str:
        counted = Counter(span.stage for span in self.spans if span.rank == rank)
        said = [f"{counted[stage]} {stage}" for stage in (Stage.FORWARD, Stage.OPTIMIZER) if counted[stage]]
        if reduced := self.buckets(rank):
            said.append(f"{len(reduced)} all-reduces of buckets")
        return ", ".join(said)

    def counts(self) -> str:
        """Describe how often each rank did what, in one line without times, so it is the same on every run."""
        counts = fold({rank: text for rank in self.ranks if (text := self._counts(rank))})
        return "; ".join(f"{rank_list(row.ranks)}: {row.text}" for row in counts)

    def __repr__(self) -> str:
        counts = fold({rank: self._counts(rank) for rank in self.ranks})
        return "\n".join(
            [
                f"Timeline of {len(self.ranks)} ranks",
                *(f"  {rank_list(row.ranks)}: {row.text}" for row in counts),
                "  .replay(), .plot(), .summary(), .waiting(rank), .seconds(rank, stage), .buckets(rank), .save(path)",
            ]
        )
