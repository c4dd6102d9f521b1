"""The board's server: learners post JSON, pages receive changes over a websocket.

Who may do what: joining needs the code; sending needs the token that the learner's machine made at joining;
everything else needs the instructor's key, which travels in the websocket's first message and is in no address that a
log could hold. All secrets are compared in constant time. One thread has the room; another writes to the disk, and no
request is answered before its events are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from course_lib.board.course import BoardCourse
from course_lib.board.events import (
    LONGEST_BODY,
    MAX_EVENTS,
    Event,
    MalformedEventError,
    clean_name,
    from_the_wire,
    is_token,
)
from course_lib.board.room import STUCK_MINUTES, STUCK_TRIES, Room
from course_lib.board.store import MAX_PER_LEARNER, Store, digest_of

#: Pages receive changes at most this often, in seconds.
_TELL_EVERY = 0.25
#: A wrong code or key is answered late, and of those who wait for that there may only be so many.
_WRONG_SECONDS, _MAX_WRONG = 0.5, 50
_KEY_SECONDS = 10.0
_MAX_PAGES = 50
_FILES = {
    "": ("page.html", "text/html; charset=utf-8"),
    "board.js": ("page.js", "text/javascript; charset=utf-8"),
    "board.css": ("page.css", "text/css; charset=utf-8"),
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Server": "ddp-course",
}
_T = TypeVar("_T")


def _data(body: bytes) -> dict[str, object]:
    """Parse the JSON object in the body of a request; {} where there is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass
class Changed:
    """Changes that the pages have not received yet."""

    names: set[int] = field(default_factory=set)
    cells: set[tuple[int, str]] = field(default_factory=set)
    questions: set[str] = field(default_factory=set)


