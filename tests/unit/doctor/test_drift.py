"""Rules about scripts that end well: branches that no scenario reaches."""

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.doctor.outside_ddp import stepped_outside
from realranks.doctor.words import names_in_a_row
from realranks.outcome.outcome import Ending
from tests.support.outcomes import error
from tests.support.watched import gradients, models, notes, outside, record, watched, weights

SOME_COLLECTIVE = {rank: (record("", 3),) for rank in range(4)}


def said(*each, **fields):
    found = diagnose(watched(*each, **fields))
    return (found.kind, found.culprits) if found is not None else None


def test_equal_ranks_are_sound():
    told = notes(weights=weights(1, 2), gradients=gradients(5, 5))
    assert said(told, told) is None


def test_a_run_that_nobody_watched_is_not_judged():
    assert diagnose(watched(notes())) is None


def test_weights_that_were_made_equal_again_are_no_fault():
    one = notes(weights=weights(1, 2, 9))
    other = notes(weights=weights(1, 3, 9))
    assert said(one, other) is None


def test_one_check_less_on_a_rank_is_compared_as_far_as_both_go():
    one = notes(weights=weights(1, 2, 3), gradients=gradients(5, 5))
    other = notes(weights=weights(1, 2), gradients=gradients(5))
    assert said(one, other) is None


def test_the_same_parameters_in_another_order_are_different_models():
    def check(*named):
        return [{**weights(1)[0], "parameters": {name: [value, [float(value)]] for name, value in named}}]

    each = [
        notes(weights=check(("left", 1), ("right", 2)), gradients=gradients(5)),
        notes(weights=check(("right", 1), ("left", 2)), gradients=gradients(6)),
    ]
    assert said(*each) == ("different_models", ())


def test_a_model_that_was_never_called_is_told_from_one_without_backward():
    each = [
        notes(
            weights=weights(1, 10 + rank),
            gradients=gradients(rank + 1),
            counts={"forwards": 0, "backwards": 0},
        )
        for rank in range(2)
    ]
    found = diagnose(watched(*each))
    assert found.kind == "gradients_not_averaged"
    assert "never called" in found.summary


def test_gradients_changed_on_every_rank_have_no_culprit():
    each = [
        notes(weights=weights(1, 10 + rank), gradients=gradients(rank + 1, reduced=(7,))) for rank in range(3)
    ]
    assert said(*each) == ("gradients_changed", ())


def test_gradients_changed_on_one_rank_name_it():
    each = [
        notes(weights=weights(1, 10 + (rank == 1)), gradients=gradients(7 - (rank == 1), reduced=(7,)))
        for rank in range(3)
    ]
    assert said(*each) == ("gradients_changed", (1,))


def test_unequal_gradients_after_the_reduction_were_not_averaged():
    each = [
        notes(weights=weights(1, 10 + rank), gradients=gradients(rank + 1, reduced=(rank + 1,)))
        for rank in range(2)
    ]
    assert said(*each) == ("gradients_not_averaged", ())


def test_without_what_the_reduction_left_nothing_is_said_of_a_change():
    each = [notes(weights=weights(1, 10 + rank), gradients=gradients(rank + 1)) for rank in range(2)]
    assert said(*each) == ("gradients_not_averaged", ())


def test_a_backward_past_ddp_is_not_taken_for_a_change():
    each = [
        notes(weights=weights(1, 10 + r), gradients=gradients(r + 1, reduced=(7,)), bare_backwards=1)
        for r in range(2)
    ]
    found = diagnose(watched(*each))
    assert found.kind == "gradients_not_averaged"
    assert "reduces only the first" in found.summary


def test_some_calls_past_the_wrapper_are_named():
    each = [
        notes(weights=weights(1, 10 + rank), gradients=gradients(rank + 1), models=models(2))
        for rank in range(2)
    ]
    found = diagnose(watched(*each))
    assert "Some gradients were not averaged" in found.summary


def test_unequal_numbers_of_backward_passes_are_named():
    each = [
        notes(weights=weights(1, 10 + rank), gradients=gradients(rank + 1), counts={"backwards": 4 + rank})
        for rank in range(2)
    ]
    found = diagnose(watched(*each))
    assert "different numbers of backward passes" in found.summary


def calls(*numbers):
    return {"first": 0, "last": [[number, f"train.py, line {number}"] for number in numbers]}


