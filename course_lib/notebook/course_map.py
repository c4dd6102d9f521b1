"""The course as a learner walks through it: lessons, their tasks, how far one has come, what is next."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from course_lib.grading.progress import TaskProgress
from course_lib.grading.verdict import asks_for_suspects
from course_lib.learner.course import course_folder
from course_lib.learner.ledger import copy_around
from course_lib.learner.news import news
from course_lib.syllabus import all_lessons
from course_lib.tasks import Task, all_tasks


@dataclass(frozen=True)
class Lesson:
    """One lesson: the stem of its notebook, its title, its tasks; of the predictions made, which were right."""

    stem: str
    title: str
    tasks: tuple[Task, ...]
    predicted: tuple[bool, ...] = ()


def lessons(folder: Path | None = None, predicted: Mapping[str, bool] | None = None) -> tuple[Lesson, ...]:
    """List all lessons in order, with or without a notebook.

    Args:
        folder: by default, the course's own. predicted: see `Progress.predictions`.
    """
    if folder is None and (course := course_folder()) is not None:
        folder = course / "notebooks"
    paths = folder.glob("[0-9][0-9]_*.ipynb") if folder is not None else ()
    titles = {path.stem: _title(path) for path in paths}
    for task in all_tasks():
        titles.setdefault(task.lesson, _plain(task.lesson))
    return tuple(
        Lesson(
            stem,
            title,
            tuple(task for task in all_tasks() if task.lesson == stem),
            tuple(right for name, right in (predicted or {}).items() if name.startswith(f"{stem[:2]}.")),
        )
        for stem, title in sorted(titles.items())
    )


def state(task: Task, progress: TaskProgress) -> tuple[str, str]:
    """Return a mark and a word for how far the learner is with a task."""
    if progress.passed:
        return "✓", "passed"
    if progress.gave_up:
        return "○", "solution seen"
    if progress.attempts and asks_for_suspects(task):
        return "○", f"{progress.named} faults seen"
    if progress.attempts or progress.hints:
        return "○", "begun"
    return "·", "open"


def next_task(shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress]) -> Task | None:
    """Return the first task that has not been passed."""
    for lesson in shown:
        for task in lesson.tasks:
            if not progress.get(task.name, TaskProgress()).passed:
                return task
    return None


def text_map(shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress]) -> str:
    """Render the map as plain text."""
    lines = [where_to_go_on(shown, progress), ""] if len(shown) > 1 else []
    width = max((len(task.name) for lesson in shown for task in lesson.tasks), default=0)
    for lesson in shown:
        lines.append(lesson.title + (f"  ({passed_of(lesson, progress)})" if len(shown) > 1 else ""))
        for task in lesson.tasks:
            mark, word = state(task, progress.get(task.name, TaskProgress()))
            lines.append(f"  {mark} {task.name:<{width}}  {word:<13}  {task.title}")
    return "\n".join([*lines, "", summary(shown, progress)])


def where_to_go_on(shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress]) -> str:
    """Name the lesson to start or to go on with: that of the first task that has not been passed."""
    following = next_task(shown, progress)
    if following is None:
        return "You have passed every task."
    lesson = next(lesson for lesson in shown if following in lesson.tasks)
    begun = any(
        state(task, progress[task.name])[1] != "open" for task in all_tasks() if task.name in progress
    )
    return f"{'Go on' if begun else 'Start'}: {pointer_to(lesson)}"


def pointer_to(lesson: Lesson) -> str:
    """Name a lesson so that a notebook makes a link of it (`links`): `lesson 03, Samplers`."""
    return f"lesson {lesson.title.replace(' · ', ', ', 1)}"


def passed_of(lesson: Lesson, progress: Mapping[str, TaskProgress]) -> str:
    """Say how many minutes a lesson's reading takes, how many tasks are passed, how many predictions were right."""
    minutes = next((each.minutes for each in all_lessons() if each.name == lesson.stem), "?")
    passed = _count_passed(lesson.tasks, progress)
    time = f"{minutes} minutes" if isinstance(minutes, int) else minutes
    tasks = f"{time}, {passed} of {len(lesson.tasks)} tasks"
    made = lesson.predicted
    return f"{tasks}, {sum(made)} of {len(made)} predictions right" if made else tasks


def _count_passed(tasks: Iterable[Task], progress: Mapping[str, TaskProgress]) -> int:
    return sum(progress.get(task.name, TaskProgress()).passed for task in tasks)


def summary(shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress]) -> str:
    """State in a sentence how many tasks are passed, and what is next."""
    tasks = [task for lesson in shown for task in lesson.tasks]
    passed = _count_passed(tasks, progress)
    following = next_task(shown, progress)
    end = f"Next: {following.name}, in exercises/{following.lesson}." if following else "All done."
    return f"{passed} of {len(tasks)} tasks passed. {end}" if tasks else "There are no tasks here."


def newer_versions(folder: Path) -> list[str]:
    """List, a line each, the files of the learner's copy around `folder` for which a newer version is there."""
    copy = copy_around(folder)
    found = news(copy) if copy is not None else {}
    return [
        f"You have changed {path}; the course's newer version is {new}."
        for path, new in sorted(found.items())
    ]


def _title(path: Path) -> str:
    """Read the notebook's first heading; its file name if there is none."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found = re.search(r"^# (.+)$", "".join(cells[0]["source"]), re.MULTILINE)
    except (OSError, ValueError, LookupError, TypeError):
        found = None
    return found[1].strip() if found else _plain(path.stem)


def _plain(stem: str) -> str:
    number, _, name = stem.partition("_")
    return f"{number} · {name.replace('_', ' ').capitalize()}"
