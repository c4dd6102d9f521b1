"""Expectations: what they say, and which outcomes meet them."""

import dataclasses

import pytest

from realranks.outcome.expect import Expectation, ExpectationError, in_words
from realranks.outcome.outcome import Waiting
from tests.support.outcomes import died, error, hung, outcome, raised


def timed_out(blocked, asleep):
    """A run whose time was up: ranks in a collective, and ranks that slept."""
    waiting = {rank: Waiting(rank, "barrier", "", "") for rank in blocked}
    waiting |= {rank: Waiting(rank, None, "", "", state="asleep") for rank in asleep}
    return outcome("hang", waiting=waiting, timed_out=True)


OUTCOMES = {
    "ok": outcome(),
    "raises 1": raised(1),
    "raises 0,2": raised(0, 2, name="KeyError"),
    "died 2": died({2: -9}),
    "hang 1-3": hung(1, 2, 3, missing=(0,)),
    "slow 1": timed_out(blocked=(0,), asleep=(1,)),
    "probably hang": dataclasses.replace(
        timed_out(blocked=(0,), asleep=(1,)), doubts=("a thread might act",)
    ),
    "all blocked": timed_out(blocked=(0, 1), asleep=()),
}


@pytest.mark.parametrize(
    ("text", "meets"),
    [
        ("ok", {"ok"}),
        ("raises", {"raises 1", "raises 0,2"}),
        ("raises:ValueError", {"raises 1"}),
        ("raises:LookupError", {"raises 0,2"}),
        ("raises:1", {"raises 1"}),
        ("raises:0,2", {"raises 0,2"}),
        ("raises: 2 , 0", {"raises 0,2"}),
        ("raises:0", set()),
        ("died", {"died 2"}),
        ("died:2", {"died 2"}),
        ("died:1", set()),
        ("hang", {"hang 1-3", "probably hang", "all blocked"}),
        ("slow", {"slow 1"}),
        ("slow:0,1", {"slow 1"}),
        ("slow:1", set()),
        ("hang:1,2,3", {"hang 1-3"}),
        ("hang:1", set()),
        (" hang:1,2,3 ", {"hang 1-3"}),
        ("raises:", {"raises 1", "raises 0,2"}),
    ],
)
def test_an_expectation_is_met_by(text, meets):
    expectation = Expectation.parse(text)
    assert {name for name, found in OUTCOMES.items() if expectation.met_by(found)} == meets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "OK",
        "ok:1",
        "raises:1,x",
        "raises:a b",
        "died:KeyError",
        "hang:x",
        "slow:x",
        "died:-1",
        "raises:1.5",
    ],
)
def test_what_is_no_expectation_is_refused_in_one_line(text):
    with pytest.raises(ExpectationError, match=r"^No expectation ") as caught:
        Expectation.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (
            "foo",
            ": use ok, raises, died, hang or slow, and if you like raises:RuntimeError, raises:0, died:2 or hang:0,1.",
        ),
        ("ok:1", ": after ok: comes nothing."),
        ("raises:a b", "comes an exception's name or ranks, as in raises:ValueError or raises:0,2."),
        ("died:x", ": after died: comes ranks, as in died:2."),
        ("slow:x", ": after slow: comes the ranks left waiting, as in hang:0,1."),
        ("hang:x", ": after hang: comes the ranks left waiting, as in hang:0,1."),
    ],
)
def test_what_is_no_expectation_is_told_what_would_be_one(text, ends):
    with pytest.raises(ExpectationError) as caught:
        Expectation.parse(text)
    assert str(caught.value).endswith(ends)


def test_an_interrupted_run_meets_only_keyboard_interrupt():
    stopped = dataclasses.replace(raised(0, name="KeyboardInterrupt"), interrupted=True)
    assert Expectation.parse("raises:KeyboardInterrupt").met_by(stopped)
    assert not Expectation.parse("raises").met_by(stopped)
    assert not Expectation.parse("ok").met_by(dataclasses.replace(outcome(), interrupted=True))


@pytest.mark.parametrize("text", ["ok", "raises:KeyError", "died:0,2", "hang", "slow", "slow:1"])
def test_an_expectation_reads_as_it_was_written(text):
    assert str(Expectation.parse(text)) == text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ok", "every rank finishes"),
        ("raises 1", "rank 1 raises ValueError"),
        ("raises 0,2", "ranks 0 and 2 raise KeyError"),
        ("died 2", "rank 2 dies"),
        ("hang 1-3", "ranks 1-3 wait for ever"),
        ("slow 1", "ranks 0 and 1 have not finished in time"),
    ],
)
def test_what_happened_in_words(name, words):
    assert in_words(OUTCOMES[name]) == words


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (died({0: -9, 2: 3}), "ranks 0 and 2 die"),
        (hung(2, missing=(0,)), "rank 2 waits for ever"),
        (
            dataclasses.replace(raised(0, 1), errors={0: error(), 1: error("KeyError")}),
            "ranks 0 and 1 raise KeyError / ValueError",
        ),
    ],
)
def test_words_agree_with_the_number_of_ranks(found, words):
    assert in_words(found) == words
