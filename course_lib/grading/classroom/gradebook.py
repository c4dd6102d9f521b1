"""A class report as CSV, in three layouts, and as JSON. The columns are documented in docs/grading.md."""

from __future__ import annotations

import csv
import io
import json

from course_lib.grading.classroom.batch import ClassReport, Entry
from course_lib.grading.classroom.layout import Layout
from course_lib.grading.verdict import CheckState, as_data
from course_lib.tasks import Task
from realranks.versions import versions_line

LONG_COLUMNS = (
    "learner",
    "lesson",
    "task",
    "verdict",
    "score",
    "max_score",
    "misconceptions",
    "checks_passed",
    "checks",
    "headline",
    "place",
    "problem",
)
#: By this the course knows its own JSON again; its value says what made it.
JSON_MARK = "ddp-course report"
#: What Canvas' gradebook import expects before the assignments.
CANVAS_COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


#: What `nbgrader export` writes; an assignment there is a lesson here.
NBGRADER_COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)


def as_csv(report: ClassReport, layout: Layout) -> str:
    """Return the report as CSV with a line of headings."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = {Layout.LONG: _long, Layout.GRADEBOOK: _gradebook, Layout.NBGRADER: _nbgrader}[layout]
    writer.writerows(rows(report))
    return text.getvalue()


def _long(report: ClassReport) -> list[list[str | int]]:
    rows: list[list[str | int]] = [list(LONG_COLUMNS)]
    for learner in report.learners:
        problems = " ".join(learner.problems)
        for task in report.tasks:
            entry = learner.entry(task)
            verdict = entry.verdict
            held = sum(check.state is CheckState.PASSED for check in verdict.checks) if verdict else 0
            rows.append(
                [
                    _escape(learner.name),
                    task.lesson,
                    task.name,
                    entry.state,
                    _points(entry),
                    1,
                    " ".join(item.id for item in verdict.misconceptions) if verdict else "",
                    held,
                    len(task.checks),
                    _escape(verdict.headline if verdict else ""),
                    _escape(entry.place),
                    _escape(entry.problem),
                ]
            )
        if problems:
            # Once a learner: a row of its own, which no sum over scores sees.
            rows.append(
                [_escape(learner.name), "", "", "files", "", "", "", "", "", "", "", _escape(problems)]
            )
    return rows


def _gradebook(report: ClassReport) -> list[list[str | int]]:
    names = [_column(task) for task in report.tasks]
    rows: list[list[str | int]] = [
        [*CANVAS_COLUMNS, *names],
        ["    Points Possible", "", "", "", "", *(1 for _ in names)],
    ]
    for learner in report.learners:
        name = _escape(learner.name)
        rows.append([name, "", "", name, "", *(_points(learner.entry(task)) for task in report.tasks)])
    return rows


def _nbgrader(report: ClassReport) -> list[list[str | int]]:
    rows: list[list[str | int]] = [list(NBGRADER_COLUMNS)]
    for lesson in dict.fromkeys(task.lesson for task in report.tasks):
        tasks = [task for task in report.tasks if task.lesson == lesson]
        for learner in report.learners:
            entries = [learner.entry(task) for task in tasks]
            points = "" if any(entry.problem for entry in entries) else sum(entry.passed for entry in entries)
            name = _escape(learner.name)
            rows.append([lesson, "", "", name, "", "", "", points, 0, points, len(tasks)])
    return rows


def _points(entry: Entry) -> str | int:
    """Return the points; a blank leaves a mark open, because what could not be graded may be right."""
    return "" if entry.problem else int(entry.passed)


def _column(task: Task) -> str:
    return f"{task.lesson[:2]} {task.name}"


def _escape(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def as_json(report: ClassReport) -> str:
    """Return everything, verdicts included, as JSON."""
    data = {
        JSON_MARK: versions_line(),
        "tasks": [
            {"name": task.name, "title": task.title, "lesson": task.lesson, "max_score": 1}
            for task in report.tasks
        ],
        "learners": [
            {
                "learner": learner.name,
                "score": learner.score,
                "max_score": report.max_score,
                "problems": list(learner.problems),
                "tasks": {
                    task.name: {
                        "verdict": entry.state,
                        "score": None if entry.problem else int(entry.passed),
                        "place": entry.place,
                        "problem": entry.problem,
                        "worth_reading": list(entry.worth_reading),
                        "report": as_data(entry.verdict) if entry.verdict is not None else None,
                    }
                    for task in report.tasks
                    for entry in [learner.entry(task)]
                },
            }
            for learner in report.learners
        ],
        "misconceptions": [
            {"task": c.task, "id": c.misconception.id, "learners": list(c.learners)}
            for c in report.commonest()
        ],
        "notes": list(report.notes),
    }
    return json.dumps(data, indent=2) + "\n"
