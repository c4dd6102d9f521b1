"""Equal output is shown once, with the ranks that share it."""

import pytest

from realranks.outcome.fold import Folded, fold, rank_label, rank_list, span, table


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([0], "0"),
        ([0, 1], "0,1"),
        ([0, 1, 2], "0-2"),
        ([0, 2], "0,2"),
        ([5, 0, 1, 2, 7, 8], "0-2,5,7,8"),
        ([], ""),
    ],
)
def test_ranks_are_written_as_spans(ranks, text):
    assert span(ranks) == text


@pytest.mark.parametrize(
    ("ranks", "label", "sentence"),
    [
        ([2], "rank 2", "rank 2"),
        ([0, 2], "ranks 0,2", "ranks 0 and 2"),
        ([0, 1, 3], "ranks 0,1,3", "ranks 0, 1 and 3"),
        ([0, 1, 2, 3], "ranks 0-3", "ranks 0-3"),
    ],
)
def test_ranks_are_named_in_labels_and_sentences(ranks, label, sentence):
    assert rank_label(ranks) == label
    assert rank_list(ranks) == sentence


def test_equal_texts_are_folded_in_the_order_of_their_lowest_rank():
    texts = {3: "b\n", 0: "b", 1: "a", 2: "  \n"}
    assert fold(texts) == [Folded((0, 3), "b"), Folded((1,), "a")]


def test_a_table_aligns_labels_and_keeps_lines_together():
    rows = fold({0: "one\ntwo", 1: "three", 2: "three", 3: "three"})
    assert table(rows) == "rank 0    | one\n          | two\nranks 1-3 | three"


def test_only_line_ends_are_cut_off_a_text():
    assert fold({0: "  a \n\n", 1: "  a X\n"}) == [Folded((0,), "  a "), Folded((1,), "  a X")]


def test_a_table_has_no_blanks_at_the_ends_of_its_lines():
    assert table(fold({0: "\none\n\ntwo"})) == "rank 0 |\n       | one\n       |\n       | two"
    assert table([]) == ""
