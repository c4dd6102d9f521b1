"""DDP models that ranks share: which model of one rank is which of another's, and what was noted of it alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from realranks.doctor.notes import Notes
from realranks.outcome.fold import rank_list
from realranks.outcome.probe_notes import Digest, GradientCheck, ModelNotes, ProbeNotes


@dataclass(frozen=True)
class SharedModel:
    """One DDP model on all ranks of its process group.

    Attributes:
        numbers: by rank, which of the rank's models it is, as they were built, from 0.
        label: `DDP model 2 (Critic) on ranks 0 and 1`, as far as it takes that to tell it from others.
    """

    numbers: Mapping[int, int]
    label: str = ""

    def noted(self, notes: Notes) -> dict[int, ProbeNotes]:
        """Return the notes of the model's ranks, reduced to this model."""
        return {rank: _narrowed(notes[rank], number) for rank, number in self.numbers.items()}


def shared_models(notes: Notes) -> list[SharedModel]:
    """Pair the models of the ranks by the members of their group and the order in which they were made.

    DDP's constructor is a collective, so the ranks of one group build its models in the same order.
    """
    numbers: dict[tuple[tuple[int, ...], int], dict[int, int]] = defaultdict(dict)
    everyone = tuple(notes)
    labels: dict[tuple[tuple[int, ...], int], str] = {}
    for rank, probe in notes.items():
        made: dict[tuple[int, ...], int] = defaultdict(int)
        known = {model.number: model for model in probe.models}
        checked = {check.model for check in probe.weights}
        for number in sorted(checked | set(known)):
            model = known.get(number, ModelNotes(number))
            members = model.ranks or everyone
            key = (members, made[members])
            made[members] += 1
            numbers[key][rank] = number
            ours = [n for n, each in known.items() if _of_this_run(each)]
            if len(ours) > 1 and number in ours:
                kind = f" ({model.type})" if model.type else ""
                labels.setdefault(key, f"DDP model {ours.index(number) + 1}{kind}")
    return [
        SharedModel(dict(sorted(by_rank.items())), labels.get(key, "") + _where(key[0], everyone))
        for key, by_rank in numbers.items()
        if len(by_rank) > 1 and set(by_rank) == set(key[0])
    ]


def _of_this_run(model: ModelNotes) -> bool:
    """Check that this run uses the model, and did not merely inherit it from an earlier cell."""
    return not model.found or bool(model.forwards or model.bypassed)


def _where(members: tuple[int, ...], everyone: tuple[int, ...]) -> str:
    return "" if members == everyone else f" on {rank_list(members)}"


def _narrowed(probe: ProbeNotes, number: int) -> ProbeNotes:
    if len(probe.models) < 2:
        return probe
    model = next(model for model in probe.models if model.number == number)
    gradients = [_own_gradients(check, f"{number}:") for check in probe.gradients]
    return replace(
        probe,
        counts=replace(probe.counts, forwards=model.forwards, backwards=model.backwards, steps=model.steps),
        models=[model],
        weights=[replace(check, model=0) for check in probe.weights if check.model == number],
        gradients=[check for check in gradients if check.gradients],
        bare_backwards=model.bare_backwards,
        no_sync_steps=model.no_sync_steps,
    )


def _own_gradients(check: GradientCheck, prefix: str) -> GradientCheck:
    def own(digests: Mapping[str, Digest]) -> dict[str, Digest]:
        return {f"0:{n.removeprefix(prefix)}": d for n, d in digests.items() if n.startswith(prefix)}

    return replace(check, gradients=own(check.gradients), reduced=own(check.reduced))
