"""The doctor's pointers into the course: which lesson teaches what."""

from __future__ import annotations

#: The lessons there are, by number, in the words of a pointer. A test compares them with the notebooks.
LESSONS = {
    0: "lesson 00, Your first ranks",
    1: "lesson 01, DataParallel vs DDP",
    2: "lesson 02, Process groups and init",
    3: "lesson 03, Samplers",
    4: "lesson 04, Gradients, hooks and buckets",
    5: "lesson 05, When ranks run at different speeds",
    6: "lesson 06, Forward/backward alternation",
    7: "lesson 07, Wrapper modules",
    8: "lesson 08, Unused parameters and changing graphs",
    9: "lesson 09, What is synchronised, and when",
    10: "lesson 10, Accumulation, clipping and mixed precision",
    11: "lesson 11, Out of memory on one rank",
    12: "lesson 12, Elastic training",
    13: "lesson 13, Debugging a hang",
    14: "lesson 14, Logging, metrics, checkpoints",
    15: "lesson 15, Predict the scaling",
    16: "lesson 16, From laptop to cluster",
    17: "lesson 17, When DDP ends",
    18: "lesson 18, Capstone: rescue the training script",
}


def taught_in(*numbers: int) -> str:
    """Return the first of these lessons that is installed, or ''."""
    return next((LESSONS[number] for number in numbers if number in LESSONS), "")
