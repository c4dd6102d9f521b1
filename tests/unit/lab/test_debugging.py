"""Lesson 13: records read column by column, black boxes, and what its questions ask, on made-up runs."""

import pytest

from course_lib.lessons.debugging.lab import (
    Look,
    Record,
    black_box,
    draw_record,
    renamed_variables,
    stands_in,
)
from course_lib.questions import decider, read_questions
from realranks.outcome.outcome import Ending
from realranks.outcome.places import Frame
from tests.support.outcomes import blocked, collective, died, error, outcome, raised, stuck

SUM, GATHER = "all_reduce", "all_gather"


def ran(*lists: list[str], **fields):
    """Ranks that have called these operations one after the other."""
    calls = {
        rank: tuple(collective(op, number) for number, op in enumerate(ops, 1))
        for rank, ops in enumerate(lists)
    }
    return outcome("ok", len(lists), recorded=calls, **fields)


def where(rank: int, call: str, *functions: str):
    stack = [Frame("/home/me/train.py", 7, function, "") for function in ("<module>", *functions)]
    return blocked(rank, call, stack=(*stack, Frame("/x/site-packages/torch/y.py", 1, "inner", "")))


@pytest.mark.parametrize(
    ("lists", "parting", "apart"),
    [
        ([[SUM, SUM], [SUM, SUM], [SUM, SUM]], None, None),
        ([[SUM, SUM], [SUM, GATHER], [SUM, SUM]], 2, [1]),
        ([[SUM, SUM], [SUM, SUM], [SUM]], 2, [2]),
        ([[SUM], [SUM], [SUM, SUM]], 2, [2]),
        ([[SUM], [GATHER], []], 1, [0, 1, 2]),
        ([[SUM], [GATHER]], 1, [0, 1]),
        ([[], [], []], None, None),
    ],
)
def test_the_first_column_that_differs_and_who_is_not_with_the_majority(lists, parting, apart):
    record = Record.of(ran(*lists))
    assert record.parting == parting
    if parting:
        assert record.apart(parting) == apart
    assert draw_record(record).svg()


def test_tensors_of_another_shape_are_another_call():
    calls = {0: (collective(size=1),), 1: (collective(size=1),), 2: (collective(size=3),)}
    record = Record.of(outcome("ok", 3, recorded=calls))
    assert (record.parting, record.apart(1)) == (1, [2])


def test_every_group_has_columns_of_its_own():
    calls = {rank: (collective(group="1"), collective(), collective(GATHER, group="1")) for rank in (0, 1)}
    out = outcome("ok", 2, recorded=calls)
    assert [Record.of(out, group).length for group in ("0", "1", "2")] == [1, 2, 0]
    assert "3 collectives, the last one: all_gather(1), number 2 of group A" in black_box(out)


@pytest.mark.parametrize(
    ("chosen", "numbers"), [(None, range(15, 21)), (1, range(1, 7)), (10, range(6, 12)), (19, range(15, 21))]
)
def test_of_a_long_record_six_columns_are_drawn(chosen, numbers):
    record = Record.of(ran([SUM] * 20, [*[SUM] * 18, GATHER, SUM], [SUM] * 20))
    drawing = draw_record(record, chosen)
    same = "not the same" if chosen == 19 else "the same"
    first = "Number 19 is the first column that differs: rank 1"
    assert drawing.title == (f"Number {chosen}: {same} on all ranks" if chosen else first)
    assert [f"Number {number}:" in drawing.alt for number in range(1, 21)] == [
        n in numbers for n in range(1, 21)
    ]
    assert max(shape.x + shape.width for shape in drawing.shapes if hasattr(shape, "look")) <= drawing.width


