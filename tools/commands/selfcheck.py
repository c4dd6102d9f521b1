"""`ddp-course selfcheck`: does the course keep its own promises?"""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from course_lib.cli.root import course_root
from course_lib.grading.known_answers import Specimen, catalogue, problems_with_catalogue
from course_lib.grading.task_sources import task_cell
from course_lib.syllabus import all_lessons
from course_lib.tasks import Task, UnknownTaskError, all_tasks, find_task
from realranks.cli.progress_display import progress_bar
from tools import selfcheck as checks
from tools.check import check_notebooks
from tools.plan import LESSONS, NOTEBOOK_FOLDERS
from tools.selfcheck import problems_with_task

#: What running a notebook leaves beside it; lesson 00 writes scripts into `scratch`.
_BESIDE = {".ipynb_checkpoints", "__pycache__", "scratch"}
#: So many words, at least, a misconception and the section that teaches it have in common. This finds headings that
#: were mixed up, not those that teach badly.
_COMMON_WORDS = 1
#: The beginnings of words that are in every text.
_EVERYWHERE = frozenset(
    [
        "after",
        "again",
        "all",
        "also",
        "alway",
        "been",
        "befor",
        "does",
        "each",
        "even",
        "every",
        "from",
        "gives",
        "have",
        "into",
        "made",
        "make",
        "makes",
        "more",
        "most",
        "much",
        "must",
        "never",
        "only",
        "other",
        "over",
        "rank",
        "ranks",
        "same",
        "some",
        "such",
        "than",
        "that",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "what",
        "when",
        "where",
        "which",
        "with",
        "whole",
    ]
)


def selfcheck(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TASK]...", help="Check the answers of these tasks; else of all.", show_default=False
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Read only: run no answer.")] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Try right answers and solutions on cases of so many seeds.")
    ] = 3,
    only_right: Annotated[
        bool, typer.Option("--only-right", help="Run right answers and solutions only.")
    ] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Answers run at the same time; 0: one per core.")
    ] = 1,
) -> None:
    """Check the course itself: tasks, their catalogue of answers, exercises, solutions, stray files.

    Exit code 0: all is as it should be. 1: something is not; each thing is one line. 2: no such task, or no checkout.
    """
    try:
        chosen = [find_task(name) for name in tasks] if tasks else list(all_tasks())
    except UnknownTaskError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    root = course_root()
    problems = 0
    with progress_bar("notebooks") as show:
        on_paper = check_notebooks(root, tell=show) + problems_on_paper(root)
    for problem in on_paper:
        typer.echo(problem)
        problems += 1
    if not quick:
        todo = things_to_run(root, [task.name for task in chosen], seeds, only_right=only_right)
        with progress_bar("answers") as show:
            for number, (name, found) in enumerate(run_things(todo, jobs), start=1):
                typer.echo(f"  ok  {name}" if not found else "\n".join(found))
                problems += len(found)
                show(number, len(todo))
    typer.echo("All is as it should be." if not problems else f"{problems} problem(s).")
    raise typer.Exit(1 if problems else 0)


def problems_on_paper(root: Path) -> list[str]:
    """Return the problems of tasks, catalogue and folders that reading shows. Notebooks: see `check_notebooks`."""
    specimens = catalogue(root / LESSONS)
    problems = problems_with_catalogue(root / LESSONS)
    for task in all_tasks():
        problems += problems_with_task(task, specimens)
        lesson = root / LESSONS / task.topic / "lesson.py"
        if not lesson.is_file():
            problems.append(f"{task.name}: there is no lesson {task.lesson}")
        elif f"exercises/{task.lesson}.ipynb" not in lesson.read_text(encoding="utf-8"):
            problems.append(
                f"{task.name}: the lesson {task.lesson} has no link to exercises/{task.lesson}.ipynb"
            )
        problems += [
            f"{task.name}: {problem}"
            for problem in (
                *_without_cell(task, root),
                *taught_nowhere(task, root),
            )
        ]
    return problems + stray_files(root)


def _without_cell(task: Task, root: Path) -> list[str]:
    try:
        found = task_cell(task, solved=False, root=root) is not None
    except ValueError as error:
        return [f"its cell cannot be read: {error}"]
    return [] if found else [f"{LESSONS}/{task.topic}/exercises.py has no cell for it"]


