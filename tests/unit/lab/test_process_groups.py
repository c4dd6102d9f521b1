"""Lesson 02: what is read from torch's words about a start, and what is drawn of it, on made-up data."""

import pytest

from course_lib.lessons.process_groups.lab import (
    AGENT,
    RANK_0,
    Start,
    both_count_on,
    counts_the_come,
    draw_machines,
    draw_start,
    local_rank_begins_anew,
    names_the_missing,
    objects_in,
    rank_begins_anew,
)
from course_lib.lessons.process_groups.starts import StartTimes, draw_start_times
from realranks.ranks.inside.values import pack
from tests.support.outcomes import error, outcome

WAITS = "wait timeout after 500ms, keys: /default_pg/0//cpu//0/{}"
CLIENTS = "Timed out after 1 seconds waiting for clients. 3/4 clients joined."
NOBODY = "The client socket has timed out after 500ms while trying to connect to (127.0.0.1, 29500)."


def test_two_workers_that_print_at_the_same_moment_are_both_heard():
    log = 'W0101 torchrun says: {this is no object}\n{"RANK": "1"}{"RANK": "0"}\n\n{"RANK": "2"}\n'
    assert [one["RANK"] for one in objects_in(log)] == ["1", "0", "2"]


def test_each_of_torchs_messages_says_who_is_waited_for():
    start = Start(RANK_0, {0: CLIENTS, 1: WAITS.format(0), 3: ""}, frozenset({1, 3}))
    assert [start.waits_for(rank) for rank in (0, 1, 3)] == [
        "its clients: 3 of 4 have come",
        "rank 0's address",
        "",
    ]
    assert ">rank 0 waits for its clients: 3 of 4 have come</text>" in draw_start(start).svg(), "it fits"
    assert Start(RANK_0, {3: NOBODY}, None).waits_for(3) == "somebody who listens at the port"


def test_words_that_nobody_knows_are_shown_as_they_are():
    start = Start(AGENT, {0: "The machine is on fire.\nRun."}, frozenset())
    assert start.waits_for(0) == "The machine is on fire."


def test_a_start_is_drawn_with_what_the_store_holds_and_with_what_is_not_there():
    start = Start(AGENT, {0: WAITS.format(2), 1: WAITS.format(2), 3: WAITS.format(2)}, frozenset({0, 1, 3}))
    drawing = draw_start(start)
    assert drawing.alt == (
        "torchrun holds the store: rank 0 waits for rank 2's address; rank 1 waits for rank 2's address; rank 2 has "
        "not come; rank 3 waits for rank 2's address; addresses in the store: ranks 0, 1 and 3"
    )
    assert drawing.title == "Rank 2 has not come; who waits for whom"
    dashed = [
        shape.text for shape in drawing.shapes if getattr(shape, "dashed", False) and hasattr(shape, "text")
    ]
    assert dashed == ["rank 2 has not come", "2: nothing yet"]


def test_without_rank_0_there_is_no_store_where_rank_0_holds_it():
    alt = draw_start(Start(RANK_0, {3: NOBODY}, None)).alt
    assert alt.endswith("rank 3 waits for somebody who listens at the port; there is no store")


def test_when_all_have_come_they_have_their_group():
    drawing = draw_start(Start(AGENT, dict.fromkeys(range(4), ""), frozenset(range(4))))
    assert drawing.title == "All have come: every rank has its group"
    assert drawing.svg().count("is in the group</text>") == 4


@pytest.mark.parametrize(
    ("rank", "local", "fits"),
    [("0", "2", rank_begins_anew), ("2", "0", local_rank_begins_anew), ("2", "2", both_count_on)],
)
def test_exactly_one_answer_fits_what_the_third_process_was_told(rank, local, fits):
    told = outcome(packed={1: pack([{"RANK": rank, "LOCAL_RANK": local}])})
    answers = (rank_begins_anew, local_rank_begins_anew, both_count_on)
    assert [answer for answer in answers if answer(told)] == [fits]


def test_machines_are_drawn_with_question_marks_until_their_numbers_are_known():
    assert draw_machines().svg().count("RANK = ?</text>") == 8  # RANK and LOCAL_RANK of four workers
    told = [{"RANK": str(rank), "LOCAL_RANK": str(rank % 2)} for rank in range(4)]
    drawing = draw_machines(outcome(packed={0: pack(told[:2]), 1: pack(told[2:])}))
    assert drawing.alt.endswith("worker 2: RANK 2, LOCAL_RANK 0; worker 3: RANK 3, LOCAL_RANK 1")
    assert ">LOCAL_RANK = 1</text>" in drawing.svg()


def test_a_start_of_torchruns_is_drawn_in_its_parts():
    drawing = draw_start_times(StartTimes(((0.1, 1.5, 0.02, 0.01), (0.1, 1.6, 0.01, 0.01)), 0.1))
    imports = [shape.width for shape in drawing.shapes if getattr(shape, "look", "") == "forward"][:2]
    assert imports[1] > imports[0] > 0
    assert drawing.svg().count(">import torch</text>") == 1  # in the legend
    assert drawing.svg().count(">first all_reduce (10 ms)</text>") == 1


@pytest.mark.parametrize(
    ("message", "fits"),
    [(WAITS.format(2), [names_the_missing]), (WAITS.format(1), []), (CLIENTS, [counts_the_come]), ("no", [])],
)
def test_a_message_that_names_the_missing_rank_is_not_one_that_counts(message, fits):
    told = outcome("raises", errors={rank: error("DistStoreError", message) for rank in (0, 1, 3)})
    answers = (names_the_missing, counts_the_come)
    assert [answer for answer in answers if answer(told)] == fits
