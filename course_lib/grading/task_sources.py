"""A task's cell, solved or as a stub: read from its lesson's `exercises.py`, the source of exercises and solutions.

In a code cell there, a hole is marked so:

    def mine(n, rank, world_size):
        ### BEGIN SOLUTION
        ### STUB: indices = ...  # which samples are this rank's?
        ### STUB: return indices
        return list(range(rank, n, world_size))
        ### END SOLUTION

The solution loses the markers and stub lines. The exercise gets `# YOUR CODE HERE` and then the stub lines, or `raise
NotImplementedError` where there are none, indented like the BEGIN line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from course_lib.grading.cells import answer_in_file
from course_lib.learner.course import course_folder
from course_lib.syllabus import LESSONS
from course_lib.tasks import Task

PLACEHOLDER = "# YOUR CODE HERE"
BEGIN, _END = "### BEGIN SOLUTION", "### END SOLUTION"
_STUB = re.compile(r"\s*### STUB: ?(.*)")
#: The line above each cell of a percent script; a magic is a comment, too, but without the blank: `# %%task`.
_CELL = re.compile(r"^# %%(?: .*)?\n", re.MULTILINE)


def task_cell(task: Task, *, solved: bool, root: Path | None = None) -> str | None:
    """Return the source of the task's cell without its magic line, solved or as a stub; None without one.

    Args:
        root: the course's folder; the one that came with this code, if left out.

    Raises:
        ValueError: the cell's markers do not pair.
    """
    lessons = LESSONS if root is None else root / "course_lib" / "lessons"
    root = root or course_folder()
    if task.script:
        if root is None:
            return None
        found = answer_in_file(task, root / ("solutions" if solved else "exercises"))
        return found.source if found is not None else None
    source = lessons / task.topic / "exercises.py"
    for cell in _CELL.split(source.read_text(encoding="utf-8")) if source.exists() else ():
        magic, _, body = cell.partition("\n")
        if magic.split()[:3] == ["#", "%%task", task.name]:
            return open_holes(body.rstrip("\n"), solved=solved)
    return None


def open_holes(source: str, *, solved: bool) -> str:
    """Return a code cell's source with its marked regions solved, or opened as holes.

    Raises:
        ValueError: markers do not pair.
    """
    return "\n".join(_edited(source.splitlines(), solved))


def _edited(lines: list[str], solved: bool) -> Iterator[str]:
    indent: str | None = None  # of the region we are in
    stub: list[str] = []
    for line in lines:
        marker = line.strip()
        if marker == BEGIN:
            if indent is not None:
                raise ValueError(f"{BEGIN} inside a solution")
            indent, stub = line[: line.index("#")], []
        elif marker == _END:
            if indent is None:
                raise ValueError(f"{_END} without {BEGIN}")
            if not solved:
                yield from (
                    f"{indent}{text}".rstrip()
                    for text in [PLACEHOLDER, *(stub or ["raise NotImplementedError"])]
                )
            indent = None
        elif match := _STUB.fullmatch(line):
            if indent is None:
                raise ValueError("### STUB outside a solution")
            stub.append(match[1])
        elif indent is None or solved:
            yield line
    if indent is not None:
        raise ValueError(f"{BEGIN} without {_END}")
