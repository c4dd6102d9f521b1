"""What a loader, or its first worker, has drawn for its first batches, as the rank gets to know."""

import contextlib
import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from realranks.outcome.probe_notes import Counts, ProbeNotes
from realranks.watch.loaders import Loaders
from realranks.watch.patches import replace
from realranks.watch.worker_draws import WorkerDraws


class Rows(Dataset):
    def __init__(self, draw):
        self.draw = draw

    def __len__(self):
        return 12

    def __getitem__(self, number):
        self.draw(number)
        return number


class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(12):
            yield torch.rand(1)


def drawn(data, passes=1, **options):
    """Each generator's numbers for a batch, of the loaders that are iterated one after the other."""
    notes = ProbeNotes(Counts())
    loaders = Loaders(notes)
    draws = WorkerDraws(notes, loaders)
    with contextlib.ExitStack() as stack:
        loaders.wrap(stack, replace, loaders)
        draws.wrap(stack, replace, draws)
        for each in data:
            options = {"batch_size": 4, "num_workers": 1, "multiprocessing_context": "fork", **options}
            loader = DataLoader(each, generator=torch.Generator().manual_seed(7), **options)
            for _ in range(passes):
                list(loader)
    draws.collect()
    return [loader.draws for loader in notes.loaders]


def numbers(draws):
    return {
        name: [draw.numbers for draw in made] for name, made in draws.items() if any(d.numbers for d in made)
    }


def test_each_generator_s_numbers_are_counted_loader_by_loader():
    torchs, pythons, numpys = drawn(
        [
            Rows(lambda number: torch.rand(3)),
            Rows(lambda number: random.getrandbits(64)),
            Rows(lambda number: np.random.randint(2**31, size=5)),
        ]
    )
    assert numbers(torchs) == {"torch": [12, 12, 12]}
    assert numbers(pythons) == {"random": [8, 8, 8]}
    assert numbers(numpys) == {"numpy.random": [20, 20, 20]}
    assert {draw.rows for draw in torchs["torch"]} == {4}


def test_equal_seeds_leave_equal_draws_and_other_seeds_others():
    draw = Rows(lambda number: torch.rand(3))
    assert drawn([draw]) == drawn([draw])
    one, other = drawn([draw]), drawn([draw], worker_init_fn=lambda worker: torch.manual_seed(5))
    assert one[0]["torch"] != other[0]["torch"]
    assert one[0]["random"] == other[0]["random"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda number: None,
        lambda number: torch.rand(3, generator=torch.Generator().manual_seed(number)),
        lambda number: (torch.manual_seed(number), torch.rand(3)),
    ],
    ids=["nothing", "a generator of its own", "a seed of the row"],
)
def test_workers_that_draw_no_numbers_of_their_own_seed(draw):
    assert numbers(drawn([Rows(draw)])[0]) == {}


def test_a_later_pass_changes_nothing():
    draw = Rows(lambda number: torch.rand(3))
    assert drawn([draw], passes=2) == drawn([draw])


WITHOUT_WORKERS = {"num_workers": 0, "multiprocessing_context": None}


@pytest.mark.parametrize("options", [{}, WITHOUT_WORKERS], ids=["a worker", "no worker"])
def test_nothing_is_noted_of_a_stream(options):
    assert drawn([Stream()], **options) == [{}]


def test_without_workers_each_loader_s_numbers_are_its_own():
    def draw(number):
        random.getrandbits(64)

    def with_another_loader_within(number):
        list(DataLoader(Rows(draw)))
        random.getrandbits(32)

    found = drawn([Rows(with_another_loader_within)], **WITHOUT_WORKERS)
    assert [numbers(draws)["random"] for draws in found[:2]] == [[4 * (24 + 1)] * 3, [2, 2, 2]]
    assert {draw.rows for draw in found[0]["random"]} == {4}


def test_the_loaders_that_are_too_many_are_left_out():
    assert len(drawn([Rows(lambda number: torch.rand(3)) for _ in range(9)])) == 8
