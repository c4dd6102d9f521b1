"""Ranks that are in no call of torch's, looked at from outside: do they stand still, or get on?"""

import contextlib
import os
import subprocess
import sys
import time

import pytest

from realranks.cli import attach
from realranks.ranks.external.processes import asleep_for
from realranks.scripts import external
from realranks.scripts.external import assess_snapshots, snapshots

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
HEAD = "import os, select, socket, threading, time\nrank = int(os.environ['RANK'])\none, other = socket.socketpair()\n"
#: In functions: of a module's top level py-spy shows no variables.
STILL = "def work():\n    if rank == 1: time.sleep(600)\n    one.recv(1)\nwork()\n"
WITH_A_LOCK = "def work():\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()\nwork()\n"
GET_ON = {
    "a rank computes": "def work():\n    while rank == 1: pass\n    one.recv(1)\nwork()\n",
    "a rank is sent to": (
        "def work():\n    if rank == 1:\n        threading.Thread(target=send, daemon=True).start()\n"
        "    while True: one.recv(1)\n"
        "def send():\n    while True:\n        time.sleep(0.3)\n        other.send(b'x')\nwork()\n"
    ),
    "a rank counts its short sleeps": (
        "def work():\n    for turn in range(10**9):\n        time.sleep(0.2 if rank == 1 else 60)\nwork()\n"
    ),
}


@contextlib.contextmanager
def ranks(folder, text):
    """Three processes that are ranks and have no torch, which have been at work for a moment."""
    script = folder / "train.py"
    script.write_text(HEAD + text)
    told = {"WORLD_SIZE": "3", "MASTER_PORT": "1"}
    started = [
        subprocess.Popen([sys.executable, str(script)], env={**os.environ, **told, "RANK": str(rank)})
        for rank in range(3)
    ]
    try:
        yield [each.pid for each in started]
    finally:
        for each in started:
            each.kill()
            each.wait()


def seen(pids, least, sleepers=3):
    """What is said of them once so many as are meant to sleep have slept so long: the last began after the first."""
    deadline = time.monotonic() + 60
    while sum((asleep_for(pid) or 0) >= least for pid in pids) < sleepers and time.monotonic() < deadline:
        time.sleep(0.1)
    (told,) = snapshots(pids)
    found = assess_snapshots([told])
    return found, attach._text(found, 3)


@pytest.mark.parametrize(
    ("text", "kind", "lines"),
    [
        (
            STILL,
            "unknown",
            [
                "ranks 0,2  asleep in one.recv() at train.py, line 6",
                "rank 1     asleep in time.sleep() at train.py, line 5",
            ],
        ),
        (WITH_A_LOCK, "probable", ["ranks 0-2  asleep in lock.acquire() at train.py, line 7"]),
    ],
)
def test_ranks_that_all_stand_still_are_not_said_to_get_on(tmp_path, text, kind, lines):
    with ranks(tmp_path, text) as pids:
        soon, words = seen(pids, 1)
        assert "The ranks get on" not in words
        found, words = seen(pids, external._POLLING)
    assert soon.outcome is not None
    assert (found.firm, found.kind) == (True, kind)
    assert "The ranks get on" not in words
    for line in lines:
        assert line in words


@pytest.mark.parametrize("name", GET_ON)
def test_ranks_of_which_one_moves_get_on(tmp_path, name):
    with ranks(tmp_path, GET_ON[name]) as pids:
        found, words = seen(pids, 1, sleepers=1)
    assert not found.firm, words
    assert "The ranks get on" in words or "may still go on" in words
