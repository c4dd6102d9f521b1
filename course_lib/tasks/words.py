"""The words of a lesson's tasks for learners: `tasks.toml` in its folder. Python has what runs.

    [shard_indices]
    place = 1
    title = "Write the sampler yourself"
    signature = "shard_indices(n, rank, world_size, epoch, seed, drop_last)"
    hints = ["Two or more, each a step further than the one before."]

    [shard_indices.misconceptions]
    epoch_ignored = { taught = "Shuffling, epoch by epoch", sentence = "What happens, and why that is wrong." }

Misconceptions are in the order of their gravity. `taught` is a heading of the lesson, or of another (`lesson 09, ...`).
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from typing import Any

from course_lib.syllabus import lesson_of


@dataclass(frozen=True)
class Misconception:
    """A wrong idea with a name. A task lists its misconceptions in the order of their gravity.

    Attributes:
        id: unique within its task. sentence: what the learner reads: what happens, and why that is wrong.
        taught: the lesson and section where it is explained.
    """

    id: str
    sentence: str
    taught: str


@dataclass(frozen=True)
class Words:
    """The words of one task; the attributes are those of `Task`."""

    lesson: str
    place: int
    title: str
    signature: str
    hints: tuple[str, ...]
    misconceptions: tuple[Misconception, ...] = ()


@functools.cache
def words_of(task: str) -> Words:
    """Return the words of a task; its lesson's file is read when one of its tasks is asked first.

    Raises:
        KeyError: the file has no table for it. OSError: there is no file.
    """
    topic, _, function = task.partition(".")
    table, lesson = _tables(topic)[function], lesson_of(topic).name
    misconceptions = tuple(
        Misconception(id_, one["sentence"], _place(one["taught"], lesson))
        for id_, one in table.get("misconceptions", {}).items()
    )
    return Words(
        lesson, table["place"], table["title"], table["signature"], tuple(table["hints"]), misconceptions
    )


@functools.cache
def _tables(topic: str) -> dict[str, Any]:
    return tomllib.loads((lesson_of(topic).folder / "tasks.toml").read_text(encoding="utf-8"))


def _place(taught: str, lesson: str) -> str:
    return taught if taught.startswith("lesson ") else f"lesson {lesson[:2]}, {taught}"
