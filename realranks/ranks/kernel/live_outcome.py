"""An outcome whose ranks are still there: what did not come with the end of the run is fetched when it is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from realranks.outcome.outcome import Collective, Outcome
from realranks.outcome.packed import Packed


@dataclass(frozen=True, repr=False)
class LiveOutcome(Outcome):
    """An `Outcome` that asks the ranks for what it was not sent; `settled()` is one that needs them no longer."""

    fetch: Callable[..., dict[int, Packed]] = field(kw_only=True, compare=False)
    issued: Callable[[], Mapping[int, tuple[Collective, ...]]] = field(kw_only=True, compare=False)

    @classmethod
    def of(
        cls,
        outcome: Outcome,
        fetch: Callable[..., dict[int, Packed]],
        issued: Callable[[], Mapping[int, tuple[Collective, ...]]],
    ) -> LiveOutcome:
        """Add to an outcome how its ranks are asked.

        Args:
            fetch: see `Gang.fetch`. issued: reads the collectives that were issued during the run, by rank.
        """
        return cls(**_data(outcome), fetch=fetch, issued=issued)

    def all_packed(self) -> Mapping[int, Packed]:
        """See `Outcome.all_packed`: what was too large is fetched."""
        packed = dict(self.packed)
        large = [rank for rank, (_, not_sent) in packed.items() if not_sent and not_sent.reason == "large"]
        if large:
            fetched = self.fetch(None)
            packed.update({rank: fetched[rank] for rank in large if rank in fetched})
        return packed

    def fetched(self, name: str, through: Callable[..., object] | None = None) -> dict[int, Packed]:
        """See `Outcome.fetched`."""
        return self.fetch(name, through)

    @cached_property
    def collectives(self) -> Mapping[int, tuple[Collective, ...]]:
        """See `Outcome.collectives`."""
        return self.issued() if self.ok else self.recorded

    def settled(self) -> Outcome:
        """See `Outcome.settled`."""
        return Outcome(**{**_data(self), "recorded": self.collectives, "packed": self.all_packed()})


_FIELDS = tuple(item.name for item in dataclasses.fields(Outcome))


def _data(outcome: Outcome) -> dict[str, Any]:
    """Return the fields of an outcome, without those of a live one."""
    return {name: getattr(outcome, name) for name in _FIELDS}
