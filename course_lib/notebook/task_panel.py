"""Verdicts, hints, solutions and the course map as HTML; each says what its text form says."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from course_lib.grading.progress import TaskProgress
from course_lib.grading.report import MARKS, checks_title, closing_lines
from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind
from course_lib.notebook.course_map import Lesson, state, summary
from course_lib.notebook.panel import GREEN, VERMILION, box, panel
from course_lib.tasks import Task

_MOODS = {
    VerdictKind.PASS: "good",
    VerdictKind.NOT_ATTEMPTED: "ask",
    VerdictKind.WRONG: "bad",
    VerdictKind.ERROR: "bad",
    VerdictKind.DEADLOCK: "bad",
}
_STYLE = f"""<style>
.ddp-task ul {{list-style: none; margin: 0.4em 0; padding: 0;}}
.ddp-task li {{display: flex; gap: 0.6em; margin: 0.15em 0; align-items: baseline;}}
.ddp-task .ddp-mark {{flex: 0 0 1.1em; text-align: center; font-weight: 700;}}
.ddp-task .ddp-ok {{color: {GREEN};}} .ddp-task .ddp-no {{color: {VERMILION};}}
.ddp-task .ddp-seen {{overflow-wrap: anywhere; color: var(--jp-content-font-color2, #616161);}}
.ddp-task .ddp-idea {{margin: 0.5em 0;}}
.ddp-task code {{background: none; color: inherit; font-size: 0.95em; overflow-wrap: anywhere;}}
.ddp-task table {{border-collapse: collapse; margin: 0.2em 0 0.6em; font-size: inherit;}}
.ddp-task td {{text-align: left; padding: 0.1em 1em 0.1em 0; border: none; background: none;}}
</style>"""


def _task_panel(*parts: str) -> str:
    return panel(_STYLE, f'<div class="ddp-task">{"".join(parts)}</div>')


def html_verdict(verdict: Verdict) -> str:
    """The report of a checked answer."""
    parts = [f"<div>{escape(verdict.headline)}</div>"]
    if verdict.details:
        parts.append(_pre("\n".join(verdict.details)))
    parts += [
        f'<div class="ddp-idea"><b>What this looks like:</b> {escape(item.sentence)}<br>'
        f"<b>Read again:</b> {escape(item.taught)}</div>"
        for item in verdict.misconceptions
    ]
    if title := checks_title(verdict):
        parts.append(f'<div class="ddp-note">{escape(title)}</div>')
    parts.append(f"<ul>{''.join(_check(check) for check in verdict.checks)}</ul>")
    if verdict.printed:
        parts.append(f'<div class="ddp-label">It printed:</div>{_pre(verdict.printed)}')
    parts += [f'<div class="ddp-note">{_with_code(line)}</div>' for line in closing_lines(verdict)]
    return _task_panel(box(_MOODS[verdict.kind], f"{verdict.task}: {verdict.kind}", "".join(parts)))


def _check(check: CheckResult) -> str:
    css = {CheckState.PASSED: "ddp-ok", CheckState.FAILED: "ddp-no", CheckState.OPEN: ""}[check.state]
    seen = f'<div class="ddp-seen">Observed: {escape(check.observed)}.</div>' if check.observed else ""
    return (
        f'<li><span class="ddp-mark {css}" role="img" aria-label="{check.state}">{MARKS[check.state]}</span>'
        f"<div>{escape(check.sentence)}{seen}</div></li>"
    )


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _with_code(line: str) -> str:
    """A line whose end is something to type."""
    head, found, command = line.partition(": %")
    return f"{escape(head)}: <code>%{escape(command)}</code>" if found else escape(line)


def html_hint(title: str, hints: list[str], rest: str) -> str:
    """One hint, or all of them again."""
    items = "".join(f"<div>{escape(hint)}</div>" for hint in hints)
    return _task_panel(box("calm", title, f'{items}<div class="ddp-note">{escape(rest)}</div>'))


def html_solution(task: Task, source: str, note: str) -> str:
    """The course's own answer."""
    below = f'<div class="ddp-note">{escape(note)}</div>'
    return _task_panel(box("calm", f"A solution of {task.name}", _pre(source) + below))


def html_map(shown: tuple[Lesson, ...], progress: Mapping[str, TaskProgress]) -> str:
    """The course map."""
    parts = []
    for lesson in shown:
        rows = "".join(_row(task, progress.get(task.name, TaskProgress())) for task in lesson.tasks)
        parts.append(f"<div><b>{escape(lesson.title)}</b></div>" + (f"<table>{rows}</table>" if rows else ""))
    return _task_panel(*parts, f'<div class="ddp-note">{escape(summary(shown, progress))}</div>')


def _row(task: Task, progress: TaskProgress) -> str:
    mark, word = state(progress)
    cells = (f"{mark} {word}", task.title)
    cell = "".join(f"<td>{escape(text)}</td>" for text in cells)
    return f"<tr><td><code>{escape(task.name)}</code></td>{cell}</tr>"
