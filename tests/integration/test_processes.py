"""Ranks are processes: they die, are stopped, fork, start others - and take all of it with them."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from realranks.outcome.outcome import Kind
from realranks.ranks.kernel.gang import GangError, State
from realranks.ranks.kernel.launcher import warm_up
from tests.support.ranks_and_kernels import ROOT, Ranks, is_gone, until, until_gone

DEATHS = {
    "os._exit": ("os._exit(3)", 3, "exit code 3"),
    "SIGKILL": ("os.kill(os.getpid(), 9)", -9, "killed by SIGKILL"),
    "SIGTERM": ("os.kill(os.getpid(), 15)", -15, "killed by SIGTERM"),
    "SIGSEGV": ("import ctypes\n    ctypes.string_at(0)", -11, "killed by SIGSEGV"),
    "abort": ("os.abort()", -6, "killed by SIGABRT"),
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_rank_that_dies_is_noticed_at_once_and_named(how):
    source, code, words = DEATHS[how]
    ranks = Ranks(3)
    outcome = ranks(
        f"import os, torch.distributed as dist\nif dist.get_rank() == 1:\n    {source}\ndist.barrier()"
    )
    assert outcome.kind is Kind.DIED
    assert outcome.exits == {1: code}
    assert f"Rank 1 died ({words})" in str(outcome)
    assert outcome.seconds < 10
    with pytest.raises(GangError, match="A rank has ended"):
        ranks("1")
    ranks.gang.stop()


def test_what_a_dying_rank_has_printed_is_shown(ranks):
    outcome = ranks("print('last words')\nsys.stdout.flush()\nos._exit(0)")
    assert outcome.stdout == dict.fromkeys(range(4), "last words\n")
    assert outcome.kind is Kind.DIED


def test_a_rank_killed_between_cells_is_noticed_before_the_next(ranks):
    os.kill(ranks.pids()[2], signal.SIGKILL)
    until(lambda: ranks.gang.refresh() or ranks.gang.state is State.BROKEN)
    with pytest.raises(GangError, match="A rank has ended"):
        ranks("1")


def test_a_rank_killed_by_somebody_else_during_a_cell_is_named(ranks):
    killed = []

    def kill(progress):
        if not killed:
            killed.append(os.kill(ranks.pids()[3], signal.SIGKILL))

    outcome = ranks("if rank == 3:\n    time.sleep(60)\ndist.barrier()", on_progress=kill, timeout=20)
    assert outcome.kind is Kind.DIED
    assert outcome.exits == {3: -9}


def test_a_stopped_rank_is_told_from_a_dead_one_and_continued(ranks):
    outcome = ranks("if rank == 2:\n    os.kill(os.getpid(), 19)\ndist.barrier()")
    assert outcome.kind is Kind.HANG
    assert outcome.diagnosis.kind == "rank_stopped"
    assert outcome.diagnosis.culprits == (2,)
    assert outcome.seconds < 10
    assert ranks("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()").values[2] == 4.0


def test_a_rank_stopped_between_cells_is_found_too(ranks):
    os.kill(ranks.pids()[0], signal.SIGSTOP)
    outcome = ranks("rank")
    assert outcome.kind is Kind.HANG
    assert outcome.waiting[0].state == "stopped"
    assert ranks("rank").values[0] == 0


def test_an_endless_loop_in_python_is_stopped_with_state_kept(ranks):
    ranks("kept = 5")
    outcome = ranks("while rank == 1:\n    pass", timeout=0.5)
    assert outcome.kind is Kind.HANG
    assert outcome.waiting[1].state == "computing"
    assert outcome.waiting[1].where.startswith("In [1], line")
    assert ranks("kept").values[1] == 5


def test_an_endless_loop_in_c_that_holds_the_gil_is_ended_and_its_line_named(ranks):
    outcome = ranks("if rank == 1:\n    sum(iter(int, 1))", timeout=0.5)
    assert outcome.kind is Kind.HANG
    assert outcome.waiting[1].state == "silent"
    assert outcome.waiting[1].where == "In [1], line 3"
    assert outcome.seconds < 20


_WAITS_WITH_THE_GIL = """
import ctypes
if rank == 1:
    libc, never = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    libc.sem_init(never, 0, 0)
    libc.sem_wait(never)
dist.barrier()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells what a thread sleeps in")
def test_a_rank_that_waits_inside_of_itself_with_the_gil_held_is_probably_a_deadlock(ranks):
    outcome = ranks(_WAITS_WITH_THE_GIL, patience=9, timeout=60)
    found = outcome.diagnosis
    assert (outcome.kind, found.kind, found.culprits) == (Kind.HANG, "waits_with_the_gil", (1,))
    assert outcome.waiting[1].where == "In [1], line 7"
    assert found.summary.startswith(
        "Probably a deadlock: Rank 1 waits inside of C or C++ code at In [1], line 7 and keeps"
    )
    assert "; ranks 0, 2 and 3 wait for it." in found.summary
    assert any("rank 1 cannot be looked into" in line for line in found.evidence)
    assert ranks("rank").values[1] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells what a thread sleeps in")
