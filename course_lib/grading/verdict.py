"""What the grader says of an answer, and the kinds of verdict: plain data, no times, ports or paths in it."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field

from course_lib.ranks.codec import decode
from course_lib.tasks.task import Misconception


class VerdictKind(enum.StrEnum):
    """The five things an answer can be."""

    NOT_ATTEMPTED = "not attempted"
    WRONG = "wrong"
    ERROR = "error"
    DEADLOCK = "deadlock"
    PASS = "pass"


class CheckState(enum.StrEnum):
    """How a check came out."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "not reached"


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
        from course_lib.grading.verdict_text import text_report

        return text_report(self)


def as_data(verdict: Verdict) -> dict[str, object]:
    """The verdict as plain data, for files; `from_data` makes it one again."""
    return asdict(verdict)


def from_data(data: object) -> Verdict:
    """The verdict that `as_data` gave.

    Raises:
        MalformedError: this is no verdict.
    """
    return decode(Verdict, data)
