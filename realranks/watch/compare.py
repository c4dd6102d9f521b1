"""Is it the same on every rank? Fingerprints of several ranks beside each other, and what differs.

In a rank cell, or in any script started by torchrun:

    from realranks.watch import compare
    compare(model=ddp, optimizer=optimizer, rng="rng")

and in the kernel, for variables of the ranks that an `Outcome` came from: `compare(out, "ddp", "optimizer")`. Tensors
stay where they are; only fingerprints travel. Comparing is pure (`compare_fingerprints`); only ranks need torch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import TYPE_CHECKING

from realranks.outcome.fold import beside, rank_label, rank_list
from realranks.outcome.html import box, panel, pre, table
from realranks.outcome.outcome import NotSent, Outcome
from realranks.outcome.packed import unpack
from realranks.watch.digest import Entry
from realranks.watch.distance import Distance, distance
from realranks.watch.fingerprint import fingerprint, merged
from realranks.watch.majority import odd_ones
from realranks.watch.shares import Shares, shares

if TYPE_CHECKING:
    from realranks.watch.fingerprint import Fingerprint

#: Differences of one part that are written out; the others are counted (`Comparison.differences` has them all).
_WRITTEN_OUT = 8
_NOUNS = {"options": "options", "rng": "generators", "values": "values", "value": "value"}


class CompareError(ValueError):
    """Things that cannot be compared; the message is one clear line."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True)
class Difference:
    """Something that is not the same on all ranks.

    Attributes:
        part: such as `parameters` or `model parameters`.
        name: the tensor or value in it.
        groups: ranks that agree with each other, the most numerous first.
        looks: what each group has.
        distance: how far apart the values are, where they can be compared.
    """

    part: str
    name: str
    groups: tuple[tuple[int, ...], ...]
    looks: tuple[str, ...]
    distance: Distance | None = None

    @property
    def majority(self) -> tuple[int, ...]:
        """The ranks with which more than half agree; empty when there is no such group."""
        return self.groups[0] if self._odd_ones() else ()

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks that differ from the majority; all ranks when there is none."""
        return self._odd_ones() or tuple(sorted(rank for group in self.groups for rank in group))

    def _odd_ones(self) -> tuple[int, ...]:
        return odd_ones({rank: number for number, group in enumerate(self.groups) for rank in group})

    @property
    def at_least(self) -> float | None:
        """A lower bound of the largest absolute difference between two ranks, or None where values have no distance."""
        return self.distance.at_least if self.distance else None

    def __str__(self) -> str:
        name = self.name or self.part
        if len(self.groups) == 2:
            who = f"{rank_list(self.groups[1])} {_differ(self.groups[1])} from {rank_list(self.groups[0])}"
        elif self.majority:
            who = f"{rank_list(self.odd)} {_differ(self.odd)} from {rank_list(self.majority)} and from each other"
        elif all(len(group) == 1 for group in self.groups):
            who = f"{rank_list(self.odd)} all differ"
        else:
            who = f"{' | '.join(rank_label(group) for group in self.groups)} differ"
        if len(set(self.looks)) == 1:
            shape = f" ({self.looks[0]})" if self.looks[0] else ""
            return f"{name}{shape}: {who}{self.distance or ''}"
        seen: dict[str, list[int]] = {}
        for group, look in zip(self.groups, self.looks, strict=True):
            seen.setdefault(look, []).extend(group)
        looks = "; ".join(f"{look} on {rank_list(ranks)}" for look, ranks in seen.items())
        return f"{name}: {who}: {looks}"


def _differ(ranks: tuple[int, ...]) -> str:
    return "differs" if len(ranks) == 1 else "differ"


@dataclass(frozen=True)
class Part:
    """One part of what was compared: parameters, buffers, gradients, state, options, rng, sampler, values.

    Attributes:
        count: how many entries it has. differences: those that are not the same on all ranks, in the part's order.
        shares: of a sampler's indices, what the ranks have in common.
    """

    name: str
    count: int
    noun: str
    differences: tuple[Difference, ...]
    shares: Shares | None = None
    without_gradient: bool = False

    @property
    def equal(self) -> bool:
        """True when every entry is the same on all ranks, bit by bit."""
        return not self.differences

    def lines(self, first: Difference | None) -> list[str]:
        """Describe the part in lines of text, marking the comparison's first difference."""
        if self.shares is not None:
            sign = "" if self.equal else "≠ "
            head, *rest = self.shares.lines()
            return [f"{sign}{head}", *rest]
        if self.equal:
            note = ", no gradient yet" if self.without_gradient else ""
            return [f"equal ({self.count:,} {self.noun}{note})" if self.count else "equal (empty)"]
        head = f"≠ not equal: {len(self.differences):,} of {self.count:,} {self.noun}"
        lines = [
            f"  ≠ {difference}{'  <- first difference' if difference is first else ''}"
            for difference in self.differences[:_WRITTEN_OUT]
        ]
        more = len(self.differences) - _WRITTEN_OUT
        return [head, *lines, *([f"  … and {more:,} more (see .differences)"] if more > 0 else [])]


