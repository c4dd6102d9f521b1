"""What a rank says of its own threads."""

from __future__ import annotations

import hashlib
import sys
import threading
from pathlib import Path

import pytest

from course_lib.ranks.answering import look


@pytest.mark.skipif(sys.platform != "linux", reason="threads are looked at in /proc")
@pytest.mark.parametrize(("name", "asleep"), [("pt_gloo_runloop", False), ("gloo_tcp_loop", True)])
def test_a_rank_with_a_worker_that_runs_is_not_asleep(name: str, asleep: bool):
    """gloo's threads are none of Python's: here one that hashes without the interpreter's lock stands for them."""
    asked, stop = threading.Event(), threading.Event()

    def compute() -> None:
        block = bytes(50_000_000)
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name, encoding="utf-8")
        asked.set()
        while not stop.is_set():
            hashlib.sha256(block)

    thread = threading.Thread(target=compute)
    thread.start()
    seen: list[bool] = []

    def ask() -> None:
        asked.wait()
        seen.extend(look(threading.main_thread().ident or 0, brief=True)["asleep"] for _ in range(20))
        stop.set()

    answering = threading.Thread(target=ask, name="course-answers")
    answering.start()
    answering.join()
    thread.join()
    # Between two hashes the thread may be waiting for the interpreter's lock.
    assert (seen.count(False) > 10) is not asleep
