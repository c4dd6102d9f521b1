"""What DDP objects to, told apart by what has become of the model and by how often backward() was called."""

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.outcome.facts import Facts
from realranks.outcome.outcome import Ending
from realranks.outcome.wrapped import NamedShape, WrappedModel
from realranks.ranks.codec import encode
from tests.support.outcomes import error, outcome
from tests.support.watched import gradients, models, notes, watched, weights

UNUSED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. If you already have done "
    "the above, ...\nParameter indices which did not receive grad for rank 0: {}\n In addition, you can set ..."
)
TWICE = (
    "Expected to mark a variable ready only once. ... Parameter at index 1 has been marked as ready twice."
)
UNDEFINED = (
    "Encountered gradient which is undefined, but still allreduced by DDP reducer. This indicates a bug"
)
STATIC = "Your training graph has changed in this iteration, e.g., one parameter is unused in first iteration"


def wrapped(**fields):
    shapes = {"body.weight": (4, 2), "body.bias": (4,), "head.weight": (3, 4), "": (3,)}
    return WrappedModel("Net", tuple(NamedShape(*each) for each in shapes.items()), 4, **fields)


def raised(message, model=None, **told):
    """Two ranks have raised it; `told` is what the probes have noted, where they watched."""
    failures = told.pop("failures", None)
    seen = error("RuntimeError", message)
    if model is not None and not told and failures is None:
        facts = dict.fromkeys(range(2), Facts(models=(model,)))
    else:
        one = {"what": "forward", "type": "RuntimeError", "where": "train.py, line 9", "message": message}
        if model is not None:
            one["model"] = encode(model)
        told["failures"] = [one | (failures or {})]
        facts = watched(*(notes(**told) for _ in range(2))).facts
    return diagnose(
        outcome(
            "raises",
            2,
            errors=dict.fromkeys(range(2), seen),
            endings=dict.fromkeys(range(2), Ending.RAISED),
            facts=facts,
        )
    )


@pytest.mark.parametrize(
    ("missing", "fields", "kind", "words"),
    [
        (
            "2 3",
            {},
            "unused_parameters",
            "2 parameters got no gradient on ranks 0 and 1: head.weight and one of shape 3.",
        ),
        (
            "2 3",
            {"gone": (2, 3)},
            "parameters_replaced",
            "head.weight and one of shape 3 are no longer in the model.",
        ),
        ("2", {"gone": (2, 3)}, "parameters_replaced", "head.weight is no longer in the model."),
        (
            "0 1",
            {"frozen": (0, 1)},
            "parameters_frozen",
            "body.weight and body.bias were frozen after it was wrapped.",
        ),
        ("2", {"frozen": (0, 1)}, "unused_parameters", "head.weight"),
        (
            "0 2",
            {"frozen": (0,), "gone": (2,), "added": ("new.weight",)},
            "parameters_replaced",
            "is no longer in the model, and body.weight was frozen after it was wrapped. What came into the model, or",
        ),
        (
            "0 1",
            {"frozen": (0,)},
            "parameters_frozen",
            "body.weight was frozen after it was wrapped. No gradient came for body.bias either.",
        ),
    ],
)
@pytest.mark.parametrize("failures", [None, {}])
def test_parameters_that_ddp_waits_for_in_vain_are_told_from_unused_ones(
    missing, fields, kind, words, failures
):
    found = raised(UNUSED.format(missing), wrapped(**fields), failures=failures)
    assert found.kind == kind
    if failures is None or kind != "unused_parameters":
        assert words in found.summary
    assert ("wrap with find_unused_parameters" in found.advice) == (kind == "unused_parameters")


def several(**options):
    events = {"backward": "train.py, line 7", "bare_backward": "train.py, line 8"}
    return [{**models(0)[0], "bare_backwards": 1, "events": events, **options}]


@pytest.mark.parametrize("message", [TWICE, UNDEFINED, STATIC])
def test_two_backward_passes_for_one_forward_pass_are_named_whatever_ddp_complains_of(message):
    found = raised(message, models=several())
    assert found.kind == "several_backwards"
    assert "at train.py, line 7 and again at train.py, line 8, without a forward pass" in found.summary
    assert "add up the losses" in found.advice
    again = raised(message, models=several(events={"bare_backward": "train.py, line 8"}))
    assert "called backward() twice at train.py, line 8" in again.summary


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("message", [TWICE, UNDEFINED, STATIC])
def test_it_is_the_rank_that_ddp_has_stopped_whose_backward_passes_are_read(message, rank):
    failure = {"what": "backward", "type": "RuntimeError", "where": "train.py, line 8", "message": message}
    told = [notes(models=models(0)), notes(models=models(0))]
    told[rank] = notes(models=several(), failures=[failure])
    seen = outcome(
        "raises",
        2,
        errors={rank: error("RuntimeError", message)},
        endings={rank: Ending.RAISED, 1 - rank: Ending.FINISHED},
        facts=watched(*told).facts,
    )
    found = diagnose(seen)
    assert (found.kind, found.culprits) == ("several_backwards", (rank,))


