"""Ranks that draw the same random numbers, from what each has noted before its passes."""

import pytest

from realranks.doctor.diagnose import diagnose
from tests.support.watched import models, notes, record, watched, weights

LOADER = {
    "number": 0,
    "sampler": "DistributedSampler",
    "shuffles": False,
    "samples": 64,
    "trains": True,
    "epochs": [],
}


def said(*draws, loaders=(LOADER,)):
    told = [
        notes(
            weights=weights(1),
            models=models(0),
            loaders=list(loaders),
            draws={"draws": {"torch": list(each)}},
        )
        for each in draws
    ]
    found = diagnose(watched(*told, recorded={rank: (record("", 3),) for rank in range(len(draws))}))
    return found.kind if found is not None else ""


def passes(*numbers, rows=8, seed=0):
    return [[seed + step, many, rows] for step, many in enumerate(numbers)]


@pytest.mark.parametrize("numbers", [(64,) * 9, (64, 0) * 4, (64, 0, 0) * 3])
def test_noise_of_each_step_is_the_same(numbers):
    assert said(passes(*numbers), passes(*numbers)) == "same_random_numbers"


@pytest.mark.parametrize(
    "numbers",
    [(6,) * 9, (64,) * 2, (0, 0, 0, 64) * 2, (15,) * 9],
    ids=["decisions about the step", "too few passes", "once an epoch", "fewer than a batch could need"],
)
def test_numbers_that_all_ranks_may_need_alike(numbers):
    assert said(passes(*numbers), passes(*numbers)) == ""


def test_noise_of_a_seed_of_its_own():
    assert said(passes(*(64,) * 9), passes(*(64,) * 9, seed=100)) == ""


def test_fewer_numbers_than_rows_are_no_noise():
    assert said(passes(*(40,) * 9, rows=64), passes(*(40,) * 9, rows=64)) == ""


def test_a_script_without_a_loader_may_draw_its_rows_alike():
    assert said(passes(*(64,) * 9), passes(*(64,) * 9), loaders=()) == ""


def in_workers(*draws, name="torch", **told):
    each = [
        notes(weights=weights(1), models=models(0), loaders=[{**LOADER, "draws": {name: made}, **told}])
        for made in draws
    ]
    found = diagnose(watched(*each, recorded={rank: (record("", 3),) for rank in range(len(draws))}))
    return found.kind if found is not None else ""


@pytest.mark.parametrize("name", ["torch", "numpy.random", "random"])
def test_noise_of_workers_is_the_same(name):
    assert in_workers(passes(64, 64, 64), passes(64, 64, 64), name=name) == "same_random_numbers"
    rows = 8 if name == "torch" else 4
    made = passes(8, 8, 8, rows=rows)
    assert in_workers(made, made, name=name) == "same_random_numbers", "one for each row"
    assert in_workers(passes(64, 64, 64), passes(64, 64, 64, seed=9), name=name) == ""


@pytest.mark.parametrize(
    "made",
    [passes(7, 7, 7), passes(64, 0, 64), passes(64, 64), passes(4, 4, 4, rows=4), []],
    ids=["decisions about the batch", "now and then", "too few batches", "too few numbers", "nothing noted"],
)
def test_workers_may_draw_alike(made):
    assert in_workers(made, made) == ""


@pytest.mark.parametrize("name", ["numpy.random", "random"])
def test_a_shuffle_of_the_rows_may_be_alike(name):
    made = passes(12, 11, 13)
    assert in_workers(made, made, name=name) == ""


@pytest.mark.parametrize("epoch", [{"indices": [3, 1, 2]}, {"rows": [[-1, 9, None], [-1, 7, None]]}])
def test_ranks_that_all_load_the_same_rows_may_draw_alike(epoch):
    same = passes(64, 64, 64)
    loader = {**LOADER, "sampler": "RandomSampler", "epochs": [epoch]}
    assert in_workers(same, same, **loader) == ""
    assert said(passes(*(64,) * 9), passes(*(64,) * 9), loaders=[loader]) == ""


def test_workers_of_a_loader_that_trains_nothing_may_draw_alike():
    idle = {**LOADER, "number": 1, "trains": False, "draws": {"torch": passes(64, 64, 64)}}
    assert said([], [], loaders=(LOADER, idle)) == ""
