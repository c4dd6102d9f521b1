"""Faults that only what loaders gave can show: the same row with another label, rows of the validation trained on.

Rows of different ranks are known as the same by a checksum (`watch.rows`). Where every draw of a sample is another one
(augmentation), rows have nothing in common, and these rules stay silent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from itertools import combinations

from course_lib.doctor.notes import Notes
from course_lib.doctor.sentences import diagnosis
from course_lib.doctor.words import lines_of, names_in_a_row
from course_lib.outcome.outcome import Diagnosis
from course_lib.outcome.probe_notes import LoaderNotes, Row

#: Rows in which ranks have to differ: fewer may be there twice by chance.
_FEWEST = 8
_SHOWN = 3

Labels = dict[Hashable, int]


def labels_differ(notes: Notes) -> Diagnosis | None:
    """The same rows have another label on each rank, and always the same other one."""
    for labels in (_labels_by_content(notes), _labels_by_number(notes)):
        for one, other in combinations(labels, 2):
            pairs = _renumbered(labels[one], labels[other])
            if not pairs:
                continue
            rows = sum(labels[one][row] != labels[other][row] for row in labels[one].keys() & labels[other])
            shown = [
                f"{a} on rank {one} is {b} on rank {other}" for a, b in sorted(pairs.items()) if a != b
            ]
            names = _numbered_otherwise(notes)
            why = f", as the dataset's {names[0]} differs" if names else ""
            words = {"rows": rows, "pairs": names_in_a_row(shown, _SHOWN), "why": why}
            return diagnosis("labels_differ", None, (), names[1] if names else (), **words)
    return None


def _renumbered(one: Labels, other: Labels) -> dict[int, int]:
    """Which label of one rank is which of the other; empty where they are alike, or no renumbering explains them."""
    pairs: dict[int, set[int]] = defaultdict(set)
    back: dict[int, set[int]] = defaultdict(set)
    shared = one.keys() & other.keys()
    for row in shared:
        pairs[one[row]].add(other[row])
        back[other[row]].add(one[row])
    differing = [row for row in shared if one[row] != other[row]]
    distinct = {one[row] for row in differing}
    # Where each row has a label of its own, any two numberings would fit.
    if len(differing) < max(_FEWEST, 2 * len(distinct)):
        return {}
    if any(len(found) > 1 for found in [*pairs.values(), *back.values()]):
        return {}
    return {label: next(iter(found)) for label, found in pairs.items()}


def _labels_by_content(notes: Notes) -> dict[int, Labels]:
    return {rank: _steady((row.crc, row.label) for row in _trained(told.loaders)) for rank, told in notes.items()}


def _labels_by_number(notes: Notes) -> dict[int, Labels]:
    """By the sample's number, where one DistributedSampler deals the numbers of one dataset to all ranks."""
    found: dict[int, Labels] = {}
    for rank, told in notes.items():
        dealt = [each for each in told.loaders if each.trains and deals_to(each, len(notes))]
        first = [each for each in dealt if each.dataset == dealt[0].dataset]
        rows = (row for loader in first for epoch in loader.epochs for row in epoch.rows)
        found[rank] = _steady((row.number, row.label) for row in rows if row.number >= 0)
    return found


def _steady(pairs: Iterable[tuple[Hashable, int | None]]) -> Labels:
    """What has one label, however often it comes."""
    seen: dict[Hashable, set[int | None]] = defaultdict(set)
    for row, label in pairs:
        seen[row].add(label)
    return {
        row: label for row, labels in seen.items() if len(labels) == 1 and (label := next(iter(labels))) is not None
    }


def split_differs(notes: Notes) -> Diagnosis | None:
    """Each rank keeps its validation rows out of its own training, and other ranks train on them."""
    if not _averages(notes):
        return None
    trained = {rank: set(map(_content, _trained(told.loaders))) for rank, told in notes.items()}
    held = {rank: set(map(_content, _evaluated(told.loaders))) for rank, told in notes.items()}
    if not all(trained.values()) or any(trained[rank] & held[rank] for rank in notes):
        return None
    seen = {
        (rank, other): len(held[rank] & trained[other]) for rank in notes for other in notes if rank != other
    }
    (rank, other), number = max(seen.items(), key=lambda entry: entry[1])
    if number < _FEWEST:
        return None
    others = {
        r: f"{max(seen[r, o] for o in notes if o != r)} of {len(held[r])} rows of its validation were trained on elsewhere"
        for r in notes
    }
    words = {"rank": rank, "other": other, "number": number, "held": len(held[rank])}
    return diagnosis("split_differs", None, (), lines_of(others), **words)


