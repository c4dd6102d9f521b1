"""Lesson 10: its loops, computed, against DDP on two ranks, and its controls."""

from itertools import product

from course_lib.lab.reducer import make_calls, play
from course_lib.lessons.accumulation.lab import Divide, Loop, NoSync, explore_loop
from realranks.cells.run import run_quietly

ALL = [
    Loop(*each) for each in product((1, 2, 4), (False, True), Divide, NoSync, (False, True), (False, True))
]


def run_loops(loops: list[Loop]) -> list[list[float | None]]:
    """This rank's .grad after each."""
    return [make_calls((loop.order, loop.order), loop.model) for loop in loops]


def test_ddp_does_in_every_loop_what_is_computed():
    outcome = run_quietly(run_loops, ALL, ranks=2, timeout=120)
    assert outcome.ok
    for rank, found in outcome.values.items():
        computed = [play((loop.order,), loop.model)[-1].ranks[rank].grad["weight"] for loop in ALL]
        assert found == [[grad] for grad in computed]


def test_a_box_that_is_ticked_runs_on_two_real_ranks():
    explorer = explore_loop()
    assert ".grad 2222" in explorer._repr_mimebundle_()["text/html"]
    assert "two real ranks: 2222 and 2222" in explorer.picture.value
    explorer.no_sync.value = NoSync.ALL
    assert "two real ranks: 1111 and 3333" in explorer.picture.value
    assert "the ranks differ" in explorer.picture.value
    explorer.no_sync.value = NoSync.NONE
    explorer.zero_inside.value = True
    explorer.divide.value = Divide.NOTHING
    assert "two real ranks: 8000 and 8000" in explorer.picture.value
    explorer.short.value = True
    explorer.step_at_end.value = False
    assert "no step follows" in explorer.picture.value
