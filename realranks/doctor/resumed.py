"""Trainings that are resumed: ranks that begin at different places, and where all begin.

That a place is wrong cannot be told from one run: how many steps an epoch had before is not seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import rank_list, steps
from realranks.outcome.fold import fold
from realranks.outcome.outcome import Diagnosis, Kind, Outcome
from realranks.outcome.probe_notes import EpochNotes, ProbeNotes

#: What comes of different beginnings.
_CONSEQUENCES = {
    "uneven_batches",
    "rank_left",
    "rank_only_collective",
    "different_collectives",
    "different_sizes",
    "weights_differ",
    "optimizer_steps_differ",
    "optimizer_differs",
    "overlapping_shards",
}


class _Beginning(NamedTuple):
    """The epoch that the first training sampler was told, and the steps that the first optimizer had made before."""

    epoch: int | None
    made: int


def with_beginnings(outcome: Outcome, found: Diagnosis | None) -> Diagnosis | None:
    """Add the different places at which ranks have begun, where these explain what was found."""
    begun = {rank: _beginning(probe) for rank, probe in notes_of(outcome).items()}
    if found is None or found.kind not in _CONSEQUENCES or len({*begun.values()}) < 2:
        return found
    epochs, made = ({each[part] for each in begun.values()} for part in (0, 1))
    texts = {
        rank: ", ".join(
            [f"in epoch {each.epoch}"] * (len(epochs) > 1) + [_optimizer(each.made)] * (len(made) > 1)
        )
        for rank, each in begun.items()
    }
    places = "; ".join(f"{rank_list(row.ranks)} {row.text}" for row in fold(texts))
    # Who came first or last in a hang is not to be marked: neither is wrong by itself.
    evidence = found.evidence if outcome.kind is Kind.OK else None
    apart = diagnosis("resumed_apart", outcome, (), evidence, places=places)
    return replace(apart, summary=f"{apart.summary} {found.summary}")


def resumed(notes: Notes) -> list[str]:
    """Say where all ranks have begun, if their optimizers had made steps before."""
    begun = {_beginning(probe) for probe in notes.values()}
    if len(begun) != 1 or (first := begun.pop()).made <= 0:
        return []
    skipped = {epoch.skipped for probe in notes.values() for epoch in _trained(probe)[:1]}
    where = f", in epoch {first.epoch} of the sampler" if first.epoch is not None else ""
    left = f", of which {' or '.join(map(str, sorted(skipped)))} batches were left out" if where else ""
    return [f"resumed after {steps(first.made, 'optimizer step')}{where}{left}"]


def _beginning(probe: ProbeNotes) -> _Beginning:
    first = next(iter(_trained(probe)), None)
    return _Beginning(first.settings.get("epoch") if first else None, next(iter(probe.made_before), 0))


def _trained(probe: ProbeNotes) -> list[EpochNotes]:
    return [epoch for each in probe.loaders if each.trains for epoch in each.epochs if not epoch.evaluates]


def _optimizer(made: int) -> str:
    if made > 0:
        return f"with an optimizer that had made {steps(made, 'step')}"
    return "with an optimizer that had a state" if made else "with a new optimizer"
