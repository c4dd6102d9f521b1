"""Accuracies of different numbers of rows that count alike in a sum over the ranks."""

import pytest

from realranks.doctor.diagnose import diagnose
from tests.support.watched import models, notes, record, watched, weights

LOADER = {"number": 0, "sampler": "Dealt", "shuffles": False, "evaluates": True}
ROWS = (40, 33)
CORRECT = (30, 11)


def said(*numbers, rows=ROWS, samples=73, picked=None, shared=0, batches=3, ranks=(0, 1)):
    """What is said where each rank has reduced these numbers, rank by rank in each call."""
    told, first = [], 0
    for rank, own in enumerate(rows):
        epoch = {
            "indices": [*range(first, first + own)],
            "batches": batches,
            "ended": True,
            "evaluates": True,
        }
        loader = {**LOADER, "samples": samples, "picked": picked, "epochs": [epoch]}
        metrics = [["train.py, line 9", 0, own, each[rank]] for each in numbers]
        model = [{**models(0)[0], "forwards": 4, "ranks": ranks}]
        told.append(notes(metrics=metrics, loaders=[loader], models=model, weights=weights(1)))
        first += own - shared
    found = diagnose(watched(*told, recorded={rank: (record("", 3),) for rank in (0, 1)}))
    return found.kind if found is not None else ""


def of(*rows, times=1.0):
    return [[times * correct / own] for correct, own in zip(CORRECT, rows, strict=True)]


@pytest.mark.parametrize("times", [1, 100], ids=["a fraction", "percent"])
def test_accuracies_of_unequal_shards(times):
    assert said(of(*ROWS, times=times)) == "mean_of_means"


def test_parts_that_were_picked_of_one_dataset():
    assert said(of(*ROWS), samples=-1, picked=7) == "mean_of_means"


def test_one_of_several_numbers_is_enough():
    losses = [[0.61803, 0.75], [0.57721, 11 / 33]]
    assert said(losses) == "mean_of_means"


@pytest.mark.parametrize(
    "numbers",
    [
        [[[0.61803], [0.57721]]],
        [[[30.0], [11.0]]],
        [of(73, 73)],
        [of(73, 73, times=2)],
        [[[30.0, 40.0], [11.0, 33.0]], of(*ROWS)],
        [[[3 / 40], [2.475 / 33]]],
        [[[0.5], [0.25]]],
    ],
    ids=["losses", "counts", "of all", "twice of all", "rows are added up", "no difference", "few digits"],
)
def test_numbers_that_prove_nothing(numbers):
    assert said(*numbers) == ""


@pytest.mark.parametrize(
    "case",
    [
        {"samples": -1, "picked": None, "shared": 5},
        {"batches": 40},
        {"ranks": (0,)},
    ],
    ids=["rows of several ranks", "uneven parts", "each rank a model of its own"],
)
def test_parts_that_may_count_alike(case):
    assert said(of(*ROWS), **case) == ""


def test_equal_numbers_of_rows():
    assert said([[0.75], [11 / 40]], rows=(40, 40)) == ""