@dataclass(frozen=True)
class Comparison:
    """The parts of a thing compared between ranks.

    `comparison.parts["model parameters"]` is one part of it.
    """

    ranks: tuple[int, ...]
    parts: Mapping[str, Part]

    @property
    def equal(self) -> bool:
        """True when every part is the same on all ranks (of a sampler: the same indices in the same order)."""
        return all(part.equal for part in self.parts.values())

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Everything that differs, the first first."""
        return tuple(difference for part in self.parts.values() for difference in part.differences)

    @property
    def headline(self) -> str:
        """One line: equal, or the parts that are not."""
        if self.equal:
            return f"equal on {rank_list(self.ranks)}"
        different = [part.name for part in self.parts.values() if not part.equal]
        return f"≠ {rank_list(self.ranks)} differ in {', '.join(different)}"

    def _rows(self) -> Iterator[tuple[str, str]]:
        # A sampler that takes other samples on each rank is no surprise: what is odd comes first.
        first = next((d for part in self.parts.values() if not part.shares for d in part.differences), None)
        for part in self.parts.values():
            yield part.name, "\n".join(part.lines(first))

    def __repr__(self) -> str:
        width = max((len(name) for name in self.parts), default=0)
        rows = (indent(beside(name, text, width), "  ") for name, text in self._rows())
        return "\n".join([self.headline, *rows])

    def _repr_html_(self) -> str:

        return panel(
            box("good" if self.equal else "bad", self.headline),
            table((name, pre(text)) for name, text in self._rows()),
        )


# -- comparing ----------------------------------------------------------------------------------------------------


def compare_fingerprints(by_rank: Mapping[int, Fingerprint]) -> Comparison:
    """Compare the fingerprints of several ranks (see `realranks.watch.fingerprint`).

    Args:
        by_rank: at least one fingerprint; a part or an entry that a rank has not got counts as a difference.
    """
    ranks = tuple(sorted(by_rank))
    names: dict[str, str] = {}
    for rank in ranks:
        for name, content in by_rank[rank]["parts"].items():
            names.setdefault(name, content["kind"])
    parts = {name: _part(name, kind, {rank: by_rank[rank] for rank in ranks}) for name, kind in names.items()}
    return Comparison(ranks, parts)


def _part(name: str, kind: str, by_rank: Mapping[int, Fingerprint]) -> Part:
    having = {
        rank: found["parts"][name]["entries"] for rank, found in by_rank.items() if name in found["parts"]
    }
    order = list(dict.fromkeys(entry for content in having.values() for entry in content))
    noun = _NOUNS.get(kind, "tensors")
    if len(order) == 1:
        noun = noun.removesuffix("s")
    if len(having) < len(by_rank):
        return Part(name, len(order), noun, (_missing_on_some(name, tuple(having), by_rank),))
    found = (
        _difference(name, entry, {rank: content.get(entry) for rank, content in having.items()})
        for entry in order
    )
    kinds = {entry["kind"] for content in having.values() for entry in content.values()}
    return Part(
        name,
        len(order),
        noun,
        tuple(difference for difference in found if difference is not None),
        shares({rank: content["indices"] for rank, content in having.items()}) if kind == "sampler" else None,
        kind == "gradients" and kinds <= {"none", "frozen", "tied"},
    )


def _missing_on_some(name: str, having: tuple[int, ...], ranks: Iterable[int]) -> Difference:
    """Describe a part that some ranks do not have at all."""
    without = tuple(rank for rank in ranks if rank not in having)
    groups = tuple(sorted((having, without), key=lambda ranks: (-len(ranks), ranks)))
    looks = tuple("missing" if group == without else "there" for group in groups)
    return Difference(name, "", groups, looks)


def _difference(part: str, name: str, entries: Mapping[int, Entry | None]) -> Difference | None:
    groups: dict[Hashable, list[int]] = {}
    for rank, entry in entries.items():
        groups.setdefault(_identity(entry), []).append(rank)
    if len(groups) == 1:
        return None
    ordered = sorted((tuple(ranks) for ranks in groups.values()), key=lambda ranks: (-len(ranks), ranks))
    found = [entries[ranks[0]] for ranks in ordered]
    return Difference(part, name, tuple(ordered), tuple(map(_look, found)), distance(found))


def _identity(entry: Entry | None) -> Hashable:
    """Return what must be equal for two entries to be the same; statistics and samples follow from it."""
    if entry is None:
        return None
    shape = tuple(entry.get("shape", ()))
    return (
        entry["kind"],
        shape,
        *(entry.get(key) for key in ("dtype", "layout", "crc", "to", "text", "count")),
    )


def _look(entry: Entry | None) -> str:
    """Describe an entry for the reader."""
    if entry is None:
        return "missing"
    match entry["kind"]:
        case "tensor":
            shape = "x".join(map(str, entry["shape"])) or "scalar"
            return " ".join(filter(None, (shape, entry["dtype"], entry.get("layout"))))
        case "none":
            return "no gradient"
        case "frozen":
            return "requires no gradient"
        case "lazy":
            return "not initialized"
        case "tied":
            return f"tied to {entry['to']}"
        case "value":
            return str(entry["text"])
        case "indices":
            return f"{entry['count']:,} indices"
        case _:
            return ""


# -- asking the ranks ---------------------------------------------------------------------------------------------


def compare(*things: object, **named: object) -> Comparison:
    """Compare things of this name on all ranks; see `fingerprint` for what can be compared.

    On a rank, give the things, with names (`compare(model=ddp, optimizer=opt)`) or one without. It is a collective on
    the default process group: every rank has to call it, and every rank gets the same answer.

    In the kernel, give an Outcome and names of variables of its ranks (`compare(out, "ddp", "opt")`).

    Raises:
        CompareError: they cannot be compared.
        RankVariableError: no rank has such a variable, or the ranks are gone.
    """
    if things and isinstance(things[0], Outcome):
        return _compare_variables(things[0], things[1:], named)
    if len(things) + len(named) == 0 or len(things) > 1 or (things and named):
        raise CompareError(
            "Give things with names, as in compare(model=ddp, optimizer=opt), or a single one."
        )
    return _compare_here(things[0] if things else named)


def _compare_here(thing: object) -> Comparison:
    import torch.distributed as dist

    if not dist.is_initialized():
        raise CompareError("compare() asks the other ranks: it needs a process group (init_process_group).")
    mine: Fingerprint | str
    try:
        mine = fingerprint(thing)
    except Exception as error:
        # The others are about to wait for this rank's answer, so it sends one.
        mine = f"rank {dist.get_rank()}: {type(error).__name__}: {error}"
    everyones: list[Fingerprint | str] = [""] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    for found in everyones:
        if isinstance(found, str):
            raise CompareError(found)
    return compare_fingerprints(
        {rank: found for rank, found in enumerate(everyones) if not isinstance(found, str)}
    )


def _compare_variables(
    outcome: Outcome, names: tuple[object, ...], extra: Mapping[str, object]
) -> Comparison:
    wanted = [name for name in names if isinstance(name, str)]
    if extra or not names or len(wanted) < len(names):
        raise CompareError('Give an Outcome and names of variables, as in compare(out, "ddp", "optimizer").')
    by_rank: dict[int, dict[str, Fingerprint]] = {rank: {} for rank in outcome.ranks}
    for name in wanted:
        fetched = outcome.fetched(name, through=fingerprint)
        for rank, packed in ((rank, fetched[rank]) for rank in outcome.ranks if rank in fetched):
            found = unpack(*packed)
            if isinstance(found, NotSent):
                raise CompareError(f"{name!r} on rank {rank}: {found.reason}")
            by_rank[rank][name] = found
    return compare_fingerprints({rank: merged(found) for rank, found in by_rank.items()})
