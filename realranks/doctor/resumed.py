"""Trainings that are resumed: ranks that begin at different places, and where all begin.

That a place is wrong cannot be told from one run: how many steps an epoch had before is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

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
}


def with_beginnings(outcome: Outcome, found: Diagnosis | None) -> Diagnosis | None:
    """Add the different places at which ranks have begun, where these explain what was found."""
    notes = notes_of(outcome)
    if found is None or found.kind not in _CONSEQUENCES:
        return found
    texts = [f"in epoch {epoch}" for epoch in _unlike(map(_first_epoch, notes.values()))]
    by_optimizer = zip(*(probe.made_before for probe in notes.values()), strict=False)
    optimizers = [_optimizer(made) for made in next(filter(None, map(_unlike, by_optimizer)), [])]
    texts = [", ".join(each) for each in zip(*filter(None, (texts, optimizers)), strict=True)]
    if not texts:
        return found
    rows = fold(dict(zip(notes, texts, strict=True)))
    places = "; ".join(f"{rank_list(row.ranks)} {row.text}" for row in rows)
    # Who came first or last in a hang is not to be marked: neither is wrong by itself.
    evidence = found.evidence if outcome.kind is Kind.OK else None
    apart = diagnosis("resumed_apart", outcome, (), evidence, places=places)
    return replace(apart, summary=f"{apart.summary} {found.summary}")


def _unlike(of_ranks: Iterable[int | None]) -> list[int]:
    """Return the numbers if every rank has one and they differ; else nothing."""
    numbers = list(of_ranks)
    known = [each for each in numbers if each is not None]
    return known if len(known) == len(numbers) and len({*known}) > 1 else []


def resumed(notes: Notes) -> list[str]:
    """Say where all ranks have begun, if their optimizers had made steps before."""
    begun = {(_made_before(probe), _first_epoch(probe)) for probe in notes.values()}
    made, epoch = begun.pop() if len(begun) == 1 else (None, None)
    if made is None or made <= 0:
        return []
    skipped = {each.skipped for probe in notes.values() for each in _trained(probe)[:1]}
    where = f", in epoch {epoch} of the sampler" if epoch is not None else ""
    left = f", of which {' or '.join(map(str, sorted(skipped)))} batches were left out" if where else ""
    return [f"resumed after {steps(made, 'optimizer step')}{where}{left}"]


def _first_epoch(probe: ProbeNotes) -> int | None:
    """Return the epoch that the first training sampler was told for its first pass."""
    first = next(iter(_trained(probe)), None)
    return first.settings.get("epoch") if first is not None else None


def _made_before(probe: ProbeNotes) -> int | None:
    """Return the steps that the first optimizer had made before its first one here."""
    return next(iter(probe.made_before), None)


def _trained(probe: ProbeNotes) -> list[EpochNotes]:
    return [epoch for each in probe.loaders if each.trains for epoch in each.epochs if not epoch.evaluates]


def _optimizer(made: int) -> str:
    if made > 0:
        return f"with an optimizer that had made {steps(made, 'step')}"
    return "with an optimizer that had a state" if made else "with a new optimizer"
