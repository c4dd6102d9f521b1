"""Find tasks by name: every `Task` class in a module below this package is one."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil

from course_lib.tasks.task import Task

#: Names that tasks had before they moved to another lesson: learners' own copies and their progress still have them.
MOVED = {"scale.bytes_held": "sharding.bytes_held"}


class UnknownTaskError(LookupError):
    """There is no task of that name; the message is one line with the nearest names."""


@functools.cache
def all_tasks() -> tuple[Task, ...]:
    """One instance of every task, by lesson and place."""
    package = importlib.import_module("course_lib.tasks")
    found: list[Task] = []
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        content = importlib.import_module(module.name)
        classes = (
            item for item in vars(content).values() if isinstance(item, type) and issubclass(item, Task)
        )
        found += [item() for item in classes if item.__module__ == content.__name__ and hasattr(item, "name")]
    return tuple(sorted(found, key=lambda task: (task.lesson, task.place)))


def find_task(name: str) -> Task:
    """The task of this name, or that had it once.

    Raises:
        UnknownTaskError: with the names that come nearest.
    """
    tasks = {task.name: task for task in all_tasks()}
    name = MOVED.get(name, name)
    if name in tasks:
        return tasks[name]
    lesson, _, function = name.rpartition(".")
    there = {full.rpartition(".")[2]: full for full in tasks if full.startswith(f"{lesson}.")}
    if there:
        near = [there[one] for one in difflib.get_close_matches(function, there, n=3, cutoff=0.6)]
    else:
        ends = [full for full in tasks if full.rpartition(".")[2] == function]
        near = ends or difflib.get_close_matches(name, tasks, n=3, cutoff=0.6)
    if near:
        raise UnknownTaskError(f"There is no task {name!r}. Did you mean {' or '.join(near)}?")
    if there:
        raise UnknownTaskError(
            f"There is no task {name!r}. Tasks of that lesson: {', '.join(there.values())}."
        )
    raise UnknownTaskError(
        f"There is no task {name!r}. A task is lesson.name, such as {next(iter(tasks))}; "
        "%progress, or `ddp-course progress` in a terminal, shows all of them."
    )
