"""`ddp-course selfcheck`: does the course keep its own promises?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from course_lib.tasks import Task

ANSWERS = Path("tests/answers")
_BESIDE = {".ipynb_checkpoints", "__pycache__"}


def selfcheck(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TASK]...", help="Check the answers of these tasks; else of all.", show_default=False
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Read only: run no answer.")] = False,
) -> None:
    """Check the course itself: tasks, their catalogue of answers, exercises, solutions, stray files.

    Exit code 0: all is as it should be. 1: something is not; each thing is one line. 2: no such task.
    """
    from course_lib.cli import course_root
    from course_lib.notebook.build import check_notebooks
    from course_lib.tasks import UnknownTaskError, all_tasks, find_task

    try:
        chosen = [find_task(name) for name in tasks] if tasks else list(all_tasks())
    except UnknownTaskError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    root = course_root()
    problems = 0
    for problem in (*check_notebooks(root), *problems_on_paper(root)):
        typer.echo(problem)
        problems += 1
    if not quick:
        for name, found in run_answers(root, [task.name for task in chosen]):
            typer.echo(f"  ok  {name}" if not found else "\n".join(found))
            problems += len(found)
    typer.echo("All is as it should be." if not problems else f"{problems} problem(s).")
    raise typer.Exit(1 if problems else 0)


def problems_on_paper(root: Path) -> list[str]:
    """What is wrong with tasks, catalogue and folders, as far as reading shows. Notebooks: see `check_notebooks`."""
    from course_lib.grading.selfcheck import catalogue, problems_with_catalogue, problems_with_task
    from course_lib.tasks import all_tasks

    specimens = catalogue(root / ANSWERS)
    problems = problems_with_catalogue(root / ANSWERS)
    for task in all_tasks():
        problems += problems_with_task(task, specimens)
        lesson = root / "notebooks" / "sources" / f"{task.lesson}.py"
        if not lesson.is_file():
            problems.append(f"{task.name}: there is no lesson {task.lesson}")
        elif f"exercises/{task.lesson}.ipynb" not in lesson.read_text(encoding="utf-8"):
            problems.append(
                f"{task.name}: the lesson {task.lesson} has no link to exercises/{task.lesson}.ipynb"
            )
        problems += [
            f"{task.name}: {problem}"
            for problem in (*_without_cell(task, root), *_taught_nowhere(task, root))
        ]
    return problems + stray_files(root)


def _without_cell(task: Task, root: Path) -> list[str]:
    from course_lib.notebook.build import BuildError
    from course_lib.notebook.task_sources import task_cell

    try:
        found = task_cell(task, solved=False, root=root) is not None
    except BuildError as error:
        return [f"its cell cannot be read: {error}"]
    return [] if found else [f"solutions/sources/{task.lesson}.py has no cell for it"]


def _taught_nowhere(task: Task, root: Path) -> list[str]:
    """Misconceptions that send the learner to a heading which no lesson has."""
    problems = []
    for item in task.misconceptions:
        found = re.fullmatch(r"lesson (\d\d), (.+)", item.taught)
        sources = (root / "notebooks" / "sources").glob(f"{found[1]}_*.py") if found else ()
        heading = re.compile(rf"^# ##+ {re.escape(found[2])}$" if found else "(?!)", re.MULTILINE)
        if not any(heading.search(source.read_text(encoding="utf-8")) for source in sources):
            problems.append(
                f"the misconception {item.id} is taught nowhere: no lesson has the heading of {item.taught!r}"
            )
    return problems


def stray_files(root: Path) -> list[str]:
    """Files in notebooks/, exercises/ and solutions/ that are neither notebooks nor sources."""
    from course_lib.notebook.build.plan import NOTEBOOK_FOLDERS
    from course_lib.tasks import all_tasks

    scripts = {task.script for task in all_tasks()}
    problems = []
    for folder in NOTEBOOK_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root / folder)
            if path.is_dir() or _BESIDE & set(inside.parts):
                continue
            notebook = (
                len(inside.parts) == 1 and path.suffix == ".ipynb"
            )  # without a source: check_notebooks says so
            source = inside.parts[:-1] == ("sources",) and path.suffix == ".py" and folder != "exercises"
            script = folder != "notebooks" and inside.as_posix() in scripts
            if not (notebook or source or script):
                problems.append(f"{folder}/{inside.as_posix()}: a stray file")
    return problems


def _cell(task: Task, *, solved: bool, root: Path) -> str | None:
    """The task's cell; None also where it cannot be read, which `problems_on_paper` says."""
    from course_lib.notebook.build import BuildError
    from course_lib.notebook.task_sources import task_cell

    try:
        return task_cell(task, solved=solved, root=root)
    except BuildError:
        return None


def run_answers(root: Path, names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Run everything that these tasks have: yields what was run, and what is wrong with it."""
    from course_lib.grading import selfcheck as checks
    from course_lib.tasks import find_task

    specimens = checks.catalogue(root / ANSWERS)
    for name in names:
        task = find_task(name)
        exercise = _cell(task, solved=False, root=root)
        yield f"{name}, stubs", checks.problems_with_stubs(task, exercise)
        yield (
            f"{name}, solution",
            checks.problems_with_solution(task, _cell(task, solved=True, root=root)),
        )
        for specimen in specimens:
            if specimen.task == name:
                yield specimen.name, checks.problems_with_answer(specimen)
