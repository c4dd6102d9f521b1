"""Exercises that are being worked on: one of them is current, and is graded again whenever its answer is saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.grading.cells import TaskCell, complaint, read_cells, shown_path
from course_lib.grading.grader import grade
from course_lib.grading.hints import HintGiven, next_hint
from course_lib.grading.progress import Progress
from course_lib.grading.verdict import Verdict
from course_lib.tasks import find_task


@dataclass(frozen=True)
class Exercise:
    """A task cell in a file.

    Attributes:
        file: the notebook or script that it was found in.
        number: which of this task's cells in the file it is; this stays the same while other cells come and go.
    """

    file: Path
    number: int
    cell: TaskCell

    @property
    def key(self) -> tuple[Path, str, int]:
        """The identity of this exercise as long as its file is watched, whatever is written in it."""
        return self.file, self.cell.task, self.number

    @property
    def path(self) -> Path:
        """The file to be edited: the script, where a notebook's cell means one."""
        return self.cell.script or self.file

    @property
    def place(self) -> str:
        """The place where to edit it, such as `exercises/03_samplers.ipynb, cell 4`."""
        return (
            f"{shown_path(self.path)}, {self.cell.place}" if not self.cell.script else shown_path(self.path)
        )


class Watched:
    """The exercises in some files, the current one, and what has been passed.

    Attributes:
        exercises: those in the files, in order. current: the one that is worked on; None where there is none.
    """

    def __init__(
        self,
        files: Sequence[Path],
        progress: Progress,
        complain: Callable[[str], None],
        *,
        record: bool = True,
    ) -> None:
        """Watch these files; the first call of `look` reads them.

        Args:
            progress: which tasks have been passed, and where hints are counted; with `record`, attempts, too.
            complain: called with each problem of a file, one line, when the file has been read.
        """
        self.exercises: list[Exercise] = []
        self.current: Exercise | None = None
        self._files = files
        self._progress = progress
        self._complain = complain
        self._record = record
        self._passed: set[str] = set()
        self._found: dict[Path, list[Exercise]] = {}
        self._stamps: dict[Path, tuple[object, ...]] = {}

    def look(self) -> bool:
        """Read what has been saved since; True where the current exercise is to be graded.

        An exercise that has been saved becomes the current one, unless that one was saved, too. Editors replace files
        as well as write them, and a file is gone for a moment: then the next look finds it.
        """
        known = {exercise.key: _answer(exercise) for exercise in self.exercises}
        for file in self._files:
            self._read(file)
        self.exercises = [exercise for file in self._files for exercise in self._found.get(file, ())]
        by_key = {exercise.key: exercise for exercise in self.exercises}
        if self.current is None or self.current.key not in by_key:
            self.current = next(iter(self.open_ones()), None) or next(iter(self.exercises), None)
            return self.current is not None
        changed = [exercise for exercise in self.exercises if known.get(exercise.key) != _answer(exercise)]
        self.current = by_key[self.current.key]
        if changed and self.current not in changed:
            self.current = changed[0]
        return bool(changed)

    def grade(self) -> Verdict:
        """Grade the current exercise; recorded in the learner's progress where that is wanted.

        Raises:
            LookupError: there is no exercise. GangError, LaunchError: this machine cannot start the ranks.
        """
        if self.current is None:
            raise LookupError("there is no exercise")
        cell = self.current.cell
        verdict = grade(cell.task, cell.source, first_line=cell.first_line, seed=cell.seed)
        if self._record:
            self._progress.record(verdict)
        if verdict.passed:
            self._passed.add(cell.task)
        return verdict

    def hint(self) -> HintGiven | None:
        """Return the next hint for the current exercise, which is counted."""
        return next_hint(find_task(self.current.cell.task), self._progress) if self.current else None

    def passed(self) -> set[str]:
        """Return the tasks that have been passed, now or earlier."""
        return self._passed | {task for task, done in self._progress.all().items() if done.passed}

    def open_ones(self) -> list[Exercise]:
        """Return the exercises that have not been passed: those after the current one first."""
        passed = self.passed()
        keys = [exercise.key for exercise in self.exercises]
        start = keys.index(self.current.key) + 1 if self.current and self.current.key in keys else 0
        in_turn = self.exercises[start:] + self.exercises[:start]
        return [exercise for exercise in in_turn if exercise.cell.task not in passed]

    def go_on(self) -> bool:
        """Make the next open exercise the current one; False where there is no other."""
        return self.go_to(next(iter(self.open_ones()), None))

    def go_to(self, exercise: Exercise | None) -> bool:
        """Make this exercise the current one; False where it is so already, or is None."""
        if exercise is None or (self.current is not None and exercise.key == self.current.key):
            return False
        self.current = exercise
        return True

    def _read(self, file: Path) -> None:
        stamp = self._stamp(file)
        if stamp is None or self._stamps.get(file) == stamp:
            return
        reading = read_cells(file)
        for problem in reading.problems:
            self._complain(complaint(shown_path(file), problem))
        if not reading.unreadable:
            self._found[file] = list(_numbered(file, reading.cells))
        self._stamps[file] = self._stamp(file) or stamp

    def _stamp(self, file: Path) -> tuple[object, ...] | None:
        """Return a stamp that changes with the file, and with the scripts that its cells mean."""
        own = _stat(file)
        if own is None:
            return None
        return own, *(_stat(exercise.path) for exercise in self._found.get(file, ()) if exercise.cell.script)


def _answer(exercise: Exercise) -> tuple[str, int | None]:
    return exercise.cell.source, exercise.cell.seed


def _numbered(file: Path, cells: Sequence[TaskCell]) -> Iterator[Exercise]:
    count: Counter[str] = Counter()
    for cell in cells:
        yield Exercise(file, count[cell.task], cell)
        count[cell.task] += 1


def _stat(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
