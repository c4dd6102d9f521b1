"""Record what a rank does during one job with torch's own profiler, as plain events.

Used inside a rank (`--trace`). Times are nanoseconds of the machine's clock, so ranks of one machine share them.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

_SHORTEST_NS = 1_000
_MOST_EVENTS = 20_000


class Tracer:
    """A context manager around the learner's code; afterwards `events()` has what happened."""

    def __init__(self) -> None:
        from torch.profiler import ProfilerActivity, profile

        self._profile = profile(activities=[ProfilerActivity.CPU])

    def __enter__(self) -> Tracer:
        self._profile.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._profile.__exit__(kind, error, traceback)

    def events(self) -> list[dict[str, Any]]:
        """`name`, `start_ns`, `duration_ns` and `thread` of what was recorded, in order of time."""
        profiler: Any = self._profile.profiler
        recorded = profiler.kineto_results.events()
        found = [
            {
                "name": event.name(),
                "start_ns": event.start_ns(),
                "duration_ns": event.duration_ns(),
                "thread": event.start_thread_id(),
            }
            for event in recorded
            if event.duration_ns() >= _SHORTEST_NS and not event.name().startswith("PyTorch Profiler")
        ]
        found.sort(key=lambda event: event["start_ns"])
        return found[:_MOST_EVENTS]
