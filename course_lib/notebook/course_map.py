"""The course as a learner walks through it: lessons, their tasks, how far one has come, what is next."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from course_lib.grading.progress import TaskProgress
from course_lib.learner.course import course_folder
from course_lib.learner.ledger import copy_around
from course_lib.learner.news import news
from course_lib.tasks import Task, all_tasks


@dataclass(frozen=True)
class Lesson:
    """One lesson: the stem of its notebook, its title, its tasks."""

    stem: str
    title: str
    tasks: tuple[Task, ...]


def lessons(folder: Path | None = None) -> tuple[Lesson, ...]:
    """All lessons in order: those with a notebook and those that tasks belong to. Left out, the course's own folder."""
    if folder is None and (course := course_folder()) is not None:
        folder = course / "notebooks"
    paths = folder.glob("[0-9][0-9]_*.ipynb") if folder is not None else ()
    titles = {path.stem: _title(path) for path in paths}
    for task in all_tasks():
        titles.setdefault(task.lesson, _plain(task.lesson))
    return tuple(
        Lesson(stem, title, tuple(task for task in all_tasks() if task.lesson == stem))
        for stem, title in sorted(titles.items())
    )


def state(progress: TaskProgress) -> tuple[str, str]:
    """A mark and a word for how far the learner is with a task."""
    if progress.passed:
        return "✓", "passed"
    if progress.gave_up:
        return "○", "solution seen"
    if progress.attempts or progress.hints:
        return "○", "begun"
    return "·", "open"


def next_task(shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress]) -> Task | None:
    """The first task that has not been passed."""
    for lesson in shown:
        for task in lesson.tasks:
            if not progress.get(task.name, TaskProgress()).passed:
                return task
    return None


def text_map(shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress]) -> str:
    """The map as plain text."""
    lines = []
    width = max((len(task.name) for lesson in shown for task in lesson.tasks), default=0)
    for lesson in shown:
        lines.append(lesson.title)
        for task in lesson.tasks:
            mark, word = state(progress.get(task.name, TaskProgress()))
            lines.append(f"  {mark} {task.name:<{width}}  {word:<13}  {task.title}")
    return "\n".join([*lines, "", summary(shown, progress)])


def summary(shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress]) -> str:
    """One sentence: how many tasks are passed, and what is next."""
    tasks = [task for lesson in shown for task in lesson.tasks]
    passed = sum(progress.get(task.name, TaskProgress()).passed for task in tasks)
    following = next_task(shown, progress)
    end = f"Next: {following.name}, in exercises/{following.lesson}." if following else "All done."
    return f"{passed} of {len(tasks)} tasks passed. {end}" if tasks else "There are no tasks here."


def newer_versions(folder: Path) -> list[str]:
    """One line for each file of the learner's copy (the one that `folder` is in) beside which a newer version lies."""
    copy = copy_around(folder)
    found = news(copy) if copy is not None else {}
    return [
        f"You have changed {path}; the course's newer version is {new}."
        for path, new in sorted(found.items())
    ]


def _title(path: Path) -> str:
    """The notebook's first heading; its file name where there is none."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found = re.search(r"^# (.+)$", "".join(cells[0]["source"]), re.MULTILINE)
    except (OSError, ValueError, LookupError, TypeError):
        found = None
    return found[1].strip() if found else _plain(path.stem)


def _plain(stem: str) -> str:
    number, _, name = stem.partition("_")
    return f"{number} · {name.replace('_', ' ').capitalize()}"