def test_a_black_box_says_where_each_rank_is_from_the_inside_out():
    calls = {0: (collective(), collective(seq=2)), 1: (collective(),)}
    out = stuck(where(0, SUM, "train", "step"), world_size=2, recorded=calls)
    assert black_box(out).splitlines() == [
        "rank 0  all_reduce < step (line 7) < train (line 7)",
        "        2 collectives, the last one: all_reduce(1), number 2",
        "rank 1  it has finished",
        "        1 collective, the last one: all_reduce(1), number 1",
    ]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("[x.cc:1] Timed out waiting 20ms for recv", "RuntimeError: Timed out waiting ..."),
        ("[x.cc:1] Connection closed by peer [::1]:2", "RuntimeError: Connection closed by peer ..."),
        ("Read error: Connection reset by peer", "RuntimeError: Connection closed by peer ..."),
        ("no\nand more", "RuntimeError: no"),
        ("", "RuntimeError"),
    ],
)
def test_an_error_is_named_and_what_differs_from_run_to_run_is_left_out(message, said):
    out = raised(0, name="RuntimeError")
    out = outcome("raises", errors={0: error("RuntimeError", message)}, endings={0: Ending.RAISED})
    assert stands_in(out, 0) == said


def test_a_dead_rank_is_said_to_be_dead():
    assert stands_in(died({1: -9}), 1) == "the process has ended: killed by SIGKILL"


def test_both_tools_tell_the_same_stack():
    by_faulthandler = (
        "Current thread 0x1 (most recent call first):\n"
        '  File "/v/site-packages/torch/distributed/distributed_c10d.py", line 9 in all_reduce\n'
        '  File "/v/site-packages/torch/distributed/c10d_logger.py", line 8 in wrapper\n'
        '  File "/home/me/descend.py", line 16 in descend\n'
        '  File "/home/me/job.py", line 3 in <module>\n'
    )
    by_py_spy = (
        'Thread 1 (idle): "MainThread"\n'
        "    all_reduce (torch/distributed/distributed_c10d.py:9)\n"
        "    _exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:8)\n"
        "    descend (descend.py:16)\n"
        "    <module> (job.py:3)\n"
    )
    look = Look("step 1", by_faulthandler, by_py_spy)
    assert look.stack == look.stack_by_py_spy == "all_reduce < descend (line 16)"
    assert Look("step 1", by_faulthandler, "").stack_by_py_spy == ""


def test_old_names_of_variables_are_found_in_the_headers():
    found = renamed_variables()
    assert len(found) == 4
    assert {name.partition("_")[0] for name in found.values()} == {"TORCH"}


def at_item(rank: int):
    return where(rank, "wait", "descend", "item")


ODD = ran([SUM, SUM], [SUM, GATHER], [SUM, SUM])
PRINTED = {0: "A is done\nB is done\nC is done\n", 2: "A is done\nB is done\nC is done\n"}
RUNS = {
    "13.last_lines": [
        stuck(*(where(rank, SUM, "descend") for rank in range(3)), world_size=3),
        ODD,
        ran([SUM, GATHER], [SUM, SUM], [SUM, SUM]),
    ],
    "13.ahead": [
        stuck(*(at_item(rank) for rank in range(3)), world_size=3),
        stuck(where(0, SUM, "descend"), where(1, GATHER, "best"), where(2, SUM, "descend"), world_size=3),
    ],
    "13.file": [
        outcome("hang", 3, stdout={**PRINTED, 1: "A is done\nC is done\nD is done\n"}),
        outcome("hang", 3, stdout={rank: PRINTED[0] + "D is done\n" * (rank != 1) for rank in range(3)}),
        outcome("hang", 3, stdout={**PRINTED, 1: PRINTED[0] + "D is done\n"}),
    ],
}


@pytest.mark.parametrize("name", RUNS)
def test_each_answer_comes_true_in_a_run_of_its_own(name):
    options = read_questions("13")[name].options
    ask = {each.says: decides for each in options if callable(decides := decider(each.when))}
    right = [[says for says, decides in ask.items() if decides(run)] for run in RUNS[name]]
    assert [len(each) for each in right] == [1] * len(RUNS[name]), right
    assert {each[0] for each in right} == set(ask)
