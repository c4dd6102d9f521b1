"""Grade the task cells of files: all of them, or, while files are watched, those that have changed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.grading.cells import SUFFIXES, TaskCell, complaint, notebooks_below, read_cells
from course_lib.grading.grader import grade
from course_lib.grading.progress import Progress
from course_lib.grading.verdict import Verdict


class CheckError(Exception):
    """What is to be checked is not there; the message is one line."""


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files that these paths mean; a folder means the notebooks in it.

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
    """Grades the task cells of some files, and knows which it has graded.

    Attributes:
        files: what to check. progress: where attempts are remembered, if anywhere.
        show: called with each verdict and the place of its answer. complain: called with each problem, one line.
        tell: called with the numbers of answers that are done and in all, of those that have to be graded.
    """

    files: Sequence[Path]
    progress: Progress | None
    show: Callable[[Verdict, str], None]
    complain: Callable[[str], None]
    tell: Callable[[int, int], None] = lambda _done, _total: None
    _graded: dict[tuple[Path, str, int], tuple[str, int | None]] = field(default_factory=dict)

    def check(self, files: Sequence[Path] | None = None) -> bool:
        """Grade every cell (of these files) that is new or changed; True when all passed and no file had a problem."""
        good = True
        todo = []
        for file in self.files if files is None else files:
            reading = read_cells(file)
            for problem in reading.problems:
                good = False
                self.complain(complaint(_shown(file), problem))
            todo += [
                (file, key, cell)
                for key, cell in _numbered(file, reading.cells)
                if self._graded.get(key) != (cell.source, cell.seed)
            ]
        self.tell(0, len(todo))
        for number, (file, key, cell) in enumerate(todo, start=1):
            self._graded[key] = (cell.source, cell.seed)
            verdict = grade(cell.task, cell.source, first_line=cell.first_line, seed=cell.seed)
            if self.progress is not None:
                self.progress.judged(verdict)
            self.show(verdict, f"{_shown(file)}, {cell.place}")
            self.tell(number, len(todo))
            good = good and verdict.passed
        return good


def _numbered(file: Path, cells: Iterable[TaskCell]) -> Iterator[tuple[tuple[Path, str, int], TaskCell]]:
    """Cells with a name that stays the same while others come and go: which of this task's cells in the file."""
    count: Counter[str] = Counter()
    for cell in cells:
        yield (file, cell.task, count[cell.task]), cell
        count[cell.task] += 1


def _shown(file: Path) -> str:
    near = os.path.relpath(file)
    return near if not near.startswith(os.pardir) else str(file)


def watch(checker: Checker, wait: Callable[[], object]) -> None:
    """Check, and check again whenever a file has been saved. Never returns: what `wait` raises ends it.

    Editors replace files as well as write them, and a file is gone for a moment: then the next look finds it.
    """
    stamps: dict[Path, tuple[int, ...]] = {}
    while True:
        now = {file: stamp for file in checker.files if (stamp := _stamp(file)) is not None}
        checker.check([file for file, stamp in now.items() if stamps.get(file) != stamp])
        stamps |= now
        wait()


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
