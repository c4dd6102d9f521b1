"""Ranks on two hosts: the same cells, verdicts and endings, and each way in which a host or the network is lost."""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise

import psutil
import pytest

from realranks.ranks.hosts.host import HostError, command_for, here
from realranks.ranks.hosts.spread import Hosts, HostsStart
from realranks.ranks.hosts.wire import GREETING
from realranks.ranks.kernel.gang import GangError, State
from realranks.ranks.protocol import Message
from tests.support import networks, slow_wire
from tests.support.on_hosts import MEETINGS, Cells
from tests.support.ranks_and_kernels import until_gone


@pytest.fixture(scope="module")
def hosts():
    both = Hosts(["a", "b"], here())
    yield both
    both.close()


@pytest.fixture
def own_hosts():
    """Hosts of the test's own, which it may lose."""
    both = Hosts(["a", "b"], here())
    yield both
    both.close()


@pytest.fixture
def cells(hosts):
    mine = Cells(hosts)
    yield mine
    mine.gang.stop()
    mine.gang.reap()


def test_a_cell_runs_on_the_ranks_of_both_hosts_in_the_order_of_the_hosts(cells):
    out = cells("x = torch.ones(1) * rank\ndist.all_reduce(x)\nprint(os.environ['GROUP_RANK'])\nx.item()")
    assert out.ok
    assert out.values == dict.fromkeys(range(4), 6.0)
    assert [out.stdout[rank].strip() for rank in range(4)] == ["0", "0", "1", "1"]
    assert out.hosts == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert out["x"][3].item() == 6.0


def test_what_a_rank_wrote_before_its_cell_ended_is_there_and_long_output_is_cut(cells):
    out = cells("print('first')\nprint('y' * 3_000_000)\nprint('last')")
    for rank in range(4):
        assert out.stdout[rank].startswith("first")
        assert out.stdout[rank].endswith("last\n")
        assert "MB not shown" in out.stdout[rank]


def test_large_values_travel_both_ways(cells):
    out = cells("big = bytes(5_000_000)\nbig")
    assert {len(value) for value in out.values.values()} == {5_000_000}
    assert cells(f"len({'x' * 2_000_000!r})").values[3] == 2_000_000


def test_a_deadlock_across_hosts_is_proved_and_its_ranks_stay(cells):
    out = cells("if rank:\n    dist.all_reduce(torch.ones(1))")
    assert out.proved
    assert out.diagnosis.culprits == (0,)
    assert cells("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()").values[2] == 4.0


def test_the_stop_button_ends_a_cell_on_both_hosts(cells):
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    out = cells("while True: pass")
    timer.join()
    assert out.interrupted
    assert cells("rank").values[3] == 3


def test_a_rank_that_holds_the_gil_in_c_is_ended_in_time_and_its_line_is_told(cells):
    out = cells("if rank == 3:\n    sum(iter(int, 1))\ndist.barrier()", timeout=2)
    assert out.timed_out
    assert out.waiting[3].where == "In [1], line 3"


def test_a_rank_that_a_signal_has_stopped_is_named(cells):
    out = cells("if rank == 2:\n    os.kill(os.getpid(), signal.SIGSTOP)\ndist.barrier()", timeout=20)
    assert out.waiting[2].state == "stopped"


def test_a_rank_that_dies_is_one_of_its_own_host(cells):
    out = cells("if rank == 2:\n    os._exit(3)\ndist.barrier()")
    assert out.exits == {2: 3}
    assert cells.gang.state is State.BROKEN


def test_an_exception_on_the_other_host_keeps_its_line(cells):
    out = cells("if rank == 3:\n    1 / 0")
    assert {rank: error.where for rank, error in out.errors.items()} == {3: "In [1], line 3"}


def test_a_timeline_has_the_ranks_of_both_hosts(cells):
    out = cells("dist.all_reduce(torch.ones(1))", trace=True)
    starts = [out.trace_events[rank][0]["start_ns"] for rank in range(4)]
    assert max(starts) - min(starts) < 5e9
    assert set(out.trace_events) == {0, 1, 2, 3}