def test_models_in_another_order_explain_weights_that_differ():
    each = [
        notes(
            weights=weights(1, 10 + r), gradients=gradients(r + 1), models=models(0, 0), calls=calls(*order)
        )
        for r, order in enumerate([(0, 1), (1, 0), (0, 1)])
    ]
    assert said(*each) == ("different_order", ())


def test_another_order_alone_is_no_fault():
    each = [
        notes(weights=weights(1, 2), models=models(0, 0), calls=calls(*order)) for order in [(0, 1), (1, 0)]
    ]
    assert said(*each) is None


def test_a_model_left_out_on_one_rank_is_not_an_order():
    each = [
        notes(
            weights=weights(1, 10 + r), gradients=gradients(r + 1), models=models(0, 0), calls=calls(*order)
        )
        for r, order in enumerate([(0, 1, 0), (0, 0, 0)])
    ]
    assert said(*each)[0] == "gradients_not_averaged"


def test_parameters_of_another_optimizer_that_were_never_equal_are_a_ranks_own():
    each = [notes(outside=outside(rank, 10 + rank)) for rank in range(2)]
    assert said(*each, recorded=SOME_COLLECTIVE) is None


def test_parameters_of_different_shapes_are_parts_of_a_model():
    each = [notes(outside=outside(5, 6 + rank, shape=(1, 4 + rank))) for rank in range(2)]
    assert said(*each, recorded=SOME_COLLECTIVE) is None


def test_parameters_outside_that_are_kept_equal_by_hand_are_no_fault():
    told = notes(outside=outside(3, 5))
    assert said(told, told, recorded=SOME_COLLECTIVE) is None


def test_parameters_outside_that_began_equal_are_named_when_they_have_drifted():
    each = [notes(outside=outside(3, 5 + rank), models=models(0)) for rank in range(2)]
    found = diagnose(watched(*each))
    assert (found.kind, found.warning) == ("parameters_outside", False)


def test_parameters_that_began_equal_where_no_model_was_wrapped_have_two_readings():
    each = [notes(outside=outside(3, 5 + rank)) for rank in range(2)]
    found = diagnose(watched(*each, recorded=SOME_COLLECTIVE))
    assert (found.kind, found.warning) == ("parameters_outside", True)


def test_who_moves_as_many_numbers_as_a_parameter_has_means_one_model():
    each = [notes(outside=outside(3, 5 + rank, shape=(2, 4))) for rank in range(2)]
    found = diagnose(watched(*each, recorded=SOME_COLLECTIVE))
    assert (found.kind, found.warning) == ("parameters_outside", False)


def test_an_unnamed_parameter_outside_is_told_by_its_shape():
    each = [notes(outside=outside(3, 5 + rank, name=""), models=models(0)) for rank in range(2)]
    assert "one of shape 1x4" in diagnose(watched(*each)).summary


def test_parameters_beside_a_ddp_model_that_were_never_equal_have_two_readings():
    each = [notes(outside=outside(rank, 5 + rank, beside_ddp=True), models=models(0)) for rank in range(2)]
    found = diagnose(watched(*each))
    assert (found.kind, found.warning) == ("parameters_outside", True)
    assert "on purpose" in found.summary
    assert "forgotten" in found.summary


def test_weights_that_are_averaged_by_hand_now_and_then_are_no_fault_wherever_the_run_ends():
    between = [notes(outside=outside(3, 5 + rank, 9, 10 + rank, end=False)) for rank in range(2)]
    assert said(*between, recorded=SOME_COLLECTIVE) is None
    at_the_end = [notes(outside=outside(3, 5 + rank, 7 + rank, 9)) for rank in range(2)]
    assert said(*at_the_end, recorded=SOME_COLLECTIVE) is None


def test_equal_gradients_on_weights_that_were_never_equal_are_averaged_by_hand():
    each = [notes(outside=outside(rank, 5 + rank, gradient=(7,))) for rank in range(2)]
    assert diagnose(watched(*each)).kind == "nothing_distributed"
    found = diagnose(watched(*each, recorded=SOME_COLLECTIVE))
    assert (found.kind, found.warning) == ("weights_differ", False)
    assert "different from the beginning" in found.summary


def test_equal_gradients_that_are_zero_say_nothing():
    each = [notes(outside=outside(rank, 5 + rank, gradient=(0,))) for rank in range(2)]
    assert said(*each, recorded=SOME_COLLECTIVE) is None


def test_other_settings_from_the_beginning_make_models_of_their_own():
    each = [notes(outside=outside(3, 5 + rank, settings=[{"lr": rank}])) for rank in range(2)]
    assert said(*each) is None


