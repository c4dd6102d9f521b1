"""A real board in a process of its own, as `ddp-course board` starts it; and the wire that a network is, to be cut."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_lib.board.client import Address, address_of

ROOT = Path(__file__).parents[2]
#: A board that starts beside a busy test run; it takes about a second alone.
START_SECONDS = 60


@dataclass
class RunningBoard:
    """A board that answers. `page`: the instructor's address, with the key."""

    process: subprocess.Popen[str]
    address: Address
    code: str
    page: str
    file: Path

    @property
    def key(self) -> str:
        return self.page.partition("#key=")[2]

    def kill(self) -> None:
        """As when the instructor's machine is switched off: nothing is said and nothing is closed."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(START_SECONDS)


@contextlib.contextmanager
def running_board(file: Path, *options: str) -> Iterator[RunningBoard]:
    """Start a board on this file, and end it."""
    command = [sys.executable, "-m", "course_lib.cli", "board", "--file", str(file), *options]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )
    try:
        assert process.stdout is not None
        learners, instructor = process.stdout.readline(), process.stdout.readline()
        joins = re.search(r"%board (\S+) (\w+)", learners)
        opens = re.search(r"http\S+", instructor)
        if joins is None or opens is None:
            raise RuntimeError(f"The board did not start: {learners}{instructor}")
        yield RunningBoard(process, address_of(joins[1]), joins[2], opens[0], file)
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


class Wire:
    """A network between learners and a board: whole at first, and then as bad as a test wants it."""

    def __init__(self, there: Address) -> None:
        self.whole, self._answers = True, True
        self._there = (there.host, there.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address(False, "127.0.0.1", self._listening.getsockname()[1], "")
        self._ends: set[socket.socket] = set()
        self._held = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def unresponsive(self) -> None:
        """Requests arrive, their answers do not: the worst place for a cut."""
        self.whole = self._answers = False

    def cut(self) -> None:
        """Nothing passes; what was open is closed."""
        self.whole = self._answers = False
        with self._held:
            self._there, self._kept = ("", 0), self._there
            for end in self._ends:
                _shut(end)

    def mend(self) -> None:
        """All passes again."""
        if not self._there[0]:
            self._there = self._kept
        self.whole = self._answers = True

    def close(self) -> None:
        """Take no more connections, and close those that are open."""
        self._listening.close()
        with self._held:
            for end in self._ends:
                _shut(end)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                threading.Thread(target=self._connect, args=(here,), daemon=True).start()

    def _connect(self, here: socket.socket) -> None:
        with here, contextlib.suppress(OSError), self._open() as there:
            with self._held:
                self._ends |= {here, there}
            back = threading.Thread(target=self._carry, args=(there, here, True), daemon=True)
            back.start()
            self._carry(here, there, False)
            back.join()
            with self._held:
                self._ends -= {here, there}

    def _open(self) -> socket.socket:
        if not self._there[0]:
            raise ConnectionRefusedError
        return socket.create_connection(self._there)

    def _carry(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if answers and not self._answers:
                    break
                target.sendall(data)
        _shut(source)
        _shut(target)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
