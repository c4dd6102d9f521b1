"""Which misconceptions explain what was observed: one for all, several together, or one for a part of it."""

from types import SimpleNamespace

from course_lib.tasks.task import (
    Model,
    Trial,
    recognise_by_message,
    recognise_by_models,
    recognise_by_name,
)


def _trials(*seen):
    return [Trial(1, {"number": number}, None, {0: value}) for number, value in enumerate(seen)]


def _right(trial):
    return [trial.case["number"]]


def _model(id_, *predictions):
    return Model(id_, lambda trial: [predictions[trial.case["number"]]])


def _recognised(seen, *models, **kwargs):
    return recognise_by_models(_trials(*seen), _right, models, lambda a, b: a == b, **kwargs)


DOUBLED, ZERO = _model("doubled", 0, 2, 4), _model("zero", 0, 0, 0)


def test_what_is_right_has_no_misconception():
    assert _recognised([0, 1, 2], ZERO, _model("fits", 0, 1, 2)) is None


def test_one_that_fits_all_trials_is_named_alone():
    assert _recognised([0, 2, 4], ZERO, DOUBLED) == "doubled"


def test_one_for_each_failing_trial_where_none_fits_all():
    assert _recognised([0, 2, 0], ZERO, DOUBLED) == ("doubled", "zero")


def test_the_gravest_of_those_that_fit_the_first_failing_trial():
    first, second = _model("first", 9, 1, 7), _model("second", 9, 1, 8)
    assert _recognised([9, 1, 5], first, second) == ("first",)
    assert _recognised([9, 1, 5], second, first) == ("second",)


def test_one_that_explains_more_goes_before_a_graver_one_that_fits_by_accident():
    accident, real = _model("accident", 0, 2, 9), _model("real", 0, 2, 4)
    assert _recognised([7, 2, 4], accident, real) == ("real",)


def test_what_fits_no_trial_stays_unnamed():
    assert _recognised([7, 7, 7], ZERO, DOUBLED) is None


def test_several_at_once_only_where_they_fit_everything():
    both = _model(("doubled", "zero"), 5, 5, 5)
    assert _recognised([5, 5, 5], ZERO, together=[both]) == ("doubled", "zero")
    assert _recognised([5, 5, 6], ZERO, together=[both]) is None


def test_one_trial_alone_is_not_enough_where_it_may_fit_by_chance():
    assert _recognised([0, 0, 7], ZERO, alone=False) is None
    assert _recognised([0, 0, 0], ZERO, alone=False) == "zero"
    assert _recognised([0, 0, 2], ZERO, alone=False) == ("zero",)


def _predicted(trial, name):
    factors = {"right": 1, "doubled": 2, "zero": 0, "zero/late": 5}
    return trial.on_all_ranks(factors[name] * trial.case["number"])


def test_of_models_by_name_the_one_called_right_is_what_the_others_are_compared_with():
    names = ("right", "zero", "zero/late", "doubled")
    assert recognise_by_name(_trials(0, 1, 2), names, _predicted) is None
    assert recognise_by_name(_trials(0, 2, 4), names, _predicted) == "doubled"
    assert recognise_by_name(_trials(0, 5, 10), names, _predicted) == "zero"


def test_models_by_name_fit_as_the_task_compares():
    near = recognise_by_name(
        _trials(0, 2.1, 4.1), ("doubled",), _predicted, lambda seen, one: abs(seen - one) < 0.2
    )
    assert near == "doubled"
    assert recognise_by_name(_trials(0, 2.1, 4.1), ("doubled",), _predicted) is None


def test_what_torch_says_on_any_rank_is_recognised_the_first_text_first():
    errors = {
        rank: SimpleNamespace(message=text) for rank, text in enumerate(("no len()", "ready only once"))
    }
    outcome = SimpleNamespace(errors=errors)
    texts = {"ready only once": "around_the_wrapper", "no len()": "like_a_list"}
    assert recognise_by_message(outcome, texts) == "around_the_wrapper"
    assert recognise_by_message(outcome, {"something else": "unknown"}) is None
