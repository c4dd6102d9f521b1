"""Links to lessons and to tasks in what a cell shows, for a learner whose notebooks are beside this one.

Jupyter opens a relative link of an output, in JupyterLab as a tab of its own. Saved outputs are read elsewhere, too,
where such a link leads nowhere: they get none (`show`).
"""

from __future__ import annotations

import contextlib
import os
import re
from html import escape
from pathlib import Path

from course_lib.tasks import UnknownTaskError, all_tasks, find_task

_TAGS = re.compile(r"(<[^>]*>)")
#: `lesson 03`, and a task's name where it is what comes next, or all that stands there (the map).
_NAMES = re.compile(
    r"\blesson (?P<lesson>\d\d)\b|(?:^|(?<=Next: )|(?<=Next task: ))(?P<task>\w+\.\w+)(?=$|,)"
)


def linked(html: str) -> str:
    """Add a link at each lesson and task that the HTML names and that can be opened from here."""
    parts = _TAGS.split(html)
    parts[::2] = [_NAMES.sub(_link, part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str]) -> str:
    target = _notebook(found["lesson"]) if found["lesson"] else _exercises(found["task"])
    return f'<a href="{escape(target)}">{found[0]}</a>' if target else found[0]


def _notebook(number: str) -> str:
    lessons = sorted({task.lesson for task in all_tasks() if task.lesson.startswith(f"{number}_")})
    return _beside("notebooks", lessons[0]) if lessons else ""


def _exercises(name: str) -> str:
    with contextlib.suppress(UnknownTaskError):
        return _beside("exercises", find_task(name).lesson)
    return ""


def _beside(folder: str, stem: str) -> str:
    """Return the path from this notebook's folder (the current one); '' for itself or a missing file."""
    path = Path("..", folder, f"{stem}.ipynb")
    here = Path(os.environ.get("JPY_SESSION_NAME", ""))  # Jupyter's server tells the kernel its notebook
    return path.as_posix() if path.is_file() and path.resolve() != here else ""