def test_a_gang_can_be_rescued_and_restarted(cells):
    cells("kept = rank")
    cells.gang.rescue()
    assert cells("kept").values[3] == 3
    old = cells.gang
    cells.gang = old.restarted()
    assert cells("'kept' in globals()").values[2] is False


def test_nothing_is_left_when_hosts_are_let_go(own_hosts):
    cells = Cells(own_hosts)
    processes = [host.ready.pid for host in own_hosts.hosts] + [link.pid for link in cells.gang.links]
    own_hosts.close()
    until_gone(processes, 5)


def test_a_host_that_is_killed_is_named_and_the_others_are_freed(own_hosts):
    cells = Cells(own_hosts)
    threading.Timer(0.5, os.kill, (own_hosts.hosts[1].ready.pid, signal.SIGKILL)).start()
    out = cells(MEETINGS.replace("STEPS", "10_000"))
    assert out.diagnosis.kind == "host_gone"
    assert out.diagnosis.culprits == (2, 3)
    assert "gone with host b" in out.diagnosis.summary
    assert set(out.endings) == {0, 1, 2, 3}
    assert out.seconds < 8
    kept = cells("rank * 10", only=(0, 1))
    assert kept.ok
    assert kept.values == {0: 0, 1: 10}
    with pytest.raises(GangError, match="A rank has ended"):
        cells("rank")
    again = Cells(own_hosts, 3)
    assert set(again("rank").hosts.values()) == {"a"}


def test_a_host_that_falls_silent_is_named_while_the_cell_runs_and_given_up_later(own_hosts):
    cells = Cells(own_hosts)
    said = []
    os.kill(own_hosts.hosts[1].ready.pid, signal.SIGSTOP)
    out = cells(
        "dist.barrier()" + MEETINGS.replace("STEPS", "10_000"), on_progress=lambda p: said.append(p.silence)
    )
    assert out.diagnosis.kind == "host_gone"
    assert any("Host b has not been heard for 4 s" in each for each in said)
    with pytest.raises(GangError, match="A rank has ended"):
        cells("1")


def test_a_host_that_is_silent_for_a_moment_is_not_given_up(own_hosts):
    cells = Cells(own_hosts)
    pid = own_hosts.hosts[1].ready.pid
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(6.0, os.kill, (pid, signal.SIGCONT)).start()
    out = cells("time.sleep(0.1)\nrank")
    assert out.values == {rank: rank for rank in range(4)}


def test_a_message_that_takes_long_on_a_slow_wire_is_a_sign_of_life(monkeypatch):
    monkeypatch.setattr("realranks.ranks.hosts.host.GONE_SECONDS", 3.0)
    slow = shlex.join([sys.executable, slow_wire.__file__, "250_000"])
    one = Hosts(["a"], f"{slow} {here()}")
    try:
        cells = Cells(one, 1)
        assert len(cells("bytes(1_500_000)").values[0]) == 1_500_000
        assert cells(f"len({'x' * 1_500_000!r})").values[0] == 1_500_000
        # Nor is it taken for silence afterwards, when there is nothing to say.
        with pytest.raises(subprocess.TimeoutExpired):
            one.hosts[0]._process.wait(5.0)
        assert cells("rank").values[0] == 0
    finally:
        one.close()


def test_the_command_that_reaches_a_machine():
    assert command_for("n1", "ssh login srun --jobid 7 --overlap -w {}") == (
        [
            "ssh",
            "login",
            "srun",
            "--unbuffered",
            "--jobid",
            "7",
            "--overlap",
            "-w",
            "n1",
            "ddp-course",
            "host",
        ]
    )
    assert command_for("c1", "docker exec -i {}") == ["docker", "exec", "-i", "c1", "ddp-course", "host"]


