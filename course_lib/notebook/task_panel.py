"""Verdicts, hints, solutions and the course map as HTML; each says what its text form says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from course_lib.grading.progress import TaskProgress
from course_lib.grading.verdict import (
    MARKS,
    CheckResult,
    Verdict,
    VerdictKind,
    checks_title,
    closing_lines,
    to_show,
)
from course_lib.notebook.course_map import (
    Lesson,
    next_task,
    passed_of,
    pointer_to,
    state,
    summary,
    where_to_go_on,
)
from course_lib.tasks import Task
from realranks.outcome.html import box, code, note, panel, pre, prose

_MOODS = {
    VerdictKind.PASS: "good",
    VerdictKind.NOT_ATTEMPTED: "ask",
    VerdictKind.WRONG: "bad",
    VerdictKind.ERROR: "bad",
    VerdictKind.DEADLOCK: "bad",
}
# Styles are in attributes, as in `panel`: the saved output of a notebook just cloned keeps nothing else.
_TABLE = "margin: 4px 0 8px 0; border: none; border-collapse: collapse; table-layout: auto; font-size: 1em"
_CELL = "padding: 2px 16px 2px 0; border: none; text-align: left; vertical-align: top; white-space: normal"


def html_verdict(verdict: Verdict, suspect: str = "") -> str:
    """Render the report of a checked answer; `suspect` is what the learner suspects, see `to_show`."""
    verdict = to_show(verdict, suspect)
    parts = [f"<div>{prose(verdict.headline)}</div>"]
    if verdict.details:
        parts.append(pre("\n".join(verdict.details)))
    parts += [
        f'<div style="margin: 8px 0"><b>What this looks like:</b> {prose(item.sentence)}<br>'
        f"<b>Read again:</b> {prose(item.taught)}</div>"
        for item in verdict.misconceptions
    ]
    if title := checks_title(verdict):
        parts.append(note(title))
    parts.append(_table(_check(check) for check in verdict.checks))
    if verdict.printed:
        parts.append(note("It printed:") + pre(verdict.printed))
    parts += [f"<div>{_with_code(line)}</div>" for line in closing_lines(verdict)]
    return panel(box(_MOODS[verdict.kind], f"{verdict.task}: {verdict.kind}", "".join(parts)))


def _table(lines: Iterable[str]) -> str:
    return f'<table style="{_TABLE}"><tbody>{"".join(lines)}</tbody></table>'


def _line(*cells: str) -> str:
    return (
        '<tr style="background: transparent">'
        + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
        + "</tr>"
    )


def _check(check: CheckResult) -> str:
    mark = f'<b title="{check.state}">{MARKS[check.state]}</b>'
    seen = note(f"Observed: {check.observed}.") if check.observed else ""
    return _line(mark, prose(check.sentence) + seen)


def _with_code(line: str) -> str:
    """Render a line; a command at its end, such as `%hint`, is set as code."""
    head, found, command = line.partition(": %")
    return f"{escape(head)}: {code(f'%{command}')}" if found else escape(line)


def html_hint(title: str, hints: list[str], rest: str) -> str:
    """Render one hint, or all of them again."""
    items = "".join(f"<div>{prose(hint)}</div>" for hint in hints)
    return panel(box("calm", title, items + note(rest)))


def html_solution(task: Task, source: str, remark: str) -> str:
    """Render the course's own answer."""
    return panel(box("calm", f"A solution of {task.name}", pre(source) + note(remark)))


def html_map(
    shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress], remarks: Iterable[str] = ()
) -> str:
    """Render the course map, with remarks below it."""
    parts = [box("ask", where_to_go_on(shown, progress))] if len(shown) > 1 else []
    following = next_task(shown, progress)
    for lesson in shown:
        lines = [_row(task, progress.get(task.name, TaskProgress())) for task in lesson.tasks]
        table = _table(lines) if lines else ""
        if len(shown) == 1:
            parts.append(f"<div><b>{escape(lesson.title)}</b></div>{table}")
        else:
            opened = " open" * (following in lesson.tasks)
            title = f"<b>{escape(pointer_to(lesson))}</b> ({escape(passed_of(lesson, progress))})"
            parts.append(f"<details{opened}><summary>{title}</summary>{table}</details>")
    return panel(*parts, f"<div>{escape(summary(shown, progress))}</div>", *map(note, remarks))


def _row(task: Task, progress: TaskProgress) -> str:
    mark, word = state(task, progress)
    return _line(
        code(task.name), f'<span style="white-space: nowrap">{mark} {word}</span>', escape(task.title)
    )
