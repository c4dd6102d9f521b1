"""A terminal in JupyterLab, as `ddp-course lab` starts it: in the learner's copy, with the course's own commands."""

import asyncio
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from tornado.websocket import websocket_connect

from tests.browser.servers import Course, Server, course_lab, serving

#: Starts a program with a terminal of its own.
WITH_A_TERMINAL = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])"]
HERE = Path(sys.executable).parent
LESSON = "notebooks/00_first_ranks.ipynb"


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Course:
    return Course(tmp_path_factory.mktemp("course"))


def typed(server: Server, line: str, folder: str, seconds: float = 60.0) -> str:
    """What a terminal prints; in a thread of its own, because a browser of other tests has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _typed(server, line, folder, seconds)).result()


async def _typed(server: Server, line: str, folder: str, seconds: float) -> str:
    """Open a terminal where the launcher does, type a line, and return what it has printed."""
    name = server.call("POST", "api/terminals", {"cwd": folder})["name"]
    socket = await websocket_connect(
        server.url(f"terminals/websocket/{name}").replace("http:", "ws:"), connect_timeout=seconds
    )
    # The end is put together by the shell, so that the line itself, which is echoed, does not hold it.
    await socket.write_message(json.dumps(["stdin", f"{line}; echo begin''-end $?\r"]))
    printed = ""
    async with asyncio.timeout(seconds):
        while not (end := re.search(r"begin-end (\d+)", printed)):
            message = await socket.read_message()
            assert message is not None, printed
            kind, *texts = json.loads(message)
            printed += "".join(texts) if kind == "stdout" else ""
    socket.close()
    assert end[1] == "0", printed
    return printed


@pytest.mark.parametrize("own_terminal", [True, False], ids=["with a terminal", "without"])
def test_a_terminal_is_in_the_copy_and_finds_the_course_s_commands(
    course, tmp_path, monkeypatch, own_terminal
):
    """Without a terminal of its own, a server would open login shells, and /etc/profile sets PATH anew."""
    outside = [part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != HERE]
    monkeypatch.setenv("PATH", os.pathsep.join(outside))
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    command = [*(WITH_A_TERMINAL if own_terminal else []), str(HERE / "ddp-course"), "lab"]
    with serving(command, course, tmp_path / "home") as server:
        printed = typed(
            server, "pwd; for one in ddp-course torchrun python; do command -v $one; done", "notebooks"
        )
    assert str(course.learner / "notebooks") in printed
    for name in ("ddp-course", "torchrun", "python"):
        assert str(HERE / name) in printed


@pytest.mark.slow
def test_what_lesson_00_says_of_a_terminal_is_true(course, tmp_path):
    """Its script lies where a terminal finds it, and the line is the one in the cell."""
    with course_lab(course, tmp_path / "home") as server:
        cells = [cell.source for cell in nbformat.read(course.learner / LESSON, as_version=4).cells]
        scratch = next(cell for cell in cells if "scratch.mkdir" in cell)
        (magic, script) = next(
            cell.split("\n", 1) for cell in cells if cell.startswith("%%writefile scratch/train.py")
        )
        run = next(cell for cell in cells if "!torchrun" in cell and "train.py" in cell).split("\n")[0]
        here = course.learner / "notebooks"
        subprocess.run([sys.executable, "-c", scratch], cwd=here, check=True)
        (here / magic.split()[1]).write_text(script, encoding="utf-8")
        printed = typed(server, run.removeprefix("log = !"), "notebooks")
    assert re.search(r"4 processes, accuracy 0\.\d\d", printed), printed
