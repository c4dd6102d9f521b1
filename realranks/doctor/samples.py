"""Faults that only what loaders gave can show: the same row with another label, rows of the validation trained on.

Rows of different ranks are known as the same by a checksum (`watch.rows`). Where every draw of a sample is another one
(augmentation), rows have nothing in common, and these rules stay silent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from itertools import chain, combinations

from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import lines_of, names_in_a_row
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import MAX_INDICES, MAX_LOADERS, LoaderNotes, Row

#: Rows in which ranks have to differ: fewer may be there twice by chance.
_FEWEST = 16
_SHOWN = 3

Labels = dict[Hashable, int]


def labels_differ(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect that the same rows have different labels on two ranks, consistently renumbered."""
    for labels in (_labels_by_content(notes), _labels_by_number(notes)):
        for one, other in combinations(labels, 2):
            pairs = _renumbered(labels[one], labels[other])
            if not pairs:
                continue
            unlike = {a: b for a, b in sorted(pairs.items()) if a != b}
            words = {
                "rows": sum(
                    labels[one][row] != labels[other][row] for row in labels[one].keys() & labels[other]
                ),
                "pairs": names_in_a_row(
                    [f"{a} on rank {one} is {b} on rank {other}" for a, b in unlike.items()], _SHOWN
                ),
            }
            return diagnosis("labels_differ", None, (), _numbered_otherwise(notes), **words)
    return None


def _renumbered(one: Labels, other: Labels) -> dict[int, int]:
    """Map the labels of one rank to the other's; empty if they agree, or no renumbering explains them."""
    pairs: dict[int, set[int]] = defaultdict(set)
    back: dict[int, set[int]] = defaultdict(set)
    shared = one.keys() & other.keys()
    for row in shared:
        pairs[one[row]].add(other[row])
        back[other[row]].add(one[row])
    differing = [row for row in shared if one[row] != other[row]]
    distinct = {one[row] for row in differing}
    # Where each row has a label of its own, or all of a rank's have one, any two numberings would fit.
    if len(distinct) < 2 or len(differing) < max(_FEWEST, 2 * len(distinct)):
        return {}
    if any(len(found) > 1 for found in [*pairs.values(), *back.values()]):
        return {}
    return {label: next(iter(found)) for label, found in pairs.items()}


def _labels_by_content(notes: Notes) -> dict[int, Labels]:
    return {
        rank: _steady((row.crc, row.label) for row in _trained(probe.loaders))
        for rank, probe in notes.items()
    }


def _labels_by_number(notes: Notes) -> dict[int, Labels]:
    """Collect the labels by sample number, for ranks among which a DistributedSampler splits one dataset."""
    found: dict[int, Labels] = {}
    for rank, probe in notes.items():
        dealt = [each for each in probe.loaders if each.trains and deals_to(each, len(notes))]
        first = [each for each in dealt if each.dataset == dealt[0].dataset]
        rows = (row for loader in first for epoch in loader.epochs for row in epoch.rows)
        found[rank] = _steady((row.number, row.label) for row in rows if row.number >= 0)
    return found


def _steady(pairs: Iterable[tuple[Hashable, int | None]]) -> Labels:
    """Return the rows that have the same label every time they come."""
    seen: dict[Hashable, set[int | None]] = defaultdict(set)
    for row, label in pairs:
        seen[row].add(label)
    return {
        row: label
        for row, labels in seen.items()
        if len(labels) == 1 and (label := next(iter(labels))) is not None
    }


