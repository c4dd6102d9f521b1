"""What a report without a diagnosis says all the same; what a guarded hook does with its errors."""

from dataclasses import replace

import pytest

from realranks.doctor.diagnose import with_diagnosis
from realranks.outcome.outcome import Diagnosis
from realranks.scripts.examine import Examination, checked, verdict_text, waiting_sentence
from realranks.watch.guard import Unseen, guarded
from tests.support.watched import models, notes, outside, record, watched, weights

SOME_COLLECTIVE = {rank: (record("", 3),) for rank in range(2)}


def report(*each, **fields):
    return verdict_text(Examination(with_diagnosis(watched(*each, **fields)), ()))


def test_a_sound_run_of_a_ddp_model_has_nothing_to_add():
    told = notes(weights=weights(1, 2), models=models(0))
    assert report(told, told, recorded=SOME_COLLECTIVE) == "No fault found on ranks 0 and 1."


def test_a_run_in_which_nothing_went_from_rank_to_rank_says_so_in_its_first_line():
    told = notes(counts={"steps": 0})
    assert (
        report(told, told) == "No fault found on ranks 0 and 1, but no DDP model and no collective were seen."
    )


def test_models_of_their_own_are_named_where_the_doctor_is_silent():
    each = [notes(outside=outside(rank, 10 + rank), models=models(0)) for rank in range(2)]
    assert report(*each, recorded=SOME_COLLECTIVE) == (
        "No fault found on ranks 0 and 1, but each rank trains parameters of its own, "
        "taken to be meant so (head.weight)."
    )


def test_weights_that_are_averaged_now_and_then_and_differ_at_the_end_are_named():
    each = [notes(weights=weights(1, 5 + rank, 3, 8 + rank), models=models(0)) for rank in range(2)]
    assert "weights that are averaged now and then differ at the end (weight)" in report(
        *each, recorded=SOME_COLLECTIVE
    )


def test_what_was_not_looked_at_is_said_with_the_reason_and_the_ranks():
    told = notes(weights=weights(1), models=models(0), unseen={"weights": "TypeError: no"})
    text = report(told, told, recorded=SOME_COLLECTIVE)
    assert text.splitlines()[1] == "  weights were not looked at everywhere on ranks 0 and 1: TypeError: no"


def drawn(*indices, number=0):
    epoch = {"indices": list(indices), "batches": 2, "crc": 1}
    return {
        "number": number,
        "sampler": "RandomSampler",
        "shuffles": True,
        "samples": 9,
        "trains": True,
        "epochs": [epoch | {"ended": True}],
    }


def test_samples_were_compared_only_where_they_have_numbers_and_the_report_says_so():
    def to_record(rank, *loaders):
        return notes(models=models(0), weights=weights(1), loaders=list(loaders))

    numbered = watched(to_record(0, drawn(0, 1)), to_record(1, drawn(2, 3)))
    assert checked(numbered)[1] == "epoch 0: 4 numbers of samples, each on one rank"
    alike = watched(to_record(0, drawn(0, 1)), to_record(1, drawn(1, 2)))
    assert checked(alike)[1] == "epoch 0: 3 numbers of samples, 1 of them on several ranks"
    streamed = watched(to_record(0, drawn()), to_record(1, drawn()), recorded=SOME_COLLECTIVE)
    assert not any("samples" in sentence for sentence in checked(streamed))
    assert "samples of a training loader that gives them no numbers (a stream) were not compared" in report(
        to_record(0, drawn()), to_record(1, drawn()), recorded=SOME_COLLECTIVE
    )
    both = watched(
        to_record(0, drawn(0, 1), drawn(5, 6, number=1)), to_record(1, drawn(2, 3), drawn(7, 8, number=1))
    )
    assert checked(both)[2] == "epoch 0 of loader 1: 4 numbers of samples, each on one rank"


def test_rows_are_said_to_be_compared_only_where_several_ranks_have_met_them():
    def to_record(*crcs, numbers=(), use="trains"):
        told = {**drawn(*numbers), "trains": False, "evaluates": False, use: True}
        told["epochs"] = [{**told["epochs"][0], "rows": [[-1, crc, None] for crc in each]} for each in crcs]
        return notes(models=models(0), weights=weights(1), loaders=[told])

    def said(*each):
        return checked(watched(*each))[1]

    assert said(to_record([1, 2]), to_record([3, 4])) == "epoch 0: 4 rows, each on one rank"
    assert said(to_record([1, 2]), to_record([2, 4])) == "epoch 0: 3 rows, 1 of them on several ranks"
    dealt_anew = to_record([1, 2], [3, 4]), to_record([3, 4], [1, 2])
    assert said(*dealt_anew) == "epoch 0: 4 rows, each on one rank"
    assert not any("rows" in sentence for sentence in checked(watched(to_record([1]), to_record([]))))
    numbered = to_record([1, 2], numbers=(0, 1)), to_record([3, 4], numbers=(2, 3))
    assert said(*numbered) == "epoch 0: 4 rows, each on one rank"
    augmented = to_record([1, 2], numbers=(0, 1)), to_record([3, 4], numbers=(0, 1))
    both = "epoch 0: 4 rows, each on one rank; 2 numbers of samples, 2 of them on several ranks"
    assert said(*augmented) == both
    evaluated = (to_record(rows, use="evaluates") for rows in ([1, 2], [2, 3]))
    again = "(a sum or a mean over the ranks counts these more than once, unless they are left out)"
    assert said(*evaluated) == f"evaluation: 3 rows, 1 of them on several ranks {again}"
    left = [
        notes(models=models(0), weights=weights(1), loaders=[drawn(rank) | {"epochs": [{"indices": [rank]}]}])
        for rank in (0, 1)
    ]
    assert said(*left) == "epoch 0, as far as it was drawn: 2 numbers of samples, each on one rank"
    everywhere = (to_record(rows, use="evaluates") for rows in ([1, 2], [1, 2]))
    assert said(*everywhere) == "evaluation: 2 rows, 2 of them on several ranks"


