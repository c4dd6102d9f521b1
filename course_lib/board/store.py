"""The board's memory: one SQLite file with who has joined, what they sent, and what the instructor has revealed.

Every event is on disk before its learner is told so. A board that is killed and started again has lost nothing: what
was not yet confirmed is sent again, and what was already kept is kept once.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.board.events import Event

FILE_NAME = "class-board.sqlite"
#: A learner of a long workshop sends some hundreds. Whoever sends more than this fills disks.
MAX_PER_LEARNER = 20_000
_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # none that is read as another
_CODE_LENGTH = 8
_VERSION = 1
_TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE learners (
    learner INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    token TEXT NOT NULL UNIQUE      -- SHA-256: the file does not hold what one would need to speak for a learner
);
CREATE TABLE events (
    id TEXT NOT NULL,
    learner INTEGER NOT NULL REFERENCES learners ON DELETE CASCADE,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    about TEXT NOT NULL,
    said TEXT NOT NULL,
    misconceptions TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (learner, id)       -- nobody can take the place of another's event
);
CREATE TABLE revealed (question TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class StoreError(Exception):
    """The file cannot be used; the message is one line."""


@dataclass(frozen=True)
class Member:
    """A learner who has joined. `digest`: of their token."""

    learner: int
    name: str
    digest: str


def digest_of(token: str) -> str:
    """Return the digest of a token, which the store keeps instead of it."""
    return hashlib.sha256(token.encode()).hexdigest()


class Store:
    """The file. One process has it open; any thread of it may call, one at a time.

    Raises:
        StoreError: it is not a board's, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # It holds the key: only its owner reads it, and SQLite gives its companion files the same rights.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._file = sqlite3.connect(path, timeout=5.0, check_same_thread=False)
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{path} cannot be used for the board: {error}.") from None

    def _prepare(self) -> None:
        version = self._file.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise sqlite3.DatabaseError("a newer version of the course wrote it")
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute("PRAGMA foreign_keys = ON")
        if version == 0:
            self._file.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def setting(self, name: str) -> str:
        """Return a setting; '' where it was never made."""
        row = self._file.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def set(self, name: str, value: str) -> None:
        """Make a setting."""
        with self._file:
            self._file.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def code(self, *, new: bool = False) -> str:
        """Return what learners need for joining; the same after a restart."""
        if new or not self.setting("code"):
            self.set("code", "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH)))
        return self.setting("code")

    def key(self) -> str:
        """Return what the instructor needs for viewing; the same after a restart."""
        if not self.setting("key"):
            self.set("key", secrets.token_urlsafe(24))
        return self.setting("key")

    def members(self) -> list[Member]:
        """Return everybody who has joined."""
        return [
            Member(*row)
            for row in self._file.execute("SELECT learner, name, token FROM learners ORDER BY learner")
        ]

    def join(self, name: str, token: str) -> Member:
        """Add a learner, or return the one who joined with this token before, under the former name."""
        digest = digest_of(token)
        with self._file:
            self._file.execute("INSERT OR IGNORE INTO learners (name, token) VALUES (?, ?)", (name, digest))
        row = self._file.execute(
            "SELECT learner, name, token FROM learners WHERE token = ?", (digest,)
        ).fetchone()
        return Member(*row)

    def forget(self, learner: int) -> None:
        """Remove a learner with all events."""
        with self._file:
            self._file.execute("DELETE FROM learners WHERE learner = ?", (learner,))

    def add(self, sent: Iterable[tuple[int, Event]]) -> list[bool]:
        """Keep events, all of them or none; for each, whether it is new. On return they are on the disk.

        Raises:
            sqlite3.Error: they could not be written, and none is kept.
        """
        with self._file:
            return [self._add(learner, event) for learner, event in sent]

    def _add(self, learner: int, event: Event) -> bool:
        row = (
            event.id,
            learner,
            event.number,
            event.kind,
            event.about,
            event.said,
            " ".join(event.misconceptions),
            event.at,
        )
        # Nothing for a learner who was removed a moment ago: their events would have nobody.
        # (OR IGNORE would also swallow a value that is missing.)
        insert = """
            INSERT INTO events SELECT ?, ?, ?, ?, ?, ?, ?, ? FROM learners WHERE learner = ?
            ON CONFLICT (learner, id) DO NOTHING
        """
        return self._file.execute(insert, (*row, learner)).rowcount == 1

    def counts(self) -> dict[int, int]:
        """Return how many events each learner has sent."""
        return dict(self._file.execute("SELECT learner, COUNT(*) FROM events GROUP BY learner"))

    def events(self) -> list[tuple[int, Event]]:
        """Return all events, in the order in which they came."""
        columns = "learner, id, number, kind, about, said, misconceptions, at"
        return [
            (learner, Event(id_, number, kind, about, said, tuple(ids.split()), at))
            for learner, id_, number, kind, about, said, ids, at in self._file.execute(
                f"SELECT {columns} FROM events ORDER BY rowid"
            )
        ]

    def revealed(self) -> Sequence[str]:
        """Return the questions whose votes the instructor has revealed."""
        return [row[0] for row in self._file.execute("SELECT question FROM revealed")]

    def reveal(self, question: str, *, on: bool) -> None:
        """Keep that the votes on a question are revealed, or hidden again."""
        with self._file:
            if on:
                self._file.execute("INSERT OR IGNORE INTO revealed VALUES (?)", (question,))
            else:
                self._file.execute("DELETE FROM revealed WHERE question = ?", (question,))
