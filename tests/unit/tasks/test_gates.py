"""A wrong kind of value: what conversions raise, and what a task's gate says of the first rank that gave one."""

import itertools

import pytest
import torch

from course_lib.tasks.task import Task, Trial, WrongKind, gate
from course_lib.tasks.toys import (
    MAX_ITEMS,
    described,
    items,
    names,
    number,
    number_or_text,
    numbers,
    parameter_names,
    whole_number,
    whole_numbers,
)


class _Plain(Task):
    name = "lesson.plain"
    gives_number = gate("Every rank returns a number.")


class _InItsOwnWords(Task):
    name = "lesson.words"
    gives_counts = gate(
        "Every rank counts.",
        "on {gang}, with {case}, {who} gave {given}; n is {n}",
        lambda trial: None if 0 in trial.wrong_kinds else "rank_0_alone",
    )


def _miss(task, ranks, wrong_kinds):
    (check,) = task.checks
    assert check.gate
    assert check.of_kind
    seen = {rank: 1.0 for rank in range(ranks) if rank not in wrong_kinds}
    return check.judge(task, Trial(ranks, {"n": 3, "rank": 7, "text": "{n}"}, None, seen, wrong_kinds))


def test_a_gate_is_open_where_every_rank_has_an_observation():
    assert _miss(_Plain(), 2, {}) is None


def test_the_first_rank_without_one_is_named_with_what_it_gave():
    miss = _miss(_Plain(), 3, {2: "str: 'y'", 1: "str: 'x'"})
    assert (miss.observed, miss.misconception) == ("rank 1 of 3 returned str: 'x'", None)


def test_a_gate_may_have_words_of_its_own_and_name_a_misconception():
    # What a case or an answer says may have braces of its own.
    miss = _miss(_InItsOwnWords(), 4, {1: "{case}", 2: "", 3: ""})
    assert miss.observed == "on 4 ranks, with n=3, rank=7, text={n}, ranks 1-3 gave {case}; n is 3"
    assert miss.misconception == "rank_0_alone"
    assert _miss(_InItsOwnWords(), 1, {0: "None"}).misconception is None


def test_numbers_are_converted_until_one_is_none():
    assert numbers(value for value in (1, 2.5)) == [1.0, 2.5]
    # An answer may go on without end, before what is of another kind and behind it.
    assert len(numbers(itertools.repeat(1))) == MAX_ITEMS
    with pytest.raises(WrongKind, match="str: 'x'"):
        numbers(itertools.chain([1], itertools.repeat("x")))


@pytest.mark.parametrize("value", [None, 3, "text", {"a": 1}])
def test_what_cannot_be_gone_through_is_of_another_kind(value):
    with pytest.raises(WrongKind, match=type(value).__name__.removesuffix("Type")):
        items(value)


def test_what_is_not_a_number_may_be_said_in_words():
    assert number_or_text(2) == 2.0
    assert number_or_text(None) == "None (is a return missing?)"


def test_a_whole_number_may_be_written_as_a_float():
    assert whole_number(3.0) == 3
    assert isinstance(whole_number(3.0), int)


@pytest.mark.parametrize("value", [2.5, float("inf"), float("nan"), None, "3"])
def test_what_is_no_whole_number_is_of_another_kind(value):
    with pytest.raises(WrongKind):
        whole_number(value)


@pytest.mark.parametrize(
    ("convert", "value", "said"),
    [
        (whole_numbers, None, "None"),
        (whole_numbers, [0.5], "float: 0.5"),
        (whole_numbers, "123", "str: '123'"),
        (whole_numbers, iter(int, 1), "more than 10000 numbers"),
        (number, "0.5", "str: '0.5'"),
        (number, [1, 2], r"list: \[1, 2\]"),
        (names, [1], r"list: \[1\]"),
    ],
)
def test_a_wrong_kind_says_what_it_is_instead(convert, value, said):
    with pytest.raises(WrongKind, match=said):
        convert(value)


def test_names_of_parameters_are_those_of_the_model_itself():
    known = ["weight", "bias"]
    assert parameter_names(["module.weight", "bias", "bias"], known) == ["bias", "weight"]
    with pytest.raises(WrongKind, match="'gain', which is no parameter of the model"):
        parameter_names({"gain"}, known)


def test_tensors_are_told_by_their_shapes():
    assert described(torch.zeros(2, 3)) == "a Tensor of shape (2, 3)"
    assert described((torch.zeros(4), 1)) == "a tuple of a Tensor of shape (4,), int: 1"
    assert described(torch.tensor(0.5)) == "Tensor: tensor(0.5000)"
