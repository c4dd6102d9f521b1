"""The tables of lessons, in the index and the README, from `lesson.toml`; and the minutes that saved lessons take."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path

from course_lib.syllabus import Lesson, all_lessons
from course_lib.tasks import all_tasks
from tools.pages import write_page
from tools.plan import LESSONS
from tools.sections import read_lesson, read_lessons

#: In a lesson's source, where a line may end between the number and the word; in its `lesson.toml`; a table's rows.
_IN_FIRST_CELL = re.compile(r"\d+(?=\s(?:# )?minutes\b)")
_FIRST_CODE = re.compile(r"^# %%(?! \[markdown\])", re.MULTILINE)
_IN_TOML = re.compile(r"(?<=^minutes = )\d+$", re.MULTILINE)
_ROWS = re.compile(r"^(?:# )?\| \d\d \|.*\n(?:(?:# )?\| \d\d \|.*\n)*", re.MULTILINE)


def write_minutes(root: Path, names: Collection[str]) -> list[str]:
    """Write the minutes of these saved lessons where they are promised, and the tables of all lessons.

    Returns:
        The notebooks whose text no longer is that of their source.
    """
    folders = {lesson.name: lesson.folder for lesson in all_lessons(root / LESSONS)}
    changed = []
    for lesson in read_lessons(root):
        if lesson.name in names and lesson.name in folders:
            minutes, folder = str(lesson.core_minutes), folders[lesson.name]
            _rewrite(folder / "lesson.toml", partial(_IN_TOML.sub, minutes))
            if _rewrite(folder / "lesson.py", partial(_in_first_cell, minutes)):
                changed.append(lesson.name)
    if "two_hours" in names:
        taken = str(read_lesson(root / "notebooks/two_hours.ipynb").core_minutes)
        if _rewrite(root / LESSONS / "two_hours.py", partial(_in_first_cell, taken)):
            changed.append("two_hours")
    all_lessons.cache_clear()
    lessons = all_lessons(root / LESSONS)
    _rewrite(root / "README.md", lambda text: _with_rows(text, map(_row_of_readme, lessons)))
    if _rewrite(root / LESSONS / "index.py", lambda text: _with_rows(text, map(_row_of_index, lessons))):
        changed.append("index")
    return changed


def _rewrite(path: Path, change: Callable[[str], str]) -> bool:
    """Rewrite a file; return whether it has changed. One that is not there has not."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    after = change(before)
    if after != before:
        write_page(path, after)
    return after != before


def _in_first_cell(minutes: str, text: str) -> str:
    code = _FIRST_CODE.search(text)
    end = code.start() if code else len(text)
    return _IN_FIRST_CELL.sub(minutes, text[:end], count=1) + text[end:]


def _with_rows(text: str, rows: Iterable[str]) -> str:
    return _ROWS.sub(lambda _: "".join(rows), text, count=1)


def _row_of_readme(lesson: Lesson) -> str:
    tasks = sum(task.lesson == lesson.name for task in all_tasks())
    minutes = f"{lesson.minutes} min" if isinstance(lesson.minutes, int) else lesson.minutes
    there = f", [{tasks} task{'s' * (tasks != 1)}](exercises/{lesson.name}.ipynb)" if tasks else ""
    title = f"[{lesson.title}](notebooks/{lesson.name}.ipynb)"
    return f"| {lesson.number:02} | {title} | {lesson.question} | {minutes}{there} |\n"


def _row_of_index(lesson: Lesson) -> str:
    title, after = f"[{lesson.title}]({lesson.name}.ipynb)", f" {lesson.after}".rstrip()
    tasks = f" [tasks](../exercises/{lesson.name}.ipynb)" * (lesson.folder / "exercises.py").is_file()
    return f"# | {lesson.number:02} | {title} | {lesson.question} |{after} | {lesson.minutes} |{tasks} |\n"