def test_pieces_of_a_model_are_compared_among_the_ranks_that_hold_the_same_piece():
    def four(*last):
        return [
            notes(outside=outside(rank % 2, value, among=[rank % 2, rank % 2 + 2]))
            for rank, value in enumerate(last)
        ]

    assert said(*four(5, 6, 5, 6), recorded=SOME_COLLECTIVE) is None
    assert said(*four(5, 6, 5, 7), recorded=SOME_COLLECTIVE) == ("weights_differ", ())


def test_ranks_that_exchange_messages_hold_parts_of_one_model():
    each = [notes(outside=outside(3, 5 + rank), messages=4) for rank in range(2)]
    assert said(*each) is None


def test_steps_without_anything_distributed_are_worth_knowing():
    each = [notes(outside=outside(rank, 5 + rank), groups={}) for rank in range(2)]
    found = diagnose(watched(*each))
    assert (found.kind, found.warning) == ("nothing_distributed", True)
    assert "no DDP model and no collective was seen" in found.summary


def two_models(first, second, ranks=((0, 1), (0, 1)), rank=0, numbers=(0, 1)):
    checks = [
        {**check, "model": number}
        for number, sums in zip(numbers, (first, second), strict=True)
        for check in weights(*sums)
    ]
    told = [{**m, "ranks": list(r)} for m, r in zip(models(0, 0), ranks, strict=True)]
    used = [{**g, "gradients": {f"{n}:weight": [rank, []] for n in (0, 1)}} for g in gradients(1, 1)]
    return notes(weights=checks, models=told, gradients=used)


def test_of_two_models_the_one_that_drifts_is_found_whatever_the_other_does():
    for first, second in (((1, 2, 3), (4, 5, 6)), ((4, 5, 6), (1, 2, 3))):
        drifts = second if first[0] == 4 else first
        each = []
        for rank in range(2):
            mine = tuple(value + 10 * rank * (place > 0) for place, value in enumerate(drifts))
            pair = (mine, second) if drifts is first else (first, mine)
            each.append(two_models(*pair, rank=rank))
        found = diagnose(watched(*each))
        assert found.kind == "gradients_not_averaged"
        assert f"of DDP model {1 if drifts is first else 2}" in found.summary


