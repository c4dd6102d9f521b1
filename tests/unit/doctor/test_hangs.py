"""Rules about ranks that wait: branches that no scenario reaches."""

import dataclasses

import pytest

from realranks.doctor.ddp_passes import extra_pass, missing_forward
from realranks.doctor.diagnose import diagnose
from realranks.doctor.model_order import different_order
from realranks.outcome.facts import Facts
from realranks.outcome.outcome import Waiting
from tests.support.outcomes import blocked, died, outcome, stuck
from tests.support.watched import models, notes, record, watched


def test_a_wait_for_nobody_in_particular_is_no_circle():
    found = diagnose(stuck(blocked(0, "wait"), blocked(1, "barrier", [0], record("", 5, op="barrier"))))
    assert (found.kind, found.culprits) == ("nobody_answers", ())
    assert found.summary.startswith(
        "Rank 0 waits in wait() at train.py, line 5, for what no other rank sends"
    )
    assert "while rank 1 waits in barrier() at train.py, line 5." in found.summary


def test_a_send_that_meets_a_barrier_is_a_circle():
    found = diagnose(stuck(blocked(0, "send"), blocked(1, "barrier", [0], record("", 6, op="barrier"))))
    assert found.kind == "waiting_in_a_circle"


def test_a_send_without_a_receiver_is_not_called_a_message_that_nobody_sends():
    found = diagnose(stuck(blocked(0, "send")))
    assert found.kind == "nobody_answers"
    assert "will not receive" in found.summary
    assert "should have received" in found.advice


def straggling(seconds):
    ranks = {
        0: blocked(0, "barrier", [1], record("", 5, op="barrier"), seconds=seconds),
        1: Waiting(1, None, "train.py, line 4", "work()", state="computing"),
    }
    return outcome("hang", 2, waiting=ranks, timed_out=True)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (2.9, "line 5 for more than 2 s."),
        (59.0, "line 5 for more than 30 s."),
        (4000.0, "line 5 for more than an hour."),
        (0.4, "at train.py, line 5."),
        (None, "at train.py, line 5."),
    ],
)
def test_a_straggler_says_how_long_it_has_been_waited_for(seconds, words):
    found = diagnose(straggling(seconds))
    assert found.kind == "straggler"
    assert found.summary.endswith(words)


def trained(*ways):
    """An outcome whose ranks came to DDP's collectives on these ways: (line, callers...) by rank."""
    recorded = {
        rank: tuple(record("gradients", line, seq, callers) for seq, (line, *callers) in enumerate(way, 1))
        for rank, way in enumerate(ways)
    }
    return outcome("hang", len(ways), recorded=recorded)


def test_a_way_that_one_rank_alone_has_taken_is_an_extra_pass():
    found = extra_pass(trained([(9, 20), (9, 25)], [(9, 20)], [(9, 20)]), (0,), (1, 2), "now it waits")
    assert (found.kind, found.culprits) == ("extra_backward", (0,))
    assert "train.py, line 25" in found.summary


def test_of_two_ranks_nobody_is_the_majority():
    assert extra_pass(trained([(9, 20), (9, 25)], [(9, 20)]), (0,), (1,), "") is None


def test_the_same_ways_make_no_extra_pass():
    assert extra_pass(trained([(9, 20), (9, 20)], [(9, 20)], [(9, 20)]), (0,), (1, 2), "") is None


def test_ranks_that_have_not_trained_at_all_say_nothing_about_ways():
    assert extra_pass(trained([(9, 20)], [], []), (0,), (1, 2), "") is None


def test_a_way_of_ones_own_that_others_take_elsewhere_is_no_extra_pass():
    assert extra_pass(trained([(9, 30)], [(9, 20)], [(9, 20)]), (0,), (1, 2), "") is None


def test_ranks_that_are_batches_ahead_have_left_something_out():
    ahead = watched(*(notes(counts={"batches": 5 - (rank > 0)}) for rank in range(3)), kind="hang")
    ways = trained([(9, 20), (9, 25)], [(9, 20)], [(9, 20)])
    assert extra_pass(dataclasses.replace(ways, facts=ahead.facts), (0,), (1, 2), "") is None


