"""Files that the course may write over: those that it wrote itself. Imports nothing of the course.

A file is the course's own when it carries the mark that the course puts into files of its kind, or when nobody has
changed it since the course wrote it (a CSV for another program has no room for a mark: its digest is remembered).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

import platformdirs

#: How much of a file is read to look for a mark.
_LOOKED_AT = 1 << 16
_MAX_REMEMBERED = 200


class NotOurFileError(Exception):
    """A file of somebody else is in the way; the message is one line."""


def data_folder() -> Path:
    """Return the folder for what belongs to one user: DDP_COURSE_HOME, or the system's place for such data."""
    chosen = os.environ.get("DDP_COURSE_HOME")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("ddp-course", appauthor=False))


def check_ours(path: Path, mark: str = "") -> None:
    """Do nothing where the file may be written: it is not there, is empty, or is the course's own.

    Raises:
        NotOurFileError: it is a folder, or a file that the course did not write.
    """
    if path.is_dir():
        raise NotOurFileError(f"{path} is a folder: name a file.")
    try:
        with path.open("rb") as file:
            beginning = file.read(_LOOKED_AT)
    except OSError:
        return  # not there; what else is wrong with it, writing will say
    marked = bool(mark) and mark.encode() in beginning
    if beginning and not marked and _remembered().get(_key(path)) != _digest(path):
        raise NotOurFileError(
            f"{path} exists and was not written by this command: it stays as it is. "
            "Name another file, or say --force."
        )


def write_whole(path: Path, text: str) -> None:
    """Put a file in its place, all at once: who reads it finds the old text or the new one, whole.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def remember(path: Path) -> None:
    """Note that the course has written this file as it is now."""
    known = _remembered()
    known.pop(_key(path), None)
    known[_key(path)] = _digest(path)
    newest = dict(list(known.items())[-_MAX_REMEMBERED:])
    file = data_folder() / "written.json"
    with contextlib.suppress(OSError):  # the next time, --force is needed: no reason to fail now
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(newest, indent=1))


def _remembered() -> dict[str, str]:
    try:
        known = json.loads((data_folder() / "written.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _key(path: Path) -> str:
    return os.path.realpath(path)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