def test_a_rank_that_waits_in_c_with_the_gil_held_for_something_else_is_not(ranks):
    """It waits for a process (`system` goes on waiting when a signal comes), not for a thread of its own."""
    outcome = ranks(
        'import ctypes\nif rank == 1:\n    ctypes.PyDLL(None).system(b"sleep 60")\ndist.barrier()',
        patience=4,
        timeout=60,
    )
    assert (outcome.diagnosis.kind, outcome.waiting[1].state) == ("no_progress", "silent")


def test_code_that_swallows_every_interrupt_is_ended_by_force(ranks):
    source = "while True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        pass"
    outcome = ranks(source, timeout=0.3)
    assert outcome.kind is Kind.HANG
    assert outcome.seconds < 20
    assert ranks.gang.state is State.BROKEN
    assert str(outcome)


@pytest.mark.parametrize("method", ["__repr__", "__reduce__"])
def test_a_value_that_takes_for_ever_to_show_or_send_is_stopped_with_state_kept(ranks, method):
    ranks("kept = 5")
    outcome = ranks(f"class Slow:\n    def {method}(self):\n        while True: pass\nSlow()", timeout=0.5)
    assert outcome.kind is Kind.HANG
    assert ranks("kept").values[1] == 5


def test_a_forked_child_that_falls_out_of_the_cell_is_no_second_rank(ranks):
    outcome = ranks("if os.fork() == 0:\n    time.sleep(0.3)\nelse:\n    os.wait()\nrank")
    assert outcome.ok
    assert outcome.values == {0: 0, 1: 1, 2: 2, 3: 3}
    assert ranks("rank").values == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_forked_child_that_raises_is_no_second_rank(ranks):
    outcome = ranks("if os.fork() == 0:\n    raise ValueError('child')\nos.wait()\n'parent'")
    assert outcome.values == dict.fromkeys(range(4), "parent")


STAYS_BEHIND = {
    "a fork that sleeps": "pid = os.fork()\nif pid == 0:\n    time.sleep(1000)\npid",
    "a subprocess": "import subprocess\nsubprocess.Popen(['sleep', '1000']).pid",
    "a background job of a shell": "int(os.popen('sleep 1000 >/dev/null & echo $!').read())",
    "a process in a session of its own": (
        "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True).pid"
    ),
    "a process that ignores signals": (
        "import subprocess\n"
        "p = subprocess.Popen(['sh', '-c', \"trap '' INT TERM HUP; echo; while :; do sleep 1; done\"], "
        "stdout=-1)\np.stdout.readline()\np.pid"
    ),
}


@pytest.mark.parametrize("what", STAYS_BEHIND)
def test_the_gang_takes_with_it(what):
    ranks = Ranks(2)
    outcome = ranks(f"import os, time\n{STAYS_BEHIND[what]}")
    left = list(outcome.values.values())
    assert len(left) == 2, str(outcome)
    assert not any(is_gone(pid) for pid in left)
    ranks.gang.stop()
    until_gone(left, 5)


def test_a_stopped_gang_leaves_no_process(ranks):
    pids = ranks.pids()
    ranks.gang.stop()
    ranks.gang.reap()
    assert all(is_gone(pid) for pid in pids)


def test_threads_left_behind_do_not_end_up_in_the_next_cells_verdict(ranks):
    ranks("import threading\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()")
    assert ranks("rank").ok
    ranks.gang.stop()
    ranks.gang.reap()
    assert not any(link.alive for link in ranks.gang.links)


def test_a_rank_that_closes_all_its_descriptors_is_lost_but_hangs_nobody(ranks):
    outcome = ranks("if rank == 1:\n    os.closerange(3, 256)\nrank", timeout=30)
    assert outcome.kind is Kind.DIED
    assert 1 in outcome.exits


def test_replies_that_a_cell_forges_and_that_nobody_can_read_do_no_harm(ranks):
    """The kernel looks at its ranks while the cell runs, and fetches afterwards."""
    outcome = ranks(
        "from realranks.ranks.inside import worker\n"
        "from realranks.ranks.protocol import Message\n"
        "if rank == 1:\n"
        "    for number in range(300):\n"
        "        for kind, told in (('seen', {'look': 3}), ('freed', {}), ('fetched', {'found': 'yes'})):\n"
        "            worker.CURRENT.channel.send(Message(kind, {'id': number, **told}))\n"
        "time.sleep(0.7)\n"
        "rank"
    )
    assert outcome.values == {number: number for number in outcome.ranks}
    assert ranks("rank + 1").values[1] == 2


