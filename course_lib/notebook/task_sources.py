"""Where the solution of a task stands: in the one source of exercises and solutions, `solutions/sources`."""

from __future__ import annotations

from pathlib import Path

from course_lib.grading.cells import answer_in_file
from course_lib.tasks import Task

_ROOT = Path(__file__).resolve().parents[2]


def task_cell(task: Task, *, solved: bool, root: Path = _ROOT) -> str | None:
    """The source of the task's cell without its magic line, solved or as a stub; None where there is none."""
    from course_lib.notebook.build.plan import Edition, Target
    from course_lib.notebook.build.source import notebook_for

    if task.script:
        found = answer_in_file(task, root / ("solutions" if solved else "exercises"))
        return found.source if found is not None else None
    source = root / "solutions" / "sources" / f"{task.lesson}.py"
    if not source.exists():
        return None
    folder, edition = ("solutions", Edition.SOLUTION) if solved else ("exercises", Edition.EXERCISE)
    notebook = notebook_for(Target(source, root / folder / f"{task.lesson}.ipynb", edition))
    for cell in notebook.cells:
        magic, _, rest = str(cell.source).partition("\n")
        if magic.split()[:2] == ["%%task", task.name]:
            return rest
    return None
