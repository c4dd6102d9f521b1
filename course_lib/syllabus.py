"""The lessons there are: one folder each in `lessons/`, which its `lesson.toml` makes one.

    number = 3
    title = "Samplers"
    question = "Who gets which sample?"
    after = "00"        # the lessons that it builds on, as the index says it
    minutes = 50        # written by `ddp-course notebooks`

The folder's name is the lesson's topic. Its other files: `lesson.py` and `exercises.py`, from which the notebooks are
built; `questions.toml`; `lab.py` and modules beside it, what its cells import; `tasks.toml` and `tasks/`; `answers/`.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

LESSONS = Path(__file__).with_name("lessons")


@dataclass(frozen=True)
class Lesson:
    """A lesson, as `lesson.toml` describes it.

    Attributes:
        folder: what belongs to it. after: the lessons it builds on. minutes: a number, or words for an evening.
    """

    folder: Path
    number: int
    title: str
    question: str
    after: str
    minutes: int | str

    @property
    def topic(self) -> str:
        """The name by which tasks and modules call it: `samplers`."""
        return self.folder.name

    @property
    def name(self) -> str:
        """The name of its notebooks: `03_samplers`."""
        return f"{self.number:02}_{self.topic}"


@functools.cache
def all_lessons(folder: Path = LESSONS) -> tuple[Lesson, ...]:
    """Return the lessons in a folder, by number."""
    found = (
        Lesson(path.parent, **tomllib.loads(path.read_text(encoding="utf-8")))
        for path in folder.glob("*/lesson.toml")
    )
    return tuple(sorted(found, key=lambda lesson: lesson.number))


def lesson_of(topic: str) -> Lesson:
    """Return the lesson of this topic.

    Raises:
        LookupError: there is none.
    """
    return {lesson.topic: lesson for lesson in all_lessons()}[topic]
