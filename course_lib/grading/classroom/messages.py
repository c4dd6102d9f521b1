"""The messages between the process that hands out answers and a worker that grades them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from course_lib.grading.verdict import Verdict
from realranks.ranks.messages import Body


@dataclass(frozen=True)
class Grade(Body):
    """Grade this answer: `Graded`, or `Failed`."""

    kind: ClassVar[str] = "grade"
    task: str
    source: str
    first_line: int = 1


@dataclass(frozen=True)
class Graded(Body):
    """The answer's verdict."""

    kind: ClassVar[str] = "graded"
    verdict: Verdict


@dataclass(frozen=True)
class Failed(Body):
    """There is no verdict, because the grader could not run it."""

    kind: ClassVar[str] = "failed"
    why: str
