"""What each rank did when: forward, backward, optimizer, communication - merged from the ranks' profiler traces."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Stage(enum.StrEnum):
    """What a span of time was spent on."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    COMMUNICATION = "communication"


@dataclass(frozen=True)
class Span:
    """A stretch of time on one rank.

    Attributes:
        start, duration: seconds, counted from the first event of any rank. thread: 0 is the rank's main thread.
    """

    rank: int
    stage: Stage
    name: str
    start: float
    duration: float
    thread: int


#: Readable in grey too: lightness differs as much as colour does, and hatching tells the rest.
_LOOK: dict[Stage, tuple[str, str]] = {
    Stage.FORWARD: ("#56B4E9", ""),
    Stage.BACKWARD: ("#0072B2", "//"),
    Stage.OPTIMIZER: ("#999999", ".."),
    Stage.COMMUNICATION: ("#E69F00", "xx"),
}


def _stage_of(name: str) -> Stage | None:
    if name.startswith(("gloo:", "nccl:", "c10d::")):
        return Stage.COMMUNICATION
    if name == "DistributedDataParallel.forward":
        return Stage.FORWARD
    if name.startswith("Optimizer.step"):
        return Stage.OPTIMIZER
    if name.startswith("autograd::engine::evaluate_function"):
        return Stage.BACKWARD
    return None


@dataclass(frozen=True)
class Timeline:
    """The spans of all ranks on one clock."""

    spans: tuple[Span, ...]

    @classmethod
    def from_traces(cls, traces: Mapping[int, Iterable[Mapping[str, Any]]]) -> Timeline:
        """Merge the events of each rank (see `ranks.tracing`); events of no interest are left out."""
        events = {rank: list(found) for rank, found in traces.items()}
        zero = min((event["start_ns"] for found in events.values() for event in found), default=0)
        spans = []
        for rank, found in sorted(events.items()):
            threads: dict[int, int] = {}
            for event in found:
                stage = _stage_of(event["name"])
                if stage is None:
                    continue
                thread = threads.setdefault(event["thread"], len(threads))
                start = (event["start_ns"] - zero) / 1e9
                spans.append(Span(rank, stage, event["name"], start, event["duration_ns"] / 1e9, thread))
        return cls(tuple(_merged(spans)))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that recorded something."""
        return tuple(sorted({span.rank for span in self.spans}))

    def seconds(self, rank: int, stage: Stage | str) -> float:
        """Seconds a rank spent in a stage; overlapping spans of one stage count once."""
        total, end = 0.0, float("-inf")
        for span in sorted(
            (s for s in self.spans if s.rank == rank and s.stage == stage), key=lambda s: s.start
        ):
            start = max(span.start, end)
            end = max(end, span.start + span.duration)
            total += max(0.0, end - start)
        return total

    def plot(self, title: str = "What each rank did, and when") -> Any:
        """A matplotlib figure: one row a rank, computing above, communication below."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(9, 1.0 + 0.6 * max(1, len(self.ranks))), layout="constrained")
        for row, rank in enumerate(self.ranks):
            for stage in Stage:
                below = 0.26 if stage is Stage.COMMUNICATION else -0.04
                bars = [
                    (s.start * 1e3, s.duration * 1e3)
                    for s in self.spans
                    if s.rank == rank and s.stage is stage
                ]
                colour, hatch = _LOOK[stage]
                axes.broken_barh(
                    bars,
                    (row - 0.3 + below, 0.3),
                    facecolors=colour,
                    hatch=hatch,
                    edgecolor="white",
                    linewidth=0.3,
                    label=str(stage) if row == 0 else None,
                )
        axes.set_yticks(range(len(self.ranks)), [f"rank {rank}" for rank in self.ranks])
        axes.invert_yaxis()
        axes.set_xlabel("milliseconds")
        axes.set_title(title)
        axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False)
        plt.close(figure)
        return figure

    def save(self, path: str | Path) -> Path:
        """Write a Chrome trace (chrome://tracing, ui.perfetto.dev): one process a rank."""
        events = [
            {
                "ph": "X",
                "pid": span.rank,
                "tid": span.thread,
                "name": span.name,
                "cat": str(span.stage),
                "ts": span.start * 1e6,
                "dur": span.duration * 1e6,
            }
            for span in self.spans
        ]
        names = [
            {"ph": "M", "pid": rank, "name": "process_name", "args": {"name": f"rank {rank}"}}
            for rank in self.ranks
        ]
        target = Path(path)
        target.write_text(json.dumps({"traceEvents": names + events}), encoding="utf-8")
        return target

    def __repr__(self) -> str:
        what = f"{len(self.ranks)} ranks, {len(self.spans)} spans"
        return f"Timeline of {what}: .plot(), .save(path), .seconds(rank, stage)"


def _merged(spans: list[Span]) -> list[Span]:
    """Neighbouring backward functions become one span: thousands of slivers are neither readable nor fast to draw."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.rank, s.stage, s.thread, s.start)):
        last = merged[-1] if merged else None
        if (
            last is not None
            and span.stage is Stage.BACKWARD
            and (last.rank, last.stage, last.thread) == (span.rank, span.stage, span.thread)
            and span.start - (last.start + last.duration) < 20e-6
        ):
            end = max(last.start + last.duration, span.start + span.duration)
            merged[-1] = Span(last.rank, last.stage, "backward", last.start, end - last.start, last.thread)
        else:
            merged.append(span)
    return merged
