"""A verdict as text: complete, the same on every run of the same answer, and for people."""

from __future__ import annotations

import re

from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind
from course_lib.tasks import find_task
from course_lib.tasks.catalogue import all_tasks

MARKS = {CheckState.PASSED: "✓", CheckState.FAILED: "✗", CheckState.OPEN: "·"}


def sizes(numbers: tuple[int, ...]) -> str:
    """`1, 2, 3 and 4 ranks`."""
    texts = list(map(str, numbers))
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"{listed} rank{'s' if numbers != (1,) else ''}"


def closing_lines(verdict: Verdict) -> list[str]:
    """What stands below a report: where it ran, or what to do next."""
    task = find_task(verdict.task)
    if verdict.passed:
        lines = [f"Ran on {sizes(verdict.ran_on)}."]
        later = [
            other.name for other in all_tasks() if other.lesson == task.lesson and other.place > task.place
        ]
        lines.append(f"Next task: {later[0]}" if later else "That was the last task of this lesson.")
        return lines
    if verdict.kind is VerdictKind.NOT_ATTEMPTED:
        return [f"A hint, when you want one: %hint {task.name}"]
    lines = [f"A hint, when you want one: %hint {task.name}"]
    if verdict.ran_on or verdict.details:
        lines.append(f"The same cases again after a change: %%task {task.name} --seed {verdict.seed}")
    return lines


def checks_title(verdict: Verdict) -> str:
    """What stands above the checks, where they say nothing of themselves."""
    if all(check.state is CheckState.OPEN for check in verdict.checks):
        return f"What is checked, on {sizes(find_task(verdict.task).world_sizes)}:"
    return ""


def text_report(verdict: Verdict) -> str:
    """The whole report as plain text."""
    lines = [f"{verdict.task}: {verdict.kind}", f"  {verdict.headline}"]
    lines += [f"    {line}".rstrip() for line in verdict.details]
    for item in verdict.misconceptions:
        lines += [f"  What this looks like: {item.sentence}", f"  Read again: {item.taught}"]
    if title := checks_title(verdict):
        lines.append(f"  {title}")
    for check in verdict.checks:
        lines += _check(check)
    if verdict.printed:
        lines.append("  It printed:")
        lines += [f"    {line}".rstrip() for line in verdict.printed.splitlines()]
    lines += [f"  {line}" for line in closing_lines(verdict)]
    return "\n".join(lines)


def _check(check: CheckResult) -> list[str]:
    lines = [f"  {MARKS[check.state]} {check.sentence}"]
    if check.observed:
        lines.append(f"      Observed: {check.observed}.")
    return lines


def one_line(text: str) -> str:
    """Text without control characters and line ends, as for names in a table."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def plain(text: str) -> str:
    """Text without control characters, which terminals and browsers may take for commands."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", lambda m: f"\\x{ord(m[0]):02x}", text)
