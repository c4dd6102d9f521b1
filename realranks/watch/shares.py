"""The indices of all ranks' samplers beside each other. Pure data, no torch."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from realranks.watch.digest import Entry

_LISTED = 8


class Relation(enum.StrEnum):
    """The relation of the indices that the ranks' samplers draw."""

    EQUAL = "equal"
    ORDER_DIFFERS = "order differs"
    DISJOINT = "disjoint"
    OVERLAPPING = "overlapping"
    UNKNOWN = "different"


@dataclass(frozen=True)
class Shares:
    """The indices that the ranks' samplers have in common.

    Attributes:
        counts: number of indices by rank. shared: indices that more than one rank takes, in order.
        padding: how many indices have to be taken twice so that all ranks have the same number of them; None where the
            size of the dataset is not known.
        missing: how many samples of the dataset no rank takes; None where its size is not known.
    """

    relation: Relation
    counts: Mapping[int, int]
    shared: tuple[int | str, ...] = ()
    padding: int | None = None
    missing: int | None = None

    @property
    def only_padding(self) -> bool:
        """True where every shared index is a duplicate that a sampler adds to make the ranks' shares equal."""
        return bool(self.shared) and self.missing == 0 and len(self.shared) == self.padding

    def lines(self) -> list[str]:
        """Describe the shares in lines of text."""
        counts = list(self.counts.values())
        each = f"{counts[0]:,}" if len(set(counts)) == 1 else ", ".join(f"{count:,}" for count in counts)
        if self.relation is Relation.EQUAL:
            return [f"equal: every rank takes the same {each} indices, in the same order"]
        if self.relation is Relation.ORDER_DIFFERS:
            return [f"order differs: every rank takes the same {each} indices"]
        if self.relation is Relation.UNKNOWN:
            return [f"different: ranks take {each} indices, too many to be compared one by one"]
        lines = [f"{self.relation}: ranks take {each} indices each"]
        if len(set(counts)) > 1:
            lines = [f"{self.relation}: ranks take {each} indices"]
        if self.shared:
            listed = ", ".join(map(str, self.shared[:_LISTED])) + (
                ", …" if len(self.shared) > _LISTED else ""
            )
            lines.append(f"taken by more than one rank: {len(self.shared):,} ({listed}){self._why_shared()}")
        if self.missing:
            lines.append(f"taken by no rank: {self.missing:,}")
        return lines

    def _why_shared(self) -> str:
        if self.only_padding:
            return ", padding that makes the shares equal"
        if self.padding is None:
            return ""
        return f", of which padding explains {self.padding}" if self.padding else ", not padding"


def shares(by_rank: Mapping[int, Entry]) -> Shares:
    """Compare the `indices` entries (see `fingerprint`) of samplers."""
    entries = dict(sorted(by_rank.items()))
    counts = {rank: entry["count"] for rank, entry in entries.items()}
    if len({(entry["count"], entry["crc"]) for entry in entries.values()}) == 1:
        return Shares(Relation.EQUAL, counts)
    if any("indices" not in entry for entry in entries.values()):
        return Shares(Relation.UNKNOWN, counts)
    lists = {rank: entry["indices"] for rank, entry in entries.items()}
    if len({tuple(sorted(map(str, indices))) for indices in lists.values()}) == 1:
        return Shares(Relation.ORDER_DIFFERS, counts)
    takers = Counter(index for indices in lists.values() for index in set(indices))
    shared = tuple(sorted((index for index, ranks in takers.items() if ranks > 1), key=_in_order))
    relation = Relation.OVERLAPPING if shared else Relation.DISJOINT
    sizes = {entry.get("dataset") for entry in entries.values()}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None:
        return Shares(relation, counts, shared)
    return Shares(relation, counts, shared, _padding(size, counts), size - len(takers))


def _padding(size: int, counts: Mapping[int, int]) -> int:
    """Count the duplicates needed to split a dataset of this size into equal shares."""
    each = -(-size // len(counts))
    return each * len(counts) - size if set(counts.values()) == {each} else 0


def _in_order(index: int | str) -> tuple[bool, int, str]:
    return (False, index, "") if isinstance(index, int) else (True, 0, index)
