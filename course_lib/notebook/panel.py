"""How outcomes look in a notebook: HTML drawn from the same sections as the text, at home in light and dark themes.

All styles stand in `style` attributes, and none uses a variable of JupyterLab's: a notebook that was just cloned is not
trusted, and what Jupyter then leaves of its saved outputs is exactly this - no style sheets, no `var()`. Text keeps the
theme's colour, backgrounds let the theme shine through, and what is left without any styles (GitHub) still reads as
tables and lists. Nothing is said by colour alone: every mark has a word or a sign beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from course_lib.outcome.fold import Folded, fold, rank_label
from course_lib.outcome.outcome import Outcome
from course_lib.outcome.report import Section, sections
from course_lib.outcome.steady import steady
from course_lib.ranks.kernel.job import Progress

# Okabe and Ito's colours, told apart by people with any colour vision.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
_EDGES = {"calm": BLUE, "good": GREEN, "bad": VERMILION, "ask": ORANGE}

_MUTED = "opacity: 0.75"
_PRE = (
    "margin: 0; padding: 0; border: none; background: transparent; "
    "white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; line-height: 1.4; font-size: 13px"
)
_TABLE = "margin: 0; border: none; border-collapse: collapse; table-layout: auto; font-size: 1em"
_SIDE = (
    "min-width: 5.2em; padding: 0 0.7em 0 0; text-align: right; vertical-align: top; white-space: nowrap; "
    "font-size: 0.9em; line-height: 1.55; border: none; border-right: 2px solid rgba(128, 128, 128, 0.4); "
)
_NAME = f"{_SIDE}font-weight: normal; {_MUTED}"
_MARKED = f"{_SIDE}font-weight: bold"
_CELL = (
    "padding: 0 0 0 0.7em; text-align: left; vertical-align: top; white-space: normal; "
    "border: none; line-height: 1.4"
)

_MARK = "white-space: nowrap; font-size: 0.9em"

#: A line of evidence says who, then what, and marks the odd one out: `rank 1  finished the cell  ◀ odd one out`.
_WHO_WHAT = re.compile(r"(ranks? [\d,-]+) {2,}(.*?)(?:  (◀ .*))?")


def panel(*parts: str) -> str:
    """A panel around the given HTML."""
    return f'<div class="ddp-panel" style="line-height: 1.45; max-width: 100%">{"".join(parts)}</div>'


def box(mood: str, headline: str, body: str = "") -> str:
    """A box with a coloured edge; `mood` is `calm`, `good`, `bad` or `ask`. `body` is HTML."""
    return (
        f'<div class="ddp-box ddp-{mood}" style="border-left: 4px solid {_EDGES[mood]}; padding: 6px 12px; '
        f'margin: 8px 0 4px 0; background-color: rgba(128, 128, 128, 0.1)">'
        f"<div><strong>{escape(headline)}</strong></div>{body}</div>"
    )


def pre(text: str) -> str:
    """Text as it is, wrapped where it is too long."""
    return f'<pre style="{_PRE}">{escape(text)}</pre>'


def note(text: str) -> str:
    """A remark: smaller and paler than what it stands below."""
    return f'<div style="font-size: 0.9em; margin: 4px 0 0 0; {_MUTED}">{escape(text)}</div>'


def table(entries: Iterable[tuple[str, str]]) -> str:
    """Names on the left, HTML beside each."""
    return _tabled(_line(name, content) for name, content in entries)


def _tabled(lines: Iterable[str]) -> str:
    body = "".join(lines)
    return f'<table style="{_TABLE}"><tbody>{body}</tbody></table>' if body else ""


def _line(name: str, content: str, side: str = _NAME) -> str:
    return (
        f'<tr style="background: transparent"><th scope="row" style="{side}">{escape(name)}</th>'
        f'<td style="{_CELL}">{content}</td></tr>'
    )


def _row(who: str, what: str, mark: str) -> str:
    """A line of evidence; a mark stands behind it and makes the ranks' name bold."""
    if not mark:
        return _line(who, pre(what))
    marked = f'{escape(what)}  <strong style="{_MARK}">{escape(mark)}</strong>'
    return _line(who, f'<pre style="{_PRE}">{marked}</pre>', _MARKED)


def rows(folded: Iterable[Folded]) -> str:
    """Text by ranks, the ranks' names on the left."""
    return table((rank_label(row.ranks), pre(row.text)) for row in folded)


def html_report(outcome: Outcome) -> str:
    """The whole report; says exactly what the text report says."""
    parts = [_section(section, outcome) for section in sections(outcome)]
    return panel(*parts) if parts else panel(note("(no output)"))


def _section(section: Section, outcome: Outcome) -> str:
    if section.role == "verdict":
        mood = "bad" if outcome.expected is False else "calm"
        return box(mood, section.headline, _evidence(section.lines))
    if section.role == "note":
        return "".join(note(line) for line in section.lines)
    if section.role == "stderr":
        return note("stderr") + rows(section.rows)
    return rows(section.rows)


def _evidence(lines: Iterable[str]) -> str:
    """What each rank was doing as a table, what to do about it as sentences."""
    ranks: list[str] = []
    sentences: list[str] = []
    for line in lines:
        if found := _WHO_WHAT.fullmatch(line):
            ranks.append(_row(found[1], found[2], found[3] or ""))
        else:
            sentences.append(f'<div style="margin: 4px 0 0 0; overflow-wrap: anywhere">{escape(line)}</div>')
    return f'<div style="margin: 4px 0">{_tabled(ranks)}</div>' + "".join(sentences)


def live_html(progress: Progress) -> str:
    """What is known while the cell still runs: the last lines of every rank, and who is done."""
    done = len(progress.done)
    total = done + len(progress.running)
    stderr = rows(fold({rank: _last_lines(text, 3) for rank, text in progress.stderr.items()}))
    head = f"running … {done} of {total} ranks have finished" if total > 1 else "running …"
    still = _standing_still(progress)
    return panel(
        rows(fold({rank: _last_lines(text) for rank, text in progress.stdout.items()})),
        note("stderr") + stderr if stderr else "",
        box("calm", still[0], _evidence(still[1:])) if still else "",
        note(f"{head} ({progress.seconds:.0f} s)"),
    )


def live_text(progress: Progress) -> str:
    """The same as text."""
    head = (
        f"running … {len(progress.done)} of {len(progress.done) + len(progress.running)} ranks have finished"
    )
    still = _standing_still(progress)
    return "\n".join([head, *still[:1], *(f"  {line}" for line in still[1:])])


def _standing_still(progress: Progress) -> list[str]:
    """When nothing has moved for some seconds: what that probably is, or what was seen; a headline and lines."""
    if progress.still is None:
        return []
    from course_lib.doctor.diagnose import while_it_runs

    found = while_it_runs(progress.still)
    ways = "Nothing is ended for it: press stop to free the ranks, or wait."
    return [f"Nothing has moved for {progress.still_seconds:.0f} s. {found.summary}", *found.evidence, ways]


def _last_lines(text: str, count: int = 12) -> str:
    lines = text.rstrip("\n").split("\n")
    return (
        steady("\n".join(lines[-count:]))
        if len(lines) <= count
        else "…\n" + steady("\n".join(lines[-count:]))
    )
