"""Lesson 00: what is chosen runs on four real ranks, and the picture shows what they then hold."""

import re

from course_lib.lessons.first_ranks.lab import COLLECTIVES, explore_collectives


def test_a_choice_runs_on_real_ranks_and_is_drawn():
    begin = {rank: dict.fromkeys(COLLECTIVES, [2.0] * 4) for rank in range(4)}
    explorer = explore_collectives({"mine": {rank: [2.0**rank] * 4 for rank in range(4)}, "after": begin})
    assert "After broadcast: rank 0 2 2 2 2" in explorer.picture.value
    assert "After broadcast: rank 0 2 2 2 2" in explorer._repr_mimebundle_()["text/html"]
    explorer.name.value = "reduce_scatter"
    label = re.search(r'aria-label="([^"]*)"', explorer.picture.value)[1]
    assert label == "After reduce_scatter: rank 0 15, rank 1 15, rank 2 15, rank 3 15"
    explorer.rank_3.value = 5
    assert "rank 0 12, rank 1 12" in explorer.picture.value
    explorer.name.value = "broadcast"
    explorer.root.value = 3
    assert "After broadcast: rank 0 5 5 5 5, rank 1 5 5 5 5" in explorer.picture.value
