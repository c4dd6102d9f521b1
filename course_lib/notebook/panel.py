"""How outcomes look in a notebook: HTML drawn from the same sections as the text, in the colours of the theme.

Colours come from JupyterLab's CSS variables, so light and dark themes both work; where there are none (a plain browser
page), the fallbacks do. Nothing is said by colour alone: every mark has a word or a sign beside it.
"""

from __future__ import annotations

from html import escape

from course_lib.ranks.drive import Progress
from course_lib.ranks.fold import Folded, fold, rank_label
from course_lib.ranks.outcome import Outcome
from course_lib.ranks.output import steady
from course_lib.ranks.report import Section, sections

# Okabe and Ito's colours, told apart by people with any colour vision.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"

STYLE = f"""<style>
.ddp-panel {{font-size: var(--jp-code-font-size, 13px); line-height: 1.4; max-width: 100%;
  color: var(--jp-content-font-color1, inherit);}}
.ddp-panel .ddp-row {{display: flex; gap: 0.8em; align-items: baseline;}}
.ddp-panel .ddp-who {{flex: 0 0 auto; min-width: 5.5em; text-align: right; font-size: 0.85em;
  color: var(--jp-content-font-color2, #616161); border-right: 2px solid var(--jp-border-color1, #bdbdbd);
  padding-right: 0.6em;}}
.ddp-panel pre {{margin: 0; padding: 0; white-space: pre-wrap; overflow-wrap: anywhere; background: none;
  color: inherit; font-family: var(--jp-code-font-family, monospace); font-size: inherit; line-height: inherit;}}
.ddp-panel .ddp-stderr {{opacity: 0.8; margin-top: 0.4em;}}
.ddp-panel .ddp-label {{font-size: 0.8em; color: var(--jp-content-font-color2, #616161);}}
.ddp-panel .ddp-verdict {{border-left: 4px solid; padding: 0.3em 0.8em; margin: 0.5em 0 0.2em;
  font-family: var(--jp-content-font-family, sans-serif); background: var(--jp-layout-color2, rgba(128,128,128,0.1));}}
.ddp-panel .ddp-headline {{font-weight: 600;}}
.ddp-panel .ddp-note {{font-family: var(--jp-content-font-family, sans-serif); font-size: 0.9em; margin-top: 0.3em;
  color: var(--jp-content-font-color2, #616161);}}
.ddp-panel .ddp-calm {{border-color: {BLUE};}} .ddp-panel .ddp-bad {{border-color: {VERMILION};}}
.ddp-panel .ddp-good {{border-color: {GREEN};}} .ddp-panel .ddp-ask {{border-color: {ORANGE};}}
</style>"""


def panel(*parts: str) -> str:
    """A panel with the course's style around the given HTML."""
    return f'{STYLE}<div class="ddp-panel">{"".join(parts)}</div>'


def box(mood: str, headline: str, body: str = "") -> str:
    """A box with a coloured edge; `mood` is `calm`, `good`, `bad` or `ask`. `body` is HTML."""
    return (
        f'<div class="ddp-verdict ddp-{mood}"><div class="ddp-headline">{escape(headline)}</div>{body}</div>'
    )


def rows(folded: tuple[Folded, ...] | list[Folded]) -> str:
    """Text by ranks, the ranks' names on the left."""
    return "".join(
        f'<div class="ddp-row"><span class="ddp-who">{escape(rank_label(row.ranks))}</span>'
        f"<pre>{escape(row.text)}</pre></div>"
        for row in folded
    )


def html_report(outcome: Outcome) -> str:
    """The whole report; says exactly what the text report says."""
    parts = [_section(section, outcome) for section in sections(outcome)]
    return panel(*parts) if parts else panel('<span class="ddp-label">(no output)</span>')


def _section(section: Section, outcome: Outcome) -> str:
    if section.role == "verdict":
        mood = "bad" if outcome.expected is False else "calm"
        return box(
            mood,
            section.headline,
            f"<pre>{escape(chr(10).join(section.lines))}</pre>" if section.lines else "",
        )
    if section.role == "note":
        return "".join(f'<div class="ddp-note">{escape(line)}</div>' for line in section.lines)
    if section.role == "stderr":
        return f'<div class="ddp-stderr"><span class="ddp-label">stderr</span>{rows(section.rows)}</div>'
    return rows(section.rows)


def live_html(progress: Progress) -> str:
    """What is known while the cell still runs: the last lines of every rank, and who is done."""
    done = len(progress.done)
    total = done + len(progress.running)
    head = f"running … {done} of {total} ranks have finished" if total > 1 else "running …"
    return panel(
        rows(fold({rank: _last_lines(text) for rank, text in progress.stdout.items()})),
        rows(fold({rank: _last_lines(text, 3) for rank, text in progress.stderr.items()})),
        f'<div class="ddp-label">{head} ({progress.seconds:.0f} s)</div>',
    )


def live_text(progress: Progress) -> str:
    """The same as text."""
    return (
        f"running … {len(progress.done)} of {len(progress.done) + len(progress.running)} ranks have finished"
    )


def _last_lines(text: str, count: int = 12) -> str:
    lines = text.rstrip("\n").split("\n")
    return (
        steady("\n".join(lines[-count:]))
        if len(lines) <= count
        else "…\n" + steady("\n".join(lines[-count:]))
    )
