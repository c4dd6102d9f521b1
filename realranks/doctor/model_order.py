"""Several DDP models, which ranks call in different orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from realranks.doctor.hang_table import Hang, Situation
from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import lines_of, rank_list, verb
from realranks.outcome.outcome import Diagnosis


@dataclass(frozen=True)
class Order:
    """The first call of a DDP model at which ranks called different ones.

    Attributes:
        call: the number of the call, from 1. model: by rank, the model's number as they were built, from 1.
        where: by rank, the line of the call. swapped: every rank has made the same calls, only in another order.
    """

    call: int
    model: Mapping[int, int]
    where: Mapping[int, str]
    swapped: bool

    def ranks_by_model(self) -> list[tuple[int, ...]]:
        """Group the ranks by the model they called, the smallest group first."""
        ranks: dict[int, list[int]] = {}
        for rank, model in self.model.items():
            ranks.setdefault(model, []).append(rank)
        return sorted((tuple(each) for each in ranks.values()), key=len)

    def text(self) -> str:
        """Format as `in call 1, rank 0 uses model 1 and rank 1 uses model 2 (numbered as they were built)`."""
        parts = [
            f"{rank_list(ranks)} {verb(ranks, 'uses', 'use')} model {self.model[ranks[0]]}"
            for ranks in sorted(self.ranks_by_model())
        ]
        return f"in call {self.call}, {' and '.join(parts)} (numbered as they were built)"


def different_order(notes: Notes) -> Order | None:
    """Find where ranks began to call their DDP models in different orders; None if they never did."""
    calls = {
        rank: {probe.calls.first + place: call for place, call in enumerate(probe.calls.last)}
        for rank, probe in notes.items()
        if len(probe.models) > 1
    }
    if len(calls) < 2:
        return None
    common = sorted(set.intersection(*(set(made) for made in calls.values())))
    for number in common:
        models = {rank: made[number].model for rank, made in calls.items()}
        if len(set(models.values())) > 1:
            counted = [Counter(made[n].model for n in common) for made in calls.values()]
            return Order(
                number + 1,
                {rank: model + 1 for rank, model in models.items()},
                {rank: made[number].where for rank, made in calls.items()},
                all(each == counted[0] for each in counted),
            )
    return None


def models_in_another_order(hang: Hang) -> Diagnosis | None:
    """Detect that DDP's own collectives meet, or wait, while the ranks have called different models."""
    waiting = [hang.one, hang.other] if hang.situation is Situation.MEET else [hang.one]
    of_ddp = all(all(side.stages.get(rank) for rank in side.ranks) for side in waiting)
    order = different_order(notes_of(hang.outcome)) if of_ddp else None
    if order is None:
        return None
    lines = {
        rank: f"call {order.call}: DDP model {model} at {order.where[rank]}"
        for rank, model in sorted(order.model.items())
    }
    return diagnosis("different_order", None, (), lines_of(lines), order=order.text())
