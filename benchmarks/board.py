"""A class board under load: `python -m benchmarks.board`, with a broken network, thieves, and a board that is killed.

Each simulated learner speaks the board's protocol over a connection of its own and keeps an event until the board has
named it. A page watches over the websocket. Counted: events made, kept and kept twice; and how long each took from the
learner to the page.
"""

import argparse
import asyncio
import contextlib
import json
import random
import secrets
import sqlite3
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tornado.websocket import websocket_connect

from course_lib.board.client import Address
from course_lib.board.events import MAX_EVENTS, Event, on_the_wire
from course_lib.tasks import all_tasks
from tests.support.boards import RunningBoard, running_board

_PAUSE = 0.2  # as course_lib/board/sender.py
_KEPT = """
    SELECT COUNT(*), COUNT(DISTINCT id) FROM events NATURAL JOIN learners WHERE learners.name LIKE 'load %'
"""
_TASKS = tuple(task.name for task in all_tasks())


class _CutError(OSError):
    """The network broke, on purpose."""


@dataclass
class Load:
    """The load on the board. `cuts`: the share of requests whose answer never arrives."""

    learners: int = 200
    rate: float = 5.0
    seconds: float = 20.0
    cuts: float = 0.02
    thieves: int = 4
    kill: bool = True


@dataclass
class Counted:
    """Counts of one run."""

    made: int = 0
    kept: int = 0
    ids: int = 0
    cuts: int = 0
    requests: int = 0
    core_seconds: float = 0.0
    thieves: Counter[str] = field(default_factory=Counter)
    steady: list[float] = field(default_factory=list)
    around_kill: list[float] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return self.made - self.kept

    @property
    def twice(self) -> int:
        return self.kept - self.ids

    def report(self) -> str:
        lines = [
            f"events made {self.made}, kept {self.kept}, lost {self.lost}, kept twice {self.twice}",
            f"requests {self.requests}, of which the answer was cut off {self.cuts}",
            f"core time of the board (since its last start), s: {self.core_seconds:.1f}",
            f"from the learner to the page, s: {_quantiles(self.steady)}",
        ]
        if self.around_kill:
            lines.append(f"... around the kill, s: {_quantiles(self.around_kill)}")
        answers = ", ".join(f"{what} {count}" for what, count in sorted(self.thieves.items()))
        lines.append(f"thieves were answered: {answers or 'none were there'}")
        return "\n".join(lines)


def _quantiles(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    at = {name: ordered[min(len(ordered) - 1, int(part * len(ordered)))] for name, part in _PARTS.items()}
    return ", ".join(f"{name} {value:.2f}" for name, value in at.items()) + f" ({len(ordered)} events)"


_PARTS = {"median": 0.5, "95 %": 0.95, "99 %": 0.99, "longest": 1.0}


class _Learner:
    """One simulated learner; `made` has the times of its events, in their order."""

    def __init__(self, number: int, where: Address, load: Load, counted: Counted) -> None:
        self.name = f"load {number}"
        self.made: list[float] = []
        self._token = secrets.token_urlsafe(32)
        self._where, self._load, self._counted = where, load, counted
        self._waiting: list[Event] = []
        self._over = False
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, code: str, until: float) -> None:
        await self._surely("join", {"code": code, "name": self.name, "token": self._token})
        await asyncio.gather(self._answer(until), self._send())
        if self._streams is not None:
            self._streams[1].close()

    async def _answer(self, until: float) -> None:
        while time.time() + (pause := random.expovariate(self._load.rate)) < until:
            await asyncio.sleep(pause)
            number = len(self.made) + 1
            task = _TASKS[number % len(_TASKS)]
            self.made.append(time.time())
            self._waiting.append(Event(uuid.uuid4().hex, number, "verdict", task, "wrong", (), time.time()))
            self._counted.made += 1
        self._over = True

    async def _send(self) -> None:
        while self._waiting or not self._over:
            if batch := self._waiting[:MAX_EVENTS]:
                now = time.time()
                answer = await self._surely("events", {"events": [on_the_wire(each, now) for each in batch]})
                done = set(answer["done"])  # type: ignore[call-overload]
                self._waiting = [each for each in self._waiting if each.id not in done]
            await asyncio.sleep(_PAUSE)

    async def _surely(self, what: str, data: Mapping[str, object]) -> dict[str, object]:
        """Ask until the board has answered."""
        pause = 0.25
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                async with asyncio.timeout(10):
                    status, answer = await self._ask(what, data)
                if status == 200:
                    return answer
            if self._streams is not None:
                self._streams[1].close()
                self._streams = None
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(4.0, 2 * pause)

    async def _ask(self, what: str, data: Mapping[str, object]) -> tuple[int, dict[str, object]]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._where.host, self._where.port)
        reader, writer = self._streams
        self._counted.requests += 1
        writer.write(request(what, json.dumps(data).encode(), self._token))
        await writer.drain()
        if random.random() < self._load.cuts:
            await asyncio.sleep(random.uniform(0, 0.05))
            self._counted.cuts += 1
            raise _CutError
        return await answered(reader)


