"""The learner's side: takes verdicts and votes from cells without delaying them, and sends them in the background.

    a cell: tell() -> list in memory -> writer thread -> disk (`outbox`) -> sender thread -> board (`client`)

`tell` appends to a list and returns. The writer puts it on the disk at once, so that a kernel that ends has lost
nothing; the sender alone waits for the network, with a back-off of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import queue
import random
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.board.client import Address, AddressError, BoardAwayError, Client, RefusedError, address_of
from course_lib.board.events import MAX_EVENTS, clean_name, question_id
from course_lib.board.outbox import ASKED, JOINED, LEFT, MAX_WAITING, REFUSED, Membership, Outbox
from realranks.own_files import data_folder

#: A room that answers at the same moment is spread a little, and what one learner does within it goes in one request.
_PAUSE = 0.2
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 0.5, 15.0
#: How long what could not be written waits in memory for the next attempt.
_WRITE_AGAIN = 2.0
#: At the end of a kernel, for what is not on the disk yet.
_LAST_SECONDS = 2.0
_HUBS_ADDRESS = "DDP_COURSE_BOARD"


@dataclass(frozen=True)
class Said:
    """A verdict or a vote, as a cell says it."""

    kind: str
    about: str
    said: str
    misconceptions: tuple[str, ...]
    at: float


class Sender:
    """One kernel's connection to the board."""

    def __init__(self, folder: Path | None = None) -> None:
        self.outbox = Outbox(folder or data_folder())
        self.trouble = ""
        self._new: queue.SimpleQueue[Said | threading.Event] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._retry = threading.Event()
        self._ended = False
        self._threads = [
            threading.Thread(target=self._write, name="board-writer", daemon=True),
            threading.Thread(target=self._send_always, name="board-sender", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self.flush)

    def tell(self, kind: str, about: str, said: str, misconceptions: tuple[str, ...] = ()) -> None:
        """Queue this to be sent; returns at once."""
        self._new.put(Said(kind, about, said, misconceptions, time.time()))

    def tell_vote(self, question: str, answers: Sequence[str], choice: str) -> None:
        """Queue a prediction to be sent."""
        self.tell("vote", question_id(question, answers), str(list(answers).index(choice)))

    def flush(self, seconds: float = _LAST_SECONDS) -> bool:
        """Wait until everything said so far is on the disk; False where that takes longer."""
        written = threading.Event()
        self._new.put(written)
        return written.wait(seconds)

    def join(self, address: Address, code: str, name: str) -> Membership:
        """Join a board and tell how it went; a board that does not answer is asked again in the background.

        Raises:
            RefusedError: the code is not the board's; what was joined before stays joined.
        """
        wanted = self._wanted(address, code, name)
        client = Client(address)
        try:
            shown = client.join(code, wanted.name, wanted.token)
        except BoardAwayError as error:
            self.outbox.join(wanted)
            self.trouble = str(error)
        else:
            self.outbox.join(dataclasses.replace(wanted, state=JOINED, name=shown))
            self.trouble = ""
        finally:
            client.close()
        self._again()
        return self.outbox.membership() or wanted

    @staticmethod
    def not_an_address(where: str) -> str:
        """Return why this is not the address of a board, in one line; '' for one."""
        try:
            address_of(where)
        except AddressError as error:
            return str(error)
        return ""

    def join_at(self, where: str, code: str, name: str) -> str:
        """Call `join` with the address as a learner types it; return why the board refuses, or ''."""
        try:
            self.join(address_of(where), code, name)
        except RefusedError as error:
            return str(error)
        return ""

    def join_as_hub_says(self) -> None:
        """Join the board that a hub names in the environment; report an invalid address as trouble."""
        if settings := hub_settings():
            address, code, name = settings
            try:
                self.join_from_hub(address_of(address), code, name)
            except AddressError as error:
                self.trouble = f"{_HUBS_ADDRESS}: {error}"

    def join_from_hub(self, address: Address, code: str, name: str) -> None:
        """Join as the hub says, in the background, unless the learner has left this board."""
        before = self.outbox.membership()
        same = before is not None and before.address == str(address)
        if same and before is not None and (before.state == LEFT or before.code == code):
            if before.state == REFUSED:
                self.outbox.answered(before.token, state=ASKED)  # perhaps the board works again
            return
        self.outbox.join(self._wanted(address, code, name))
        self._again()

    def leave(self) -> bool:
        """Leave; True where the board has said that it has forgotten the learner."""
        membership = self.outbox.membership()
        self.outbox.leave()
        if membership is None or not membership.token:
            return False
        client = Client(address_of(membership.address), seconds=3.0)
        try:
            client.leave(membership.token)
        except BoardAwayError:
            return False
        except RefusedError:
            return True  # it has not known the learner to begin with
        finally:
            client.close()
        return True

    def close(self) -> None:
        """End both threads; what waits stays on the disk."""
        self.flush()
        self._ended = True
        self._again()
        self.tell("", "", "")
        for thread in self._threads:
            thread.join(_LAST_SECONDS)
        atexit.unregister(self.flush)
        self.outbox.close()

    def _wanted(self, address: Address, code: str, name: str) -> Membership:
        before = self.outbox.membership()
        # Who joins the same board again is the same learner: what was sent belongs to them.
        again = before is not None and before.address == str(address) and before.state in (ASKED, JOINED)
        token = before.token if before is not None and again else secrets.token_urlsafe(32)
        return Membership(str(address), code, clean_name(name), token, heard=time.time())

    def _again(self) -> None:
        self._retry.set()
        self._wake.set()

    def _write(self) -> None:
        todo: deque[Said | threading.Event] = deque()
        while not self._ended:
            # What could not be written is tried again with the next event, and after a while: a disk may get room.
            with contextlib.suppress(queue.Empty):
                todo.append(self._new.get(timeout=_WRITE_AGAIN if todo else None))
            while todo and self._written(todo[0]):
                todo.popleft()
            if len(todo) > MAX_WAITING:
                todo.popleft()

    def _written(self, item: Said | threading.Event) -> bool:
        """Return whether this item is done with: on the disk, or not to be sent at all."""
        if isinstance(item, threading.Event):
            item.set()
        elif item.kind:
            try:
                membership = self.outbox.membership()
                if membership is not None and membership.state in (ASKED, JOINED):
                    self.outbox.add(item.kind, item.about, item.said, item.misconceptions, item.at)
                    self._wake.set()
            except sqlite3.Error as error:  # a full disk: learning goes on
                self.trouble = f"{self.outbox.path.name} cannot be written: {error}"
                return False
        return True

    def _send_always(self) -> None:
        failures = 0
        client: Client | None = None
        while True:
            self._wake.clear()
            self._retry.clear()
            if self._ended:  # looked at after the clearing: `close` sets both events
                break
            try:
                membership = self.outbox.membership()
                if membership is None or membership.state not in (ASKED, JOINED):
                    self._wake.wait()
                    continue
                if client is None or str(client.address) != membership.address:
                    client = Client(address_of(membership.address))
                if not self._send_some(client, membership):
                    failures = 0
                    self._wake.wait()
                failures, seconds = 0, _PAUSE
            except BoardAwayError as error:
                self.trouble = str(error)
                failures += 1
                seconds = _back_off(failures) if error.seconds is None else error.seconds + random.random()
            except (sqlite3.Error, AddressError) as error:
                self.trouble = f"{self.outbox.path.name} cannot be used: {error}"
                failures += 1
                seconds = _back_off(failures)
            self._retry.wait(seconds)
        if client is not None:
            client.close()

    def _send_some(self, client: Client, membership: Membership) -> bool:
        """Send one request; return False where there is nothing to send."""
        try:
            if membership.state == ASKED:
                name = client.join(membership.code, membership.name, membership.token)
                self.outbox.answered(membership.token, state=JOINED, name=name)
            batch = self.outbox.first(MAX_EVENTS)
            if not batch:
                return False
            now = self.outbox.membership()
            if now is None or now.token != membership.token:
                return True  # meanwhile the learner has left, or joined elsewhere: these are perhaps not for this board
            self.outbox.remove(client.send(membership.token, batch, time.time()))
            self.outbox.answered(membership.token, state=JOINED)
            self.trouble = ""
        except RefusedError as error:
            self.outbox.answered(membership.token, state=REFUSED, why=str(error))
        return True


def _back_off(failures: int) -> float:
    """Return a delay that doubles and differs between learners, so that a board that restarts is not flooded."""
    longest = min(_LONGEST_BACK_OFF, _FIRST_BACK_OFF * 2.0 ** min(failures - 1, 10))
    return longest * random.uniform(0.5, 1.0)


def hub_settings() -> tuple[str, str, str] | None:
    """Return address, code and name that a hub has put into the environment; None without them."""
    address, code = os.environ.get(_HUBS_ADDRESS, ""), os.environ.get("DDP_COURSE_BOARD_CODE", "")
    return (address, code, os.environ.get("JUPYTERHUB_USER", "")) if address and code else None
