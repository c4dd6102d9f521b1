"""Outcomes as HTML in a notebook, drawn from the same sections as the text, at home in light and dark themes.

All styles stand in `style` attributes, and none uses a variable of JupyterLab's: a notebook that was just cloned is not
trusted, and what Jupyter then leaves of its saved outputs is exactly this - no style sheets, no `var()`. Text keeps the
theme's colour, backgrounds let the theme shine through, and what is left without any styles (GitHub) still reads as
tables and lists. Nothing is said by colour alone: every mark has a word or a sign beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from realranks.outcome.fold import Folded, rank_label
from realranks.outcome.outcome import Outcome
from realranks.outcome.report import Section, sections

# Okabe and Ito's colours, told apart by people with any colour vision.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
_EDGES = {"calm": BLUE, "good": GREEN, "bad": VERMILION, "ask": ORANGE}

_MUTED = "opacity: 0.75"
_PRE = (
    "margin: 0; padding: 0; border: none; background: transparent; "
    "white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; line-height: 1.4; font-size: 13px; "
    # As JupyterLab sets code; said here because a page that nbconvert makes has no rule for it.
    "font-family: Menlo, Consolas, 'DejaVu Sans Mono', monospace"
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

_CODE = "background: transparent; padding: 0; color: inherit; overflow-wrap: anywhere"
_MARK = "white-space: nowrap; font-size: 0.9em"

_BACKTICKS = re.compile(r"`([^`\n]+)`")
#: A line of evidence says who, then what, and marks the odd one out: `rank 1  finished the cell  ◀ odd one out`.
_WHO_WHAT = re.compile(r"(ranks? [\d,-]+) {2,}(.*?)(?:  (◀ .*))?")


def code(text: str) -> str:
    """Format code within a sentence in the theme's font for code."""
    return f'<code style="{_CODE}">{escape(text)}</code>'


def prose(text: str) -> str:
    """Escape a sentence and set what stands between backticks as code."""
    return "".join(code(part) if odd % 2 else escape(part) for odd, part in enumerate(_BACKTICKS.split(text)))


def panel(*parts: str) -> str:
    """Wrap HTML in a panel that a screen reader announces when it appears."""
    return f'<div class="ddp-panel" role="status" style="line-height: 1.45; max-width: 100%">{"".join(parts)}</div>'


def box(mood: str, headline: str, body: str = "") -> str:
    """Build a box with a coloured edge; `mood` is `calm`, `good`, `bad` or `ask`. `body` is HTML."""
    return (
        f'<div class="ddp-box ddp-{mood}" style="border-left: 4px solid {_EDGES[mood]}; padding: 6px 12px; '
        f'margin: 8px 0 4px 0; background-color: rgba(128, 128, 128, 0.1)">'
        f"<div><strong>{prose(headline)}</strong></div>{body}</div>"
    )


def pre(text: str) -> str:
    """Format preformatted text, wrapping long lines."""
    return f'<pre style="{_PRE}">{escape(text)}</pre>'


def note(text: str) -> str:
    """Build a remark, smaller and paler than the text above it."""
    return f'<div style="font-size: 0.9em; margin: 4px 0 0 0; {_MUTED}">{prose(text)}</div>'


def table(entries: Iterable[tuple[str, str]]) -> str:
    """Build a table with names on the left and HTML beside each."""
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
    """Build a line of evidence; a mark is put behind it and makes the ranks' name bold."""
    if not mark:
        return _line(who, pre(what))
    marked = f'{escape(what)}  <strong style="{_MARK}">{escape(mark)}</strong>'
    return _line(who, f'<pre style="{_PRE}">{marked}</pre>', _MARKED)


def rows(folded: Iterable[Folded]) -> str:
    """Build a table of texts by ranks, with the ranks' names on the left."""
    return table((rank_label(row.ranks), pre(row.text)) for row in folded)


def html_report(outcome: Outcome) -> str:
    """Render the whole report as HTML; it says exactly what the text report says."""
    parts = [_section(section, outcome) for section in sections(outcome)]
    return panel(*parts) if parts else panel(note("(no output)"))


def _section(section: Section, outcome: Outcome) -> str:
    if section.role == "verdict":
        mood = "bad" if outcome.expected is False else "calm"
        return box(mood, section.headline, evidence(section.lines))
    if section.role == "note":
        return "".join(note(line) for line in section.lines)
    if section.role == "stderr":
        return note("stderr") + rows(section.rows)
    return rows(section.rows)


def evidence(lines: Iterable[str]) -> str:
    """Render what each rank was doing as a table, and what to do about it as sentences."""
    ranks: list[str] = []
    sentences: list[str] = []
    for line in lines:
        if found := _WHO_WHAT.fullmatch(line):
            ranks.append(_row(found[1], found[2], found[3] or ""))
        else:
            sentences.append(f'<div style="margin: 4px 0 0 0; overflow-wrap: anywhere">{prose(line)}</div>')
    return f'<div style="margin: 4px 0">{_tabled(ranks)}</div>' + "".join(sentences)
