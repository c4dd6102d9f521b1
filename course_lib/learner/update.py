"""Brings the course into a learner's copy, and puts single files of it back. The only place that writes there.

The order makes every interruption harmless. The ledger first says what is about to be put where. Then each file is
written under a hidden name beside its place, what is worth keeping is moved into `kept/`, and the new file is moved to
its place. The last thing is the ledger again. A process that is killed anywhere leaves each file in its old or its new
version, or in `kept/`, and a ledger that knows both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count
from pathlib import Path, PurePosixPath

from course_lib.learner.course import given_files, is_checkout
from course_lib.learner.ledger import HIDDEN, Entry, Ledger, ledger_file, ledger_text, read_ledger
from course_lib.learner.plan import Act, Found, Plan, Step, plan_update
from course_lib.learner.written import writing

KEPT = "kept"


class CopyError(Exception):
    """The copy cannot be written, or must not be; nothing of the learner's is lost. The message is one line."""


@dataclass(frozen=True)
class Change:
    """Something that was done to a file of the copy.

    Attributes:
        kept: where the old one is, if it was kept.
        new_of: the learner's own file, of a new version that is or was beside it.
    """

    act: Act
    path: str
    kept: str = ""
    new_of: str = ""


@dataclass(frozen=True)
class Updated:
    """The result of an update.

    Attributes:
        new: the copy was made by it.
        changes: file by file.
        left: files that the course has no longer, which stay because the learner has changed them.
    """

    new: bool
    changes: tuple[Change, ...]
    left: tuple[str, ...]


def update(copy: Path, course: Path) -> Updated:
    """Bring the course as it is into the copy; make the copy where there is none.

    Raises:
        CopyError: the copy cannot be written. CourseError: the course cannot be read.
    """
    if copy.resolve() == course.resolve() or is_checkout(copy):
        raise CopyError(f"{copy} is a checkout of the course itself: choose another folder for your copy.")
    fresh = given_files(course)
    with _writing_in(copy):
        new = not ledger_file(copy).exists()
        ledger = read_ledger(copy)
        plan = plan_update(fresh, ledger, lambda path: _look(copy, path))
        changes = _carry_out(copy, plan, ledger)
    return Updated(new, changes, plan.left)


def put_back(copy: Path, course: Path, paths: Sequence[str]) -> tuple[Change, ...]:
    """Put these files back as the course gives them; the learner's own ones are kept. Returns those that were not so.

    Raises:
        CopyError: the copy cannot be written. CourseError: the course cannot be read. LookupError: no such file.
    """
    fresh = given_files(course)
    with _writing_in(copy):
        ledger = read_ledger(copy)
        steps = []
        for path in paths:
            found, new = _look(copy, path), writing(path, fresh[path]).digest
            entry = dataclasses.replace(ledger.get(path, Entry()).giving(new), has=new)
            if found is None:
                steps.append(Step(Act.PUT, path, fresh[path], entries={path: entry}))
            elif found.digest != new or found.ran:
                steps.append(Step(Act.REPLACE, path, fresh[path], found, True, {path: entry}))
            steps += _news_of(path, ledger, copy)
        known = ledger | {step.path: step.entries[step.path] for step in steps if step.content}
        changes = _carry_out(copy, Plan(tuple(steps), known), ledger)
    return tuple(change for change in changes if change.act is not Act.REMOVE)


def _news_of(path: str, ledger: Ledger, copy: Path) -> Iterator[Step]:
    """Yield the removal of a new version beside a file, once the file itself is new."""
    for beside, entry in ledger.items():
        found = _look(copy, beside) if entry.new_of == path else None
        if found is not None and found.digest in entry.given:
            yield Step(Act.REMOVE, beside, found=found, keep=found.ran, new_of=path)


def _look(copy: Path, path: str) -> Found | None:
    place = copy / path
    try:
        seen = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return Found(None)
    if not stat.S_ISREG(seen.st_mode):
        return Found(None)  # a link or a folder: somebody has put it there
    try:
        return Found(writing(path, place.read_bytes()), (seen.st_mtime_ns, seen.st_size, seen.st_ino))
    except OSError:
        return Found(None)


@contextlib.contextmanager
def _writing_in(copy: Path) -> Iterator[None]:
    """Hold the copy's lock; what the system refuses becomes a `CopyError`."""
    try:
        (copy / HIDDEN).mkdir(parents=True, exist_ok=True)
        with (copy / HIDDEN / "lock").open("a") as lock:
            _wait_for(lock.fileno())
            yield
    except OSError as error:
        raise CopyError(f"{copy} cannot be written ({error.strerror or error}).") from None


def _wait_for(lock: int) -> None:
    """Wait for other updates to end; without locks on its file system, an update goes ahead."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX)


def _carry_out(copy: Path, plan: Plan, before: Ledger) -> tuple[Change, ...]:
    """Do the steps of a plan; raises OSError where the disk is full, with each file in its old or its new version."""
    if plan.ledger != before or not ledger_file(copy).exists():
        _write(ledger_file(copy), ledger_text(plan.ledger))
    changes, ledger = [], dict(plan.ledger)
    for step in plan.steps:
        new = _write_beside(copy / step.path, step.content) if step.act is not Act.REMOVE else None
        if _look(copy, step.path) != step.found:
            if new is not None:
                new.unlink()
            continue  # saved a moment ago, from JupyterLab: the next update will see it
        kept = _keep(copy, step.path) if step.keep else ""
        if new is not None:
            os.replace(new, copy / step.path)
        elif not kept:
            (copy / step.path).unlink()
        changes.append(Change(step.act, step.path, kept, step.new_of))
        if step.act is Act.REMOVE:
            ledger.pop(step.path, None)
        ledger |= step.entries
    if ledger != plan.ledger:
        _write(ledger_file(copy), ledger_text(ledger))
    return tuple(changes)


def _keep(copy: Path, path: str) -> str:
    """Move what is at this path into `kept/`; returns where it is."""
    pure = PurePosixPath(path)
    for number in count(1):
        turn = "" if number == 1 else f"-{number}"
        kept = f"{KEPT}/{pure.with_name(f'{pure.stem}.{date.today().isoformat()}{turn}{pure.suffix}')}"
        if not os.path.lexists(copy / kept):
            (copy / kept).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).rename(copy / kept)
            return kept
    raise AssertionError("count() ends")


def _write(path: Path, content: bytes) -> None:
    """Write a file so that it has the old content or the new one, whatever happens."""
    os.replace(_write_beside(path, content), path)


def _write_beside(path: Path, content: bytes) -> Path:
    """Write a hidden file beside this place, from which it can be moved there in one step; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.ddp-course-part")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # the disk is full
        unfinished.unlink(missing_ok=True)
        raise
    return unfinished
