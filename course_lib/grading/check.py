"""Grade the task cells of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.grading.cells import SUFFIXES, complaint, notebooks_below, read_cells, shown_path
from course_lib.grading.grader import grade
from course_lib.grading.progress import Progress
from course_lib.grading.verdict import Verdict


class CheckError(Exception):
    """Something to be checked is missing; the message is one line."""


def files_of(paths: Sequence[Path]) -> list[Path]:
    """Return the files that these paths mean; a folder means the notebooks in it.

    Raises:
        CheckError: a path that is not there, or means nothing that could be checked.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = notebooks_below(path)
            if not inside:
                raise CheckError(f"There is no notebook in {path}.")
            files += inside
        elif not path.exists():
            raise CheckError(f"There is no file {path}.")
        elif path.suffix not in SUFFIXES:
            raise CheckError(f"{path} is neither a notebook (.ipynb) nor a script (.py).")
        else:
            files.append(path)
    return files


@dataclass
class Checker:
    """Grades the task cells of some files.

    Attributes:
        files: what to check. progress: where attempts are remembered, if anywhere.
        show: called with each verdict and the place of its answer. complain: called with each problem, one line.
        tell: called with the numbers of answers that are done and in all.
    """

    files: Sequence[Path]
    progress: Progress | None
    show: Callable[[Verdict, str], None]
    complain: Callable[[str], None]
    tell: Callable[[int, int], None] = lambda _done, _total: None

    def check(self) -> bool:
        """Grade every cell; True when all passed and no file had a problem."""
        good = True
        todo = []
        for file in self.files:
            reading = read_cells(file)
            for problem in reading.problems:
                good = False
                self.complain(complaint(shown_path(file), problem))
            todo += [(file, cell) for cell in reading.cells]
        self.tell(0, len(todo))
        for number, (file, cell) in enumerate(todo, start=1):
            verdict = grade(cell.task, cell.source, first_line=cell.first_line, seed=cell.seed)
            if self.progress is not None:
                self.progress.record(verdict)
            self.show(verdict, f"{shown_path(file)}, {cell.place}")
            self.tell(number, len(todo))
            good = good and verdict.passed
        return good
