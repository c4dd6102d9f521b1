"""Every line that a page or a lesson tells its reader to type in a shell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from course_lib.syllabus import all_lessons

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_FENCE = re.compile(r"^( *)```+(\w*)\n(.*?)^\1```+$", re.MULTILINE | re.DOTALL)
_SHELLS = {"bash", "console", "sh", "shell"}
_INDENTED = re.compile(r"(?:^|\n\n)((?: {4,}\S.*\n?)+)")
_INLINE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


def pages(root: Path) -> list[Path]:
    """Return what readers read: pages and the sources of notebooks, of which the cheat sheet is made."""
    return [
        *(path for path in sorted(root.glob("*.md")) if path.name != "CHANGELOG.md"),
        *(path for path in sorted(root.glob("docs/*.md")) if path.name != "instructor-lessons.md"),
        root / "tools/site/index.md",
        *(root / "course_lib/lessons" / name for name in ("glossary.py", "index.py", "two_hours.py")),
        *(
            lesson.folder / name
            for name in ("lesson.py", "exercises.py")
            for lesson in all_lessons(root / "course_lib/lessons")
        ),
    ]


def prose(path: Path) -> str:
    """Return a page's Markdown; of a notebook's source, that of its text cells: code cells are run with it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    cells = re.split(r"^# %%", text, flags=re.MULTILINE)
    told = [cell.partition("\n")[2] for cell in cells if cell.startswith(" [markdown]")]
    return "\n\n".join(re.sub(r"^# ?", "", cell, flags=re.MULTILINE) for cell in told)


def shell_lines(text: str) -> Iterator[str]:
    """Yield the lines of a page without their comments; one that goes on behind a backslash is one."""
    for fence in _FENCE.finditer(text):
        if fence[2] in _SHELLS:
            yield from _lines(fence[3])
    text = _FENCE.sub("\n", text)
    for block in _INDENTED.finditer(text):
        lines = [*_lines(block[1])]
        if any(_is_shell(line) for line in lines):
            yield from lines
        else:
            yield from (line[1:] for line in lines if re.match("!|%pip", line))
    for span in _INLINE.finditer(_INDENTED.sub("\n\n", text)):
        line = " ".join(span[2].split()).removeprefix("!")
        if " " in line and _is_shell(line):
            yield line


def _is_shell(line: str) -> bool:
    words = line.split()
    while words and re.match(r"[A-Z_]+=", words[0]):
        del words[0]
    if not words or (words[0] == "for" and "; do " not in line):
        return False
    return words[0] == "." or PurePosixPath(words[0]).name in TABLE["programs"]


def _lines(block: str) -> Iterator[str]:
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        if without := re.sub(r"(^|\s{2,})#.*$", "", line.strip()):
            yield without
