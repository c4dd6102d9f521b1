"""Verdicts of the grader: plain data without times, ports or paths; and the same as text, for people.

The text is the same on every run of the same answer, and complete, but for scripts: they are handed out with faults
to be found, so a learner is shown one of them at a time (`to_show`). The verdict itself, and its `repr`, has all.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field, replace

from course_lib.tasks.catalogue import all_tasks, find_task
from course_lib.tasks.task import Task
from course_lib.tasks.words import Misconception
from realranks.ranks.codec import decode


class VerdictKind(enum.StrEnum):
    """The five things an answer can be."""

    NOT_ATTEMPTED = "not attempted"
    WRONG = "wrong"
    ERROR = "error"
    DEADLOCK = "deadlock"
    PASS = "pass"


class CheckState(enum.StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "not reached"


MARKS = {CheckState.PASSED: "✓", CheckState.FAILED: "✗", CheckState.OPEN: "·"}


@dataclass(frozen=True)
class CheckResult:
    """One check: its sentence, how it came out and, where it failed, what was observed on which rank."""

    sentence: str
    state: CheckState
    observed: str = ""
    misconception: Misconception | None = None


@dataclass(frozen=True)
class Verdict:
    """The result of grading one answer.

    Attributes:
        task: the task's name. headline: one sentence on top of everything.
        checks: in the task's order. details: what went wrong, line by line: a traceback, or who waits where.
        misconceptions: those recognised, each once, in the order of the checks.
        printed: what the answer printed in the run that decided (ranks folded), empty for most.
        ran_on: the gang sizes it ran on to the end. seed: what the cases were drawn from.
        seconds: how long it took; never shown, because it differs from run to run.
    """

    task: str
    kind: VerdictKind
    headline: str
    checks: tuple[CheckResult, ...] = ()
    details: tuple[str, ...] = ()
    misconceptions: tuple[Misconception, ...] = ()
    printed: str = ""
    ran_on: tuple[int, ...] = ()
    seed: int = 0
    seconds: float = field(default=0.0, compare=False)

    @property
    def passed(self) -> bool:
        """True for a pass."""
        return self.kind is VerdictKind.PASS

    def __repr__(self) -> str:
        return _report(self)


def as_data(verdict: Verdict) -> dict[str, object]:
    """Return the verdict as plain data, for files; `from_data` reads it."""
    return asdict(verdict)


def from_data(data: object) -> Verdict:
    """Return the verdict that `as_data` gave.

    Raises:
        MalformedError: this is no verdict.
    """
    return decode(Verdict, data)


# -- as text ----------------------------------------------------------------------------------------------------------


def sizes(numbers: tuple[int, ...]) -> str:
    """Return `1, 2, 3 and 4 ranks`."""
    texts = list(map(str, numbers))
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"{listed} rank{'s' if numbers != (1,) else ''}"


def closing_lines(verdict: Verdict) -> list[str]:
    """Return the lines below a report: where it ran, or what to do next."""
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
    if asks_for_suspects(task):
        lines.append(
            f"To ask about a word of the script, or a lesson's number: %%task {task.name} --suspect WORD"
        )
    if verdict.ran_on or verdict.details:
        lines.append(f"The same cases again after a change: %%task {task.name} --seed {verdict.seed}")
    return lines


def checks_title(verdict: Verdict) -> str:
    """Return the title above the checks, where they do not explain themselves."""
    if not all(check.state is CheckState.OPEN for check in verdict.checks):
        return ""
    task = find_task(verdict.task)
    if task.script:
        count = f"{len(task.checks)} checks, on {sizes(task.world_sizes)}."
        if asks_for_suspects(task):
            return f"{count} Of those that do not hold, you are told when you name a suspect."
        return f"{count} Of those that do not hold, one is shown at a time."
    return f"What is checked, on {sizes(task.world_sizes)}:"


def asks_for_suspects(task: Task) -> bool:
    """Return whether a learner sees a miss only after naming a suspect."""
    return any(check.suspects for check in task.checks)


def _about(verdict: Verdict, suspect: str) -> Verdict:
    """Keep the checks that hold, and of the others those that this suspect explains; without one, symptoms only."""
    holding = tuple(check for check in verdict.checks if check.state is CheckState.PASSED)
    pairs = zip(find_task(verdict.task).checks, verdict.checks, strict=True)
    about = [result for check, result in pairs if suspect.lower() in check.suspects.split()]
    missed = tuple(check for check in about if check.state is CheckState.FAILED)
    hold = "holds" if len(holding) == 1 else "hold"
    headline = verdict.headline
    if verdict.kind is VerdictKind.WRONG:
        headline = f"{len(holding)} of {len(verdict.checks)} checks {hold}. What was seen:"
    if verdict.kind is VerdictKind.WRONG and suspect and not missed:
        said = f"lesson {suspect}" if suspect.isdigit() else suspect
        headline = (
            f"{f'What is checked of {said} holds' if about else f'No check is about {said}'}. {headline}"
        )
    named = {check.misconception for check in missed}
    return replace(
        verdict,
        headline=headline,
        checks=holding + missed,
        misconceptions=tuple(item for item in verdict.misconceptions if item in named),
    )


def to_show(verdict: Verdict, suspect: str = "") -> Verdict:
    """Select what a learner sees: of a script, the checks that hold, and one that does not with its cause.

    That is the first one that names a misconception; where none does, the first one. Where checks have suspects, none
    is shown that does not hold, but those that are about the one that the learner has named.
    """
    task = find_task(verdict.task)
    if not task.script:
        return verdict
    if asks_for_suspects(task):
        return _about(verdict, suspect)
    failed = [check for check in verdict.checks if check.state is CheckState.FAILED]
    first = next((check for check in failed if check.misconception), failed[0] if failed else None)
    checks = tuple(check for check in verdict.checks if check.state is CheckState.PASSED or check is first)
    named = first.misconception if first is not None else None
    headline = verdict.headline
    if verdict.kind is VerdictKind.WRONG:
        holding = sum(check.state is CheckState.PASSED for check in checks)
        which = "one" if len(failed) > 1 else "the one"
        hold = "holds" if holding == 1 else "hold"
        headline = f"{holding} of {len(verdict.checks)} checks {hold}. Below is {which} that does not."
    return replace(
        verdict,
        headline=headline,
        checks=checks,
        misconceptions=(named,) if named is not None else verdict.misconceptions[:1],
    )


def text_report(verdict: Verdict, suspect: str = "") -> str:
    """Return what a learner is shown, as plain text."""
    return _report(to_show(verdict, suspect))


def _report(verdict: Verdict) -> str:
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
