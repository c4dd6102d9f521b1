"""The room as the events make it: who has passed what, who tries since when, who voted for what. Plain data, no I/O.

Events may come late, twice, or in another order than they happened: a learner's own numbers say what came first, and
a task that was passed stays passed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace

from course_lib.board.course import BoardCourse
from course_lib.board.events import Event

#: Who has not passed a task after so many answers, or so many minutes after the first one, is stuck.
STUCK_TRIES = 3
STUCK_MINUTES = 10


@dataclass(frozen=True)
class Cell:
    """One learner at one task.

    Attributes:
        since: of the first answer, in seconds since 1970. tries: answers that did not pass.
        said: the latest verdict. misconceptions: those that it recognised. number: the event that said it.
    """

    passed: bool
    since: float
    tries: int
    said: str
    misconceptions: tuple[str, ...]
    number: int


@dataclass(frozen=True)
class Vote:
    """A learner's choice, and the number of the event that made it."""

    answer: int
    number: int


@dataclass
class Room:
    """Everything that the page shows. `names`: by the learner's public number."""

    course: BoardCourse
    names: dict[int, str] = field(default_factory=dict)
    cells: dict[tuple[int, str], Cell] = field(default_factory=dict)
    votes: dict[str, dict[int, Vote]] = field(default_factory=dict)
    revealed: set[str] = field(default_factory=set)
    shown: str = ""

    def __post_init__(self) -> None:
        self._tasks = self.course.tasks()
        self._questions = {question.id: question for question in self.course.questions}

    def knows(self, event: Event) -> bool:
        """Return whether the event is about a task or a question of this course."""
        if event.kind == "verdict":
            return event.about in self._tasks
        question = self._questions.get(event.about)
        return question is not None and int(event.said) < len(question.answers)

    def fold(self, learner: int, event: Event) -> None:
        """Take in an event that is new."""
        if event.kind == "vote":
            votes = self.votes.setdefault(event.about, {})
            if not votes:
                self.shown = event.about  # the room has come to a new question
            before = votes.get(learner)
            if before is None or before.number < event.number:
                votes[learner] = Vote(int(event.said), event.number)
            return
        key = (learner, event.about)
        passed = event.said == "pass"
        known = self._tasks[event.about].misconceptions
        new = Cell(
            passed,
            event.at,
            0 if passed else 1,
            event.said,
            tuple(each for each in event.misconceptions if each in known),
            event.number,
        )
        before_cell = self.cells.get(key)
        if before_cell is not None:
            latest = new if event.number > before_cell.number else before_cell
            new = replace(
                latest,
                passed=passed or before_cell.passed,
                since=min(event.at, before_cell.since),
                tries=before_cell.tries + new.tries,
            )
        self.cells[key] = new

    def forget(self, learner: int) -> None:
        """Remove a learner and all that came from them."""
        self.names.pop(learner, None)
        self.cells = {key: cell for key, cell in self.cells.items() if key[0] != learner}
        for votes in self.votes.values():
            votes.pop(learner, None)

    def free_name(self, name: str) -> str:
        """Return the name, with a number behind it if it is taken."""
        taken = {each.casefold() for each in self.names.values()}
        numbered = (f"{name or 'learner'} {number}" for number in itertools.count(2 if name else 1))
        return next(
            each for each in itertools.chain([name] if name else [], numbered) if each.casefold() not in taken
        )

    def question_data(self, question: str) -> dict[str, object]:
        """Return a page's data of a question: the number of votes and, once it is revealed, their choices."""
        asked, votes = self._questions[question], self.votes.get(question, {})
        chosen = Counter(vote.answer for vote in votes.values())
        counts = [chosen[answer] for answer in range(len(asked.answers))]
        return {
            "id": question,
            "lesson": asked.lesson,
            "text": asked.text,
            "answers": asked.answers,
            "voted": len(votes),
            "counts": counts if question in self.revealed else None,
        }

    def cell_data(self, learner: int, task: str) -> list[object]:
        """Return a page's data of one learner at one task."""
        cell = self.cells[learner, task]
        return [learner, task, cell.passed, cell.since, cell.tries, cell.said, cell.misconceptions]