def test_random_numbers_are_said_to_be_alike_or_not():
    def said(*states):
        drawn = [{"draws": {"torch": [[state, 8, 4]]}} for state in states]
        told = checked(watched(*(notes(models=models(0), weights=weights(1), draws=each) for each in drawn)))
        return told[1].partition(": ")[2]

    assert said(1, 1, 1) == "the same on all ranks"
    assert said(1, 2, 3) == "different on each rank"
    assert said(1, 2, 1) == "the same on some ranks"


def test_collectives_are_said_to_be_in_one_order_only_where_they_are():
    told = notes(models=models(0), weights=weights(1))

    def said(*recorded):
        return next(
            each
            for each in checked(watched(told, told, recorded=dict(enumerate(recorded))))
            if "collective" in each
        )

    assert said((record("", 3),), (record("", 3),)) == "1 collective on every rank, in the same order"
    own = replace(record("", 3), group="2")
    assert said((record("", 3),), (own,)) == "1 collective on every rank, compared within each group"
    many = (record("", 3),) * 400
    assert said(many, many) == "the newest 400 collectives on every rank, in the same order"


def test_parameters_that_no_rank_has_got_a_gradient_for_are_named():
    def to_record(*never):
        return notes(
            models=[{**models(0)[0], "backwards": 4, "parameters": 9, "never": never}], weights=weights(1)
        )

    each = to_record("head.bias", "head.weight"), to_record("head.bias")
    assert "no gradient has ever come for 1 parameter (head.bias)" in checked(watched(*each))
    assert not any(
        "gradient" in sentence for sentence in checked(watched(to_record("head.bias"), to_record()))
    )


def test_how_long_ranks_have_waited_is_said_where_no_verdict_says_it():
    made = watched(*[notes(waiting={"seconds": 9.0, "share": share}) for share in (0.05, 0.6)])
    assert waiting_sentence(made) == "waiting for other ranks: rank 0 5%, rank 1 60% of 9.0 s"
    assert waiting_sentence(replace(made, diagnosis=Diagnosis("slow_rank", ""))) == ""
    assert waiting_sentence(watched(notes(), notes())) == "", "too short to say"


class Hooks:
    def well(self):
        return 3

    def badly(self):
        raise ValueError("first line\nsecond line")

    def stopped(self):
        raise KeyboardInterrupt


def test_an_error_of_a_guarded_hook_is_noted_once_and_not_raised():
    unseen = Unseen()
    hooks = guarded(Hooks(), unseen, "weights")
    assert hooks.well() == 3
    assert hooks.badly() is None
    assert hooks.not_there() is None
    assert unseen == {"weights": "ValueError: first line"}


def test_an_interrupt_while_a_hook_runs_is_the_scripts():
    with pytest.raises(KeyboardInterrupt):
        guarded(Hooks(), Unseen(), "weights").stopped()


def test_an_error_that_cannot_even_be_told_has_the_name_of_its_class():
    class UntoldError(Exception):
        def __str__(self):
            raise RuntimeError

    unseen = Unseen()
    unseen.note("weights", UntoldError())
    assert unseen == {"weights": "UntoldError"}


def test_pieces_that_only_one_rank_holds_are_said_not_to_be_compared():
    each = [notes(outside=outside(rank, 5 + rank, among=[rank])) for rank in range(2)]
    text = report(*each, recorded=SOME_COLLECTIVE)
    assert text.splitlines()[-1] == (
        "  parameters of which each rank holds a piece of its own were not compared"
    )


def test_it_says_at_how_many_moments_weights_were_compared():
    told = notes(weights=weights(1, 2), models=models(0), outside=outside(3, 4, 5))
    found = with_diagnosis(watched(told, told, recorded=SOME_COLLECTIVE))
    assert checked(found)[:2] == [
        "weights compared at 2 moments",
        "parameters that no DDP model holds compared at 3 moments",
    ]


def test_inputs_are_compared_where_there_is_no_loader():
    def said(*inputs, **more):
        told = [
            notes(models=[{**models(0)[0], "inputs": list(each)}], weights=weights(1), **more)
            for each in inputs
        ]
        return [sentence for sentence in checked(watched(*told)) if "inputs" in sentence]

    assert said((1, 2, 3), (1, 2, 3)) == ["the first inputs: the same on all ranks"]
    assert said((1, 2, 3), (4, 5, 6)) == ["the first inputs: different on each rank"]
    assert said((), ()) == []
    assert said((1, 2, 3), (1, 2, 3), loaders=[drawn(0, 1)]) == []
