"""Slow steps, from spans as ranks note them: seconds, steps, waiting, loading, asleep, starved, bytes."""

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.outcome.probe_notes import Span
from realranks.watch.waiting import in_pairs
from tests.support.watched import models, notes, record, watched, weights


def found(*ranks, line="train.py, line 9", steps=(60, 60, 60), **told):
    each = [
        notes(
            counts={"steps": made},
            models=models(0),
            weights=weights(1),
            waiting={"seconds": 9.0, "spans": [list(span) for span in spans], "line": line, "at_line": 0.8},
            **told,
        )
        for spans, made in zip(ranks, steps, strict=False)
    ]
    return diagnose(watched(*each, recorded={rank: (record("", 3),) for rank in range(len(each))}))


def said(*ranks, **told):
    diagnosis = found(*ranks, **told)
    return diagnosis.kind if diagnosis is not None else ""


def rank(number=6, steps=10, moved=0, **shares):
    """So many spans of a second that all look alike."""
    parts = {"waiting": 0.0, "loading": 0.0, "asleep": 0.0, "starved": 0.0, **shares}
    return [Span(1.0, steps, moved=moved * steps, **parts)] * number


COMPUTES = rank(waiting=0.05)
WAITS = rank(waiting=0.8)


def test_the_rank_that_all_others_wait_for_is_named_with_its_line():
    late = found(rank(waiting=0.7), rank(asleep=0.8), WAITS)
    assert (late.kind, late.culprits, late.warning) == ("slow_rank", (1,), True)
    assert late.summary == (
        "Ranks 0 and 2 wait for rank 1 in 70% of the time, 0.07 s of each step of 0.1 s. It sleeps, or waits for "
        "something else (train.py, line 9 in 80% of its time)."
    )
    assert "It computes." in found(WAITS, COMPUTES, line="").summary
    assert "It is in its DataLoader" in found(WAITS, rank(loading=0.7, asleep=0.1)).summary


@pytest.mark.parametrize(
    "ranks",
    [
        (COMPUTES, COMPUTES),
        (rank(asleep=0.9), rank(asleep=0.9)),
        (rank(waiting=0.5), rank(waiting=0.5)),
        (WAITS, rank(waiting=0.3)),
        (WAITS, rank(waiting=0.6), COMPUTES),
        (rank(waiting=0.66), rank(waiting=0.66), rank(waiting=0.66)),
    ],
    ids=[
        "computing",
        "sleeping",
        "late by turns",
        "hardly late",
        "one does not wait",
        "late by turns of three",
    ],
)
def test_no_rank_is_late(ranks):
    assert said(*ranks) == ""


def test_the_input_is_told_where_ranks_load_most_of_the_time():
    slow = found(rank(loading=0.9), rank(loading=0.5, waiting=0.4))
    assert (slow.kind, slow.culprits, slow.warning) == ("slow_input", (), True)
    assert slow.summary == (
        "Most of a step goes to its input: ranks 0 and 1 are in the DataLoader in 70% of the time, 0.07 s of each step "
        "of 0.1 s (train.py, line 9 in 80% of its time)."
    )
    assert said(rank(loading=0.6), rank(loading=0.6)) == ""
    assert said(rank(loading=0.9), WAITS) == "slow_rank", "one rank alone loads, and the other waits for it"


def test_communication_is_told_where_all_wait_at_once_and_many_bytes_move():
    slow = found(rank(waiting=0.9, moved=48_000_000), rank(waiting=0.8, moved=48_100_000))
    assert (slow.kind, slow.culprits, slow.warning) == ("slow_communication", (), True)
    assert slow.summary == (
        "Most of a step is communication: in at least 70% of the time ranks 0 and 1 are all waiting in collectives at "
        "once, 0.07 s of each step of 0.1 s. Each of them sends and receives 48 MB in a step."
    )
    assert said(*[rank(waiting=0.9, moved=900_000)] * 2) == "", (
        "small messages: ranks that take turns, or no core"
    )
    assert said(*[rank(waiting=0.8, moved=48_000_000)] * 3) == "", (
        "only 40 % of the time is all ranks' for certain"
    )


def test_a_run_is_judged_from_five_spans_and_twenty_steps_on():
    assert said(WAITS[:5], COMPUTES[:5]) == "slow_rank"
    assert said(WAITS[:4], COMPUTES[:4]) == ""
    assert said(rank(waiting=0.8, steps=3), rank(steps=3)) == ""


def test_pauses_between_steps_do_not_count():
    evaluates = [Span(60.0, 1, 0.0, 0.0, 0.0, 0.0, 0)] * 2
    meanwhile = [Span(60.0, 1, 59.0, 0.0, 0.0, 0.0, 0)] * 2
    assert said([*COMPUTES, *evaluates], [*COMPUTES, *meanwhile]) == ""


def test_a_busy_machine_is_no_slow_script():
    assert said(WAITS, rank(starved=0.3)) == ""
    assert said(rank(loading=0.9, starved=0.3), rank(loading=0.9)) == ""


def test_ranks_with_tasks_of_their_own_may_wait_for_each_other():
    assert said(WAITS, COMPUTES, steps=(60, 80)) == ""
    assert said(WAITS, COMPUTES, messages=3) == ""


def test_a_fault_is_told_before_what_is_slow():
    assert said(WAITS, COMPUTES, threads=16, cores=8) == "too_many_threads"


def test_spans_of_a_long_run_are_joined_in_pairs():
    one, other = Span(1.0, 3, 0.5, 0.25, 0.0, 0.0, 10), Span(2.0, 1, 1.0, 0.0, 0.5, 0.25, 5)
    assert in_pairs([one, other, one, one]) == [
        Span(3.0, 4, 1.5, 0.25, 0.5, 0.25, 15),
        Span(2.0, 6, 1.0, 0.5, 0.0, 0.0, 20),
    ]
