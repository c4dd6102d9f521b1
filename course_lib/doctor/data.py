"""Faults of the data's way to the ranks: everybody trains on the same samples, or shards overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.notes import Notes
from course_lib.doctor.words import lines_of
from course_lib.outcome.outcome import Diagnosis
from course_lib.outcome.probe_notes import LoaderNotes

Loaders = Mapping[int, LoaderNotes]
_SHOWN = 8


def data_fault(notes: Notes) -> Diagnosis | None:
    """What is wrong with the samples that the ranks drew for training; None when nothing is."""
    for number in range(min(len(told.loaders) for told in notes.values())):
        loaders = {rank: told.loaders[number] for rank, told in notes.items()}
        if not all(loader.trains and loader.epochs for loader in loaders.values()):
            continue
        for rule in (_same_data, _overlapping, _same_order):
            found = rule(notes, loaders)
            if found is not None:
                return found
    return None


def _drawn(loaders: Loaders, epoch: int = 0) -> dict[int, tuple[int, ...]]:
    return {rank: loader.epochs[epoch].indices for rank, loader in loaders.items()}


def _samples(drawn: Mapping[int, Sequence[int]]) -> dict[int, str]:
    return {
        rank: f"samples {', '.join(map(str, found[:_SHOWN]))}{', …' if len(found) > _SHOWN else ''}"
        for rank, found in drawn.items()
    }


def _same_data(notes: Notes, loaders: Loaders) -> Diagnosis | None:
    drawn = _drawn(loaders)
    first = next(iter(drawn.values()))
    if len(first) < 2 or any(found != first for found in drawn.values()):
        return None
    # Numbers alone prove nothing: every rank may hold a dataset of its own.
    inputs = [[model.inputs for model in told.models] for told in notes.values()]
    if not inputs[0] or not any(inputs[0]) or any(found != inputs[0] for found in inputs):
        return None
    why, advice = _why_the_same(loaders)
    return Diagnosis(
        "same_data",
        f"Every rank trains on the same samples in the same order: {len(notes)} ranks do the work of one{why}.",
        (),
        lines_of(_samples(drawn)),
        advice=advice,
        lesson=taught_in(3),
    )


def _why_the_same(loaders: Loaders) -> tuple[str, str]:
    """What the sampler was created with, a clause, and what to do about it."""
    shares = {loader.share for loader in loaders.values()}
    share = shares.pop() if len(shares) == 1 else ()
    if len(share) < 2:
        return "", "give the DataLoader a DistributedSampler (and call its set_epoch in every epoch)."
    if share[1] == 1:
        told = ", because the DistributedSampler was created with num_replicas=1"
    else:
        told = f", because every rank's DistributedSampler was created with rank={share[0]}, num_replicas={share[1]}"
    return told, (
        "leave rank and num_replicas out, so that the sampler asks the process group, or pass dist.get_rank() and "
        "dist.get_world_size(), after init_process_group."
    )


def _overlapping(notes: Notes, loaders: Loaders) -> Diagnosis | None:
    drawn = _drawn(loaders)
    if any(loader.sampler != "DistributedSampler" for loader in loaders.values()):
        return None
    counts = Counter(index for found in drawn.values() for index in found)
    padding = len(notes) - 1  # DistributedSampler repeats samples so that all ranks get equally many
    shared = sum(count - 1 for count in counts.values())
    if shared <= padding or any(len(loader.epochs[0].indices) >= 5000 for loader in loaders.values()):
        return None
    if loaders[min(loaders)].samples < len(notes):
        return None
    return Diagnosis(
        "overlapping_shards",
        f"The ranks' shards overlap: {shared} samples were drawn more than once in an epoch, and others not at all.",
        (),
        lines_of(_samples(drawn)),
        advice="give every rank's DistributedSampler the same seed, the same epoch and its own rank.",
        lesson=taught_in(3),
    )


def _same_order(notes: Notes, loaders: Loaders) -> Diagnosis | None:
    for loader in loaders.values():
        epochs = loader.epochs
        if loader.sampler != "DistributedSampler" or not loader.shuffles or len(epochs) < 2:
            return None
        if epochs[0].batches < 2 or epochs[0].crc != epochs[1].crc:
            return None
    return Diagnosis(
        "same_order_every_epoch",
        "Every epoch has the same order of samples, though the sampler is to shuffle.",
        (),
        lines_of(_samples(_drawn(loaders, 1))),
        advice="call sampler.set_epoch(epoch) at the beginning of every epoch.",
        lesson=taught_in(3),
        warning=True,
    )