def taught_nowhere(task: Task, root: Path) -> list[str]:
    """Return misconceptions that send the learner to a missing heading, or to one about something else."""
    problems = []
    for item in task.misconceptions:
        section = _section(item.taught, root)
        if section is None:
            problems.append(
                f"the misconception {item.id} is taught nowhere: no lesson has the heading of {item.taught!r}"
            )
        elif len(_words(f"{item.id} {item.sentence}") & _words(section)) < _COMMON_WORDS:
            problems.append(
                f"the misconception {item.id} sends to {item.taught!r}, which has hardly a word in common with it"
            )
    return problems


def _words(text: str) -> set[str]:
    """Return the beginnings of a text's longer words: `averaged` and `average` count as one."""
    return {word[:5] for word in re.findall(r"[a-z]{4,}", text.lower().replace("_", " "))} - _EVERYWHERE


def _section(taught: str, root: Path) -> str | None:
    """Return the text below a heading, down to the next one of its level; None where no lesson has it."""
    found = re.fullmatch(r"lesson (\d\d), (.+)", taught)
    lessons = all_lessons(root / LESSONS) if found else ()
    for lesson in (each for each in lessons if found and each.number == int(found[1])):
        text = (lesson.folder / "lesson.py").read_text(encoding="utf-8")
        heading = re.search(rf"^# (##+) {re.escape(found[2])}$", text, re.MULTILINE) if found else None
        if heading:
            rest = text[heading.end() :]
            end = re.search(rf"^# #{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
            return f"{taught}\n{rest[: end.start()] if end else rest}"
    return None


def stray_files(root: Path) -> list[str]:
    """Return files in notebooks/, exercises/ and solutions/ that are neither notebooks nor tasks' scripts."""
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
            script = folder != "notebooks" and inside.as_posix() in scripts
            if not (notebook or script):
                problems.append(f"{folder}/{inside.as_posix()}: a stray file")
    return problems


def _cell(task: Task, *, solved: bool, root: Path) -> str | None:
    """Return the task's cell; None also where it cannot be read, which `problems_on_paper` reports."""
    try:
        return task_cell(task, solved=solved, root=root)
    except ValueError:
        return None


def things_to_run(root: Path, names: list[str], seeds: int = 1, *, only_right: bool = False) -> list[Thing]:
    """Return everything that these tasks have.

    Args:
        seeds: from how many seeds the cases of right answers and solutions are drawn.
        only_right: leave out stubs and wrong answers.
    """
    specimens = catalogue(root / LESSONS)
    todo: list[Thing] = []
    for name in names:
        todo += [] if only_right else [Thing(f"{name}, stubs", name, root, seeds)]
        todo.append(Thing(f"{name}, solution", name, root, seeds))
        mine = [one for one in specimens if one.task == name and (one.right or not only_right)]
        todo += [Thing(one.name, name, root, seeds, one) for one in mine]
    return todo


def run_things(todo: list[Thing], jobs: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Yield what was run, and its problems, as they are known; `jobs` at the same time, 0 means one per core."""
    if jobs == 1:
        yield from ((job.what, job.run()) for job in todo)
        return
    with worker_pool(jobs or os.cpu_count()) as pool:
        running = {pool.submit(job.run): job for job in todo}
        try:
            yield from ((running[done].what, done.result()) for done in as_completed(running))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def worker_pool(size: int | None) -> ProcessPoolExecutor:
    """Make a pool of processes that grade, each with its own forkserver; they end with this process."""
    return ProcessPoolExecutor(size, multiprocessing.get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """End with the parent: a pool's worker would wait for ever for its next job."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@dataclass(frozen=True)
class Thing:
    """One thing to be run: stubs or the solution of a task (as `what` says), or an answer of the catalogue."""

    what: str
    task: str
    root: Path
    seeds: int
    specimen: Specimen | None = None

    def run(self) -> list[str]:
        """Run it and return its problems."""
        if self.specimen is not None:
            return checks.problems_with_answer(self.specimen, self.seeds)
        task = find_task(self.task)
        if self.what.endswith("stubs"):
            return checks.problems_with_stubs(task, _cell(task, solved=False, root=self.root))
        return checks.problems_with_solution(task, _cell(task, solved=True, root=self.root), self.seeds)
