"""Progress as a file of JSON, to carry it to another machine: events are put together there, none counts twice."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path

from course_lib.grading.progress import COLUMNS, KINDS, Event, Progress
from realranks.own_files import NotOurFileError, check_ours

_MARK = "ddp-course progress"
_VERSION = 1


class ProgressFileError(Exception):
    """The file cannot be read or written, or holds no progress; the message is one line."""


def export_progress(progress: Progress, path: Path, *, force: bool = False) -> int:
    """Write all events; returns how many. With `force`, whatever the file was before.

    Raises:
        ProgressFileError: the file cannot be written, or is none that this function has written.
    """
    if not force:
        try:
            check_ours(path, _MARK)
        except NotOurFileError as error:
            raise ProgressFileError(str(error)) from None
    events = [dict(zip(COLUMNS, event, strict=True)) for event in progress.events()]
    try:
        exported = {_MARK: _VERSION, **_learner(), "events": events}
        path.write_text(json.dumps(exported, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ProgressFileError(f"{path} cannot be written: {error.strerror}.") from None
    return len(events)


def _learner() -> dict[str, str]:
    """Return the learner's name, where a JupyterHub gives it: files of a class often have one name."""
    name = os.environ.get("JUPYTERHUB_USER", "")
    return {"learner": name} if name else {}


def import_progress(progress: Progress, path: Path) -> int:
    """Add the events of a file to what is known; returns how many were new. A damaged file changes nothing.

    Raises:
        ProgressFileError: the file is not what `export_progress` writes.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProgressFileError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ProgressFileError(f"{path} is no exported progress: it is not JSON.") from None
    if not isinstance(data, dict) or _MARK not in data:
        raise ProgressFileError(
            f"{path} is no exported progress: 'ddp-course progress export' writes such files."
        )
    if data[_MARK] != _VERSION:
        raise ProgressFileError(f"{path} was written by another version of the course ({data[_MARK]!r}).")
    events = data.get("events")
    if not isinstance(events, list):
        raise ProgressFileError(f"{path} is damaged: it holds no list of events.")
    return progress.merge([_event(path, number, item) for number, item in enumerate(events, start=1)])


def _event(path: Path, number: int, item: object) -> Event:
    try:
        return _checked(item)
    except (ValueError, LookupError, TypeError) as error:
        raise ProgressFileError(
            f"{path} is damaged: event {number} is none ({error}). Nothing was imported."
        ) from None


def _checked(item: object) -> Event:
    if not isinstance(item, dict):
        raise TypeError("not an object")
    texts = {name: item[name] for name in COLUMNS if name != "seconds"}
    if not all(isinstance(text, str) and len(text.encode()) < 1000 for text in texts.values()):
        raise ValueError("a text is missing or too long")
    at = datetime.fromisoformat(texts["at"])
    if not texts["id"] or texts["kind"] not in KINDS or at.tzinfo is None:
        raise ValueError("an unknown kind, no id, or a time without a zone")
    seconds = float(item["seconds"])
    if not math.isfinite(seconds):
        raise ValueError("seconds without end")
    utc = at.astimezone(UTC).isoformat(timespec="milliseconds")
    task, kind, verdict, ids = (texts[name] for name in ("task", "kind", "verdict", "misconceptions"))
    return texts["id"], utc, task, kind, verdict, ids, seconds
