"""Learning rate schedules, made up: where their length says something, and where it must not; and how it is read."""

import functools
import linecache
from types import SimpleNamespace

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.watch.schedules import length_of
from tests.support.watched import models, notes, watched, weights

LOOP = "for epoch in range(2):\n    schedule.step()\n"


@pytest.fixture
def loop():
    """The file of a script, of which the loop is this one."""
    name = "/scripts/loop.py"

    def written(source):
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        return name

    yield written
    linecache.cache.pop(name, None)


def said(name, length, steps, *, loop="", of_optimizer=None, ranks=2, batches=8, other=None):
    def told(length):
        schedule = {"name": name, "length": length, "steps": steps, "where": "train.py, line 9"}
        schedule["stepped_from"] = [[loop, 2, "main"]]
        schedule["optimizer_steps"] = steps if of_optimizer is None else of_optimizer
        epoch = {"indices": [], "batches": batches, "crc": 0}
        loader = {
            "number": 0,
            "sampler": "",
            "shuffles": True,
            "samples": -1,
            "trains": True,
            "epochs": [epoch] * 2,
        }
        return notes(models=models(0), weights=weights(1), schedules=[schedule], loaders=[loader])

    found = diagnose(watched(*(told(length) for _ in range(ranks - 1)), told(other or length)))
    assert found is None or found.warning
    return found.kind if found is not None else "nothing"


@pytest.mark.parametrize(
    ("length", "steps", "ranks", "kind"),
    [
        (64, 16, 4, "schedule_too_long"),
        (32, 16, 2, "schedule_too_long"),
        (16, 16, 1, "nothing"),
        (61, 16, 4, "schedule_too_long"),  # the last batches of 2 epochs are not full
        (56, 16, 4, "nothing"),
        (16, 16, 4, "nothing"),
        (1000, 16, 4, "nothing"),  # the training was cut short, perhaps
        (8, 2, 4, "nothing"),
    ],
)
def test_a_schedule_for_the_batches_of_all_ranks_is_too_long(loop, length, steps, ranks, kind):
    assert said("OneCycleLR", length, steps, ranks=ranks, loop=loop(LOOP)) == kind


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (LOOP, "schedule_too_long"),
        (f"def fit():\n  schedule.step()\n{LOOP}", "nothing"),
        (f"{LOOP}    if bad:\n        break\n", "nothing"),
        ("while not stopped:\n    schedule.step()\n", "nothing"),
    ],
)
def test_where_a_training_may_have_been_ended_early_its_schedule_is_not_too_long(loop, source, kind):
    assert said("OneCycleLR", 32, 16, loop=loop(source)) == kind


def test_ranks_with_schedules_of_different_length_are_not_judged():
    assert said("OneCycleLR", 32, 16, other=16) == "nothing"


@pytest.mark.parametrize(
    ("length", "steps", "of_optimizer", "kind"),
    [
        (16, 32, 16, "schedule_too_short"),  # stepped once for each rank
        (2, 16, 16, "schedule_too_short"),  # as long as there are epochs
        (8, 16, 16, "schedule_too_short"),  # divided by the ranks twice
        (3, 16, 16, "nothing"),  # begins again on purpose
        (15, 16, 16, "nothing"),
        (32, 32, 16, "nothing"),
    ],
)
def test_a_cosine_that_rises_again_is_too_short_where_a_number_says_why(length, steps, of_optimizer, kind):
    assert said("CosineAnnealingLR", length, steps, of_optimizer=of_optimizer) == kind
    assert said("PolynomialLR", length, steps, of_optimizer=of_optimizer) == "nothing", (
        "it stays where it ends"
    )


def schedule(name, **has):
    return type(name, (SimpleNamespace,), {})(**has)


@pytest.mark.parametrize(
    ("schedule", "length"),
    [
        (schedule("OneCycleLR", total_steps=7), 7),
        (schedule("CosineAnnealingLR", T_max=7), 7),
        (schedule("CosineAnnealingLR", T_max="7"), None),
        (schedule("StepLR", total_steps=7), None),
        (schedule("LambdaLR", lr_lambdas=[functools.partial(print, num_training_steps=7)]), 7),
        (schedule("LambdaLR", lr_lambdas=[print]), None),
        (
            schedule("SequentialLR", _milestones=[3], _schedulers=[0, schedule("OneCycleLR", total_steps=7)]),
            10,
        ),
        (schedule("SequentialLR", _milestones=[3], _schedulers=[schedule("StepLR")]), None),
    ],
)
def test_the_length_is_read_where_a_schedule_has_one(schedule, length):
    assert length_of(schedule) == length
