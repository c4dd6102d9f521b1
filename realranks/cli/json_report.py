"""`--json`: the doctor's verdict for programs, one object on standard output (docs/doctor.md describes its fields)."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import typer

from realranks.outcome.outcome import Ending, Outcome, RankError, Waiting
from realranks.outcome.places import Spot, is_learners
from realranks.versions import versions_line

#: The kind of a run that is not over, and gets on as far as is seen; others are `outcome.Kind`.
RUNNING = "running"
#: Raised when a field changes its meaning or goes; a new one does not count.
FORMAT = 1
_FRAME = re.compile(r'File "(.*?)", line (\d+), in (\S+)')


class Judged(typer.Exit):
    """Ends the command with what a program is to know: the runs that were judged, or why there is none."""

    def __init__(self, code: int, runs: Sequence[dict[str, Any]] = (), problem: str = "") -> None:
        super().__init__(code)
        self.runs, self.problem = list(runs), problem


def refuse(why: str) -> NoReturn:
    """Say why nothing could be run or looked at, and end with exit code 2."""
    typer.echo(why, err=True)
    raise Judged(2, problem=why)


@contextlib.contextmanager
def as_json(wanted: bool) -> Iterator[None]:
    """Write the object when the command ends; what it prints until then goes to standard error."""
    if not wanted:
        yield
        return
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        try:
            yield
        except typer.Exit as ended:
            judged = ended if isinstance(ended, Judged) else Judged(ended.exit_code)
            written = {
                "format": FORMAT,
                "exit_code": judged.exit_code,
                "problem": judged.problem or None,
                "runs": judged.runs,
                "versions": versions_line(),
            }
            out.write(json.dumps(written, indent=2, ensure_ascii=False) + "\n")
            out.flush()
            raise


def run_record(
    outcome: Outcome, certainty: str | None = None, checked: Sequence[str] = (), run: str = ""
) -> dict[str, Any]:
    """Return what is said of one run, as plain data.

    Args:
        certainty: `proved` or `probable`, where the outcome itself does not say. checked: what was compared. run: its
            name, where there are several.
    """
    found = outcome.diagnosis
    own = "proved" if outcome.proved else "probable" if outcome.doubts else None
    culprits = found.culprits if found is not None else ()
    return {
        **running_record(outcome.world_size, checked, run),
        "kind": str(outcome.kind),
        "certainty": certainty or own,
        "diagnosis": None
        if found is None
        else {
            "id": found.kind,
            "sentence": found.summary,
            "advice": found.advice or None,
            "evidence": list(found.evidence),
            "lesson": found.lesson or None,
            "warning": found.warning,
        },
        "ranks": [_rank_record(outcome, rank, rank in culprits) for rank in outcome.ranks],
    }


def running_record(
    world_size: int | None = None, checked: Sequence[str] = (), run: str = ""
) -> dict[str, Any]:
    """Return the record of a run that gets on, as far as is seen."""
    return {
        "run": run or None,
        "kind": RUNNING,
        "certainty": None,
        "world_size": world_size,
        "diagnosis": None,
        "ranks": [],
        "checked": list(checked),
    }


def _rank_record(outcome: Outcome, rank: int, culprit: bool) -> dict[str, Any]:
    ending, waiting = outcome.endings.get(rank), outcome.waiting.get(rank)
    error = outcome.errors.get(rank) if ending is Ending.RAISED else None
    if error is not None or ending is Ending.DIED:
        waiting = None
    place: Spot | None = None
    if waiting is not None:
        place = _place_of(waiting)
    elif error is not None:
        place = _raised_at(error)
    elif outcome.last_places.get(rank):
        place = outcome.last_places[rank][-1].spot()
    return {
        "rank": rank,
        "state": str(waiting.state if waiting is not None else ending or Ending.FINISHED),
        "culprit": culprit,
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
        "function": place.function if place is not None else None,
        "waiting_in": waiting.call or (waiting.pause[0] if waiting.pause else None)
        if waiting is not None
        else None,
        "waits_for": _awaited(waiting) if waiting is not None else [],
        "error": {"type": error.type, "message": error.message} if error is not None else None,
        "exit_code": outcome.exits.get(rank),
    }


def _place_of(waiting: Waiting) -> Spot | None:
    """Return the innermost of the learner's frames."""
    own = [frame.spot() for frame in waiting.stack if is_learners(frame.file)]
    if own:
        return own[-1]
    origin = waiting.collective.origin if waiting.collective is not None else None
    return origin.spot() if origin is not None else None


def _raised_at(error: RankError) -> Spot | None:
    frames = [Spot(file, int(line), name) for file, line, name in _FRAME.findall(error.full_traceback)]
    own = [frame for frame in frames if is_learners(frame.file)]
    return own[-1] if own else None


def _awaited(waiting: Waiting) -> list[int]:
    """Return the ranks that are not in the call this one waits in: absent, or in another call."""
    named = {*waiting.missing, *waiting.mismatch}
    if not named and waiting.partners is not None:
        named = {rank for rank in (waiting.partners.to, waiting.partners.source) if rank is not None}
    return sorted(named)