def test_a_rank_that_writes_nonsense_to_the_kernel_is_ended(ranks):
    outcome = ranks(
        "import socket\n"
        "for fd in map(int, os.listdir('/proc/self/fd')):\n"
        "    try:\n"
        "        if os.readlink(f'/proc/self/fd/{fd}').startswith('socket') and rank == 1:\n"
        "            s = socket.socket(fileno=os.dup(fd))\n"
        "            if s.family == socket.AF_UNIX:\n"
        "                s.send(b'nonsense' * 100)\n"
        "    except OSError:\n"
        "        pass\n"
        "time.sleep(60 if rank == 1 else 0)",
        timeout=30,
    )
    assert outcome.kind is Kind.DIED
    assert 1 in outcome.exits
    assert outcome.seconds < 20


@pytest.mark.parametrize("name", ["isinstance", "len"])
def test_a_rank_whose_code_replaces_what_python_provides_is_lost_but_hangs_nobody(ranks, name):
    outcome = ranks(f"import builtins\nif rank == 1: builtins.{name} = lambda *_: 0", timeout=30)
    assert outcome.kind is Kind.DIED
    assert list(outcome.exits) == [1]
    assert "something of Python's own" in str(outcome)


def test_a_signal_handler_that_raises_between_cells_costs_nobody_a_rank(ranks, tmp_path):
    ranks(
        "import signal\n"
        "def ring(*_):\n"
        f"    open({str(tmp_path)!r} + f'/{{rank}}', 'w').close()\n"
        "    raise ValueError('too late for any cell')\n"
        "signal.signal(signal.SIGALRM, ring)"
    )
    pids = ranks.pids()
    # In the instant in which a rank has just answered, nobody could say whether its answer has been sent.
    until(lambda: all(psutil.Process(pid).status() == psutil.STATUS_SLEEPING for pid in pids))
    for pid in pids:
        os.kill(pid, signal.SIGALRM)
    until(lambda: len(list(tmp_path.iterdir())) == 4)
    assert ranks("rank").values == {number: number for number in range(4)}
    assert ranks.pids() == pids


def test_an_exception_that_a_thread_has_raised_in_the_main_thread_costs_no_job(ranks, tmp_path):
    """Python raises it when the main thread runs again, which is when the next job has come."""
    ranks(
        "import ctypes, threading\n"
        "main = ctypes.c_ulong(threading.main_thread().ident)\n"
        "def later():\n"
        "    time.sleep(0.3)\n"
        "    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(ValueError))\n"
        f"    open({str(tmp_path)!r} + f'/{{rank}}', 'w').close()\n"
        "threading.Thread(target=later).start()"
    )
    pids = ranks.pids()
    until(lambda: len(list(tmp_path.iterdir())) == 4)
    assert ranks("rank", timeout=20).kind in (Kind.OK, Kind.RAISES), (
        "the exception may come in the cell itself"
    )
    assert ranks("rank").values == {number: number for number in range(4)}
    assert ranks.pids() == pids


def test_when_the_process_that_starts_ranks_is_killed_the_next_gang_gets_a_new_one():
    ranks = Ranks(2)
    pids = ranks.pids()
    os.kill(warm_up().pid, signal.SIGKILL)
    until_gone(pids, 5)
    ranks.gang.stop()
    again = Ranks(2)
    assert again("1 + 1").values == {0: 2, 1: 2}
    again.gang.stop()


def test_ranks_listen_on_the_loopback_interface_only(ranks):
    ranks("dist.barrier()")
    listening = [
        connection.laddr.ip
        for pid in [*ranks.pids(), *(child.pid for child in psutil.Process().children(recursive=True))]
        if not is_gone(pid)
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_thirty_gangs_leave_no_descriptor_open():
    def one() -> None:
        ranks = Ranks(2)
        ranks("1")
        ranks.gang.stop()
        ranks.gang.reap()

    one()
    before = psutil.Process().num_fds()
    for _ in range(30):
        one()
    assert psutil.Process().num_fds() <= before


@pytest.mark.slow
@pytest.mark.alone
def test_64_ranks_start_and_reduce():
    ranks = Ranks(64)
    source = "import torch, torch.distributed as dist\nx = torch.ones(1)\ndist.all_reduce(x)\nx.item()"
    outcome = ranks(source)
    assert str(outcome) == "ranks 0-63 | 64.0"
    hang = ranks("if dist.get_rank() != 5:\n    dist.barrier()")
    assert hang.diagnosis.culprits == (5,)
    assert ranks(source).ok
    ranks.gang.stop()
    ranks.gang.reap()


def test_workers_of_selfcheck_end_with_the_process_that_wants_their_work():
    code = (
        "import time\nfrom tools.commands.selfcheck import worker_pool\npool = worker_pool(1)\n"
        "pool.submit(print, 'ready', flush=True)\npool.submit(time.sleep, 60)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        workers = psutil.Process(process.pid).children()
        process.kill()
    assert workers
    until_gone(worker.pid for worker in workers)
