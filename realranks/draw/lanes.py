"""A drawing of each rank's activity: a lane for each rank, time from left to right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from realranks.draw.drawing import HEAD, Arrow, Box, Drawing, Shape, Text, text_width

_WIDTH, _RIGHT, _TRACK, _THIN, _GAP = 760, 14, 22, 13, 10


@dataclass(frozen=True)
class Bar:
    """A stretch of time; `look` is a key of `looks.LOOKS`, or "" for a dashed frame: nothing is done."""

    start: float
    length: float
    look: str
    text: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Lane:
    """One rank, or one variant: what its main thread does, and below it what goes on at the same time.

    Attributes:
        tracks: the first is the main thread's and is drawn higher than the others.
    """

    name: str
    tracks: tuple[tuple[Bar, ...], ...]


@dataclass(frozen=True, repr=False)
class LaneDrawing(Drawing):
    """A picture of lanes that knows where its times are: `left` is the x of time 0, `scale` the pixels of a unit.

    `floor` is the y below the last lane, where the scale begins, in the whole picture with its title.
    """

    left: float = 0
    scale: float = 1
    floor: float = 0


def lanes(
    found: Sequence[Lane],
    *,
    title: str,
    alt: str,
    legend: Mapping[str, str],
    unit: str = "milliseconds",
    note: str = "",
) -> LaneDrawing:
    """Draw lanes above a scale.

    Args:
        legend: the words for each look, in the order in which they are listed; looks that do not occur are left out.
        unit: what the numbers of the scale count.
        note: beside the title (see `Drawing`).
    """
    left = 16 + max((text_width(lane.name, 13) for lane in found), default=0)
    bars = [bar for lane in found for track in lane.tracks for bar in track]
    length = max((bar.start + bar.length for bar in bars), default=0) or 1
    scale = (_WIDTH - left - _RIGHT) / length
    shapes: list[Shape] = []
    y: float = 6
    for lane in found:
        top = y
        for number, track in enumerate(lane.tracks):
            height = _THIN if number else _TRACK
            for bar in track:
                x, width = left + bar.start * scale, max(0.75, bar.length * scale)
                box = Box(x, y, width, height, bar.look, bar.text, bar.hint, 0.5, not bar.look, 11)
                shapes.append(box)
            y += height + 2
        shapes.append(Text(left - 8, top + _TRACK / 2 + 5, lane.name, 13, "end"))
        y += _GAP
    ticks = _ticks(length)
    grid: list[Shape] = [
        Arrow(left + tick * scale, 2, left + tick * scale, y - 4, 0.5, plain=True, faint=True)
        for tick in ticks
    ]
    axis: list[Shape] = [
        Text(left + tick * scale, y + 10, f"{tick:g}", 11, "middle", faint=True) for tick in ticks
    ]
    axis.append(Text(_WIDTH - _RIGHT, y + 27, unit, 12, "end", faint=True))
    keys, bottom = _legend(_used(found, legend), left, y + 17)
    everything = (*grid, *shapes, *axis, *keys)
    floor = y + HEAD - 4
    return LaneDrawing(_WIDTH, bottom + 8, everything, alt, title, note, left, scale, floor)


def _used(found: Sequence[Lane], legend: Mapping[str, str]) -> dict[str, str]:
    """Select the legend's entries that occur, and explain rows that exist because activities overlap."""
    used = {bar.look for lane in found for track in lane.tracks for bar in track}
    in_rows = {
        bar.look for lane in found if len(lane.tracks) > 2 for track in lane.tracks[1:] for bar in track
    }
    return {
        look: words + ("; a row each where they overlap" if look in in_rows else "")
        for look, words in legend.items()
        if look in used
    }


def _legend(words: Mapping[str, str], left: float, top: float) -> tuple[list[Shape], float]:
    """Draw the sample boxes with their words, in as many lines as needed; return them and where they end."""
    shapes: list[Shape] = []
    x, y = left, top
    for look, text in words.items():
        width = 26 + text_width(text, 12) + 14
        if x > left and x + width > _WIDTH - _RIGHT - 80:
            x, y = left, y + 20
        shapes += [Box(x, y, 20, 12, look, edge=0.5), Text(x + 26, y + 10, text, 12)]
        x += width
    return shapes, y + 14


def _ticks(length: float) -> list[float]:
    """Round numbers from 0 to the length: 4 to 9 of them."""
    step = 10 ** math.floor(math.log10(length))
    step = next(part for part in (step / 5, step / 2, step, 2 * step) if length / part <= 8)
    return [number * step for number in range(math.floor(length / step * (1 + 1e-9)) + 1)]
