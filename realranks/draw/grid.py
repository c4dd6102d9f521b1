"""A grid of pieces: a row for each rank, a column for each piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from realranks.draw.drawing import WIDEST, Box, Drawing, Shape, Text, text_width

_HEIGHT, _MAX_WIDTH, _LEAST_COLUMN = 30, 760, 20


@dataclass(frozen=True)
class Cell:
    """The content of a place: its look (a key of `looks.LOOKS`) and a word."""

    look: str
    text: str = ""
    hint: str = ""


def grid(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[int, int], Cell],
    *,
    title: str,
    alt: str,
    axis: str,
) -> Drawing:
    """Draw a grid of cells; a place (row, column) that is not in `cells` stays empty.

    Args:
        axis: what the columns are; several lines.
    """
    left = 16 + max((text_width(name, 13) for name in rows), default=0)
    width = min(60, max(_LEAST_COLUMN, (_MAX_WIDTH - left - 14) / max(1, len(columns))))
    shapes: list[Shape] = []
    for row, name in enumerate(rows):
        shapes.append(Text(left - 8, 8 + (row + 0.5) * _HEIGHT + 5, name, 13, "end"))
        for column in range(len(columns)):
            cell = cells.get((row, column), Cell(""))
            place = (left + column * width, 8 + row * _HEIGHT)
            shapes.append(Box(*place, width, _HEIGHT, cell.look, cell.text, cell.hint, edge=0.5))
    bottom = 8 + len(rows) * _HEIGHT
    shapes += [
        Text(left + (number + 0.5) * width, bottom + 15, name, 11, "middle", faint=True)
        for number, name in enumerate(columns)
    ]
    lines = axis.split("\n")
    words = max(map(text_width, lines))
    begins = max(8, min(left, WIDEST - 14 - words))  # a long line begins below the names of the rows
    shapes += [
        Text(begins, bottom + 33 + 17 * number, line, 12, faint=True) for number, line in enumerate(lines)
    ]
    full = max(left + width * len(columns), begins + words, text_width(title, 14) + 16) + 14
    return Drawing(full, bottom + 25 + 17 * len(lines), tuple(shapes), alt, title)