class Board:
    """The room, its memory, and the pages that look at it. Lives on the event loop."""

    def __init__(self, store: Store, course: BoardCourse, most_learners: int) -> None:
        self.room = Room(course)
        self.code, self.key = store.code(), store.key()
        self.pages: set[Page] = set()
        self._store = store
        self._most_learners = most_learners
        self._disk = ThreadPoolExecutor(1, "board-disk")
        self._learners: dict[str, int] = {}
        self._changed = Changed()
        self._is_sending = False
        self._wrong = 0
        self._trouble = ""  # why nothing can be written at the moment
        for member in store.members():
            self.room.names[member.learner] = member.name
            self._learners[member.digest] = member.learner
        for learner, event in store.events():
            if self.room.knows(event):  # the course may have changed since
                self.room.fold(learner, event)
        self._counts = store.counts()
        self.room.revealed.update(store.revealed())

    def learner_of(self, authorization: str) -> int | None:
        """Return the learner with the token in the header."""
        kind, _, token = authorization.partition(" ")
        # A look-up by digest: how long it takes says nothing about the token.
        return self._learners.get(digest_of(token)) if kind == "Bearer" and is_token(token) else None

    async def wrong(self) -> bool:
        """Delay the reply to a wrong code or key; return False where too many are waiting already."""
        if self._wrong >= _MAX_WRONG:
            return False
        self._wrong += 1
        try:
            await asyncio.sleep(_WRONG_SECONDS)
        finally:
            self._wrong -= 1
        return True

    async def join(self, name: str, token: str) -> str | None:
        """Return the name under which this learner is shown; None where the board is full."""
        learner = self._learners.get(digest_of(token))
        if learner is None:
            if len(self._learners) >= self._most_learners:
                return None
            member = await self._on_disk(lambda: self._store.join(self.room.free_name(name), token))
            learner = member.learner
            self._learners[member.digest] = learner
            self.room.names[learner] = member.name
            self._changed.names.add(learner)
            self._tell_soon()
        return self.room.names[learner]

    async def take(self, learner: int, events: Sequence[Event]) -> None:
        """Keep what is known of the course; on return it is on the disk.

        Raises:
            sqlite3.Error: it could not be written.
        """
        space = MAX_PER_LEARNER - self._counts.get(learner, 0)
        taken = [(learner, event) for event in events if self.room.knows(event)][: max(0, space)]
        if not taken:
            return
        new = await self._on_disk(lambda: self._store.add(taken))
        for (_, event), is_new in zip(taken, new, strict=True):
            if not is_new or learner not in self.room.names:
                continue
            self._counts[learner] = self._counts.get(learner, 0) + 1
            self.room.fold(learner, event)
            if event.kind == "vote":
                self._changed.questions.add(event.about)
            else:
                self._changed.cells.add((learner, event.about))
        self._tell_soon()

    async def forget(self, learner: int) -> None:
        """Remove a learner: left, or removed by the instructor."""
        await self._on_disk(lambda: self._store.forget(learner))
        self._learners = {digest: each for digest, each in self._learners.items() if each != learner}
        self._changed.questions |= {
            question for question, votes in self.room.votes.items() if learner in votes
        }
        self.room.forget(learner)
        self._counts.pop(learner, None)
        self._changed.names.add(learner)
        self._tell_soon()

    async def execute(self, message: dict[str, object]) -> None:
        """Do what the instructor says on a page."""
        match message:
            case {"do": "show", "question": str(question)} if question in self.room.votes:
                self.room.shown = question
            case {"do": "reveal" | "hide" as what, "question": str(question)} if question in self.room.votes:
                on = what == "reveal"
                await self._on_disk(lambda: self._store.reveal(question, on=on))
                (self.room.revealed.add if on else self.room.revealed.discard)(question)
                self._changed.questions.add(question)
            case {"do": "remove", "learner": int(learner)} if learner in self.room.names:
                await self.forget(learner)
            case _:
                return
        self._tell_soon()

    def everything(self) -> str:
        """Return the first message to a page."""
        room = self.room
        lessons = [
            {
                "stem": lesson.stem,
                "title": lesson.title,
                "tasks": [
                    {"name": task.name, "title": task.title, "misconceptions": dict(task.misconceptions)}
                    for task in lesson.tasks
                ],
            }
            for lesson in room.course.lessons
        ]
        return json.dumps(
            {
                "kind": "everything",
                "now": time.time(),
                "stuck": {"tries": STUCK_TRIES, "seconds": STUCK_MINUTES * 60},
                "lessons": lessons,
                "names": room.names,
                "cells": [room.cell_data(*key) for key in room.cells],
                "questions": [room.question_data(each) for each in room.votes],
                "shown": room.shown,
                "trouble": self._trouble,
            }
        )

    async def close(self) -> None:
        """Write what is left and close the file."""
        self._disk.shutdown()
        self._store.close()

    async def _on_disk(self, work: Callable[[], _T]) -> _T:
        trouble = ""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, work)
        except sqlite3.Error as error:
            trouble = str(error)
            raise
        finally:
            if trouble != self._trouble:
                self._trouble = trouble
                self._tell_soon()

    def _tell_soon(self) -> None:
        if not self._is_sending:
            self._is_sending = True
            asyncio.get_running_loop().call_later(_TELL_EVERY, self._tell)

    def _tell(self) -> None:
        changed, self._changed, self._is_sending = self._changed, Changed(), False
        room = self.room
        text = json.dumps(
            {
                "kind": "changes",
                "now": time.time(),
                "names": {learner: room.names.get(learner) for learner in changed.names},
                "cells": [room.cell_data(*key) for key in changed.cells if key in room.cells],
                "questions": [room.question_data(each) for each in changed.questions],
                "shown": room.shown,
                "trouble": self._trouble,
            }
        )
        for page in tuple(self.pages):
            page.tell(text)


class _Handler(RequestHandler):
    def initialize(self, board: Board) -> None:
        self.board = board

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def answer(self, status: int, **data: object) -> None:
        self.set_status(status)
        self.finish(data)

    def cannot_write(self) -> None:
        self.set_header("Retry-After", "5")
        self.answer(503, problem="the board cannot write")

    def write_error(self, status_code: int, **kwargs: object) -> None:
        # No traceback and no words of the request; a disk that is full has written nothing, so it is asked again.
        self.answer(status_code, problem="the board could not do this")


class _File(_Handler):
    def get(self, name: str) -> None:
        file, kind = _FILES[name]
        self.set_header("Content-Type", kind)
        self.finish((Path(__file__).parent / file).read_bytes())


class _Join(_Handler):
    async def post(self) -> None:
        data = _data(self.request.body)
        code, token = data.get("code"), data.get("token")
        given = code.upper().encode() if isinstance(code, str) else b""
        if not hmac.compare_digest(given, self.board.code.encode()):
            if await self.board.wrong():
                self.answer(403, error="This is not the board's code.")
            else:
                self.answer(429, problem="too many wrong codes")
        elif not isinstance(token, str) or not is_token(token):
            self.answer(400, problem="no token")
        else:
            try:
                name = await self.board.join(clean_name(data.get("name")), token)
            except sqlite3.Error:
                self.cannot_write()
                return
            if name is None:
                self.answer(403, error="The board is full.")
            else:
                self.answer(200, name=name)


