"""The learner's outbox on disk: the membership, and events that the board has not confirmed yet.

One small SQLite file in the learner's data folder, shared by all notebooks of the learner. An event is removed when
the board has named it as kept, so nothing is lost while the board is away, and the board itself sees to it that
nothing counts twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course_lib.board.events import Event

FILE_NAME = "board.sqlite"
#: More than a learner does in a month; the oldest go first.
MAX_WAITING = 5000
#: A board that has not answered for so long was that of a workshop that is over.
FORGOTTEN_AFTER = 14 * 86400.0
ASKED, JOINED, LEFT, REFUSED = "asked", "joined", "left", "refused"
_VERSION = 1
_TABLES = """
CREATE TABLE membership (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    address TEXT NOT NULL, code TEXT NOT NULL, name TEXT NOT NULL, token TEXT NOT NULL,
    state TEXT NOT NULL, why TEXT NOT NULL, heard REAL NOT NULL
);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL, kind TEXT NOT NULL, about TEXT NOT NULL, said TEXT NOT NULL,
    misconceptions TEXT NOT NULL, at REAL NOT NULL
);
"""


@dataclass(frozen=True)
class Membership:
    """A learner's membership on a board.

    Attributes:
        token: the proof of being this learner; random, made on the learner's machine.
        state: ASKED (the board has not answered yet), JOINED, LEFT, or REFUSED, and then why.
        heard: when the board answered last.
    """

    address: str
    code: str
    name: str
    token: str = dataclasses.field(repr=False)
    state: str = ASKED
    why: str = ""
    heard: float = 0.0


class Outbox:
    """The file; any thread may call.

    A file that is damaged is put aside. Where nothing can be written, what waits lives as long as the process
    (`lasts` is False then).
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.lasts = True
        self._lock = threading.Lock()
        self._file = self._opened()

    def _opened(self) -> sqlite3.Connection:
        for _ in range(2):
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # it holds the token
                return self._prepared(sqlite3.connect(self.path, timeout=10.0, check_same_thread=False))
            except (OSError, sqlite3.OperationalError):
                break
            except sqlite3.DatabaseError:
                with contextlib.suppress(OSError):
                    os.replace(self.path, self.path.with_name(f"board.damaged-{uuid.uuid4().hex[:8]}.sqlite"))
        self.lasts = False
        return self._prepared(sqlite3.connect(":memory:", check_same_thread=False))

    @staticmethod
    def _prepared(file: sqlite3.Connection) -> sqlite3.Connection:
        try:
            file.execute("BEGIN IMMEDIATE")  # two notebooks may open a new file at once
            if file.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                for statement in _TABLES.split(";\n"):
                    file.execute(statement)
                file.execute(f"PRAGMA user_version = {_VERSION}")
            file.execute("SELECT heard FROM membership").fetchone()
            file.execute("COMMIT")
        except sqlite3.OperationalError as error:
            file.close()
            if "locked" in str(error) or "readonly" in str(error):
                raise
            raise sqlite3.DatabaseError(str(error)) from None  # the tables are not ours
        except sqlite3.DatabaseError:
            file.close()
            raise
        return file

    def close(self) -> None:
        """Close the file; what waits stays in it."""
        with self._lock:
            self._file.close()

    def membership(self) -> Membership | None:
        """Return where the learner has joined; None without a board, or if it has been silent for too long."""
        columns = "address, code, name, token, state, why, heard"
        with self._lock:
            row = self._file.execute(f"SELECT {columns} FROM membership").fetchone()
        found = Membership(*row) if row else None
        if found and found.state in (ASKED, JOINED) and time.time() - found.heard > FORGOTTEN_AFTER:
            return None
        return found

    def join(self, membership: Membership) -> None:
        """Note where the learner joins. What waited for a board at another address is not for this one."""
        with self._lock, self._file:
            before = self._file.execute("SELECT address FROM membership").fetchone()
            if before is not None and before[0] != membership.address:
                self._file.execute("DELETE FROM events")
            row = dataclasses.astuple(membership)
            self._file.execute("INSERT OR REPLACE INTO membership VALUES (1, ?, ?, ?, ?, ?, ?, ?)", row)

    def answered(self, token: str, *, state: str, name: str | None = None, why: str = "") -> None:
        """Note what the board has answered to who has this token."""
        change = (
            "UPDATE membership SET state = ?, why = ?, heard = ?, name = COALESCE(?, name) WHERE token = ?"
        )
        with self._lock, self._file:
            self._file.execute(change, (state, why, time.time(), name, token))

    def leave(self) -> None:
        """Drop what waits, and accept nothing until the learner joins again."""
        with self._lock, self._file:
            self._file.execute("DELETE FROM events")
            self._file.execute("UPDATE membership SET state = ?, token = '', code = ''", (LEFT,))

    def add(self, kind: str, about: str, said: str, misconceptions: Iterable[str], at: float) -> None:
        """Let an event wait."""
        row = (uuid.uuid4().hex, kind, about, said, " ".join(misconceptions), at)
        with self._lock, self._file:
            self._file.execute(
                "INSERT INTO events (id, kind, about, said, misconceptions, at) VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
            self._file.execute(
                "DELETE FROM events WHERE number <= (SELECT MAX(number) FROM events) - ?", (MAX_WAITING,)
            )

    def first(self, most: int) -> list[Event]:
        """Return the oldest waiting events."""
        columns = "id, number, kind, about, said, misconceptions, at"
        with self._lock:
            rows = self._file.execute(
                f"SELECT {columns} FROM events ORDER BY number LIMIT ?", (most,)
            ).fetchall()
        return [
            Event(id_, number, kind, about, said, tuple(ids.split()), at)
            for id_, number, kind, about, said, ids, at in rows
        ]

    def remove(self, ids: Iterable[str]) -> None:
        """Remove events that have arrived."""
        with self._lock, self._file:
            self._file.executemany("DELETE FROM events WHERE id = ?", [(each,) for each in ids])

    def count(self) -> int:
        """Return the number of waiting events."""
        with self._lock:
            return int(self._file.execute("SELECT COUNT(*) FROM events").fetchone()[0])
