"""Where a task's cell stands: in the one source of exercises and solutions, `solutions/sources`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.build.plan import Edition, Target
from course_lib.build.source import notebook_for
from course_lib.grading.cells import answer_in_file
from course_lib.learner.course import course_folder
from course_lib.tasks import Task

if TYPE_CHECKING:
    from nbformat import NotebookNode


def task_cell(task: Task, *, solved: bool, root: Path | None = None) -> str | None:
    """The source of the task's cell without its magic line, solved or as a stub; None where there is none.

    `root` is the course's folder; the one that came with this code, if left out.
    """
    root = root or course_folder()
    if root is None:
        return None
    if task.script:
        found = answer_in_file(task, root / ("solutions" if solved else "exercises"))
        return found.source if found is not None else None
    cells = _cells(task, solved, root)
    place = _place(task, cells)
    return _below_magic(cells[place]) if place is not None else None


def _below_magic(cell: NotebookNode) -> str:
    return str(cell.source).partition("\n")[2]


def _cells(task: Task, solved: bool, root: Path) -> list[NotebookNode]:
    """The cells of the notebook that the task is in; none where there is no such notebook."""
    source = root / "solutions" / "sources" / f"{task.lesson}.py"
    if not source.exists():
        return []
    folder, edition = ("solutions", Edition.SOLUTION) if solved else ("exercises", Edition.EXERCISE)
    return list(notebook_for(Target(source, root / folder / f"{task.lesson}.ipynb", edition)).cells)


def _place(task: Task, cells: list[NotebookNode]) -> int | None:
    """The number of the task's own cell."""
    magic = ["%%task", task.name]
    return next(
        (
            place
            for place, cell in enumerate(cells)
            if str(cell.source).partition("\n")[0].split()[:2] == magic
        ),
        None,
    )