def unlike_datasets(notes: Notes) -> Diagnosis | None:
    """A DistributedSampler deals the numbers of one dataset, and the ranks' datasets are not the same."""
    training = {rank: _first_training(told.loaders) for rank, told in notes.items()}
    loaders = {rank: loader for rank, loader in training.items() if loader is not None}
    if len(loaders) < len(notes) or not all(deals_to(each, len(notes)) for each in loaders.values()):
        return None
    picks = {rank: loader.picked for rank, loader in loaders.items()}
    if None not in picks.values() and len(set(picks.values())) > 1:
        return diagnosis("unlike_datasets.subset", None, (), ())
    rows = {rank: _constant(told.loaders, loaders[rank].dataset) for rank, told in notes.items()}
    for one, other in combinations(rows, 2):
        shared = rows[one].keys() & rows[other].keys()
        unlike = [number for number in shared if rows[one][number] != rows[other][number]]
        if len(unlike) >= _FEWEST and 2 * len(unlike) > len(shared):
            words = {"one": one, "other": other, "unlike": len(unlike), "shared": len(shared)}
            return diagnosis("unlike_datasets", None, (), (), **words)
    return None


def not_split(notes: Notes) -> Diagnosis | None:
    """Every rank goes through all samples, each in an order of its own."""
    training = [_first_training(told.loaders) for told in notes.values()]
    loaders = [each for each in training if each is not None]
    if len(loaders) < len(notes) or not _averages(notes):
        return None
    first = [each.epochs[0] for each in loaders]
    if any(not each.ended or len(each.rows) < _FEWEST for each in first):
        return None
    rows = [sorted(row.crc for row in each.rows) for each in first]
    drawn = [len(each.indices) for each in first]
    whole = all(len(one) == len(set(one)) for one in rows) and all(
        number in (0, len(one)) for number, one in zip(drawn, rows, strict=True)
    )
    if not whole or any(each != rows[0] for each in rows):
        return None
    return diagnosis("not_split", None, (), (), rows=len(rows[0]), number=len(notes))


def stale_workers(notes: Notes) -> Diagnosis | None:
    """A stream was told of a new epoch, and its workers, which stay alive, have a copy from before."""
    training = [_first_training(told.loaders) for told in notes.values()]
    for loader in training:
        if loader is None or not loader.kept_workers or len(loader.epochs) < 2:
            return None
        one, other = loader.epochs[:2]
        if one.indices or len(one.rows) < _FEWEST or one.rows != other.rows or one.settings == other.settings:
            return None
    loader = training[0]
    assert loader is not None
    one, other = loader.epochs[:2]
    what = next(name for name in other.settings if one.settings.get(name) != other.settings[name])
    words = {"what": what, "before": one.settings.get(what), "after": other.settings[what]}
    return diagnosis("same_order_every_epoch.workers", None, (), (), **words)


