"""A class report as HTML: an overview, and for each learner the feedback as they saw it in their notebook.

Every page is one file that needs nothing else, reads well without colours, and follows the light or dark theme.
Whatever comes from learners is escaped.
"""

from __future__ import annotations

import hashlib
import re
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import jinja2
from markupsafe import Markup

from course_lib.grading.classroom.batch import ClassReport, Entry, Learner
from course_lib.grading.plain_text import plain
from course_lib.grading.verdict import MARKS, checks_title, closing_lines, to_show
from realranks.versions import versions_line

LEARNERS = "learners"
#: By this the course knows its own pages again.
MARK = '<meta name="generator" content="ddp-course">'
SIGNS = {
    "pass": "✓",
    "wrong": "✗",
    "error": "!",
    "deadlock": "∞",
    "not attempted": "·",
    "not graded": "?",
    "missing": "–",
}


def write_pages(report: ClassReport, folder: Path) -> Path:
    """Write all pages into a folder (made if it is not there); returns the overview's path.

    Raises:
        OSError: the folder cannot be written.
    """
    (folder / LEARNERS).mkdir(parents=True, exist_ok=True)
    pages = {learner.name: f"{LEARNERS}/{page_name(learner.name)}" for learner in report.learners}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("course_lib.grading.classroom"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(
        signs=SIGNS,
        marks=MARKS,
        generator=Markup(MARK),
        versions=versions_line(),
        checks_title=checks_title,
        closing_lines=closing_lines,
        to_show=to_show,
        missing_of=lambda learner: [task for task in report.tasks if task.name not in learner.entries],
        lessons=[(lesson, list(tasks)) for lesson, tasks in groupby(report.tasks, attrgetter("lesson"))],
    )
    environment.filters["plain"] = plain
    known = {"report": report, "pages": pages}
    for learner in report.learners:
        text = environment.get_template("learner.html").render(learner=learner, **known)
        _write(folder / pages[learner.name], text)
    index = folder / "index.html"
    _write(
        index,
        environment.get_template("index.html").render(
            **known, broken=_broken(report), worth_reading=_worth_reading(report)
        ),
    )
    return index


def page_name(learner: str) -> str:
    """Return a file name for any learner, unique and the same each time."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", learner)[:60]
    if safe == learner == learner.lower():
        return f"{safe}.html"
    # Two names may look alike, or differ only in letters that a file system takes for the same.
    return f"{safe}-{hashlib.sha256(learner.encode(errors='surrogatepass')).hexdigest()[:8]}.html"


def _broken(report: ClassReport) -> list[Learner]:
    return [
        learner
        for learner in report.learners
        if learner.problems or any(entry.problem for entry in learner.entries.values())
    ]


def _worth_reading(report: ClassReport) -> list[tuple[Learner, str, Entry]]:
    return [
        (learner, name, entry)
        for learner in report.learners
        for name, entry in learner.entries.items()
        if entry.worth_reading
    ]


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
