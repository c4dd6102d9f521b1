"""The lessons' questions: read from their files, with values in their places, in an order that gives nothing away."""

import pytest

from course_lib.lab.predictions import yes_nowhere
from course_lib.outcome.expect import Expectation
from course_lib.questions import (
    Option,
    Question,
    QuestionError,
    all_questions,
    decider,
    in_drawn_order,
    is_said,
    question_named,
)

OPTIONS = tuple(Option(text, "ok") for text in ("one", "two", "three", "four"))


def test_values_stand_in_the_words_and_in_what_decides():
    question = Question(
        "00.a", "What are {n} bytes?", (Option("{n} KiB", "value_is('sent', {n})", "Not {n}."),)
    )
    asked = question.with_values({"n": 4})
    assert (asked.asks, asked.options[0]) == (
        "What are 4 bytes?",
        Option("4 KiB", "value_is('sent', 4)", "Not 4."),
    )
    with pytest.raises(QuestionError, match=r'predict\("00.a"\) needs the value of \'n\''):
        question.with_values({})


@pytest.mark.parametrize(
    ("words", "shown", "same"),
    [
        ("What (now)?", "What (now)?", True),
        ("What?", "What?!", False),
        ("{n} of {{all}}", "3 of {all}", True),
        ("{n} of all", " of all", False),
    ],
)
def test_words_are_recognised_whatever_stands_in_their_places(words, shown, same):
    assert is_said(words, shown) is same


def test_the_order_of_options_depends_on_words_alone():
    shown = in_drawn_order("Which?", OPTIONS)
    assert sorted(shown, key=OPTIONS.index) == list(OPTIONS)
    assert in_drawn_order("Which?", reversed(OPTIONS)) == shown
    assert len({in_drawn_order(f"Which {number}?", OPTIONS) for number in range(200)}) == 24


@pytest.mark.parametrize("name", ["00.skipped", "99.a", "Does it hang?", ""])
def test_a_name_that_there_is_not_is_told_with_those_that_there_are(name):
    with pytest.raises(QuestionError) as told:
        question_named(name, {})
    assert f"There is no question {name!r}." in str(told.value)
    assert ("00.skips" in str(told.value)) is name.startswith("00")


def test_what_decides_is_an_expectation_or_a_predicate_of_the_lessons():
    assert decider("hang:0,1") == Expectation.parse("hang:0,1")
    assert decider("yes_nowhere") is yes_nowhere
    assert decider("dataparallel.in_parallel(loops=False, multiplication=True)")(
        {"cores": {0: 1.0}, "beside": {0: True}}
    )


@pytest.mark.parametrize(
    "when",
    [
        "",
        "hangs",
        "raises:0,x",
        "nowhere.found",
        "predictions.found",
        "value_is('a', open('b'))",
        "value_is()",
        "a b",
        "x.y.z",
        "[1]",
    ],
)
def test_what_is_neither_is_told(when):
    with pytest.raises(QuestionError):
        decider(when)


@pytest.mark.parametrize(
    "question",
    [each for each in all_questions() if all(o.when for o in each.options)],
    ids=lambda each: each.name,
)
def test_every_option_of_the_lessons_can_be_decided(question):
    assert all(decider(option.when) for option in question.options)
