"""Rules about scripts that end well: branches that no scenario reaches."""

from course_lib.doctor.diagnose import diagnose
from tests.unit.watched import gradients, models, notes, watched, weights


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
    assert said(*each) == ("different_order", (1,))


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


def outside(rank, name="head.weight", shape=(1, 4)):
    return (name, list(shape), [rank, []])


def test_parameters_of_another_optimizer_that_were_never_equal_are_a_ranks_own():
    each = [notes(gradients=gradients(0, 0, outside=(outside(rank),))) for rank in range(2)]
    assert said(*each) is None


def test_parameters_of_different_shapes_are_parts_of_a_model():
    each = [notes(gradients=gradients(5, outside=(outside(rank, shape=(1, 4 + rank)),))) for rank in range(2)]
    assert said(*each) is None


def test_parameters_outside_that_are_kept_equal_by_hand_are_no_fault():
    told = notes(gradients=gradients(5, 5, outside=(outside(3),)))
    assert said(told, told) is None


def test_an_unnamed_parameter_outside_is_told_by_its_shape():
    each = [notes(gradients=gradients(5, outside=(outside(rank, name=""),))) for rank in range(2)]
    found = diagnose(watched(*each))
    assert found.kind == "parameters_outside"
    assert "one of shape 1x4" in found.summary


def failure(message, kind="RuntimeError"):
    return {"in": "forward", "type": kind, "where": "train.py, line 7", "message": message}


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
