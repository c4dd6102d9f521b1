"""Lesson 06: its table of patterns as a picture; its tally sheet is in test_reducer.py."""

from course_lib.lessons.alternation.lab import ALONE, draw_matrix, word


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