def test_the_stop_button_is_heard_while_a_host_with_many_ranks_is_silent(own_hosts):
    cells = Cells(own_hosts, 12)
    pid = own_hosts.hosts[1].ready.pid
    shown = []
    pressed = []

    def press_stop(progress):
        shown.append(progress.seconds)
        if progress.silence and not pressed:
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    os.kill(pid, signal.SIGSTOP)
    out = cells(MEETINGS.replace("STEPS", "10_000"), on_progress=press_stop)
    assert out.interrupted
    assert time.monotonic() - pressed[0] < 30
    assert max(later - one for one, later in pairwise(shown)) < 5
    os.kill(pid, signal.SIGKILL)


def test_when_the_time_is_up_nothing_is_said_of_ranks_on_a_machine_that_does_not_answer(own_hosts):
    cells = Cells(own_hosts)
    pid = own_hosts.hosts[1].ready.pid
    os.kill(pid, signal.SIGSTOP)
    out = cells(MEETINGS.replace("STEPS", "10_000"), timeout=5)
    os.kill(pid, signal.SIGKILL)
    assert out.diagnosis.kind == "unheard"
    assert "b had not been heard" in out.diagnosis.summary
    assert "its machine does not answer" in str(out)


def test_a_late_answer_about_one_process_is_not_taken_for_that_about_another(monkeypatch):
    monkeypatch.setattr("realranks.ranks.hosts.spread.PING_SECONDS", 600.0)
    one = Hosts(["a"], here())
    try:
        runs, stopped = Cells(one, 2).gang.links
        host = one.hosts[0].ready.pid
        os.kill(stopped.pid, signal.SIGSTOP)
        os.kill(host, signal.SIGSTOP)
        assert not runs.is_stopped()  # not known: no answer came in time
        os.kill(host, signal.SIGCONT)
        assert stopped.is_stopped()
    finally:
        one.close()


