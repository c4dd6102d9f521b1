"""Where ranks have begun, beside what came of it."""

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.doctor.resumed import resumed
from tests.support.watched import models, notes, record, watched, weights


def probe(made, epoch=None, weight=1):
    settings = {} if epoch is None else {"epoch": epoch}
    loader = {
        "number": 0,
        "sampler": "DistributedSampler",
        "shuffles": False,
        "samples": 64,
        "trains": True,
        "epochs": [{"settings": settings, "skipped": 3}],
    }
    return notes(
        made_before=[] if made is None else [made],
        loaders=[loader],
        models=models(0),
        weights=weights(weight),
    )


def said(*probes):
    recorded = {rank: (record("", 3),) for rank in range(len(probes))}
    return diagnose(watched(*probes, recorded=recorded))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            (-1, 2),
            "rank 0 with an optimizer that had made 1 step; rank 1 with an optimizer that had a state.",
        ),
        ((1, 0), "rank 0 in epoch 2; rank 1 in epoch 0."),
    ],
    ids=["another optimizer", "another epoch"],
)
def test_different_places_are_the_cause_of_weights_that_differ(other, words):
    assert words in said(probe(1, 2), probe(*other, weight=2)).summary


@pytest.mark.parametrize("other", [(1, None), (None, 2)], ids=["no epoch", "no step"])
def test_a_rank_that_has_not_begun_is_not_compared(other):
    assert said(probe(1, 2), probe(*other, weight=2)).kind == "weights_differ"


def test_without_consequences_nothing_is_said_and_at_one_place_nothing_more():
    assert said(probe(1, 2), probe(9, 0)) is None
    assert said(probe(5, 2), probe(5, 2, weight=2)).kind == "weights_differ"


@pytest.mark.parametrize(
    ("probes", "words"),
    [
        (
            [probe(5, 2)] * 2,
            "resumed after 5 optimizer steps, in epoch 2 of the sampler, of which 3 batches were left out",
        ),
        ([probe(1)] * 2, "resumed after 1 optimizer step"),
        ([probe(0, 2)] * 2, ""),
        ([probe(-1, 2)] * 2, ""),
        ([probe(5), probe(6)], ""),
    ],
)
def test_the_place_at_which_all_have_resumed_is_named(probes, words):
    assert "".join(resumed(dict(enumerate(probes)))) == words
