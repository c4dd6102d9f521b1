"""What DDP keeps between two calls, computed and drawn; tests/integration/test_alternation.py holds it against DDP."""

from dataclasses import replace
from itertools import product

import pytest

from course_lib.lab.reducer import HEADS, ONE, play, step_through, verdict
from course_lib.lessons.alternation.tasks.orders import ending, possible

BUFFERS = replace(ONE, buffers=True)


@pytest.mark.parametrize(
    ("orders", "model", "said"),
    [
        (("FFBB",), ONE, "12 and 32: no error, and wrong (right is 22 on both)"),
        (("FFS",), ONE, "22 and 22: right"),
        (("FFBBFB",), ONE, "222 and 222: right"),
        (("FFBB", "FFS"), ONE, "27 and 17: no error, and wrong (right is 22 on both)"),
        (("NB", "MB"), ONE, "1 and 3: no error, and wrong (right is 2 on both)"),
        (("GFB",), ONE, "20 and 20: right"),
        (("FBZNB",), ONE, "10 and 30: no error, and wrong (right is 20 on both)"),
        (("FZB",), ONE, "2 and 2: right"),
        (("FFS", "FBFB"), ONE, "rank 1 waits for ever: rank 0 makes no more calls"),
        (("FBFFB", "FBFB"), BUFFERS, "rank 0's message (buffers) meets another one of rank 1 (mean)"),
        (("FS",), HEADS, "22, 2, 20 and 22, 2, 20: right"),
        (("FBB",), HEADS, "both ranks raise: “Expected to mark a variable ready only once”"),
        (("FS", "F(left)SF"), HEADS, "rank 1 raises: “Expected to have finished reduction”"),
        (("F(left)S",), HEADS, "1, 1, None and 3, 3, None: no error, and wrong (right is 2, 2, 0 on both)"),
        (("",), ONE, "None and None: right"),
    ],
)
def test_an_order_ends_as_the_sheet_says(orders, model, said):
    assert verdict(play(orders, model)[-1].ranks, model) == said


def test_on_a_new_wrapper_the_forward_after_the_first_average_is_a_message():
    assert [moment.met for moment in play(("FBFF",), BUFFERS, new=True)] == [
        (),
        ("buffers",),
        ("mean",),
        ("buckets", "buffers"),
        ("buffers",),
    ]
    for new, waits in ((False, ""), (True, "buckets")):
        first, second = play(("FBF", "FB"), ONE, new)[-1].ranks
        assert ("".join(first.sends), second.sends) == (waits, ())


def test_the_sheet_of_the_task_ends_alike():
    orders = [
        order
        for length in range(1, 5)
        for order in map("".join, product("FNGMBS", repeat=length))
        if all(call in possible(order[:place]) for place, call in enumerate(order))
    ]
    assert len(orders) > 500
    for order in orders:
        grads = [rank.grad.get("weight", 0.0) for rank in play((order,))[-1].ranks]
        assert tuple(grads) == ending((order, order)).grads, order


def test_each_call_has_a_picture_and_a_sentence_and_only_messages_have_arrows():
    stepper = step_through("FFBB")
    assert [frame.said.split(":")[0].split(".")[0] for frame in stepper.frames] == [
        "Nothing has been called",
        *["A forward"] * 2,
        *["A backward"] * 2,
    ]
    assert ["marker-end" in frame.drawing.svg() for frame in stepper.frames] == [False] * 3 + [True, False]
    assert stepper.frames[-1].drawing.alt == "; ".join(
        f"rank {rank}: F, F, B, B, not armed, ticked: weight, losses that wait: none, .grad {grad}"
        for rank, grad in ((0, 12), (1, 32))
    )
    assert stepper.frames[-1].said.endswith("nothing is sent. .grad is 12 and 32.")


def test_a_missing_gradient_is_found_by_the_next_forward():
    *_, backward, late = step_through("FS F(left)S F", heads=True).frames
    assert "Right is not ticked, so nothing is sent." in backward.said
    assert "rank 1: F, B of all, F left, B of all, F, armed, ticked: body, left," in backward.drawing.alt
    assert "That raises: “Expected to have finished reduction”" in late.said
    assert "raises, ticked: body, left" in late.drawing.alt


def test_a_full_sheet_beside_one_that_is_not_waits():
    last = step_through("FS", "F(left)S", heads=True).frames[-1]
    assert last.said.endswith("Rank 0 waits with its mean.")
    assert "rank 0: F, B of all, waits: mean" in last.drawing.alt
    assert "marker-end" not in last.drawing.svg()


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("GB", "call 2, B, has no loss to go back from"),
        ("FX", "'X' is no call: F: forward"),
        ("S" * 10, "10 calls: too many for the picture"),
        ("F(up)", "the model has no up, only left and right"),
    ],
)
def test_a_call_that_cannot_be_made_is_told(order, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        play((order,), HEADS)
