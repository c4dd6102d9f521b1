"""An outcome whose ranks are still there: what did not come with the end of the run is fetched when it is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from realranks.outcome.outcome import Collective, Outcome
from realranks.outcome.packed import Packed
from realranks.ranks.kernel.ready_gang import ReadyGang


@dataclass(frozen=True)
class Handle:
    """Asks the ranks of a gang for what belongs to one run.

    Attributes:
        gang: the gang. started_ns, ended_ns: when the run was, by the clock of the flight recorder.
    """

    gang: ReadyGang
    started_ns: int
    ended_ns: int

    def fetch(self, name: str | None, through: Callable[..., object] | None = None) -> dict[int, Packed]:
        """See `ReadyGang.fetch`."""
        return self.gang.fetch(name, through)

    def collectives(self) -> dict[int, tuple[Collective, ...]]:
        """Return the collectives issued during the run, by rank."""
        return self.gang.collectives_between(self.started_ns, self.ended_ns)


@dataclass(frozen=True, repr=False)
class LiveOutcome(Outcome):
    """An `Outcome` that asks the ranks for what it was not sent; `settled()` is one that needs them no longer."""

    handle: Handle = field(kw_only=True, compare=False)

    @classmethod
    def of(cls, outcome: Outcome, handle: Handle) -> LiveOutcome:
        """Attach a handle to an outcome, so that its ranks can be queried."""
        return cls(**_data(outcome), handle=handle)

    def all_packed(self) -> Mapping[int, Packed]:
        """See `Outcome.all_packed`: what was too large is fetched."""
        packed = dict(self.packed)
        large = [rank for rank, (_, not_sent) in packed.items() if not_sent and not_sent.reason == "large"]
        if large:
            fetched = self.handle.fetch(None)
            packed.update({rank: fetched[rank] for rank in large if rank in fetched})
        return packed

    def fetched(self, name: str, through: Callable[..., object] | None = None) -> dict[int, Packed]:
        """See `Outcome.fetched`."""
        return self.handle.fetch(name, through)

    @cached_property
    def collectives(self) -> Mapping[int, tuple[Collective, ...]]:
        """See `Outcome.collectives`."""
        return self.handle.collectives() if self.ok else self.recorded

    def settled(self) -> Outcome:
        """See `Outcome.settled`."""
        return Outcome(**{**_data(self), "recorded": self.collectives, "packed": self.all_packed()})


_FIELDS = tuple(item.name for item in dataclasses.fields(Outcome))


def _data(outcome: Outcome) -> dict[str, Any]:
    """Return the fields of an outcome, without its handle."""
    return {name: getattr(outcome, name) for name in _FIELDS}