def request(what: str, body: bytes, token: str) -> bytes:
    """Build a raw HTTP request."""
    lines = (
        f"POST /{what} HTTP/1.1",
        "Host: board",
        f"Authorization: Bearer {token}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


async def answered(reader: asyncio.StreamReader) -> tuple[int, dict[str, object]]:
    """Read an answer's status and data."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(
        int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")
    )
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def _thief(board: RunningBoard, counted: Counted, until: float) -> None:
    """Send guessed codes, keys and tokens, malformed requests, and ones that are too long."""
    attempts = (
        ("a guessed code", "join", b'{"code": "AAAAAAAA", "name": "x", "token": "%s"}' % (b"a" * 43)),
        ("a guessed token", "events", b'{"events": []}'),
        ("too long", "events", b" " * 100_000),
        ("no JSON", "join", b"\xff{["),
    )
    while time.time() < until:
        name, what, body = random.choice(attempts)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection(board.address.host, board.address.port)
                try:
                    writer.write(request(what, body, "b" * 43))
                    words = (await reader.readline()).split()
                    counted.thieves[f"{name} with {int(words[1]) if words else 'a closed connection'}"] += 1
                finally:
                    writer.close()
        await asyncio.sleep(0.05)


async def _watch(page: str, learners: list[_Learner], counted: Counted, outage: list[float]) -> None:
    """Read the instructor's page, and record when each event appears on it."""
    by_name = {learner.name: learner for learner in learners}
    names: dict[int, str] = {}
    seen: Counter[int] = Counter()
    cells: dict[tuple[int, str], int] = {}
    address, _, key = page.partition("/#key=")
    while True:
        try:
            socket = await websocket_connect(
                f"{address.replace('http', 'ws', 1)}/watch", compression_options={}
            )
        except OSError:
            await asyncio.sleep(0.3)
            continue
        await socket.write_message(json.dumps({"key": key}))
        while (message := await socket.read_message()) is not None:
            now, data = time.time(), json.loads(message)
            names |= {int(number): name for number, name in data["names"].items() if name in by_name}
            touched = set()
            for number, task, _passed, _since, tries, *_ in data["cells"]:
                cells[number, task] = tries
                if number in names:
                    touched.add(number)
            for number in touched:
                there = sum(cells.get((number, task), 0) for task in _TASKS)
                for made in by_name[names[number]].made[seen[number] : there]:
                    near = outage and outage[0] - 1 < made < outage[-1] + 5
                    (counted.around_kill if near else counted.steady).append(now - made)
                seen[number] = there


async def _measure(load: Load, board: RunningBoard, stack: contextlib.ExitStack) -> Counted:
    counted = Counted()
    learners = [_Learner(number, board.address, load, counted) for number in range(load.learners)]
    until = time.time() + load.seconds
    outage: list[float] = []
    watching = asyncio.create_task(_watch(board.page, learners, counted, outage))
    running = [asyncio.create_task(each.run(board.code, until)) for each in learners]
    running += [asyncio.create_task(_thief(board, counted, until)) for _ in range(load.thieves)]
    if load.kill:
        await asyncio.sleep(load.seconds / 2)
        outage.append(time.time())
        await asyncio.to_thread(board.kill)
        board = await asyncio.to_thread(stack.enter_context, running_board(board.file))
        outage.append(time.time())
    await asyncio.gather(*running)
    await asyncio.sleep(1.0)  # the page is told a moment later
    watching.cancel()
    times = psutil.Process(board.process.pid).cpu_times()
    counted.core_seconds = times.user + times.system
    with contextlib.closing(sqlite3.connect(board.file)) as kept:
        counted.kept, counted.ids = kept.execute(_KEPT).fetchone()
    return counted


def measure(load: Load, board: RunningBoard | None = None) -> Counted:
    """Run this load against a board: one of its own, or one that runs already (and is not killed)."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        board = board or stack.enter_context(running_board(Path(folder) / "board.sqlite"))
        return asyncio.run(_measure(load, board, stack))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--learners", type=int, default=Load.learners)
    parser.add_argument("--rate", type=float, default=Load.rate, help="events per second and learner")
    parser.add_argument("--seconds", type=float, default=Load.seconds)
    parser.add_argument("--cuts", type=float, default=Load.cuts, help="share of requests without an answer")
    parser.add_argument("--no-kill", dest="kill", action="store_false", help="the board is not killed")
    options = parser.parse_args()
    load = Load(options.learners, options.rate, options.seconds, options.cuts, kill=options.kill)
    print(f"{load.learners} learners, {load.rate:g} events per second each, {load.seconds:g} s")
    print(measure(load).report())


if __name__ == "__main__":
    main()
