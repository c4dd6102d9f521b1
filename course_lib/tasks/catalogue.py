"""Find tasks by name: every `Task` class in a module of a lesson's `tasks/` is one."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil

from course_lib.syllabus import all_lessons
from course_lib.tasks.task import Task

#: Names that tasks had before they moved to another lesson: learners' own copies and their progress still have them.
MOVED = {"scale.bytes_held": "sharding.bytes_held"}


class UnknownTaskError(LookupError):
    """There is no task of that name; the message is one line with the nearest names."""


@functools.cache
def all_tasks() -> tuple[Task, ...]:
    """Return one instance of every task, by lesson and place."""
    found: list[Task] = []
    packages = ((f"course_lib.lessons.{each.topic}.tasks", each.folder / "tasks") for each in all_lessons())
    modules = (
        f"{name}.{each.name}" for name, folder in packages for each in pkgutil.iter_modules([str(folder)])
    )
    for name in modules:
        content = importlib.import_module(name)
        classes = (
            item for item in vars(content).values() if isinstance(item, type) and issubclass(item, Task)
        )
        found += [item() for item in classes if item.__module__ == content.__name__ and hasattr(item, "name")]
    return tuple(sorted(found, key=lambda task: (task.lesson, task.place)))


def find_task(name: str) -> Task:
    """Return the task of this name, or of this former name.

    Raises:
        UnknownTaskError: with the names that come nearest.
    """
    tasks = {task.name: task for task in all_tasks()}
    name = MOVED.get(name, name)
    if name in tasks:
        return tasks[name]
    lesson, _, function = name.rpartition(".")
    of_lesson = {full.rpartition(".")[2]: full for full in tasks if full.startswith(f"{lesson}.")}
    if of_lesson:
        near = [of_lesson[one] for one in difflib.get_close_matches(function, of_lesson, n=3, cutoff=0.6)]
    else:
        ends = [full for full in tasks if full.rpartition(".")[2] == function]
        near = ends or difflib.get_close_matches(name, tasks, n=3, cutoff=0.6)
    if near:
        raise UnknownTaskError(f"There is no task {name!r}. Did you mean {' or '.join(near)}?")
    if of_lesson:
        raise UnknownTaskError(
            f"There is no task {name!r}. Tasks of that lesson: {', '.join(of_lesson.values())}."
        )
    raise UnknownTaskError(
        f"There is no task {name!r}. A task is lesson.name, such as {next(iter(tasks))}; "
        "%progress, or `ddp-course progress` in a terminal, shows all of them."
    )
