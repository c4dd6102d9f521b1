"""Lesson 06: its tally sheet as a function and as pictures; tests/integration holds it against DDP."""

import pytest

from course_lib.lessons.alternation.lab import ALONE, draw_matrix, tally, word
from course_lib.lessons.alternation.tasks.orders import ending, possible


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        (("FFBB", "FFBB"), "12 and 32: no error, and wrong (right is 22 on both)"),
        (("FFS", "FFS"), "22 and 22: right"),
        (("FFBBFB", "FFBBFB"), "222 and 222: right"),
        (("FFBB", "FFS"), "27 and 17: no error, and wrong (right is 22 on both)"),
        (("NB", "MB"), "1 and 3: no error, and wrong (right is 2 on both)"),
        (("GFB", "GFB"), "20 and 20: right"),
        (("FFS", "FBFB"), "rank 1 waits for ever: the other rank has made fewer averages"),
        (("", ""), "0 and 0: right"),
    ],
)
def test_an_order_ends_as_the_sheet_says(orders, said):
    assert str(ending(orders)) == said


def test_a_backward_needs_a_loss_and_an_order_has_an_end():
    assert possible("") == possible("G") == possible("FB") == "FNGM"
    assert possible("F") == possible("FBN") == "FNGMBS"
    assert possible("FFFFFF") == ""


def test_each_call_has_a_picture_and_a_sentence_and_only_an_average_has_arrows():
    stepper = tally("FFBB")
    assert [frame.said.split(":")[0].split(".")[0] for frame in stepper.frames] == [
        "Nothing has been called",
        "A forward",
        "A forward",
        "A backward adds 1 and 3 to ",
        "A backward adds 10 and 30 to ",
    ]
    assert ["marker-end" in frame.drawing.svg() for frame in stepper.frames] == [False] * 3 + [True, False]
    assert "rank 1: F F B B, not armed, losses that wait: none, .grad 32" in stepper.frames[-1].drawing.alt
    with pytest.raises(ValueError, match="call 2 of 'GB' cannot be made there"):
        tally("GB")


def test_a_pattern_has_a_sign_and_a_word_for_each_way_to_end():
    ends = {
        0.0: "right",
        19.3: "wrong 19 %",
        "late: Encountered": "late",
        "Expected": "raises",
        "died": "rank dies",
    }
    assert {found: word(found) for found in ends} == ends
    found = {(name, "default", buffers): 50.0 for name in ("a", *ALONE) for buffers in (False, True)}
    drawing = draw_matrix({**found, ("a", "default", True): "hang"})
    assert drawing.title == "Silently wrong in all six columns: 3 of 4 patterns"
    assert drawing.alt.startswith("a: wrong 50 %, hangs; rank 0: no_grad F after step 0: wrong 50 %;")