def test_models_of_smaller_groups_are_compared_among_their_own_ranks():
    each = [
        two_models((1, 2), (10 + rank // 2, 20 + rank // 2), ((0, 1, 2, 3), (0, 1) if rank < 2 else (2, 3)))
        for rank in range(4)
    ]
    assert said(*each) is None


def test_a_difference_that_comes_and_goes_and_comes_is_averaging_now_and_then():
    one, other = notes(weights=weights(1, 2, 9, 3)), notes(weights=weights(1, 3, 9, 4))
    assert said(one, other) is None


def failure(message, kind="RuntimeError"):
    return {"what": "forward", "type": kind, "where": "train.py, line 7", "message": message}


def test_ddps_own_objection_is_told_though_it_was_swallowed():
    caught = [failure("Expected to mark a variable ready only once. Parameter at index 0 with name a.b has")]
    found = diagnose(watched(notes(failures=caught), notes(failures=caught)))
    assert found.kind == "parameter_ready_twice"
    assert "caught the error at train.py, line 7" in found.summary


def test_an_error_that_all_agreed_to_leave_out_is_no_fault():
    caught = [failure("can't allocate memory")]
    assert said(notes(failures=caught), notes()) is None


def test_a_lost_connection_is_no_swallowed_error():
    caught = [failure("Connection closed by peer [127.0.0.1]:1234")]
    found = diagnose(watched(notes(failures=caught), notes(), kind="hang", proved=True))
    assert found.kind == "unknown"


def test_steps_left_out_on_one_rank_name_it_though_gradients_differ_for_that_reason():
    each = [
        notes(
            weights=weights(1, 10 + (rank == 1)),
            gradients=gradients(rank + 1),
            counts={"steps": 4 - (rank == 1)},
        )
        for rank in range(3)
    ]
    assert said(*each) == ("optimizer_steps_differ", (1,))


def test_steps_that_differ_with_the_backward_passes_are_no_steps_left_out():
    each = [
        notes(
            weights=weights(1, 10 + rank),
            gradients=gradients(rank + 1),
            counts={"steps": 4 - rank, "backwards": 4 - rank},
        )
        for rank in range(2)
    ]
    assert said(*each)[0] == "gradients_not_averaged"


@pytest.mark.parametrize(
    ("thawed", "found", "words"),
    [
        ([], False, "they were added to the model after it was wrapped, so"),
        (["weight"], False, "they required no gradient when the model was wrapped, so"),
        ([], True, "they were added to the model after it was wrapped, or required no gradient then, so"),
    ],
)
def test_parameters_that_ddp_does_not_manage_were_added_or_frozen(thawed, found, words):
    each = []
    for rank in range(2):
        checks = [{**check, "late": ["weight"], "thawed": thawed} for check in weights(1, 10 + rank)]
        model = {**models(0)[0], "found": found}
        each.append(notes(weights=checks, gradients=gradients(rank + 1), models=[model]))
    found = diagnose(watched(*each))
    assert found.kind == "parameters_added"
    assert words in found.summary


def rooted(*roots, op="broadcast"):
    return {"0": [[number, op, root, "train.py, line 5"] for number, root in enumerate(roots)]}


def test_roots_that_differ_are_told_of_all_ranks_and_no_majority_is_right():
    each = [notes(rooted=rooted(0, 0, 2 if rank == 2 else 0)) for rank in range(3)]
    found = diagnose(watched(*each))
    assert (found.kind, found.culprits) == ("different_roots", ())
    assert "as src (ranks 0 and 1 take rank 0, rank 2 takes rank 2)" in found.summary


def test_every_rank_as_its_own_root_has_no_culprit():
    found = diagnose(watched(*(notes(rooted=rooted(rank)) for rank in range(3))))
    assert (found.kind, found.culprits) == ("different_roots", ())
    assert "every rank names itself" in found.summary


def test_roots_are_compared_by_the_number_of_the_collective():
    forgotten = {"0": rooted(0, 1)["0"][1:]}
    assert said(notes(rooted=rooted(0, 1)), notes(rooted=forgotten)) is None


def test_a_sampler_that_is_told_the_same_rank_everywhere_is_named():
    loader = {
        "number": 0,
        "sampler": "DistributedSampler",
        "shuffles": False,
        "samples": 8,
        "share": [0, 2],
        "trains": True,
        "epochs": [{"indices": [0, 2, 4], "batches": 3, "crc": 1}],
    }
    told = notes(loaders=[loader], models=[{**models(0)[0], "inputs": [7]}])
    found = diagnose(watched(told, told))
    assert found.kind == "same_data"
    assert "was created with rank=0, num_replicas=2" in found.summary


def test_copies_are_compared_only_where_they_were_looked_at_in_the_same_moment():
    def copied(crc, *at):
        return notes(models=[{**models(0)[0], "copies": [crc], "copies_at": list(at), "first_copies": [1]}])

    assert said(copied(2), copied(1)) == ("copies_differ", (0,))
    assert said(copied(2, 16, 1), copied(1, 16, 1)) == ("copies_differ", (0,))
    assert said(copied(2), copied(1, 16, 1)) is None
    assert said(copied(2, 16, 1), copied(1, 16, 0)) is None


def ended_by(kind, *caught):
    """What is said of two ranks of which the first has caught errors and ended with one."""
    told = notes(failures=[failure("no", each) for each in caught])
    raised = {"errors": {0: error(kind)}, "endings": {0: Ending.RAISED}}
    return said(told, notes(), kind="raises", **raised)


def test_the_error_that_ended_a_rank_is_no_swallowed_one_and_every_other_is():
    assert ended_by("ValueError", "ValueError") == ("rank_raised", (0,))
    assert ended_by("ValueError", "RuntimeError") == ("swallowed_error", (0,))
    assert ended_by("ValueError", "ValueError", "ValueError") == ("swallowed_error", (0,))


@pytest.mark.parametrize(
    ("names", "row"),
    [
        ("a", "a"),
        ("ab", "a and b"),
        ("abcd", "a, b, c and d"),
        ("abcde", "a, b, c, d and 1 more"),
    ],
)
def test_up_to_four_names_are_told_in_a_row(names, row):
    assert names_in_a_row(list(names)) == row


def test_moments_of_an_optimizer_are_in_the_order_of_its_steps_and_the_end_is_the_last():
    each = [notes(outside=outside(1, 2, 3 + rank)) for rank in range(2)]
    stepped = stepped_outside(dict(enumerate(each)))
    assert [moment.difference is not None for moment in stepped[0].moments()] == [False, False, True]
