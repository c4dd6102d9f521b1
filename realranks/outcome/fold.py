"""Equal output of several ranks is shown once: `ranks 0-3 | 6.0`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Folded:
    """One text and the ranks that share it."""

    ranks: tuple[int, ...]
    text: str


def fold(texts: Mapping[int, str]) -> list[Folded]:
    """Group ranks with equal text, in the order of their lowest rank; empty texts are left out."""
    groups: dict[str, list[int]] = {}
    for rank in sorted(texts):
        text = texts[rank].rstrip("\n")
        if text.strip():
            groups.setdefault(text, []).append(rank)
    return [Folded(tuple(ranks), text) for text, ranks in groups.items()]


def span(ranks: Iterable[int]) -> str:
    """Format ranks as `0-3`, `0,2`, `0-2,5`."""
    ordered = sorted(set(ranks))
    parts: list[str] = []
    start = previous = None
    for rank in [*ordered, None]:
        if previous is not None and rank == previous + 1:
            previous = rank
            continue
        if start is not None and previous is not None:
            if previous == start:
                parts.append(str(start))
            elif previous == start + 1:
                parts += [str(start), str(previous)]
            else:
                parts.append(f"{start}-{previous}")
        start = previous = rank
    return ",".join(parts)


def rank_label(ranks: Iterable[int]) -> str:
    """Format as `rank 2` or `ranks 0-3`."""
    ordered = sorted(set(ranks))
    return f"rank {ordered[0]}" if len(ordered) == 1 else f"ranks {span(ordered)}"


def rank_list(ranks: Iterable[int]) -> str:
    """Name the ranks in a sentence: `rank 2`, `ranks 0 and 2`, `ranks 0, 1 and 3`, `ranks 0-3`."""
    ordered = sorted(set(ranks))
    if len(ordered) < 2 or "-" in span(ordered):
        return rank_label(ordered)
    return f"ranks {', '.join(map(str, ordered[:-1]))} and {ordered[-1]}"


def beside(label: str, text: str, width: int) -> str:
    """Put a label before the text's first line and a bar before each line."""
    lines = text.split("\n")
    head = f"{label:<{width}} | {lines[0]}".rstrip()
    rest = (f"{'':<{width}} | {line}".rstrip() for line in lines[1:])
    return "\n".join([head, *rest])


def table(folded: Iterable[Folded]) -> str:
    """Lay out all folded texts with aligned labels."""
    rows = list(folded)
    width = max((len(rank_label(row.ranks)) for row in rows), default=0)
    return "\n".join(beside(rank_label(row.ranks), row.text, width) for row in rows)
