"""The learner's progress: one SQLite file in the user's data folder.

A log of events, nothing is ever changed in it: several notebooks can write at once, and two logs are merged by putting
their events together. Whatever is wrong with the file or the disk, learning goes on: a file that cannot be used is put
aside, and where nothing can be written the events live as long as the kernel. `notices` says what happened, once.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.tasks.catalogue import MOVED
from realranks.own_files import data_folder

if TYPE_CHECKING:
    from course_lib.grading.verdict import Verdict

VERSION = 1
KINDS = ("attempt", "hint", "gave_up", "prediction")
COLUMNS = ("id", "at", "task", "kind", "verdict", "misconceptions", "seconds")
#: A row of the log, in the order of `COLUMNS`.
Event = tuple[str, str, str, str, str, str, float]
FILE_NAME = "progress.sqlite"
_BUSY_SECONDS = 10.0
_TABLE = """
CREATE TABLE IF NOT EXISTS events (
    id TEXT PRIMARY KEY,            -- unique everywhere, so that logs can be merged
    at TEXT NOT NULL,               -- UTC, ISO 8601
    task TEXT NOT NULL,             -- of a prediction: the question
    kind TEXT NOT NULL,             -- attempt | hint | gave_up | prediction
    verdict TEXT NOT NULL,          -- of an attempt; of a prediction: right | wrong
    misconceptions TEXT NOT NULL,   -- of an attempt: ids, separated by blanks
    seconds REAL NOT NULL           -- of an attempt: how long grading took
) WITHOUT ROWID
"""
_NAME_NOW = f"CASE task {' '.join(f'WHEN {old!r} THEN {new!r}' for old, new in MOVED.items())} ELSE task END"
_INSERT = "VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class TaskProgress:
    """A learner's progress with one task.

    Attributes:
        attempts: answers that were judged (a stub is none). hints: hints shown.
        named: how many misconceptions the last judged answer showed.
        began_at, passed_at: first event, first pass; UTC, ISO 8601, or None.
    """

    attempts: int = 0
    hints: int = 0
    passed_at: str | None = None
    gave_up: bool = False
    named: int = 0
    began_at: str | None = field(default=None, compare=False)

    @property
    def passed(self) -> bool:
        """True once an answer has passed."""
        return self.passed_at is not None

    @property
    def seconds_to_pass(self) -> float | None:
        """From the first attempt or hint to the pass, pauses included; None where it is not passed."""
        if self.passed_at is None or self.began_at is None:
            return None
        return (
            datetime.fromisoformat(self.passed_at) - datetime.fromisoformat(self.began_at)
        ).total_seconds()


class Progress:
    """The learner's log. Never raises for anything that is wrong with file or disk."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or data_folder()) / FILE_NAME
        self.notices: list[str] = []
        self._memory: sqlite3.Connection | None = None

    @property
    def lasts(self) -> bool:
        """False once events are only kept in memory, because the file could not be written."""
        return self._memory is None

    def record(self, verdict: Verdict) -> None:
        """Record a verdict; an answer that was not attempted leaves no trace."""
        if verdict.kind != "not attempted":
            ids = tuple(item.id for item in verdict.misconceptions)
            self.attempt(verdict.task, str(verdict.kind), ids, verdict.seconds)

    def attempt(
        self, task: str, verdict: str, misconceptions: tuple[str, ...] = (), seconds: float = 0.0
    ) -> None:
        """Record a judged answer."""
        self._record(task, "attempt", verdict, " ".join(misconceptions), seconds)

    def hint(self, task: str) -> None:
        """Record that a hint was shown."""
        self._record(task, "hint")

    def give_up(self, task: str) -> None:
        """Record that the learner wants to see the solution."""
        self._record(task, "gave_up")

    def prediction(self, question: str, right: bool) -> None:
        """Record a prediction that a run has decided."""
        self._record(question, "prediction", "right" if right else "wrong")

    def predictions(self) -> dict[str, bool]:
        """Return by question whether its first prediction was right: after it, the learner has seen the answer."""
        rows = self._read(
            "SELECT task, verdict FROM events WHERE kind = 'prediction' ORDER BY at DESC, id DESC"
        )
        return {question: verdict == "right" for question, verdict in rows}

    def of(self, task: str) -> TaskProgress:
        """Return the learner's progress with one task."""
        return self.all().get(task, TaskProgress())

    def all(self) -> dict[str, TaskProgress]:
        """Return progress by task name, without tasks that have none; progress under a task's old name counts."""
        query = f"""
            SELECT {_NAME_NOW} AS now, SUM(kind = 'attempt'), SUM(kind = 'hint'), MAX(kind = 'gave_up'),
                   MIN(CASE WHEN kind = 'attempt' AND verdict = 'pass' THEN at END), MIN(at)
            FROM events WHERE kind != 'prediction' GROUP BY now
        """
        rows: list[tuple[str, int, int, int, str | None, str]] = self._read(query)
        last = f"SELECT {_NAME_NOW} AS now, misconceptions, MAX(at) FROM events WHERE kind = 'attempt' GROUP BY now"
        named = {task: len(ids.split()) for task, ids, _ in self._read(last)}
        return {
            task: TaskProgress(attempts, hints, passed_at, bool(gave_up), named.get(task, 0), began_at)
            for task, attempts, hints, gave_up, passed_at, began_at in rows
        }

    def events(self) -> list[Event]:
        """Return all known events, oldest first."""
        return self._read(f"SELECT {', '.join(COLUMNS)} FROM events ORDER BY at, id")

    def merge(self, events: Sequence[Event]) -> int:
        """Add the events of another log to these, all or none; returns how many were not known yet."""
        for _ in range(2):
            try:
                with self._log() as log, log:
                    before = log.total_changes
                    log.executemany(f"INSERT OR IGNORE INTO events {_INSERT}", events)
                    return log.total_changes - before
            except sqlite3.Error as error:
                self._stay_in_memory(error)
        return 0

    def start_anew(self) -> None:
        """Put the log aside, under another name beside it, and begin a new one."""
        if self.path.exists():
            self._put_aside("old", "Your progress begins anew.", "What was there")

    def _read(self, query: str) -> list[Any]:
        for _ in range(2):
            try:
                with self._log() as log:
                    return log.execute(query).fetchall()
            except sqlite3.OperationalError as error:
                self._stay_in_memory(error)
            except sqlite3.DatabaseError as error:  # damaged further inside than `_connect` looks
                self._put_aside("damaged", f"The file with your progress is damaged ({error}).")
        return []

    def _record(
        self, task: str, kind: str, verdict: str = "", misconceptions: str = "", seconds: float = 0.0
    ) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = (uuid.uuid4().hex, now, task, kind, verdict, misconceptions, seconds)
        for _ in range(2):
            try:
                with self._log() as log, log:
                    log.execute(f"INSERT INTO events {_INSERT}", row)
                return
            except sqlite3.Error as error:  # the disk filled up between opening and writing
                self._stay_in_memory(error)

    @contextlib.contextmanager
    def _log(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one moment: held open, it would block other kernels."""
        if self._memory is not None:
            yield self._memory
            return
        log = self._opened()
        try:
            yield log
        finally:
            if log is not self._memory:
                log.close()

    def _opened(self) -> sqlite3.Connection:
        for _ in range(2):
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                return self._connect()
            except _TooNewError as error:
                self._put_aside("newer", str(error))
            except (sqlite3.OperationalError, OSError) as error:
                return self._stay_in_memory(error)
            except sqlite3.DatabaseError as error:
                self._put_aside("damaged", f"The file with your progress is damaged ({error}).")
            if self._memory is not None:
                return self._memory
        return self._stay_in_memory("it keeps being damaged")

    def _connect(self) -> sqlite3.Connection:
        log = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
        try:
            version = log.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise _TooNewError(
                    "The file with your progress was written by a newer version of the course."
                )
            # Readers and a writer at once; a file system that cannot do it keeps the mode it has.
            log.execute("PRAGMA journal_mode = WAL")
            if version < VERSION:
                with log:
                    log.execute(_TABLE)
                    log.execute(f"PRAGMA user_version = {VERSION}")
            log.execute("SELECT id, at, task, kind, verdict, misconceptions, seconds FROM events LIMIT 1")
        except sqlite3.OperationalError as error:
            log.close()
            if "no such" in str(error):  # a table of another program, or half of ours
                raise sqlite3.DatabaseError(str(error)) from None
            raise
        except BaseException:
            log.close()
            raise
        return log

    def _put_aside(self, why: str, reason: str, what: str = "It") -> None:
        number = 1
        while (aside := self.path.with_name(f"progress.{why}-{number}.sqlite")).exists():
            number += 1
        try:
            os.replace(self.path, aside)
            for suffix in ("-wal", "-shm"):
                with contextlib.suppress(OSError):
                    os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        except FileNotFoundError:
            return  # another notebook was quicker
        except OSError as error:
            self._stay_in_memory(error)
            return
        self.notices.append(f"{reason} {what} is kept as {aside.name}, and a new one begins.")

    def _stay_in_memory(self, reason: object) -> sqlite3.Connection:
        if self._memory is None:
            self.notices.append(
                f"Your progress cannot be saved ({reason}): it is remembered until this {_here()} ends. "
                "Tasks are checked as always."
            )
            self._memory = sqlite3.connect(":memory:", check_same_thread=False)
            self._memory.execute(_TABLE)
        return self._memory

    def take_notices(self) -> list[str]:
        """Return what the learner should know about the file, each notice once."""
        taken, self.notices = self.notices, []
        return taken


def _here() -> str:
    """Return the name of this process for its user."""
    return "kernel" if "ipykernel" in sys.modules else "command"


class _TooNewError(Exception):
    pass