def split_twice(notes: Notes) -> Diagnosis | None:
    """A DistributedSampler deals each rank its share, and something behind it takes only a share of that."""
    training = {rank: _first_training(told.loaders) for rank, told in notes.items()}
    texts = {}
    for rank, loader in training.items():
        if loader is None or not deals_to(loader, len(notes)) or loader.batching in ("", "BatchSampler"):
            return None
        epoch = loader.epochs[0]
        drawn, batch = len(epoch.indices), -(-len(epoch.indices) // max(1, epoch.batches))
        share = loader.dealt / len(notes)
        if not epoch.ended or 4 * drawn > 3 * loader.dealt or abs(drawn - share) > batch:
            return None
        texts[rank] = f"drew {drawn} of the {loader.dealt} samples that its DistributedSampler deals it"
    loader = next(each for each in training.values() if each is not None)
    words = {"batching": loader.batching, "number": len(notes), "samples": loader.samples}
    return diagnosis("split_twice", None, (), lines_of(texts), **words)


def one_shard_evaluated(notes: Notes) -> Diagnosis | None:
    """Only some ranks have evaluated, and only on their shard: nobody has looked at the rest."""
    sharded = {
        rank: [each for each in told.loaders if _evaluates(each) and deals_to(each, len(notes))]
        for rank, told in notes.items()
    }
    having = {rank: loaders for rank, loaders in sharded.items() if loaders}
    if not having or len(having) == len(notes) or any(len(told.loaders) >= _MOST_LOADERS for told in notes.values()):
        return None
    loader = next(iter(having.values()))[0]
    drawn = {number for loaders in having.values() for number in loaders[0].epochs[0].indices}
    if not drawn or len(drawn) * len(notes) > loader.samples * len(having) + len(notes):
        return None
    words = {"ranks": having, "drawn": len(drawn), "samples": loader.samples}
    return diagnosis("one_shard_evaluated", None, (), (), **words)


def names_numbered_otherwise(notes: Notes) -> Diagnosis | None:
    """Datasets number the same names, and not in the same order on all ranks."""
    found = _numbered_otherwise(notes)
    return diagnosis("numbered_otherwise", None, (), found[1], what=found[0]) if found else None


def _numbered_otherwise(notes: Notes) -> tuple[str, tuple[str, ...]] | None:
    """The attribute of a dataset, and what each rank has there."""
    training = [_first_training(told.loaders) for told in notes.values()]
    loaders = [each for each in training if each is not None]
    if len(loaders) < len(notes):
        return None
    for name in loaders[0].numbered:
        orders = [loader.numbered.get(name, ()) for loader in loaders]
        if len(set(orders)) > 1 and len({tuple(sorted(order)) for order in orders}) == 1:
            texts = {
                rank: f"{name}: " + ", ".join(f"{place} {text}" for place, text in enumerate(order[:_SHOWN])) + ", …"
                for rank, order in zip(notes, orders, strict=True)
            }
            return name, lines_of(texts)
    return None


# -- rows ---------------------------------------------------------------------------------------------------------

#: So many loaders are noted on each rank (`watch.loaders`).
_MOST_LOADERS = 8


def deals_to(loader: LoaderNotes, ranks: int) -> bool:
    """True where a DistributedSampler deals the dataset to so many ranks."""
    return loader.sampler == "DistributedSampler" and len(loader.share) == 2 and loader.share[1] == ranks


def _first_training(loaders: Iterable[LoaderNotes]) -> LoaderNotes | None:
    return next((each for each in loaders if each.trains and each.epochs), None)


def _evaluates(loader: LoaderNotes) -> bool:
    return loader.evaluates and not loader.trains and bool(loader.epochs)


def _trained(loaders: Iterable[LoaderNotes]) -> Iterable[Row]:
    return (row for each in loaders if each.trains for epoch in each.epochs for row in epoch.rows)


def _evaluated(loaders: Iterable[LoaderNotes]) -> Iterable[Row]:
    return (row for each in loaders if _evaluates(each) for epoch in each.epochs for row in epoch.rows)


def _content(row: Row) -> tuple[int, int | None]:
    return row.crc, row.label


def _constant(loaders: Iterable[LoaderNotes], dataset: int) -> Mapping[int, int]:
    """The content of a dataset's samples by their numbers; empty where a number that was drawn twice was not the same."""
    seen: dict[int, int] = {}
    again = 0
    for loader in loaders:
        for epoch in loader.epochs if loader.dataset == dataset else ():
            for row in epoch.rows:
                again += row.number in seen
                if row.number >= 0 and seen.setdefault(row.number, row.crc) != row.crc:
                    return {}
    return seen if again >= _FEWEST else {}


def _averages(notes: Notes) -> bool:
    """True where every rank has a DDP model that averages over all ranks."""
    return all(
        any(model.forwards and len(model.ranks) == len(notes) for model in told.models) for told in notes.values()
    )
