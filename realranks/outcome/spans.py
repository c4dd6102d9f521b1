"""From the events of a rank's profiler trace to spans: what it did, which bucket was reduced when, when it waited.

Pure data; the events are those of `trace`, recorded by `realranks.ranks.inside.tracing`.

**A bucket's all-reduce** is an all-reduce of floating point values that is issued within a `backward()` of a rank that
has called a DDP model before: while a parameter's gradient is accumulated, or after the last gradient. The first of a
backward is bucket 0, the next bucket 1, and so on; where one backward runs through several DDP models, their buckets
are counted through. The span begins when a thread of the backend's takes up the all-reduce, and ends when it is done.

**Waiting** is time in which the rank's main thread

- is in a call that returns when a collective is done (`Work.wait`, which every synchronous collective of
  `torch.distributed` calls, `Future.wait`, `monitored_barrier`), or
- is in `backward()` after the last gradient was computed, or in one of DDP's own synchronizations (of buffers in the
  forward, of the bucket order in the second forward, of the model when it is wrapped), while a collective that this
  rank has issued is under way,

and runs no operator inside that call. So a thread that computes while buckets are reduced in the background does not
wait, nor does one that sleeps, reads or computes outside these calls, whatever is under way beside it. The transfer
itself is waiting too: nothing in a trace tells it from standing still. With NCCL the main thread only enqueues and the
GPU waits, which these events do not show.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from realranks.outcome.trace import BACKWARD, COMMUNICATION, RANGES, SYNCHRONIZE, TRACED, WAIT, TraceEvent

#: Neighbouring backward functions closer than this become one span: thousands of slivers are neither readable nor
#: fast to draw.
_ONE_SPAN_SECONDS = 20e-6
_GRADIENT = "autograd::engine::evaluate_function"
_ACCUMULATE = "AccumulateGrad"
_DDP_FORWARD = "DistributedDataParallel.forward"
_BACKENDS = ("gloo:", "nccl:")
_INTEGERS = frozenset({"int", "long", "short", "char", "unsigned char", "bool", "long int", "int32", "int64"})


class Stage(enum.StrEnum):
    """The activity that a span of time was spent on."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    WAITING = "waiting"
    COMMUNICATION = "communication"


@dataclass(frozen=True)
class Span:
    """A stretch of time on one rank.

    Attributes:
        start: seconds since the first event of any rank.
        duration: seconds.
        thread: 0 is the rank's main thread.
        bucket: the number of the bucket whose all-reduce this is, else None.
    """

    rank: int
    stage: Stage
    name: str
    start: float
    duration: float
    thread: int
    bucket: int | None = None

    @property
    def end(self) -> float:
        """The end, in seconds."""
        return self.start + self.duration


@dataclass(frozen=True)
class _Event:
    name: str
    start: float
    end: float
    thread: int
    floating: bool
    issued: float

    def holds(self, other: _Event) -> bool:
        return self.start <= other.start and other.end <= self.end


Interval = tuple[float, float]


def spans_of(rank: int, recorded: Iterable[TraceEvent], zero_ns: int) -> list[Span]:
    """Build the spans of one rank, leaving out irrelevant events.

    Args:
        recorded: events as `Tracer.events()` gives them. zero_ns: the moment that counts as 0 seconds.
    """
    events = [_event(entry, zero_ns) for entry in recorded]
    main = next((event.thread for event in events if event.name == TRACED), None)
    if main is None and events:
        main = events[0].thread
    threads = {main: 0}
    buckets = _bucket_numbers(events, main)
    spans = []
    for place, event in enumerate(events):
        stage = _stage_of(event.name)
        if stage is not None:
            thread = threads.setdefault(event.thread, len(threads))
            bucket = buckets.get(place)
            name = event.name if bucket is None else f"bucket {bucket}"
            spans.append(Span(rank, stage, name, event.start, event.end - event.start, thread, bucket))
    for start, end in waiting([event for event in events if event.thread == main], _under_way(events)):
        spans.append(Span(rank, Stage.WAITING, "waiting", start, end - start, 0))
    return merged(spans)


def _event(entry: TraceEvent, zero_ns: int) -> _Event:
    start = (entry["start_ns"] - zero_ns) / 1e9
    floating = not any(dtype in _INTEGERS for dtype in entry.get("dtypes", ()))
    end = start + entry["duration_ns"] / 1e9
    issued = (entry["issued_ns"] - zero_ns) / 1e9 if "issued_ns" in entry else start
    return _Event(entry["name"], start, end, entry["thread"], floating, issued)


def _stage_of(name: str) -> Stage | None:
    if name.startswith(COMMUNICATION):
        return Stage.COMMUNICATION
    if name == _DDP_FORWARD:
        return Stage.FORWARD
    if name.startswith("Optimizer.step"):
        return Stage.OPTIMIZER
    if name.startswith(_GRADIENT):
        return Stage.BACKWARD
    return None