@pytest.mark.parametrize(
    ("message", "kind"),
    [(TWICE, "parameter_ready_twice"), (UNDEFINED, "several_backwards"), (STATIC, "graph_changed")],
)
def test_without_such_passes_the_message_stands_alone(message, kind):
    assert raised(message, models=models(0)).kind == kind
    assert raised(message, wrapped()).kind == kind


def test_a_gradient_that_comes_twice_in_one_pass_is_no_matter_of_several_losses_where_passes_were_counted():
    assert "add them up" in raised(TWICE, wrapped()).advice
    counted = raised(TWICE, wrapped(), models=models(0))
    assert "twice in one backward pass" in counted.summary
    assert "add them up" not in counted.advice


def test_with_find_unused_parameters_an_output_without_tensors_or_two_forward_passes_make_it_come_twice():
    searching = wrapped(find_unused_parameters=True)
    hidden = raised(TWICE, searching, models=[{**models(0)[0], "output": "Boxes"}])
    assert hidden.kind == "output_not_seen"
    assert "(a Boxes)" in hidden.summary
    passes = raised(TWICE, searching, models=models(0), failures={"forwards": 2})
    assert passes.kind == "parameter_ready_twice"
    assert "made 2 forward passes before one backward()" in passes.summary
    assert "twice in one backward pass" in raised(TWICE, searching, models=models(0)).summary


def test_a_later_error_of_a_complaint_that_was_caught_is_explained_by_it():
    caught = {"what": "backward", "type": "RuntimeError", "where": "train.py, line 8", "message": TWICE}
    told = notes(models=several(), failures=[caught, {**caught, "message": "unmarked_param_indices"}])
    seen = outcome(
        "raises",
        2,
        errors=dict.fromkeys(range(2), error("RuntimeError", "unmarked_param_indices")),
        endings=dict.fromkeys(range(2), Ending.RAISED),
        facts=watched(told, told).facts,
    )
    found = diagnose(seen)
    assert found.kind == "several_backwards"
    assert "caught the error at train.py, line 8 (1 time)" in found.summary


def test_no_sync_in_the_first_pass_of_a_static_graph_has_a_name():
    found = raised('expect_autograd_hooks_ INTERNAL ASSERT FAILED at "reducer.cpp":1732', wrapped())
    assert found.kind == "static_graph_no_sync"
    assert "step > 0" in found.advice


# -- runs that end well ------------------------------------------------------------------------------------------------


def drifted(**model):
    each = [
        notes(weights=weights(1, 10 + r), gradients=gradients(r + 1), models=[{**models(0)[0], **model}])
        for r in range(2)
    ]
    return diagnose(watched(*each))


@pytest.mark.parametrize(
    ("output", "words"), [("Tidy", "what forward() returned (a Tidy)"), ("", "none of those that it found")]
)
def test_a_static_graph_that_never_heard_of_a_backward_pass(output, words):
    found = drifted(unheard=4, output=output)
    assert found.kind == "output_not_seen"
    assert words in found.summary
    assert "0 backward passes with averaging" in found.evidence[0]


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({}, "unused_parameters", "the gradients of head.weight."),
        (
            {"gone": (2,)},
            "parameters_replaced",
            "gradients that cannot come: head.weight is no longer in the model.",
        ),
        ({"frozen": (2,)}, "parameters_frozen", "gradients that cannot come: head.weight was frozen"),
    ],
)
def test_a_reduction_that_was_not_finished_in_the_last_step(fields, kind, words):
    found = drifted(
        unfinished=UNUSED.format("2"),
        wrapped=encode(wrapped(**fields)),
        events={"unfinished": "train.py, line 9"},
    )
    assert found.kind == kind
    assert (
        "When the optimizer stepped at train.py, line 9, DDP still waited on ranks 0 and 1 for"
        in found.summary
    )
    assert words in found.summary


# -- closures ----------------------------------------------------------------------------------------------------------


def closures(*each, stepping=(-1, -1), steps=(2, 2), **fields):
    return [
        notes(
            closures={str(step): number for step, number in enumerate(made)},
            stepping=stepping[rank],
            counts={"steps": steps[rank]},
            **fields,
        )
        for rank, made in enumerate(each)
    ]


def test_ranks_whose_closures_were_called_in_different_numbers():
    seen = watched(*closures((4, 5), (4, 6), stepping=(-1, 1)), kind="hang")
    found = diagnose(seen)
    assert (found.kind, found.culprits) == ("local_closure", ())
    assert "in step 1, rank 0 made 5 backward passes and rank 1 made 6 backward passes." in found.summary


@pytest.mark.parametrize(
    "told",
    [
        closures((4, 5), (4, 6), stepping=(1, 1)),  # rank 0 may make one more
        closures((4, 5), (4, 5)),
        closures((4,), (4, 6), stepping=(-1, 1), steps=(1, 2)),  # rank 0 has not come to it
        closures((), ()),
    ],
)
def test_numbers_that_prove_nothing(told):
    assert diagnose(watched(*told, kind="hang")).kind != "local_closure"


def test_weights_that_come_apart_behind_a_closure_though_all_else_is_equal():
    each = [
        notes(weights=weights(1, 10 + rank), gradients=gradients(5, 5), closures={"0": 4})
        for rank in range(2)
    ]
    found = diagnose(watched(*each))
    assert found.kind == "local_closure"
    assert found.summary.endswith("which is that of each rank's own data.")
