"""Timelines and buckets as matplotlib figures; drawn in the kernel, from plain data.

Every figure can be read in grey: lightness and hatching tell what colour tells, and what matters is written beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course_lib.watch.spans import Span, Stage

if TYPE_CHECKING:
    from course_lib.watch.buckets import Bucket, Buckets
    from course_lib.watch.timeline import Timeline

#: Colour, hatch and edge of each stage.
_LOOK: dict[Stage, tuple[str, str, str]] = {
    Stage.FORWARD: ("#56B4E9", "", "white"),
    Stage.BACKWARD: ("#0072B2", "///", "white"),
    Stage.OPTIMIZER: ("#999999", "...", "white"),
    Stage.WAITING: ("#FFFFFF", "||||", "#555555"),
    Stage.COMMUNICATION: ("#E69F00", "", "white"),
}
#: Text is written into a bar only where the bar is at least this part of the figure's width.
_WIDE_ENOUGH = 0.025
_SHADES = (("#E6E6E6", ""), ("#9FC8E3", "///"))


def draw_timeline(timeline: Timeline, title: str) -> Any:
    """One row a rank: above what its main thread does, below the collectives under way."""
    import matplotlib.pyplot as plt

    ranks = timeline.ranks
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.7 * max(1, len(ranks))), layout="constrained")
    length = max((span.end for span in timeline.spans), default=0.0) * 1e3
    for row, rank in enumerate(ranks):
        for layer, stage in enumerate(Stage):
            spans = [span for span in timeline.spans if span.rank == rank and span.stage is stage]
            if stage is Stage.COMMUNICATION:
                spans = [span for span in spans if not span.name.startswith("c10d::")] or spans
            below = stage is Stage.COMMUNICATION
            colour, hatch, edge = _LOOK[stage]
            axes.broken_barh(
                [(span.start * 1e3, span.duration * 1e3) for span in spans],
                (row + 0.05, 0.26) if below else (row - 0.31, 0.34),
                facecolors=colour,
                hatch=hatch,
                edgecolor=edge,
                linewidth=0.4,
                zorder=2 + layer,
                label=_LABELS[stage] if row == 0 else None,
            )
            if below:
                _number_buckets(axes, spans, row, length)
    axes.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in ranks])
    axes.set_ylim(len(ranks) - 0.5, -0.5)
    axes.set_xlabel("milliseconds")
    axes.set_title(title)
    figure.legend(
        *axes.get_legend_handles_labels(), ncols=len(Stage), loc="outside lower center", frameon=False
    )
    plt.close(figure)
    return figure


_LABELS = {
    **{stage: str(stage) for stage in Stage},
    Stage.WAITING: "waiting for other ranks",
    Stage.COMMUNICATION: "collective under way (number: bucket)",
}


def _number_buckets(axes: Any, spans: Sequence[Span], row: int, length: float) -> None:
    for span in spans:
        if span.bucket is not None and span.duration * 1e3 >= _WIDE_ENOUGH * length:
            middle = (span.start + span.duration / 2) * 1e3
            axes.text(middle, row + 0.18, span.bucket, ha="center", va="center", fontsize=8, zorder=9)


def draw_buckets(buckets: Buckets, title: str) -> Any:
    """A bar for the first iteration and one for the buckets since; parameters in the order of their reduction."""
    import matplotlib.pyplot as plt

    bars = [("first\niteration", buckets.built)]
    if buckets.rebuilt is not None:
        bars.append(("since the\nsecond", buckets.rebuilt))
    figure, axes = plt.subplots(figsize=(9, 1.5 + 1.1 * len(bars)), layout="constrained")
    total = max((sum(bucket.bytes for bucket in found) for _, found in bars), default=0) or 1
    for row, (_, found) in enumerate(bars):
        _draw_bar(axes, row, found, total)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.75)
    axes.set_xlim(0, total)
    factor, unit = (1 << 20, "MiB") if total >= 1 << 20 else (1 << 10, "KiB")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / factor:.3g}")
    axes.set_xlabel(f"{unit} of gradients, in the order in which they are reduced")
    axes.set_title(title)
    plt.close(figure)
    return figure


def _draw_bar(axes: Any, row: int, found: Sequence[Bucket], total: int) -> None:
    from course_lib.watch.buckets import size_text

    start = 0
    for bucket in found:
        colour, hatch = _SHADES[bucket.index % len(_SHADES)]
        left = start
        for name, size in zip(bucket.parameters, bucket.sizes, strict=True):
            axes.barh(
                row, size, left=left, height=0.5, color=colour, hatch=hatch, edgecolor="white", linewidth=0.8
            )
            if size >= 0.011 * total * len(name):
                plain = {"facecolor": colour, "edgecolor": "none", "pad": 1}
                axes.text(left + size / 2, row, name, ha="center", va="center", fontsize=8, bbox=plain)
            left += size
        axes.barh(row, bucket.bytes, left=start, height=0.5, fill=False, edgecolor="black", linewidth=1.4)
        if bucket.bytes >= 0.06 * total:
            label = f"bucket {bucket.index}"
            if bucket.bytes >= 0.15 * total:
                label += f" ({size_text(bucket.bytes)})"
            axes.text(start + bucket.bytes / 2, row - 0.3, label, ha="center", va="bottom", fontsize=9)
        start += bucket.bytes
