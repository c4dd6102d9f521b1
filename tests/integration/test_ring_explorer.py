"""Lesson 01: the ring that is chosen runs on real ranks, beside all_reduce, and can be stepped through."""

from course_lib.lessons.dataparallel.lab import explore_rings


def test_a_choice_runs_a_ring_on_real_ranks_and_shows_its_steps():
    states = {rank: [[2.0**rank] * 2, [3.0] * 2, [3.0] * 2] for rank in range(2)}
    explorer = explore_rings({"states": states})
    assert "All ranks have the sums of all chunks." in explorer._repr_mimebundle_()["text/html"]
    explorer.ranks.value = 4
    assert "has given the same sums as <code>dist.all_reduce</code> on every rank" in explorer.picture.value
    assert "device 0 to all others 3.0; a ring, 2(N-1)/N 1.5" in explorer.picture.value
    (shown,) = explorer.steps.outputs
    assert "<script>" in shown["data"]["text/html"]
    assert shown["data"]["text/plain"].startswith("[A ring all-reduce on 4 ranks: 1. Before: ranks 0 to 3")
    assert "rank 1 then has 15 there. All ranks" in shown["data"]["text/plain"]
