"""A verdict in a terminal, drawn with rich: the same words as in the notebook, and never by colour alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from course_lib.grading.hints import HintGiven
from course_lib.grading.plain_text import plain
from course_lib.grading.verdict import (
    MARKS,
    CheckResult,
    CheckState,
    Verdict,
    VerdictKind,
    checks_title,
    closing_lines,
    to_show,
)

_STYLES = {
    VerdictKind.PASS: "bold green",
    VerdictKind.NOT_ATTEMPTED: "bold yellow",
    VerdictKind.WRONG: "bold red",
    VerdictKind.ERROR: "bold red",
    VerdictKind.DEADLOCK: "bold red",
}
_CHECK_STYLES = {CheckState.PASSED: "green", CheckState.FAILED: "red", CheckState.OPEN: "dim"}
_UNBROKEN = 10_000
#: What to type where there is no `%hint`.
HINT = "ddp-course check --hint"


def console() -> Console:
    """Make a console with the terminal's width and colours; in a pipe, lines are not broken."""
    made = Console(highlight=False, markup=False, emoji=False)
    return made if made.is_terminal else Console(highlight=False, markup=False, emoji=False, width=_UNBROKEN)


def shown(verdict: Verdict, place: str, suspect: str = "") -> RenderableType:
    """Render the whole report; `place` is where the answer is, `suspect` what the learner suspects (`to_show`)."""
    return Group(*_lines(verdict, place, suspect))


def shown_hint(given: HintGiven) -> RenderableType:
    """Render a hint, with its title and how many are left."""
    title = Text(given.title, "bold")
    return Group(
        title, *(_padded(Text(line), 2) for line in given.hints), _padded(Text(given.rest, "dim"), 2)
    )


def _lines(verdict: Verdict, place: str, suspect: str) -> Iterator[RenderableType]:
    verdict = to_show(verdict, suspect)
    title = (f"{verdict.task}: {verdict.kind}", _STYLES[verdict.kind])
    yield Text.assemble(title, (f"  ({plain(place)})", "dim"))
    yield from _indented(verdict.headline)
    for line in verdict.details:
        yield from _indented(line, 4)
    for item in verdict.misconceptions:
        yield _named("What this looks like: ", item.sentence)
        yield _named("Read again: ", item.taught)
    yield from _indented(checks_title(verdict), style="dim")
    for check in verdict.checks:
        yield from _check(check)
    if verdict.printed:
        yield from _indented("It printed:", style="dim")
        yield from _indented(verdict.printed, 4)
    for line in closing_lines(verdict):
        line = line.replace(": %hint ", f": {HINT} ")
        line = re.sub(r"%%task \S+ --suspect", "ddp-course check --suspect", line)
        # The magic is a comment in a script.
        yield from _indented(re.sub(r": (%%task .+)", r": \1 (in a script: # \1)", line), style="dim")


def _check(check: CheckResult) -> Iterator[RenderableType]:
    mark = (MARKS[check.state], _CHECK_STYLES[check.state])
    yield _padded(Text.assemble(mark, " ", plain(check.sentence)), 2)
    if check.observed:
        yield from _indented(f"Observed: {check.observed}.", 6)


def _named(name: str, text: str) -> RenderableType:
    return _padded(Text.assemble((name, "bold"), plain(text)), 2)


def _indented(text: str, by: int = 2, style: str = "") -> Iterator[RenderableType]:
    for line in plain(text).splitlines():
        yield _padded(Text(line.rstrip(), style), by)


def _padded(text: Text, by: int) -> RenderableType:
    return Padding(text, (0, 0, 0, by), expand=False)
