"""Lesson 10: its loops, computed, against DDP on two ranks, and its controls."""

from itertools import product

from course_lib.lessons.accumulation.lab import Divide, Loop, NoSync, Seen, computed, explore_loop, run_loop
from realranks.cells.run import run_quietly

ALL = [
    Loop(*each) for each in product((1, 2, 4), (False, True), Divide, NoSync, (False, True), (False, True))
]


def run_loops(loops: list[Loop]) -> list[Seen]:
    """This rank's part of each."""
    return [run_loop(loop) for loop in loops]


def test_ddp_does_in_every_loop_what_is_computed():
    outcome = run_quietly(run_loops, ALL, ranks=2, timeout=120)
    assert outcome.ok
    real = dict(zip(ALL, zip(*(outcome.values[rank] for rank in (0, 1)), strict=True), strict=True))
    assert real == {loop: tuple(computed(loop)) for loop in ALL}


def test_a_box_that_is_ticked_runs_on_two_real_ranks():
    explorer = explore_loop()
    assert "rank 0: 2222, rank 1: 2222" in explorer._repr_mimebundle_()["text/html"]
    assert "two real ranks: rank 0: 2222; rank 1: 2222" in explorer.picture.value
    explorer.no_sync.value = NoSync.ALL
    assert "two real ranks: rank 0: 1111; rank 1: 3333" in explorer.picture.value
    assert "the ranks differ" in explorer.picture.value
    explorer.no_sync.value = NoSync.NONE
    explorer.zero_inside.value = True
    explorer.divide.value = Divide.NOTHING
    assert "two real ranks: rank 0: 8000; rank 1: 8000" in explorer.picture.value
    explorer.short.value = True
    explorer.step_at_end.value = False
    assert "left: 400000" in explorer.picture.value
