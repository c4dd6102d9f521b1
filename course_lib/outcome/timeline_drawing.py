"""The spans of a timeline as a picture, and as one to be watched again."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.draw import Bar, Lane, LaneDrawing, Moment, Replay, Told, lanes, without_overlaps
from course_lib.outcome.spans import Span, Stage, lanes_of, ranks_of

Tracks = tuple[tuple[Bar, ...], ...]

#: What the picture says beside each stage's look.
_WORDS = {
    **{str(stage): str(stage) for stage in Stage},
    Stage.WAITING: "waiting for other ranks",
    Stage.COMMUNICATION: "collective under way (number: bucket)",
}


def draw(spans: Sequence[Span], title: str, counts: str) -> LaneDrawing:
    """See `Timeline.plot`; `counts` says in words what the picture shows."""
    return _drawn({rank: tracks(spans, rank) for rank in ranks_of(spans)}, title, counts)


def replay(spans: Sequence[Span], title: str, counts: str, *, one_group: bool) -> Replay:
    """See `Timeline.replay`; `counts` as for `draw`."""
    found = {rank: tracks(spans, rank) for rank in ranks_of(spans)}
    told = tuple(_told(f"rank {rank}", *each) for rank, each in found.items())
    return Replay(_drawn(found, title, counts), told, waiting=str(Stage.WAITING), one_group=one_group)


def tracks(spans: Sequence[Span], rank: int, since: float = 0.0) -> Tracks:
    """A rank's spans as bars to be drawn, in milliseconds since a moment (in seconds): its main thread's, and below
    them the collectives under way, in as many tracks as overlap.
    """
    mine = [span for span in spans if span.rank == rank]
    main = [span for span in mine if span.stage is not Stage.COMMUNICATION]
    sent = [span for span in mine if span.stage is Stage.COMMUNICATION]
    # Those of the calls that issued them are drawn only where the backend has none.
    sent = [span for span in sent if not span.name.startswith("c10d::")] or sent
    order = list(Stage)
    above = sorted(main, key=lambda span: order.index(span.stage))
    below = lanes_of(span for span in sent if span.end > since)
    return tuple(tuple(_bar(span, since) for span in track if span.end > since) for track in (above, *below))


def _bar(span: Span, since: float) -> Bar:
    start = max(0.0, span.start - since)
    number = "" if span.bucket is None else str(span.bucket)
    hint = f"{span.name}, {1e3 * span.duration:.1f} ms"
    return Bar(1e3 * start, 1e3 * (span.end - since - start), str(span.stage), number, hint)


def _drawn(found: dict[int, Tracks], title: str, counts: str) -> LaneDrawing:
    return lanes(
        [Lane(f"rank {rank}", each) for rank, each in found.items()],
        title=title,
        alt=f"A lane for each of {len(found)} ranks. {counts}".strip(),
        legend=_WORDS,
    )


def _told(name: str, main: tuple[Bar, ...], *below: tuple[Bar, ...]) -> Told:
    moments = [Moment(bar.start, bar.start + bar.length, bar.look) for bar in main]
    collectives = sorted((bar.start, bar.start + bar.length) for track in below for bar in track)
    return Told(name, without_overlaps(moments), tuple(collectives))
