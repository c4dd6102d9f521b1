"""Lesson 03: who gets which samples, as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from course_lib.draw import Cell, Drawing, grid


def draw_deal(per_rank: Mapping[int, Sequence[int]], samples: int, title: str) -> Drawing:
    """A row per rank, a column per sample: `x` for a sample that is dealt out once, else how often over all ranks.

    Args:
        per_rank: the indices of the samples that each rank takes.
        samples: how many samples there are.
    """
    ranks = sorted(per_rank)
    total = Counter(index for rank in ranks for index in per_rank[rank])
    cells = {
        (row, index): Cell("even", "x") if total[index] == 1 else Cell("odd", f"{total[index]}×")
        for row, rank in enumerate(ranks)
        for index in set(per_rank[rank])
    }
    repeated = [index for index in range(samples) if total[index] > 1]
    missing = [index for index in range(samples) if not total[index]]
    found = [
        *(f"rank {rank} takes {', '.join(map(str, per_rank[rank])) or 'nothing'}" for rank in ranks),
        f"dealt out more than once: {_listed(repeated)}",
        f"to nobody: {_listed(missing)}",
    ]
    return grid(
        [f"rank {rank}" for rank in ranks],
        [str(index) for index in range(samples)],
        cells,
        title=title,
        alt="; ".join(found),
        axis="index of the sample",
    )


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(map(str, indices)) or "none"
