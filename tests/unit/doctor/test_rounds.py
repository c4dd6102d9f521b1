"""How far ranks are apart in a loop: rounds of one outside the training, or steps of the training."""

import pytest

from realranks.doctor.ddp_passes import steps_apart, uneven
from tests.support.watched import notes, record, watched

LOADER = {
    "number": 0,
    "sampler": "SequentialSampler",
    "shuffles": False,
    "samples": 82,
    "trains": True,
    "passes": 1,
    "length": 5,
}


@pytest.fixture
def loops(monkeypatch):
    """Lines 10 to 20 of every script are a loop."""
    monkeypatch.setattr("realranks.doctor.loops._loops", lambda file: ((10, 20),))


def both(mine, theirs, **told):
    return watched(notes(**told), notes(**told), kind="hang", recorded={0: tuple(mine), 1: tuple(theirs)})


def test_rounds_of_a_loop_outside_the_training_are_not_explained_by_the_data_of_the_training():
    seen = both([record("", 5)] * 3, [record("", 5)] * 2, loaders=[LOADER])
    found = uneven(seen, [1], [0], ("round", 2, 3), "all_reduce()", "left the loop")
    assert (
        found.summary
        == "Rank 1 has left the loop after 2 rounds, and rank 0 waits in round 3 in all_reduce()."
    )
    steps = uneven(seen, [1], [0], ("training step", 4, 5), "all_reduce()", "left the loop")
    assert "each epoch had 5 batches on every rank" in steps.summary


@pytest.mark.parametrize(("line", "word"), [(15, "training step"), (5, "round")])
def test_calls_between_passes_that_average_nothing_are_no_rounds(loops, line, word):
    accumulated = [record("", 12), record("", 12), record("gradients", line), record("", 12), record("", 12)]
    seen = both([*accumulated, record("", 12)], accumulated)
    assert steps_apart(seen, [1], 0, record("", 12))[0] == word


@pytest.mark.parametrize(
    ("made", "calls", "far"),
    [
        ((5, 6), (5, 6), (5, 6)),  # after the step
        ((5, 5), (5, 6), (5, 6)),  # before it
        ((5, 5), (10, 11), (5, 6)),  # for two parameters
        ((8, 12), (2, 3), (8, 12)),  # after each fourth one
        ((0, 1), (0, 1), (0, 1)),
    ],
)
def test_a_call_after_an_optimizers_step_belongs_to_that_step(made, calls, far):
    early, late = (notes(counts={"forwards": 0, "backwards": 0, "steps": steps}) for steps in made)
    recorded = {rank: (record("", 5),) * number for rank, number in enumerate(calls)}
    seen = watched(early, late, kind="hang", recorded=recorded)
    assert steps_apart(seen, [0], 1, record("", 5)) == ("training step", *far)


def test_a_loop_behind_a_training_without_ddp_has_rounds():
    told = notes(counts={"forwards": 0, "backwards": 0, "steps": 5})
    recorded = {rank: (record("", 5),) * number for rank, number in enumerate((2, 3))}
    seen = watched(told, told, kind="hang", recorded=recorded)
    assert steps_apart(seen, [0], 1, record("", 5)) == ("round", 2, 3)
