"""Grade a folder of submissions: what is new is run, what is known is looked up, everything ends in a `ClassReport`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from course_lib.grading.classroom.results import Results, key_of
from course_lib.grading.classroom.submissions import Answer, HandedIn, Submission, may_answer
from course_lib.grading.classroom.workers import grade_all
from course_lib.grading.verdict import CheckState, Verdict
from course_lib.grading.worth_reading import worth_reading
from course_lib.tasks import Task, all_tasks
from course_lib.tasks.words import Misconception


@dataclass(frozen=True)
class Entry:
    """The result of one task of one learner: a verdict, a problem with grading it, or neither if it is missing.

    Attributes:
        place: where the answer stands. source: the answer itself.
        worth_reading: what in its source an instructor should look at.
    """

    verdict: Verdict | None = None
    problem: str = ""
    place: str = ""
    worth_reading: tuple[str, ...] = ()
    source: str = ""

    @property
    def state(self) -> str:
        """A verdict's kind, `not graded`, or `missing`."""
        if self.verdict is not None:
            return str(self.verdict.kind)
        return "not graded" if self.problem else "missing"

    @property
    def passed(self) -> bool:
        """True for a pass."""
        return self.verdict is not None and self.verdict.passed


MISSING = Entry()


@dataclass(frozen=True)
class Learner:
    """One learner's results by task name, and what is wrong with the files handed in.

    Attributes:
        unreadable: files whose contents are not known: a task without an answer may be answered there.
    """

    name: str
    entries: Mapping[str, Entry]
    problems: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def entry(self, task: Task) -> Entry:
        """Return the entry of a task."""
        files = [file for file in self.unreadable if may_answer(file, task)]
        if task.name not in self.entries and files:
            return Entry(problem=f"It may be answered in {', '.join(files)}, which cannot be read.")
        return self.entries.get(task.name, MISSING)

    @property
    def score(self) -> int:
        """The number of tasks passed: one point each."""
        return sum(entry.passed for entry in self.entries.values())


@dataclass(frozen=True)
class Common:
    """A misconception and the learners who have it."""

    task: str
    misconception: Misconception
    learners: tuple[str, ...]


@dataclass(frozen=True)
class Unnamed:
    """Wrong answers whose mistake has no name, and in which the same does not hold: maybe one mistake."""

    task: str
    broken: tuple[str, ...]
    learners: tuple[str, ...]


@dataclass(frozen=True)
class ClassReport:
    """The whole class.

    Attributes:
        tasks: in the course's order, what was assigned, else all of a lesson of which somebody handed in a task.
        learners: by name. notes: what belongs to no learner. graded: answers that were run just now.
    """

    tasks: tuple[Task, ...]
    learners: tuple[Learner, ...]
    notes: tuple[str, ...] = ()
    graded: int = 0

    @property
    def max_score(self) -> int:
        """The number of tasks."""
        return len(self.tasks)

    @property
    def flawless(self) -> bool:
        """True when there was nothing that could not be read or graded; says nothing of how good answers are."""
        ungraded = any(entry.problem for learner in self.learners for entry in learner.entries.values())
        return not ungraded and not any(learner.problems for learner in self.learners)

    def count(self, task: Task) -> Counter[str]:
        """Count how often each state occurs for a task."""
        return Counter(learner.entry(task).state for learner in self.learners)

    def _verdicts(self) -> Iterator[tuple[str, str, Verdict]]:
        for learner in self.learners:
            for task in self.tasks:
                if (verdict := learner.entry(task).verdict) is not None:
                    yield learner.name, task.name, verdict

    def commonest(self) -> list[Common]:
        """Return the misconceptions, most frequent first."""
        holders: dict[tuple[str, Misconception], list[str]] = {}
        for learner, task, verdict in self._verdicts():
            for item in verdict.misconceptions:
                holders.setdefault((task, item), []).append(learner)
        found = [Common(task, item, tuple(names)) for (task, item), names in holders.items()]
        return sorted(found, key=lambda common: -len(common.learners))

    def unnamed(self) -> list[Unnamed]:
        """Return what several learners' answers break without a name for why, most frequent first."""
        holders: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for learner, task, verdict in self._verdicts():
            broken = tuple(each.sentence for each in verdict.checks if each.state is CheckState.FAILED)
            if broken and not verdict.misconceptions:
                holders.setdefault((task, broken), []).append(learner)
        found = [Unnamed(task, broken, tuple(names)) for (task, broken), names in holders.items()]
        return sorted((each for each in found if len(each.learners) > 1), key=lambda e: -len(e.learners))


def grade_class(
    handed_in: HandedIn,
    results: Results,
    jobs: int,
    on_graded: Callable[[int, int], None] | None = None,
    assigned: tuple[Task, ...] | None = None,
) -> ClassReport:
    """Grade what has not been graded, and keep each verdict at once.

    Args:
        handed_in: the submissions. results: an open results file. jobs: worker processes.
        on_graded: called with the number of answers done and to be done.
        assigned: the tasks to grade, in the course's order; answers to others are not looked at.

    Raises:
        ResultsError: verdicts cannot be kept.
    """
    if assigned is not None:
        handed_in = _keep_assigned(handed_in, {task.name for task in assigned})
    wanted: dict[str, Answer] = {}
    for submission in handed_in.submissions:
        for answer in submission.answers:
            wanted.setdefault(key_of(answer), answer)
    new = {key: answer for key, answer in wanted.items() if results.get(key) is None}
    keys = {answer: key for key, answer in new.items()}
    problems: dict[str, str] = {}
    with contextlib.closing(grade_all(new.values(), max(1, min(jobs, len(new))))) as verdicts:
        for number, graded in enumerate(verdicts, start=1):
            key = keys[graded.answer]
            if graded.verdict is not None:
                results.add(key, graded.verdict)
            else:
                problems[key] = graded.problem
            if on_graded is not None:
                on_graded(number, len(new))
    learners = tuple(_learner(submission, results, problems) for submission in handed_in.submissions)
    return ClassReport(assigned or _tasks_of(learners), learners, handed_in.notes, len(new))


def _keep_assigned(handed_in: HandedIn, names: Set[str]) -> HandedIn:
    """Keep what was handed in for these tasks."""
    submissions = (
        replace(one, answers=tuple(answer for answer in one.answers if answer.task in names))
        for one in handed_in.submissions
    )
    return replace(handed_in, submissions=tuple(submissions))


def _learner(submission: Submission, results: Results, problems: Mapping[str, str]) -> Learner:
    entries = {}
    for answer in submission.answers:
        key = key_of(answer)
        marks = worth_reading(answer.source)
        entries[answer.task] = Entry(
            results.get(key), problems.get(key, ""), answer.place, marks, answer.source
        )
    return Learner(submission.learner, entries, submission.problems, submission.unreadable)


def _tasks_of(learners: Sequence[Learner]) -> tuple[Task, ...]:
    named = {name for learner in learners for name in learner.entries}
    lessons = {task.lesson for task in all_tasks() if task.name in named}
    return tuple(task for task in all_tasks() if task.lesson in lessons)
