"""The spans of a timeline as a picture, and as one to be watched again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from realranks.draw import Bar, Lane, LaneDrawing, Moment, Replay, ReplayLane, lanes, without_overlaps
from realranks.outcome.spans import Interval, Span, Stage, lanes_of

Tracks = tuple[tuple[Bar, ...], ...]

#: A rank that ends earlier than the last one by so much of the whole time is drawn as absent: the words fit in there.
_LONG_BEFORE = 0.3
#: What the picture says beside each stage's look.
_WORDS = {
    **{str(stage): str(stage) for stage in Stage},
    Stage.WAITING: "waiting for other ranks",
    Stage.COMMUNICATION: "collective under way",
}


def draw(spans: Sequence[Span], ranks: Sequence[int], title: str, counts: str) -> LaneDrawing:
    """Draw the picture of `Timeline.plot`; `counts` describes it in words."""
    return _drawn({rank: tracks(spans, rank) for rank in ranks}, title, counts)


def replay(
    spans: Sequence[Span],
    cells: Mapping[int, Interval | None],
    endings: Mapping[int, str],
    title: str,
    counts: str,
    *,
    one_group: bool,
) -> Replay:
    """Build the player of `Timeline.replay`; `counts` as for `draw`.

    Args:
        cells: when each rank's code began and ended, in seconds; None where nothing of the rank was recorded.
    """
    last = 1e3 * max((cell[1] for cell in cells.values() if cell), default=0.0)
    drawn, lanes = {}, []
    for rank, cell in cells.items():
        begins, ends = (1e3 * cell[0], 1e3 * cell[1]) if cell else (0.0, 0.0)
        how = endings.get(rank, "ended")
        said = f"{how} at {ends:.1f} ms" if cell else f"{how}, nothing recorded"
        main, *below = tracks(spans, rank)
        lanes.append(_replay_lane(f"rank {rank}", main, below, begins, ends, said))
        absent = (Bar(ends, last - ends, "", said),) if last - ends > last * _LONG_BEFORE else ()
        drawn[rank] = ((*main, *absent), *below)
    return Replay(_drawn(drawn, title, counts), tuple(lanes), waiting=str(Stage.WAITING), one_group=one_group)


def tracks(spans: Sequence[Span], rank: int, since: float = 0.0) -> Tracks:
    """Lay out a rank's spans as bars, in milliseconds since a moment (given in seconds).

    The main thread's bars come first, below them the collectives under way, in as many tracks as overlap.
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


def _drawn(found: Mapping[int, Tracks], title: str, counts: str) -> LaneDrawing:
    bars = (bar for each in found.values() for track in each for bar in track)
    numbered = any(bar.text for bar in bars if bar.look == Stage.COMMUNICATION)
    legend = _WORDS | ({Stage.COMMUNICATION: "collective under way (number: bucket)"} if numbered else {})
    return lanes(
        [Lane(f"rank {rank}", each) for rank, each in found.items()],
        title=title,
        alt=f"A lane for each of {len(found)} ranks. {counts}".strip(),
        legend=legend,
    )


def _replay_lane(
    name: str, main: tuple[Bar, ...], below: Sequence[tuple[Bar, ...]], begins: float, ends: float, ended: str
) -> ReplayLane:
    moments = [Moment(bar.start, bar.start + bar.length, bar.look) for bar in main]
    collectives = sorted((bar.start, bar.start + bar.length) for track in below for bar in track)
    return ReplayLane(name, without_overlaps(moments), tuple(collectives), begins, ends, ended)