# -- buckets ------------------------------------------------------------------------------------------------------


def _bucket_numbers(events: Sequence[_Event], main: int | None) -> dict[int, int]:
    """Assign bucket numbers to the events that are all-reduces of buckets, by the event's index in the list."""
    first_forward = min((event.start for event in events if event.name == _DDP_FORWARD), default=None)
    numbers: dict[int, int] = {}
    if first_forward is None:
        return numbers
    for backward in (event for event in events if event.name == BACKWARD and event.start > first_forward):
        gradients = [event for event in events if event.name.startswith(_GRADIENT) and backward.holds(event)]
        last = max((gradient.end for gradient in gradients), default=backward.start)
        accumulating = [gradient for gradient in gradients if gradient.name.endswith(_ACCUMULATE)]
        reduced = [
            place
            for place, event in enumerate(events)
            if _is_all_reduce(event)
            and event.floating
            and backward.start <= event.issued <= backward.end
            and (event.issued >= last or any(one.start <= event.issued <= one.end for one in accumulating))
        ]
        reduced.sort(key=lambda place: events[place].issued)
        numbers.update({place: number for number, place in enumerate(reduced)})
    return numbers


def _is_all_reduce(event: _Event) -> bool:
    return event.name.startswith(_BACKENDS) and event.name.partition(":")[2].replace("_", "").startswith(
        "allreduce"
    )


# -- waiting ------------------------------------------------------------------------------------------------------


def _under_way(events: Iterable[_Event]) -> list[Interval]:
    """Return the intervals in which any collective that this rank has issued was under way."""
    return union((event.issued, event.end) for event in events if event.name.startswith(_BACKENDS))


def waiting(main: Sequence[_Event], under_way: Sequence[Interval]) -> list[Interval]:
    """Return the intervals in which the main thread waited, by the rule at the head of this file.

    Args:
        main: the main thread's events in order. under_way: when a collective of this rank was under way.
    """
    found: list[Interval] = []
    for event in main:
        whole = [(event.start, event.end)]
        if event.name == WAIT or event.name.startswith("c10d::monitored_barrier"):
            found += without(whole, _operators(event, main))
        elif event.name == SYNCHRONIZE:
            found += without(intersection(whole, under_way), _operators(event, main))
        elif event.name == BACKWARD:
            gradients = [other for other in main if other.name.startswith(_GRADIENT) and event.holds(other)]
            if gradients:
                tail = (max(gradient.end for gradient in gradients), event.end)
                found += without(intersection([tail], under_way), _operators(event, main))
    return union(found)


def _operators(inside: _Event, main: Sequence[_Event]) -> list[Interval]:
    """Return the intervals in which the main thread ran an operator inside a range."""
    return union(
        (event.start, event.end)
        for event in main
        if event.name not in RANGES
        and event.name != _DDP_FORWARD
        and not event.name.startswith(COMMUNICATION)
        and inside.holds(event)
    )


# -- intervals ----------------------------------------------------------------------------------------------------


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge overlapping intervals."""
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif end > start:
            joined.append((start, end))
    return joined


def intersection(some: Iterable[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Intersect two lists of intervals; intervals of one list do not overlap."""
    return [
        (max(start, first), min(end, last))
        for start, end in some
        for first, last in others
        if max(start, first) < min(end, last)
    ]


def without(some: Iterable[Interval], holes: Sequence[Interval]) -> list[Interval]:
    """Cut holes out of intervals."""
    left = list(some)
    for first, last in holes:
        left = [
            piece
            for start, end in left
            for piece in ((start, min(end, first)), (max(start, last), end))
            if piece[0] < piece[1]
        ]
    return left


def ranks_of(spans: Iterable[Span]) -> tuple[int, ...]:
    """Return the ranks that have recorded something."""
    return tuple(sorted({span.rank for span in spans}))


def lanes_of(spans: Iterable[Span]) -> list[list[Span]]:
    """Distribute the spans over as few lanes as possible without overlap, each into the first free lane."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda one: one.start):
        free = next((lane for lane in lanes if lane[-1].end <= span.start), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return lanes


def merged(spans: Iterable[Span]) -> list[Span]:
    """Merge neighbouring backward functions into one span each."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.rank, s.stage, s.thread, s.start)):
        last = joined[-1] if joined else None
        if (
            last is not None
            and span.stage is Stage.BACKWARD
            and (last.rank, last.stage, last.thread) == (span.rank, span.stage, span.thread)
            and span.start - last.end < _ONE_SPAN_SECONDS
        ):
            joined[-1] = replace(last, name="backward", duration=max(last.end, span.end) - last.start)
        else:
            joined.append(span)
    return joined
