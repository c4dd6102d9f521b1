"""Timelines and buckets as matplotlib figures; drawn in the kernel, from plain data.

Every figure can be read in grey: lightness and hatching tell what colour tells, and what matters is written beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course_lib.watch.spans import Span, Stage, lanes_of

if TYPE_CHECKING:
    from course_lib.watch.buckets import Bucket, Buckets
    from course_lib.watch.timeline import Timeline

#: Colour, hatch and edge of each stage.
_LOOK: dict[Stage, tuple[str, str, str]] = {
    Stage.FORWARD: ("#56B4E9", "", "white"),
    Stage.BACKWARD: ("#0072B2", "///", "white"),
    Stage.OPTIMIZER: ("#999999", "...", "white"),
    Stage.WAITING: ("#FFFFFF", "||||", "#555555"),
    Stage.COMMUNICATION: ("#E69F00", "\\\\\\", "white"),
}
#: Heights within a rank's row: the main thread's bars, a lane of collectives, the gap to the next rank.
_MAIN, _LANE, _GAP = 1.3, 1.0, 0.8
_INCHES = 0.26
#: Text is written into a bar only where the bar is at least this part of the figure's width.
_WIDE_ENOUGH = 0.025
_SHADES = (("#E6E6E6", ""), ("#9FC8E3", "///"))
_UNITS = (("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))


def draw_timeline(timeline: Timeline, title: str) -> Any:
    """One row a rank: above what its main thread does, below the collectives under way, in as many lanes as overlap."""
    import matplotlib.pyplot as plt

    ranks = timeline.ranks
    lanes = {rank: lanes_of(_collectives(timeline, rank)) for rank in ranks}
    height = _MAIN + _LANE * max([1, *(len(found) for found in lanes.values())]) + _GAP
    size = (9, 1.4 + _INCHES * height * max(1, len(ranks)))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    length = max((span.end for span in timeline.spans), default=0.0) * 1e3
    for row, rank in enumerate(ranks):
        top = row * height
        for layer, stage in enumerate(Stage):
            if stage is not Stage.COMMUNICATION:
                spans = [span for span in timeline.spans if span.rank == rank and span.stage is stage]
                _draw_spans(axes, spans, stage, (top, _MAIN), 2 + layer)
        for lane, spans in enumerate(lanes[rank]):
            bottom = top + _MAIN + lane * _LANE
            _draw_spans(axes, spans, Stage.COMMUNICATION, (bottom + 0.08, _LANE - 0.08), 2)
            _number_buckets(axes, spans, bottom + 0.54 * _LANE, length)
    axes.set_yticks(
        [row * height + _MAIN / 2 for row in range(len(ranks))], [f"rank {rank}" for rank in ranks]
    )
    axes.set_ylim(len(ranks) * height - _GAP / 2, -_GAP / 2)
    axes.set_xlim(left=0)
    axes.set_xlabel("milliseconds")
    axes.set_title(title)
    named = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    shown = [text for text in _LABELS.values() if text in named]
    figure.legend(
        [named[text] for text in shown],
        shown,
        ncols=3,
        handlelength=3,
        loc="outside lower center",
        frameon=False,
    )
    plt.close(figure)
    return figure


def _collectives(timeline: Timeline, rank: int) -> list[Span]:
    """The backend's own spans; those of the calls that issued them only where there are no others."""
    spans = [span for span in timeline.spans if span.rank == rank and span.stage is Stage.COMMUNICATION]
    return [span for span in spans if not span.name.startswith("c10d::")] or spans


def _draw_spans(
    axes: Any, spans: Sequence[Span], stage: Stage, place: tuple[float, float], layer: int
) -> None:
    if not spans:
        return
    colour, hatch, edge = _LOOK[stage]
    axes.broken_barh(
        [(span.start * 1e3, span.duration * 1e3) for span in spans],
        place,
        facecolors=colour,
        hatch=hatch,
        edgecolor=edge,
        linewidth=0.4,
        zorder=layer,
        label=_LABELS[stage],
    )


_LABELS = {
    **{stage: str(stage) for stage in Stage},
    Stage.WAITING: "waiting for other ranks",
    Stage.COMMUNICATION: "collective under way (number: bucket)",
}


def _number_buckets(axes: Any, spans: Sequence[Span], height: float, length: float) -> None:
    plain = {"facecolor": _LOOK[Stage.COMMUNICATION][0], "edgecolor": "none", "pad": 1}
    for span in spans:
        if span.bucket is not None and span.duration * 1e3 >= _WIDE_ENOUGH * length:
            middle = (span.start + span.duration / 2) * 1e3
            axes.text(middle, height, span.bucket, ha="center", va="center", fontsize=8, bbox=plain, zorder=9)


def draw_buckets(buckets: Buckets, title: str) -> Any:
    """A bar for the first iteration and one for the buckets since; parameters in the order of their reduction."""
    import matplotlib.pyplot as plt

    bars = [("first\niteration", buckets.built)]
    if buckets.rebuilt is not None:
        bars.append(("since the\nsecond", buckets.rebuilt))
    figure, axes = plt.subplots(figsize=(9, 1.5 + 1.1 * len(bars)), layout="constrained")
    total = max((sum(bucket.bytes for bucket in found) for _, found in bars), default=0) or 1
    unit, factor = next((name, factor) for name, factor in _UNITS if total >= factor)
    for row, (_, found) in enumerate(bars):
        _draw_bar(axes, row, found, total, factor)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.75)
    axes.set_xlim(0, total / factor)
    axes.set_xlabel(f"{unit} of gradients, in the order in which they are reduced")
    axes.set_title(title)
    plt.close(figure)
    return figure


def _draw_bar(axes: Any, row: int, found: Sequence[Bucket], total: int, factor: int) -> None:
    from course_lib.watch.buckets import size_text

    start = 0
    for bucket in found:
        colour, hatch = _SHADES[bucket.index % len(_SHADES)]
        left = start
        for name, size in zip(bucket.parameters, bucket.sizes, strict=True):
            at = {"left": left / factor, "height": 0.5}
            axes.barh(row, size / factor, color=colour, hatch=hatch, edgecolor="white", linewidth=0.8, **at)
            if size >= 0.011 * total * len(name):
                plain = {"facecolor": colour, "edgecolor": "none", "pad": 1}
                middle = (left + size / 2) / factor
                axes.text(middle, row, name, ha="center", va="center", fontsize=8, bbox=plain)
            left += size
        at = {"left": start / factor, "height": 0.5}
        axes.barh(row, bucket.bytes / factor, fill=False, edgecolor="black", linewidth=1.4, **at)
        if bucket.bytes >= 0.06 * total:
            label = f"bucket {bucket.index}"
            if bucket.bytes >= 0.15 * total:
                label += f" ({size_text(bucket.bytes)})"
            middle = (start + bucket.bytes / 2) / factor
            axes.text(middle, row - 0.3, label, ha="center", va="bottom", fontsize=9)
        start += bucket.bytes
