"""Which lesson teaches what: the doctor's pointers into the course."""

from __future__ import annotations

#: The lessons there are, by number, in the words of a pointer. A test compares them with the notebooks.
LESSONS = {
    0: "lesson 00, Your first ranks",
    1: "lesson 01, DataParallel vs DDP",
    3: "lesson 03, Samplers",
    4: "lesson 04, Gradients, hooks and buckets",
    6: "lesson 06, Forward/backward alternation",
}


def taught_in(*numbers: int) -> str:
    """The first of these lessons that the course has; empty when it has none of them."""
    return next((LESSONS[number] for number in numbers if number in LESSONS), "")
