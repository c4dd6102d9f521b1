"""Gradients that never come, modes and threads, made up: where the rules speak, and where they must not."""

import pytest

from realranks.doctor.diagnose import diagnose
from tests.support.watched import models, notes, watched, weights


def said(*each, **told):
    found = diagnose(watched(*(one if not isinstance(one, dict) else run(one, **told) for one in each)))
    return found.kind if found is not None else "nothing"


def run(model, **told):
    model = {**models(0)[0], "backwards": 6, "parameters": 8, **model}
    return notes(models=[model], weights=weights(1), **told)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ({"never": ["a", "b"], "cut": ["a"]}, "gradients_cut"),
        ({"never": ["a", "b"]}, "nothing"),
        ({"never": ["a", "b"], "cut": ["a"], "backwards": 2}, "nothing"),
        ({"never": ["a", "b"], "cut": ["a"], "parameters": 2}, "nothing"),  # used up within backward()
    ],
)
def test_gradients_are_cut_where_parameters_that_feed_a_gather_never_get_one(model, kind):
    assert said(model, model, gathered_at="train.py, line 7") == kind


def test_what_one_rank_alone_lacks_is_not_cut():
    cut = {"never": ["a"], "cut": ["a"]}
    assert said(cut, {"never": [], "cut": []}, gathered_at="train.py, line 7") == "nothing"


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [(3, 0, "modes_differ"), (3, 6, "nothing"), (0, 0, "nothing"), (6, 6, "nothing")],
)
def test_modes_differ_where_one_rank_alone_trains_in_evaluation_mode(one, other, kind):
    assert said({"evaluating": one, "has_modes": True}, {"evaluating": other, "has_modes": True}) == kind
    assert said({"evaluating": one}, {"evaluating": other}) == "nothing", "a model without modes"


@pytest.mark.parametrize(
    ("threads", "cores", "kind"), [(16, 8, "too_many_threads"), (8, 8, "nothing"), (1, 0, "nothing")]
)
def test_threads_are_too_many_from_four_a_core_on(threads, cores, kind):
    assert said({}, {}, threads=threads, cores=cores) == kind