def test_a_full_record_may_have_forgotten_the_same_way_on_other_ranks():
    early = [(9, 25)] + [(9, 20)] * 399
    assert extra_pass(trained(early, [(9, 20)] * 400, [(9, 20)] * 400), (0,), (1, 2), "") is None


def test_as_many_batches_and_fewer_forwards_are_a_missing_forward():
    seen = watched(
        notes(counts={"batches": 5, "forwards": 5}), notes(counts={"batches": 5, "forwards": 3}), kind="hang"
    )
    found = missing_forward(seen, 0, [1], "rank 0 waits")
    assert (found.kind, found.culprits) == ("missing_forward", (1,))
    assert "trained on only 3" in found.summary


@pytest.mark.parametrize(
    "counts", [{"batches": 4, "forwards": 3}, {"batches": 5, "forwards": 5}, {"batches": 0}]
)
def test_other_counts_are_no_missing_forward(counts):
    seen = watched(notes(counts={"batches": 5, "forwards": 5}), notes(counts=counts), kind="hang")
    assert missing_forward(seen, 0, [1], "") is None


def test_batches_that_did_not_train_make_no_missing_forward():
    loaders = [
        {"number": number, "sampler": "RandomSampler", "shuffles": True, "samples": 9, "trains": trains}
        for number, trains in enumerate((True, False))
    ]
    seen = watched(
        notes(counts={"batches": 5, "forwards": 5}, loaders=loaders[:1]),
        notes(counts={"batches": 5, "forwards": 3}, loaders=loaders),
        kind="hang",
    )
    assert missing_forward(seen, 0, [1], "") is None


def test_calls_are_compared_by_their_number_though_the_first_are_forgotten():
    def told(first, *numbers):
        return notes(models=models(0, 0), calls={"first": first, "last": [[n, ""] for n in numbers]})

    assert different_order({0: told(10, 0, 1, 0), 1: told(11, 1, 0)}) is None
    found = different_order({0: told(10, 0, 1, 0), 1: told(10, 0, 0, 1)})
    assert (found.call, found.swapped) == (12, True)


def aborted(*records, dead=0):
    groups = Facts(groups={"0": tuple(range(len(records)))})
    return died(
        {dead: -6},
        world_size=len(records),
        recorded={rank: (each,) for rank, each in enumerate(records)},
        facts=dict.fromkeys(range(len(records)), groups),
        stderr={dead: "what(): op.preamble.length <= op.nbytes. 128 vs 64."},
    )


def test_a_rank_that_gloo_aborts_is_not_the_culprit():
    found = diagnose(aborted(*(record("", 5, dtype=d) for d in ("Float", "Double", "Float"))))
    assert (found.kind, found.culprits) == ("different_dtypes", ())
    assert "rank 0 died" in found.summary
    assert "(died)" in found.evidence[0]


def test_an_abort_without_a_record_names_nobody():
    seen = aborted(record("", 5), record("", 5))
    found = diagnose(dataclasses.replace(seen, recorded={}))
    assert found.kind == "rank_crashed"


def test_joins_books_on_one_side_only():
    found = diagnose(aborted(record("join", 5, size=1), record("gradients", 5), record("gradients", 5)))
    assert (found.kind, found.culprits) == ("join_on_some_ranks", (0,))


def test_models_in_different_orders_explain_more_than_the_stages_that_meet():
    calls = [{"first": 0, "last": [[first, "train.py, line 5"]]} for first in (0, 0, 1)]
    probes = watched(*(notes(models=models(0, 0), calls=each) for each in calls)).facts
    sync = record("buffers", 5, op="broadcast")
    seen = aborted(sync, sync, record("gradients", 6))
    found = diagnose(dataclasses.replace(seen, facts=probes))
    assert (found.kind, found.culprits) == ("different_order", ())
    assert "in call 1, ranks 0 and 1 use model 1 and rank 2 uses model 2" in found.summary
