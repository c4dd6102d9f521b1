"""Rows of blocks as wide as their sizes, in groups, such as parameters in DDP's buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from realranks.draw.drawing import Box, Drawing, Shape, Text, text_width

_WIDTH, _RIGHT, _HEIGHT = 760, 14, 34


@dataclass(frozen=True)
class Block:
    """Something of a size: a parameter and its bytes."""

    name: str
    size: float


@dataclass(frozen=True)
class Group:
    """Blocks that belong together; of `labels`, the longest first, the first one that fits is written above them."""

    labels: tuple[str, ...]
    blocks: tuple[Block, ...]


def blocks(rows: Sequence[tuple[str, Sequence[Group]]], *, title: str, alt: str, axis: str) -> Drawing:
    """Draw a bar of blocks for each row, groups outlined and named above it, neighbours in different looks.

    Args:
        axis: what the width of a block means.
    """
    left = 16 + max((text_width(name, 13) for name, _ in rows), default=0)
    total = max((_total(groups) for _, groups in rows), default=0) or 1
    scale = (_WIDTH - left - _RIGHT) / total
    shapes: list[Shape] = []
    y: float = 20
    for name, groups in rows:
        shapes.append(Text(left - 8, y + _HEIGHT / 2 + 5, name, 13, "end"))
        x = left
        for number, group in enumerate(groups):
            start = x
            for block in group.blocks:
                width = block.size * scale
                look = "odd" if number % 2 else "even"
                shapes.append(Box(x, y, width, _HEIGHT, look, block.name, block.name, edge=0.5, size=11))
                x += width
            shapes.append(Box(start, y, x - start, _HEIGHT, edge=2))
            label = next((label for label in group.labels if text_width(label) <= x - start), "")
            shapes.append(Text((start + x) / 2, y - 6, label, 12, "middle"))
        y += _HEIGHT + 30
    shapes.append(Text(left, y - 8, axis, 12, faint=True))
    return Drawing(_WIDTH, y, tuple(shapes), alt, title)


def _total(groups: Sequence[Group]) -> float:
    return sum(block.size for group in groups for block in group.blocks)
