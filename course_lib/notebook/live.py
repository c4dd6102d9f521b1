"""What is shown of a cell while it runs, as text and as HTML."""

from __future__ import annotations

from course_lib.doctor.diagnose import while_it_runs
from course_lib.outcome.fold import fold
from course_lib.outcome.html import box, evidence, note, panel, rows
from course_lib.outcome.progress import Progress
from course_lib.outcome.steady import steady


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
        box("calm", still[0], evidence(still[1:])) if still else "",
        note(f"{head} ({progress.seconds:.0f} s)"),
        note(progress.silence) if progress.silence else "",
    )


def live_text(progress: Progress) -> str:
    """The same as text."""
    head = (
        f"running … {len(progress.done)} of {len(progress.done) + len(progress.running)} ranks have finished"
    )
    still = _standing_still(progress)
    silence = [progress.silence] if progress.silence else []
    return "\n".join([head, *silence, *still[:1], *(f"  {line}" for line in still[1:])])


def _standing_still(progress: Progress) -> list[str]:
    """When nothing has moved for some seconds: what that probably is, or what was seen; a headline and lines."""
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