def split_differs(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect ranks that keep their validation rows out of their own training while other ranks train on them."""
    trained = {rank: set(map(_content, _trained(probe.loaders))) for rank, probe in notes.items()}
    held = {rank: set(map(_content, _evaluated(probe.loaders))) for rank, probe in notes.items()}
    if not all(trained.values()) or any(trained[rank] & held[rank] for rank in notes):
        return None
    seen = {
        (rank, other): len(held[rank] & trained[other]) for rank in notes for other in notes if rank != other
    }
    (rank, other), number = max(seen.items(), key=lambda entry: entry[1])
    if number < _FEWEST:
        return None
    others = {
        r: f"evaluated on {len(held[r])} rows; of these, others trained on {max(seen[r, o] for o in notes if o != r)}"
        for r in notes
    }
    words = {"rank": rank, "other": other, "number": number, "held": len(held[rank])}
    return diagnosis("split_differs", None, (), lines_of(others), **words)


def unlike_subsets(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect ranks that each picked a part of the dataset before a DistributedSampler split it again."""
    loaders = _dealt(notes)
    picks = {loader.picked for loader in loaders.values()}
    if None in picks or len(picks) < 2:
        return None
    return diagnosis("unlike_datasets.subset", None, (), ())


def unlike_datasets(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect ranks whose datasets have different rows under the same numbers."""
    loaders = _dealt(notes)
    rows = {rank: _constant(notes[rank].loaders, loader.dataset) for rank, loader in loaders.items()}
    for one, other in combinations(rows, 2):
        shared = rows[one].keys() & rows[other].keys()
        unlike = [number for number in shared if rows[one][number] != rows[other][number]]
        if len(unlike) >= _FEWEST and 2 * len(unlike) > len(shared):
            words = {
                "one": one,
                "other": other,
                "unlike": len(unlike),
                "shared": len(shared),
                "number": len(notes),
            }
            return diagnosis("unlike_datasets", None, (), _numbered_otherwise(notes), **words)
    return None


def same_stream(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect that every rank reads the whole stream, so that all models get the same samples."""
    first = [loader.epochs[0] for loader in _training(notes).values()]
    if not first or any(each.indices or each.rows != first[0].rows for each in first):
        return None
    if len(set(first[0].rows)) < _FEWEST:
        return None
    # A script may deal out the rows itself, after the loader.
    inputs = [[model.inputs for model in probe.models] for probe in notes.values()]
    if not any(inputs[0]) or any(each != inputs[0] for each in inputs):
        return None
    return diagnosis("same_data.stream", None, (), (), number=len(notes))


def not_split(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect that every rank goes through all samples, each in an order of its own."""
    first = [loader.epochs[0] for loader in _training(notes).values()]
    if not first or any(not each.ended or len(each.rows) < _FEWEST for each in first):
        return None
    if len({tuple(row.crc for row in each.rows) for each in first}) < len(first):
        return None  # in one order: the script deals out the rows itself, or `same_data` has spoken
    rows = [sorted(row.crc for row in each.rows) for each in first]
    if len(set(rows[0])) < len(rows[0]) or any(each != rows[0] for each in rows):
        return None
    if any(len(each.indices) not in (0, len(each.rows)) for each in first):
        return None
    return diagnosis("not_split", None, (), (), rows=len(rows[0]), number=len(notes))


def overlapping_parts(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect ranks that together draw as many rows as one dataset has, but several ranks the same ones."""
    loaders = _training(notes)
    # `data.overlapping_shards` knows more of a DistributedSampler.
    if not loaders or any(_by_chance(each) or deals_to(each, len(notes)) for each in loaders.values()):
        return None
    first = [loader.epochs[0] for loader in loaders.values()]
    drawn = [each.indices for each in first]
    samples = {loader.samples for loader in loaders.values()}
    if len(samples) != 1 or any(not (each.ended or each.counted) or not each.indices for each in first):
        return None
    (number,) = samples
    if any(len(each) >= MAX_INDICES or len({*each}) < len(each) for each in drawn):
        return None
    # Whole batches are left out, or rows are repeated, so that all ranks have the same number of batches.
    padding = len(first) * max(-(-len(each.indices) // each.batches) for each in first)
    counts = Counter(chain(*drawn))
    if abs(counts.total() - number) > padding or counts.total() - len(counts) <= max(padding, _FEWEST):
        return None
    contents = [{row.number: row.crc for row in each.rows} for each in first]
    equal = [
        one[row] == other[row]
        for one, other in combinations(contents, 2)
        for row in one.keys() & other.keys()
    ]
    if sum(equal) < _FEWEST or not all(equal):
        return None  # each rank has a dataset of its own, or each draw of a row is another one
    several = sum(count > 1 for count in counts.values())
    words = {"samples": number, "several": several, "left": number - len(counts)}
    return diagnosis("overlapping_shards.drawn", None, (), (), **words)


def _by_chance(loader: LoaderNotes) -> bool:
    """Check that torch's own sampler draws a number of rows that the script gives it, on purpose by chance."""
    given = loader.sampler == "RandomSampler" and loader.dealt < loader.samples
    return given or loader.sampler == "WeightedRandomSampler"


def each_draws_all(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect that every rank draws with repeats, for itself, as many rows of one dataset as the dataset has."""
    loaders = _training(notes).values()
    first = [loader.epochs[0] for loader in loaders]
    samples = {loader.samples for loader in loaders}
    if len(samples) != 1 or min(samples) < _FEWEST:
        return None
    if any(not each.ended or len(each.rows) < min(samples) for each in first):
        return None
    draws = [[(row.number, row.crc) for row in each.rows if row.number >= 0] for each in first]
    if len(set(map(tuple, draws))) < len(draws) or any(len(set(each)) == len(each) for each in draws):
        return None  # the same draws: `same_data` has spoken; no repeats: see `not_split`
    if any(len({*one} & {*other}) < _FEWEST for one, other in combinations(draws, 2)):
        return None
    return diagnosis("not_split.drawn", None, (), (), rows=min(map(len, draws)), number=len(notes))


def stale_workers(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a stream whose persistent workers did not learn of the new epoch: they have a copy from before it."""
    loaders = _training(notes).values()
    for loader in loaders:
        if not loader.kept_workers or len(loader.epochs) < 2:
            return None
        one, other = loader.epochs[:2]
        if one.indices or len(one.rows) < _FEWEST or one.rows != other.rows or one.settings == other.settings:
            return None
    for one, other in (loader.epochs[:2] for loader in loaders):
        what = next(name for name in other.settings if one.settings.get(name) != other.settings[name])
        words = {"what": what, "before": one.settings.get(what), "after": other.settings[what]}
        return diagnosis("same_order_every_epoch.workers", None, (), (), **words)
    return None


def split_twice(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a DistributedSampler whose share for each rank is split once more by what follows it."""
    loaders, texts = _dealt(notes), {}
    for rank, loader in loaders.items():
        epoch = loader.epochs[0]
        drawn, batch = len(epoch.indices), -(-len(epoch.indices) // max(1, epoch.batches))
        once_more = abs(drawn - loader.dealt / len(notes)) <= batch and 4 * drawn <= 3 * loader.dealt
        if loader.batching in ("", "BatchSampler") or not epoch.ended or not once_more:
            return None
        texts[rank] = f"drew {drawn} of the {loader.dealt} samples that its DistributedSampler deals it"
    for loader in loaders.values():
        words = {"batching": loader.batching, "number": len(notes), "samples": loader.samples}
        return diagnosis("split_twice", None, (), lines_of(texts), **words)
    return None


def one_shard_evaluated(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect that only some ranks evaluated, each on its shard, so that no rank covered the rest."""
    if any(len(probe.loaders) >= MAX_LOADERS for probe in notes.values()):
        return None
    used = {
        rank: [
            each for each in probe.loaders if each.epochs and not each.trains and deals_to(each, len(notes))
        ]
        for rank, probe in notes.items()
    }
    having = {rank: loaders for rank, loaders in used.items() if any(each.evaluates for each in loaders)}
    if (
        not having
        or any(loaders for rank, loaders in used.items() if rank not in having)
        or len(having) == len(notes)
    ):
        return None
    loader = next(iter(having.values()))[0]
    drawn = {number for loaders in having.values() for number in loaders[0].epochs[0].indices}
    if not drawn or not loader.epochs[0].ended or len(drawn) >= loader.samples:
        return None
    words = {"ranks": having, "drawn": len(drawn), "samples": loader.samples}
    return diagnosis("one_shard_evaluated", None, (), (), **words)


def _numbered_otherwise(notes: Notes) -> tuple[str, ...]:
    """Show each rank's numbering if the datasets number the same names in different orders."""
    loaders = _training(notes)
    for name in next(iter(loaders.values())).numbered if loaders else ():
        orders = {rank: loader.numbered.get(name, ()) for rank, loader in loaders.items()}
        if len(set(orders.values())) > 1 and len({tuple(sorted(order)) for order in orders.values()}) == 1:
            return lines_of(
                {
                    rank: f"{name}: {', '.join(f'{text} is {n}' for n, text in enumerate(order[:_SHOWN]))}, …"
                    for rank, order in orders.items()
                }
            )
    return ()


# -- rows ---------------------------------------------------------------------------------------------------------


def deals_to(loader: LoaderNotes, ranks: int) -> bool:
    """Check that a DistributedSampler splits the dataset among this number of ranks."""
    return loader.sampler == "DistributedSampler" and len(loader.share) == 2 and loader.share[1] == ranks


def _training(notes: Notes) -> dict[int, LoaderNotes]:
    """Return each rank's first training loader; empty if a rank has none."""
    found = {
        rank: next((each for each in probe.loaders if each.trains and each.epochs), None)
        for rank, probe in notes.items()
    }
    loaders = {rank: loader for rank, loader in found.items() if loader is not None}
    return loaders if len(loaders) == len(notes) else {}


def _dealt(notes: Notes) -> dict[int, LoaderNotes]:
    """Return each rank's training loader if a DistributedSampler splits one dataset among all ranks; else empty."""
    loaders = _training(notes)
    return loaders if all(deals_to(each, len(notes)) for each in loaders.values()) else {}


def _evaluates(loader: LoaderNotes) -> bool:
    return loader.evaluates and not loader.trains and bool(loader.epochs)


def _trained(loaders: Iterable[LoaderNotes]) -> Iterable[Row]:
    return (row for each in loaders if each.trains for epoch in each.epochs for row in epoch.rows)


def _evaluated(loaders: Iterable[LoaderNotes]) -> Iterable[Row]:
    return (row for each in loaders if _evaluates(each) for epoch in each.epochs for row in epoch.rows)


def _content(row: Row) -> tuple[int, int | None]:
    return row.crc, row.label


def _constant(loaders: Iterable[LoaderNotes], dataset: int) -> Mapping[int, int]:
    """Return the samples' checksums by number; empty if a sample was different when it was drawn again."""
    seen: dict[int, int] = {}
    again = 0
    for loader in loaders:
        for epoch in loader.epochs if loader.dataset == dataset else ():
            for row in epoch.rows:
                again += row.number in seen
                if row.number >= 0 and seen.setdefault(row.number, row.crc) != row.crc:
                    return {}
    return seen if again >= _FEWEST else {}


def averages(notes: Notes) -> bool:
    """Check that every rank has a DDP model that averages over all ranks."""
    return all(
        any(model.forwards and len(model.ranks) == len(notes) for model in probe.models)
        for probe in notes.values()
    )
