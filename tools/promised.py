"""Where minutes are promised: a lesson's first cell, the index and the README; written from the saved lessons."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path

from tools.pages import write_page
from tools.sections import Lesson, read_lessons

#: In a lesson's source, where a line may end between the number and the word; and in the rows of the two tables.
_SAID = re.compile(r"\d+(?=\s(?:# )?minutes\b)")
_ROW = re.compile(r"(?<=\| )\d+(?= min,| \| \[tasks\])")
_Change = Callable[[str, list[Lesson]], str]


def write_minutes(root: Path, names: Collection[str]) -> list[str]:
    """Write the minutes of these saved lessons where they are promised.

    Returns:
        The notebooks whose text no longer is that of their source.
    """
    lessons = [each for each in read_lessons(root) if each.name in names]
    sources = root / "notebooks/sources"
    changed = [each.name for each in lessons if _rewrite(sources / f"{each.name}.py", [each], _in_first_cell)]
    _rewrite(root / "README.md", lessons, _in_rows)
    if _rewrite(sources / "index.py", lessons, _in_rows):
        changed.append("index")
    return changed


def _rewrite(path: Path, lessons: list[Lesson], change: _Change) -> bool:
    """Whether the file has changed; one that is not there has not."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    after = change(before, lessons)
    if after != before:
        write_page(path, after)
    return after != before


def _in_first_cell(text: str, lessons: list[Lesson]) -> str:
    end = text.find("\n# %%")
    return _SAID.sub(str(lessons[0].core_minutes), text[:end], count=1) + text[end:]


def _in_rows(text: str, lessons: list[Lesson]) -> str:
    minutes = {each.number: str(each.core_minutes) for each in lessons}
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        row = re.match(r"(?:# )?\| (\d\d) \|", line)
        if row and row[1] in minutes:
            lines[place] = _ROW.sub(minutes[row[1]], line)
    return "".join(lines)
