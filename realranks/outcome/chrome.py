"""The spans of a timeline as events of the Chrome trace format, which chrome://tracing and ui.perfetto.dev show."""

from __future__ import annotations

from collections.abc import Sequence

from realranks.outcome.spans import Span, Stage, ranks_of

#: Rows of collectives begin here: within one row spans have to lie in each other, and collectives overlap freely.
_FIRST_LANE = 1000


def chrome_events(spans: Sequence[Span]) -> list[dict[str, object]]:
    """Convert spans to Chrome trace events: one process per rank, with its threads, then rows for collectives."""
    events: list[dict[str, object]] = []
    for rank in ranks_of(spans):
        events.append(_name("process_name", rank, 0, f"rank {rank}"))
        lanes: list[float] = []
        for span in sorted((s for s in spans if s.rank == rank), key=lambda s: s.start):
            row = span.thread
            if _in_background(span):
                lane = next((n for n, end in enumerate(lanes) if end <= span.start), len(lanes))
                lanes[lane : lane + 1] = [span.end]
                row = _FIRST_LANE + lane
            events.append(
                {
                    "ph": "X",
                    "pid": rank,
                    "tid": row,
                    "name": span.name,
                    "cat": str(span.stage),
                    "ts": span.start * 1e6,
                    "dur": span.duration * 1e6,
                }
            )
        events.append(_name("thread_name", rank, 0, "main thread"))
        events += [
            _name("thread_name", rank, _FIRST_LANE + n, "collectives under way") for n in range(len(lanes))
        ]
    return events


def _in_background(span: Span) -> bool:
    return span.stage is Stage.COMMUNICATION and not span.name.startswith("c10d::")


def _name(what: str, rank: int, row: int, name: str) -> dict[str, object]:
    return {"ph": "M", "pid": rank, "tid": row, "name": what, "args": {"name": name}}
