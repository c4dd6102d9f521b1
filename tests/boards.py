"""A real board in a process of its own, as `ddp-course board` starts it; and the wire that a network is, to be cut."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_lib.board.client import Address, address_of

ROOT = Path(__file__).parents[1]
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
