"""Faults of the data's way to the ranks: all ranks train on the same samples, or shards overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import lines_of
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import MAX_INDICES, LoaderNotes, ProbeNotes

Loaders = Mapping[int, LoaderNotes]
_SHOWN = 8
#: Two loaders of one dataset may be there to be used side by side.
_FEWEST_ANEW = 3


def _trained_with(notes: Notes) -> Iterator[Loaders]:
    """Yield the loaders with which all ranks have trained, each with its counterparts on the other ranks."""
    for number in range(min(len(probe.loaders) for probe in notes.values())):
        loaders = {rank: probe.loaders[number] for rank, probe in notes.items()}
        if all(loader.trains and loader.epochs for loader in loaders.values()):
            yield loaders


def _drawn(loaders: Loaders, epoch: int = 0) -> dict[int, list[int]]:
    return {rank: loader.epochs[epoch].indices for rank, loader in loaders.items()}


def _samples(drawn: Mapping[int, Sequence[int]]) -> dict[int, str]:
    return {
        rank: f"samples {', '.join(map(str, found[:_SHOWN]))}{', …' if len(found) > _SHOWN else ''}"
        for rank, found in drawn.items()
    }


def same_data(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect that all ranks train on the same samples."""
    for loaders in _trained_with(notes):
        drawn = _drawn(loaders)
        first = next(iter(drawn.values()))
        if len(first) < 2 or any(found != first for found in drawn.values()):
            continue
        # Numbers alone prove nothing: every rank may hold a dataset of its own.
        inputs = [[model.inputs for model in probe.models] for probe in notes.values()]
        if not inputs[0] or not any(inputs[0]) or any(found != inputs[0] for found in inputs):
            continue
        shares = {loader.share for loader in loaders.values()}
        share, lines = shares.pop() if len(shares) == 1 else (), lines_of(_samples(drawn))
        if len(share) < 2:
            own = any(loader.batching not in ("", "BatchSampler") for loader in loaders.values())
            name = "same_data.batches" if own else "same_data"
            return diagnosis(name, None, (), lines, number=len(notes))
        whose = "the" if share[1] == 1 else "every rank's"
        given = f"num_replicas={share[1]}" if share[1] == 1 else f"rank={share[0]}, num_replicas={share[1]}"
        return diagnosis("same_data.share", None, (), lines, number=len(notes), whose=whose, given=given)
    return None


def overlapping_shards(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect samples that a DistributedSampler gives to several ranks."""
    for loaders in _trained_with(notes):
        drawn = _drawn(loaders)
        if any(loader.sampler != "DistributedSampler" for loader in loaders.values()):
            continue
        counts = Counter(index for found in drawn.values() for index in found)
        padding = len(notes) - 1  # DistributedSampler repeats samples so that all ranks get equally many
        shared = sum(count - 1 for count in counts.values())
        if shared <= padding or any(
            len(loader.epochs[0].indices) >= MAX_INDICES for loader in loaders.values()
        ):
            continue
        if loaders[min(loaders)].samples >= len(notes):
            lines = lines_of(_with_settings(loaders, _samples(drawn)))
            return diagnosis("overlapping_shards", None, (), lines, shared=shared)
    return None


def _with_settings(loaders: Loaders, texts: Mapping[int, str]) -> dict[int, str]:
    """Add to each rank's text the seed or the epoch of its sampler, if that is not the same on all ranks."""
    settings = {rank: loader.epochs[0].settings for rank, loader in loaders.items()}
    unlike = [
        name for name in settings[min(settings)] if len({each.get(name) for each in settings.values()}) > 1
    ]
    said = {rank: ", ".join(f"{name} {each.get(name)}" for name in unlike) for rank, each in settings.items()}
    return {rank: f"{said[rank]}: {text}" if unlike else text for rank, text in texts.items()}


def rows_left_out(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect rows that no rank draws: shares of ranks that do not exist, or the same last rows in every epoch."""
    for loaders in _trained_with(notes):
        shares = {loader.share[1] for loader in loaders.values() if len(loader.share) == 2}
        samples = {loader.samples for loader in loaders.values()}
        if len(shares) != 1 or len(samples) != 1:
            continue
        (dealt_to,), (number,) = shares, samples
        missing = [_missing(notes, loaders, epoch) for epoch in (0, 1)]
        words = {"samples": number, "ranks": outcome.ranks, "dealt_to": dealt_to, "left": len(missing[0])}
        if dealt_to > outcome.world_size and len(missing[0]) * dealt_to >= number:
            return diagnosis("rows_left_out", None, (), lines_of(_samples(_drawn(loaders))), **words)
        if missing[0] and missing[0] == missing[1] and len(missing[0]) >= len(outcome.ranks):
            return diagnosis("rows_left_out.last", None, (), (), **words)
    return None


def _missing(notes: Notes, loaders: Loaders, epoch: int) -> set[int]:
    """Return the numbers that no rank draws in a whole epoch; none where other loaders draw from the same dataset."""
    drawn: set[int] = set()
    for rank, loader in loaders.items():
        same = [each for each in notes[rank].loaders if each.dataset == loader.dataset]
        if len(same) > 1 or len(loader.epochs) <= epoch:
            return set()
        noted = loader.epochs[epoch]
        if not noted.ended or len(noted.indices) >= MAX_INDICES:
            return set()
        drawn |= {*noted.indices}
    return {*range(loaders[min(loaders)].samples)} - drawn


def same_order_every_epoch(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect shuffled samples that come in the same order in the second epoch, because of a missing `set_epoch`."""
    for loaders in _trained_with(notes):
        if all(map(_repeats, loaders.values())):
            return diagnosis("same_order_every_epoch", None, (), lines_of(_samples(_drawn(loaders, 1))))
    anew = [_made_anew(probe) for probe in notes.values()]
    if all(anew):
        return diagnosis("same_order_every_epoch.anew", None, (), (), number=min(anew))
    return None


def _made_anew(probe: ProbeNotes) -> int:
    """Count the loaders of which each is made for one epoch of one dataset, if all give the same rows in one order."""
    loaders = [each for each in probe.loaders if each.trains and each.epochs]
    first = [each.epochs[0] for each in loaders]
    settings = [(each.dataset, each.sampler, each.batching) for each in loaders]
    if len(loaders) < _FEWEST_ANEW or len(probe.models) != 1 or any(len(each.epochs) > 1 for each in loaders):
        return 0  # two models may well be trained on the same rows
    alike = len({each.crc for each in first}) == len(set(settings)) == 1
    in_order = first[0].indices == sorted(first[0].indices)
    return len(loaders) if alike and not in_order and first[0].batches > 1 else 0


def _repeats(loader: LoaderNotes) -> bool:
    epochs = [each for each in loader.epochs if not each.evaluates]  # no look at the same rows in between
    if not loader.shuffles or len(epochs) < 2:
        return False
    one, other = epochs[:2]
    # A sampler that knows the new epoch, or draws in a plain order, does so on purpose.
    on_purpose = one.settings != other.settings or one.indices == sorted(one.indices)
    return one.batches >= 2 and one.crc == other.crc and not on_purpose
