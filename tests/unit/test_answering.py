"""What a rank says of its own threads, as Linux tells it in /proc (here: a folder of the same form)."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from course_lib.ranks.answering import is_asleep, look, workers_awake


def tasks(folder: Path, **threads: str) -> str:
    """A folder like /proc/self/task with these threads, each with its state."""
    for number, (name, state) in enumerate(threads.items(), start=100):
        place = folder / str(number)
        place.mkdir()
        (place / "comm").write_text(f"{name}\n", encoding="utf-8")
        # A name may hold anything, also what looks like the fields behind it.
        (place / "stat").write_text(f"{number} ({name}) R) {state} 1 2 3\n", encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("state", ["R", "D"])
def test_a_worker_of_torchs_that_runs_or_waits_for_a_disk_is_awake(tmp_path, state):
    assert workers_awake(tasks(tmp_path, python="S", pt_gloo_runloop=state))


def test_workers_that_sleep_are_not_awake(tmp_path):
    assert not workers_awake(tasks(tmp_path, python="R", pt_gloo_runloop="S", pt_autograd_0="S"))


def test_the_threads_of_gloos_connections_are_no_sign_of_anything(tmp_path):
    assert not workers_awake(tasks(tmp_path, python="S", gloo_tcp_loop="R"))


def test_a_thread_that_has_ended_meanwhile_is_passed_over(tmp_path):
    (tmp_path / "99").mkdir()
    assert not workers_awake(tasks(tmp_path, pt_gloo_runloop="S"))


def test_where_the_system_tells_nothing_everybody_is_asleep(tmp_path):
    assert is_asleep(1, str(tmp_path / "none"))
    assert not workers_awake(str(tmp_path / "none"))


@pytest.mark.skipif(sys.platform != "linux", reason="threads are looked at in /proc")
def test_the_thread_that_asks_is_awake():
    assert not is_asleep(threading.get_native_id())


def test_a_brief_look_leaves_out_what_takes_long():
    seen = look(threading.main_thread().ident or 0, brief=True)
    assert seen["records"] == []
    assert "facts" not in seen
