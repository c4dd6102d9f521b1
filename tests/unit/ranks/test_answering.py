"""What a rank says of its own threads, as Linux tells it in /proc (here: a folder of the same form)."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from realranks.ranks.inside.control_thread import get_status
from realranks.ranks.inside.traffic import awake, is_asleep


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
    assert awake(tasks=tasks(tmp_path, python="S", pt_gloo_runloop=state)).others == ("pt_gloo_runloop",)


def test_threads_that_sleep_are_not_awake_and_the_course_s_own_do_not_count(tmp_path):
    place = tasks(tmp_path, python="R", pt_gloo_runloop="S", pt_autograd_0="S")
    assert awake(tasks=place).others == ("python",)
    assert not awake(frozenset({100}), place).others


def test_a_thread_of_gloos_connections_says_how_often_it_has_had_a_core(tmp_path):
    place = tasks(tmp_path, gloo_tcp_loop="R", gloo_listen="S")
    (tmp_path / "100" / "schedstat").write_text("5000 40 17\n", encoding="ascii")
    (tmp_path / "101" / "schedstat").write_text("5000 40 3\n", encoding="ascii")
    assert awake(tasks=place).loops == {100: (17, True), 101: (3, False)}
    assert not awake(tasks=place).others


def test_a_thread_of_gloos_that_spins_has_had_a_core_and_what_it_used_is_told(tmp_path):
    """After a peer has reset a connection gloo's thread may do so for ever, hardly ever giving the core away."""
    place = tasks(tmp_path, gloo_tcp_loop="R")
    (tmp_path / "100" / "schedstat").write_text("120000000 40 1\n", encoding="ascii")
    told = awake(tasks=place)
    assert told.loops == {100: (25, True)}
    assert told.loop_seconds == pytest.approx(0.12)


def test_a_thread_that_has_ended_meanwhile_is_passed_over(tmp_path):
    (tmp_path / "99").mkdir()
    assert not awake(tasks=tasks(tmp_path, pt_gloo_runloop="S")).others


def test_where_the_system_tells_nothing_everybody_is_asleep(tmp_path):
    assert is_asleep(1, str(tmp_path / "none"))
    assert not awake(tasks=str(tmp_path / "none")).others


@pytest.mark.skipif(sys.platform != "linux", reason="threads are looked at in /proc")
def test_the_thread_that_asks_is_awake():
    assert not is_asleep(threading.get_native_id())


def test_a_brief_look_leaves_out_what_takes_long():
    seen = get_status(threading.main_thread().ident or 0, brief=True)
    assert (seen.brief, seen.records, seen.facts) == (True, (), None)


@pytest.mark.parametrize(
    ("backend", "on_gpus", "seen"),
    [
        ("gloo", True, True),
        ("cpu:gloo,cuda:nccl", False, True),
        ("cpu:gloo,cuda:nccl", True, False),
        ("nccl", True, False),
    ],
)
def test_what_goes_from_gpu_to_gpu_is_not_seen(monkeypatch, backend, on_gpus, seen):
    import torch
    from torch.distributed import distributed_c10d

    from realranks.ranks.inside import groups

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: on_gpus)
    monkeypatch.setitem(distributed_c10d._world.pg_map, object(), (backend, None))
    assert groups.only_through_sockets() is seen