def test_a_store_that_listens_too_late_is_not_that_of_the_next_ranks(own_hosts, monkeypatch):
    first = own_hosts.hosts[0].ready.pid
    os.kill(first, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr("realranks.ranks.hosts.spread._STORE_SECONDS", 0.2)
        with pytest.raises(GangError, match="a: its store does not start"):
            Cells(own_hosts)
    os.kill(first, signal.SIGCONT)
    assert Cells(own_hosts)("rank").values == {rank: rank for rank in range(4)}


def test_names_and_commands_that_are_none_are_refused_in_a_line():
    for name, via, said in (
        ("-oProxyCommand=x", None, "is no name of a host"),
        ("a; rm", None, "is no name of a host"),
        ("a", "ssh", "say with {} where"),
        ("a", "no-such-program {}", "no-such-program: No such file"),
        ("a", "sh -c 'echo {} is full >&2; exit 3' realranks", "a is full"),
        ("a", "sh -c 'echo {}; echo hello' realranks", "hello"),
    ):
        with pytest.raises(HostError, match=said):
            Hosts([name], via)
    newer = Message("host_ready", {"colour": "red"}).encode()
    speaks = f"import os, time; os.write(1, {GREETING + newer!r}); time.sleep(60)"
    with pytest.raises(HostError, match=r"a: .*its course files may differ .*HostReady"):
        Hosts(["a"], shlex.join(["env", "X={}realranks", sys.executable, "-c", speaks]))
    with pytest.raises(HostError, match="named twice"):
        Hosts(["a", "b", "a"], here())


def test_a_host_with_other_course_files_is_refused(monkeypatch):
    monkeypatch.setattr("realranks.ranks.hosts.spread.code_digests", lambda: {"realranks": "another"})
    with pytest.raises(HostError, match="a has other files of realranks"):
        Hosts(["a"], here())


def test_more_ranks_than_a_host_has_memory_for_are_refused(hosts):
    with pytest.raises(GangError, match="too many for a"):
        HostsStart(hosts, 100_000, "auto")


def test_what_a_login_prints_before_the_host_speaks_is_no_part_of_it():
    both = Hosts(["a"], f"""sh -c 'echo Welcome to {{}}; exec "$@"' sh {here()}""")
    try:
        assert Cells(both, 2)("rank").values == {0: 0, 1: 1}
    finally:
        both.close()


# -- with a network between them --------------------------------------------------------------------------------------

needs_namespaces = pytest.mark.skipif(bool(networks.why_not()), reason=networks.why_not() or "-")


@pytest.fixture
def machines():
    with networks.two_machines() as two:
        yield two


@needs_namespaces
def test_on_two_machines_a_cut_that_heals_is_waited_for_and_no_deadlock_is_seen(machines):
    both = Hosts(machines.names, machines.via)
    try:
        cells = Cells(both)
        assert {one.address for one in both.places.values()} == set(machines.addresses)
        for seconds in (0.3, 1.0, 2.5):
            threading.Timer(0.3, machines.pull).start()
            threading.Timer(0.3 + seconds, machines.put_back).start()
            out = cells(MEETINGS.replace("STEPS", "60"))
            assert out.ok, out
    finally:
        both.close()


@needs_namespaces
def test_on_two_machines_a_network_that_stays_cut_is_said_and_never_called_a_deadlock(machines):
    both = Hosts(machines.names, machines.via)
    try:
        cells = Cells(both)
        threading.Timer(0.3, machines.pull).start()
        began = time.monotonic()
        out = cells(MEETINGS.replace("STEPS", "10_000"), timeout=9)
        assert not out.proved
        assert out.diagnosis.kind == "network_cut"
        assert out.notes == ("The process group could not be rebuilt: the ranks have to be restarted.",)
        assert (
            time.monotonic() - began - out.seconds < 8
        )  # not the 12 s that a new group of these ranks may take
    finally:
        machines.put_back()
        both.close()


@needs_namespaces
def test_a_machine_that_cannot_be_reached_is_named_with_what_was_tried(machines):
    machines.pull()
    with pytest.raises(
        HostError, match=r"cannot be reached by .*\n.*cable\)  (no answer|.*unreachable|no route)"
    ):
        Hosts(machines.names, machines.via)


# -- in a notebook ----------------------------------------------------------------------------------------------------


def test_in_a_notebook(new_kernel):
    kernel = new_kernel()
    shown = kernel.run(f"%ranks hosts a b --via {here()!r}")
    assert "host a: " in shown.text
    assert "neither encrypt" in shown.text
    assert (
        "ranks 0,1 | a" in kernel.run("%%ranks 4\nimport os\nprint('ab'[int(os.environ['GROUP_RANK'])])").text
    )
    assert "ranks 2,3 | b" in kernel.run("%%ranks --only b:*\nprint('b')").text
    assert "rank 3 | b" in kernel.run("%%ranks --only b:1\nprint('b')").text
    assert "no rank is on a host 'c'" in kernel.run("%%ranks --only c:*\n1").text
    assert "rank 2 on b: idle" in kernel.run("%ranks").text
    assert "this machine again" in kernel.run("%ranks hosts off").text
    assert "ranks 0,1 | 0" in kernel.run("%%ranks 2\nimport os\nprint(os.environ['GROUP_RANK'])").text


def test_nothing_is_left_when_a_kernel_with_hosts_is_killed(new_kernel):
    kernel = new_kernel()
    kernel.run(f"%ranks hosts a b --via {here()!r}")
    kernel.run("%%ranks 4\n1")
    # A child that the kernel has forked must not keep hosts from seeing it end.
    forked = int(kernel.run("import os, time\nos.fork() or time.sleep(600)").value)
    try:
        kernel.start("%%ranks\nwhile True: pass")
        hosts = [
            process
            for process in kernel.processes()
            if "realranks.ranks.hosts" in psutil.Process(process).cmdline()
        ]
        assert len(hosts) == 2
        named = {f"ranks-{host}" for host in hosts}
        servers = [process for process in psutil.process_iter(["name"]) if process.info["name"] in named]
        processes = {*hosts, *(each.pid for server in servers for each in (server, *server.children()))}
        assert len(processes) == 2 + 2 + 1 + 4  # hosts, who starts ranks, the store, ranks
        kernel.kill()
        until_gone(processes, 5)
    finally:
        os.kill(forked, signal.SIGKILL)
