"""The display of a cell while it runs, as text and as HTML."""

from __future__ import annotations

from realranks.doctor.diagnose import while_it_runs
from realranks.outcome.fold import fold
from realranks.outcome.html import box, evidence, note, panel, rows
from realranks.outcome.progress import Progress
from realranks.outcome.steady import steady


def live_html(progress: Progress) -> str:
    """Render the progress of a running cell: the last lines of every rank, and which have finished."""
    done = len(progress.done)
    total = done + len(progress.running)
    stderr = rows(fold({rank: _last_lines(text, 3) for rank, text in progress.stderr.items()}))
    head = f"running … {done} of {total} ranks have finished" if total > 1 else "running …"
    still = _standing_still(progress)
    return panel(
        rows(fold({rank: _last_lines(text) for rank, text in progress.stdout.items()})),
        note("stderr") + stderr if stderr else "",
        box("calm", still[0], evidence(still[1:])) if still else "",
        note(f"{head} ({progress.seconds:.0f} s)"),
        note(progress.silence) if progress.silence else "",
    )


def live_text(progress: Progress) -> str:
    """Render the progress of a running cell as text."""
    head = (
        f"running … {len(progress.done)} of {len(progress.done) + len(progress.running)} ranks have finished"
    )
    still = _standing_still(progress)
    silence = [progress.silence] if progress.silence else []
    return "\n".join([head, *silence, *still[:1], *(f"  {line}" for line in still[1:])])


def _standing_still(progress: Progress) -> list[str]:
    """Describe, in a headline and lines, why nothing may have moved for some seconds, or what was seen."""
    if progress.still is None:
        return []
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