class _Events(_Handler):
    async def post(self) -> None:
        learner = self.board.learner_of(self.request.headers.get("Authorization", ""))
        if learner is None:
            self.answer(401, error="The board does not know you: join again.")
            return
        sent = _data(self.request.body).get("events")
        if not isinstance(sent, list) or len(sent) > MAX_EVENTS:
            self.answer(400, problem=f"a list of at most {MAX_EVENTS} events is wanted")
            return
        now = time.time()
        events = []
        for each in sent:
            with contextlib.suppress(MalformedEventError):
                events.append(from_the_wire(each, now))
        try:
            await self.board.take(learner, events)
        except sqlite3.Error:
            self.cannot_write()
            return
        # Also what is not taken is done: to send it again would change nothing.
        ids = (each.get("id") for each in sent if isinstance(each, dict))
        self.answer(200, done=[each for each in ids if isinstance(each, str)])


class _Leave(_Handler):
    async def post(self) -> None:
        learner = self.board.learner_of(self.request.headers.get("Authorization", ""))
        if learner is None:
            self.answer(401, error="The board does not know you.")
            return
        await self.board.forget(learner)
        self.answer(200)


class Page(WebSocketHandler):
    """An instructor's page: it receives nothing before it has sent the key."""

    def initialize(self, board: Board) -> None:
        """Take the board; tornado calls this for each connection."""
        self.board = board
        self._trusted = False
        self._writing: set[asyncio.Future[None]] = set()

    def get_compression_options(self) -> dict[str, object]:
        """Compress: a page gets the same words many times over."""
        return {"compression_level": 3}

    def open(self, *args: str, **kwargs: str) -> None:
        """Send nothing yet, and disconnect a page that gives no key."""
        asyncio.get_running_loop().call_later(_KEY_SECONDS, self._end_without_key)

    async def on_message(self, message: str | bytes) -> None:
        """Receive the key first, then the instructor's commands."""
        data = _data(message.encode() if isinstance(message, str) else message)
        if self._trusted:
            with contextlib.suppress(sqlite3.Error):
                await self.board.execute(data)
            return
        key = data.get("key")
        given = key.encode() if isinstance(key, str) else b""
        if hmac.compare_digest(given, self.board.key.encode()) and len(self.board.pages) < _MAX_PAGES:
            self._trusted = True
            self.board.pages.add(self)
            self.tell(self.board.everything())
        else:
            await self.board.wrong()
            self.close(4403, "This is not the instructor's key.")

    def on_close(self) -> None:
        """Forget this page."""
        self.board.pages.discard(self)

    def tell(self, text: str) -> None:
        """Send what the page is to know."""
        writing = asyncio.ensure_future(self._written(text))
        self._writing.add(writing)  # the loop itself holds tasks weakly
        writing.add_done_callback(self._writing.discard)

    async def _written(self, text: str) -> None:
        with contextlib.suppress(WebSocketClosedError):
            await self.write_message(text)

    def _end_without_key(self) -> None:
        if not self._trusted:
            self.close(4403, "No key was given.")


def application(board: Board) -> Application:
    """Return the board's addresses and their handlers."""
    given = {"board": board}
    return Application(
        [
            (r"/(|board\.js|board\.css)", _File, given),
            (r"/join", _Join, given),
            (r"/events", _Events, given),
            (r"/leave", _Leave, given),
            (r"/watch", Page, given),
        ],
        log_function=lambda handler: None,  # nobody reads it, and it would hold who was there when
        websocket_ping_interval=20,
        websocket_max_message_size=4096,
    )


@dataclass
class Serving:
    """A board that answers. `port`: where."""

    board: Board
    port: int
    _server: HTTPServer

    async def stop(self) -> None:
        """Take no more requests, and close the file."""
        self._server.stop()
        await self._server.close_all_connections()
        await self.board.close()


def serve(board: Board, host: str, port: int) -> Serving:
    """Listen. To be called on a running event loop.

    Raises:
        OSError: the address is not this machine's, or the port is taken.
    """
    server = HTTPServer(
        application(board),
        max_body_size=LONGEST_BODY,
        max_header_size=8192,
        idle_connection_timeout=300,
        body_timeout=15,
    )
    sockets = bind_sockets(port, host)
    server.add_sockets(sockets)
    return Serving(board, sockets[0].getsockname()[1], server)
