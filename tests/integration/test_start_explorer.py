"""Lesson 02: who comes is who comes, on real ranks and a real store, and the picture shows who waits for whom."""

import re

from course_lib.lessons.process_groups.lab import RANK_0, explore_start


def test_a_choice_is_a_start_of_real_ranks_and_is_drawn():
    explorer = explore_start()

    def label() -> str:
        return re.search(r'aria-label="([^"]*)"', explorer.picture.value)[1].replace("&#x27;", "'")

    assert label().endswith("rank 3 has not come; addresses in the store: none")
    assert explorer.static.html() == explorer._repr_mimebundle_()["text/html"]
    explorer.rank_3.value = True
    assert label().startswith("torchrun holds the store: rank 0 has not come;")
    assert label().endswith("rank 3 waits for rank 0's address; addresses in the store: rank 3")
    explorer.holder.value = RANK_0
    assert label().endswith("rank 3 waits for somebody who listens at the port; there is no store")
