"""`ddp-course check --watch` in a real terminal, and without one."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

from course_lib.grading.progress import Progress
from tests.support.submissions import RIGHT, STUB, TASK, WRONG, notebook, task_cell, write

SECOND = "samplers.evaluate"
COMMAND = [sys.executable, "-m", "course_lib.cli", "check", "--watch"]
PATIENCE = 90.0


@pytest.fixture(autouse=True)
def ctrl_c_is_not_ignored():
    """A job in the background of a shell ignores it, and so would what it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def answers(first, second=STUB):
    return notebook(task_cell(first), task_cell(second, SECOND))


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, command):
        self.ours, theirs = pty.openpty()
        self.theirs = theirs
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=self._owned,
        )
        self.read = ""

    def _owned(self):
        import fcntl

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def press(self, keys):
        self.read = ""
        os.write(self.ours, keys.encode())

    def until(self, words):
        """What has been shown since the last key press, up to these words, without what steers the terminal."""
        end = time.monotonic() + PATIENCE
        while words not in self.shown:
            left = end - time.monotonic()
            assert left > 0, f"{words!r} is not in {self.shown!r}"
            if select.select([self.ours], [], [], left)[0]:
                self.read += os.read(self.ours, 65536).decode(errors="replace")
        return self.shown

    @property
    def shown(self):
        return re.sub(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\]8;[^\x1b\x07]*(?:\x1b\\|\x07))", "", self.read)

    def end(self):
        """The exit code, waited for."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            if select.select([self.ours], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.read += os.read(self.ours, 65536).decode(errors="replace")
        return self.process.wait(1)


@pytest.fixture
def terminal():
    made = []

    def start(*words):
        made.append(Terminal([*COMMAND, *words]))
        return made[-1]

    yield start
    for one in made:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()
        os.close(one.ours)
        os.close(one.theirs)


def test_keys_give_hints_the_next_exercise_and_the_list(tmp_path, terminal):
    write(tmp_path / "a.ipynb", answers(STUB))
    on = terminal("a.ipynb")
    shown = on.until("q quit")
    assert f"{TASK}: not attempted" in shown
    assert SECOND not in shown, "one exercise at a time"
    assert "0 of 2 passed" in shown
    assert "Edit and save: a.ipynb, cell 1" in shown
    on.press("h")
    assert f"Hint 1 of 4 for {TASK}" in on.until("q quit")
    on.press("n")
    assert "Edit and save: a.ipynb, cell 2" in on.until("q quit")
    on.press("\x1b[A")  # an arrow means nothing
    on.press("l")
    shown = on.until("q quit")
    assert re.search(rf"  1  · open +{TASK} +a.ipynb, cell 1", shown)
    assert re.search(rf">  2  · open +{SECOND} +a.ipynb, cell 2", shown)
    on.press("7\r")
    on.until("There is no other exercise 7.")
    on.press("1\r")
    assert "Edit and save: a.ipynb, cell 1" in on.until("q quit")
    on.press("q")
    assert on.end() == 0
    assert Progress().of(TASK).hints == 1


def test_a_saved_answer_is_graded_and_a_pass_waits_for_the_key(tmp_path, terminal):
    path = write(tmp_path / "a.ipynb", answers(STUB))
    on = terminal("a.ipynb")
    on.until("q quit")
    on.read = ""
    write(path, answers(WRONG))
    assert f"{TASK}: wrong" in on.until("q quit")
    on.read = ""
    write(path, answers(RIGHT))
    shown = on.until("q quit")
    assert f"{TASK}: pass" in shown
    assert "Press n for the next exercise." in shown
    assert "1 of 2 passed" in shown
    on.press("n")
    assert f"{SECOND}: not attempted" in on.until("q quit")


@pytest.mark.parametrize("when", ["while it waits", "while it grades"])
def test_ctrl_c_ends_it_and_gives_the_terminal_back(tmp_path, terminal, when):
    write(tmp_path / "a.ipynb", answers(STUB if when == "while it waits" else "while True: pass\n" + RIGHT))
    on = terminal("a.ipynb")
    before = termios.tcgetattr(on.theirs)
    on.until("q quit" if when == "while it waits" else "checking")
    assert termios.tcgetattr(on.theirs) != before
    on.press("\x03")
    assert on.end() == 0
    assert termios.tcgetattr(on.theirs) == before
    assert "Traceback" not in on.shown


def test_it_ends_when_the_terminal_is_gone(tmp_path, terminal):
    write(tmp_path / "a.ipynb", answers(STUB))
    on = terminal("a.ipynb")
    on.until("q quit")
    on.press("\x04")
    assert on.end() == 0


def test_without_a_terminal_a_pass_leads_to_the_next_exercise(tmp_path):
    write(tmp_path / "a.ipynb", answers(RIGHT))
    with subprocess.Popen(
        [*COMMAND, "a.ipynb"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if "Edit and save: a.ipynb, cell 2" in line:
                break
        process.send_signal(signal.SIGINT)
        _, problems = process.communicate(timeout=PATIENCE)
    assert f"{TASK}: pass  (a.ipynb, cell 1)" in lines
    assert f"{SECOND}: not attempted  (a.ipynb, cell 2)" in lines
    assert "1 of 2 passed" in lines
    assert (process.returncode, problems) == (0, "Watching; Ctrl-C ends it.\n")
    assert not any("\x1b" in line for line in lines)
