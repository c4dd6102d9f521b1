"""Hosts that dial in: who may, what a cut costs, and what is left when they or the kernel end."""

import ctypes
import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import yaml
import zmq

from course_lib.doctor import explained
from course_lib.ranks.codec import decode
from course_lib.ranks.hosts import dial
from course_lib.ranks.hosts.host import GONE_SECONDS, HostError
from course_lib.ranks.hosts.join_file import JoinFile
from course_lib.ranks.hosts.joining import Joining
from course_lib.ranks.hosts.spread import Hosts, HostsStart
from course_lib.ranks.kernel.gang import Gang
from tests.support import networks
from tests.support.ranks_and_kernels import until, until_gone
from tests.support.relay import relay_to

IMPORTS = "import os, time\nimport torch, torch.distributed as dist\nrank = dist.get_rank()"
#: Output that is checked in full, while ranks meet; and a value of 5 MB that is not the same on two ranks.
LOUD = """
for step in range(STEPS):
    print(f"{step:06d}" * 20)
    dist.all_reduce(torch.ones(1))
    time.sleep(0.01)
bytes([rank]) * 5_000_000
"""


def started(path, **environment):
    """A host that dials in by this file."""
    return subprocess.Popen(
        [sys.executable, "-m", "course_lib.host", *(() if environment else ("--join", str(path)))],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(host, seconds=30.0):
    """Its exit code, and the last line that it has printed."""
    _, said = host.communicate(timeout=seconds)
    return host.returncode, said.strip().splitlines()[-1] if said.strip() else ""


def listening(processes):
    """The ports that these processes, or those below them, have open beyond this machine's own files."""
    everybody = {one.pid for process in processes for one in (process, *process.children(recursive=True))}
    return [
        one.laddr
        for one in psutil.net_connections("inet")
        if one.pid in everybody and one.status == psutil.CONN_LISTEN
    ]


class Dialled:
    """A kernel's side, and the hosts that dial it, through a relay or not."""

    def __init__(self, folder, number=2, address="127.0.0.1"):
        self.path = folder / "join.json"
        self.joining = Joining(number, self.path, address)
        self.processes = []
        self.hosts = None
        self.gang = None

    def through(self, relay):
        file = replace(decode(JoinFile, json.loads(self.path.read_text())), port=relay.port)
        file.write(self.path)

    def start(self, size=4, others=0):
        self.processes += [started(self.path) for _ in range(self.joining.number - others)]
        while not self.joining.complete:
            self.joining.wait_for_another()
        self.hosts = Hosts(self.joining.names, joined=self.joining)
        self.gang = Gang(size, start=HostsStart(self.hosts, size, "auto"))
        self.gang.wait_ready()
        self(IMPORTS)
        return self

    def __call__(self, source, **options):
        options.setdefault("timeout", 60.0)
        return explained(self.gang.run_cell(source, label="In [1]", first_line=2, **options))

    def close(self):
        if self.gang is not None:
            self.gang.stop()
            self.gang.reap()
            self.gang = None
        (self.hosts or self.joining).close()
        for process in self.processes:
            try:
                process.communicate(timeout=15)
            finally:
                process.kill()


@pytest.fixture
def dialled(tmp_path):
    found = Dialled(tmp_path)
    yield found
    found.close()


@pytest.fixture
def alone(tmp_path):
    """Where one host is waited for."""
    found = Dialled(tmp_path, 1)
    yield found
    found.close()


def test_cells_and_verdicts_on_hosts_that_have_dialled_in(dialled):
    cells = dialled.start()
    name = dialled.joining.names[0]
    assert dialled.joining.names == [name, f"{name}-2"]
    out = cells("x = torch.ones(1) * rank\ndist.all_reduce(x)\nx.item()")
    assert out.values == dict.fromkeys(range(4), 6.0)
    assert out.hosts == {0: name, 1: name, 2: f"{name}-2", 3: f"{name}-2"}
    out = cells("if rank:\n    dist.all_reduce(torch.ones(1))")
    assert out.proved
    assert out.diagnosis.culprits == (0,)
    assert cells("big = bytes(5_000_000)\nlen(big)").values[3] == 5_000_000
    assert dialled.joining.refused() == {}


def test_the_join_file_is_for_its_user_alone_and_replaces_only_another_one(dialled, tmp_path):
    assert stat.S_IMODE(dialled.path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [dialled.path]
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    with pytest.raises(HostError, match="something else than a join file is there"):
        Joining(1, other)
    assert other.read_text() == "mine"
    dialled.path.chmod(0o640)
    assert "others may read: chmod 600" in ended(started(dialled.path))[1]
    before = dialled.path.read_text()
    another = Joining(1, dialled.path)
    newer = dialled.path.read_text()
    assert newer != before
    dialled.close()
    assert dialled.path.read_text() == newer
    another.close()
    assert not dialled.path.exists()


def test_no_key_is_in_a_command_line_and_nothing_listens_before_and_after(tmp_path):
    me = psutil.Process()
    before = listening([me])
    dialled = Dialled(tmp_path)
    try:
        port = dialled.joining.bound.port
        assert [one for one in listening([me]) if one not in before] == [("127.0.0.1", port)]
        dialled.start()
        keys = [value for name, value in json.loads(dialled.path.read_text()).items() if name.endswith("key")]
        words = [word for process in me.children(recursive=True) for word in process.cmdline()]
        assert len(keys) == 3
        assert not [word for word in words if any(key in word for key in keys)]
    finally:
        dialled.close()
    assert listening([me]) == before


def test_strangers_wrong_keys_and_nonsense_are_refused_and_counted_and_hosts_still_come(alone):
    port = alone.joining.bound.port
    chance = random.Random(1)
    for size in (0, 1, 10, 64, 300, 5000, 100_000):
        for greeting in (b"", b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as wire, suppress(OSError):  # it has hung up
                wire.sendall(greeting + chance.randbytes(size))
    with zmq.Context() as context, context.socket(zmq.DEALER) as plain:
        plain.linger = 0
        plain.reconnect_ivl = -1
        monitor = plain.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        plain.connect(f"tcp://127.0.0.1:{port}")
        plain.send(b"let me in")
        assert monitor.poll(10_000)
        plain.disable_monitor()
    public, secret = (key.decode() for key in zmq.curve_keypair())
    file = decode(JoinFile, json.loads(alone.path.read_text()))
    wrong = alone.path.with_name("wrong.json")
    replace(file, public_key=public, secret_key=secret).write(wrong)
    assert ended(started(wrong)) == (1, "ddp-course host: the notebook refuses the key of this join file.")
    strangers = {"who does not speak as a host with a join file": 7 * 3 + 1}
    until(lambda: alone.joining.refused() == {"a host with another key": 1, **strangers})
    assert alone.start(2)("rank").values == {0: 0, 1: 1}


def test_a_file_that_has_expired_is_refused_on_both_sides(tmp_path):
    path = tmp_path / "join.json"
    joining = Joining(1, path, seconds=0.01)
    try:
        assert f"{path} has expired" in ended(started(path))[1]
        file = decode(JoinFile, json.loads(path.read_text()))
        replace(file, expires=file.expires + 1000).write(path)
        assert "does not let this host in: the join file has expired" in ended(started(path))[1]
        assert joining.refused() == {"a host: the join file has expired": 1}
        with pytest.raises(HostError, match="has expired, and 0 of 1 hosts have come"):
            joining.wait_for_another()
    finally:
        joining.close()


def test_a_file_of_other_course_files_is_refused_on_both_sides(alone, monkeypatch):
    file = decode(JoinFile, json.loads(alone.path.read_text()))
    replace(file, digest="another").write(alone.path)
    assert "belongs to other course files" in ended(started(alone.path))[1]
    monkeypatch.setattr("course_lib.ranks.hosts.join_file.course_digest", lambda: "another")
    forged = dial.Dialled(JoinFile.read(alone.path))
    try:
        with pytest.raises(HostError, match="does not let this host in: it has other course files"):
            forged.serve()
    finally:
        forged.close()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"port": 1}', "[" * 100_000, "\0", '{"port": "x"}'])
def test_what_is_not_a_join_file_is_refused_in_a_line(tmp_path, content):
    path = tmp_path / "join.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(HostError, match="is not a join file"):
        JoinFile.read(path)


def test_a_notebook_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("course_lib.ranks.hosts.dial.FIRST_SECONDS", 1.0)
    path = tmp_path / "join.json"
    joining = Joining(1, path)
    file = JoinFile.read(path)
    other = replace(file, server_key=zmq.curve_keypair()[0].decode())
    for asked, said in ((other, "does not know this join file"), (file, "nothing listens there")):
        waiting = dial.Dialled(asked)
        try:
            with pytest.raises(HostError, match=said):
                waiting.serve()
        finally:
            waiting.close()
            joining.close()


def test_numbers_and_addresses_that_are_none_are_refused_in_a_line(tmp_path):
    for number, address, said in (
        (0, "127.0.0.1", "1 to 1024, not 0"),
        (1, "0.0.0.0", r"--address 0.0.0.0: this machine has .*127.0.0.1 \(lo\)"),
        (1, "nowhere", "--address nowhere: this machine has"),
    ):
        with pytest.raises(HostError, match=said):
            Joining(number, tmp_path / "join.json", address)
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(HostError, match="Not a directory"):
        Joining(1, tmp_path / "file.txt" / "join.json")
    joining = Joining(1, tmp_path / "join.json", "lo")
    joining.close()
    assert joining.address == "127.0.0.1"


@pytest.mark.slow
def test_no_other_host_may_join_when_all_have_come_nor_one_that_was_started_again(alone):
    cells = alone.start(2)
    late = started(alone.path)
    refused = "all hosts of these ranks have come; it may join the next, which %ranks listen opens"
    assert ended(late) == (1, f"ddp-course host: the notebook does not let this host in: {refused}.")
    assert cells("rank").values == {0: 0, 1: 1}
    alone.processes[0].kill()
    again = started(alone.path, DDP_COURSE_JOIN=str(alone.path))
    assert refused in ended(again)[1]
    assert alone.joining.refused() == {f"a host: {refused}": 2}
    out = cells("rank")
    assert out.diagnosis.kind == "host_gone"
    following = Joining(1, alone.path)
    try:
        alone.processes.append(started(alone.path))
        following.wait_for_another()
        assert following.complete
    finally:
        following.close()


@pytest.mark.parametrize("seconds", [0.0, 1.0, pytest.param(6.0, marks=pytest.mark.slow)])
def test_a_connection_that_is_cut_in_a_cell_is_resumed_without_loss(alone, seconds):
    with relay_to(alone.joining.bound.port) as relay:
        alone.through(relay)
        cells = alone.start(2)

        def cut():
            relay.cut()
            time.sleep(seconds)  # how long the cut lasts
            relay.mend()

        timer = threading.Timer(0.5, cut)
        timer.start()
        out = cells(LOUD.replace("STEPS", "150"))
        timer.join()
        assert out.ok, out
        assert {rank: (len(value), value[-1]) for rank, value in out.values.items()} == {
            rank: (5_000_000, rank) for rank in range(2)
        }
        for rank in range(2):
            assert out.stdout[rank] == "".join(f"{step:06d}" * 20 + "\n" for step in range(150))
        assert cells("rank").values == {0: 0, 1: 1}


@pytest.mark.slow
def test_many_cuts_while_much_is_under_way_both_ways(alone):
    with relay_to(alone.joining.bound.port) as relay:
        alone.through(relay)
        cells = alone.start(2)
        over = threading.Event()

        def cut():
            while not over.wait(0.3):
                relay.cut()
                relay.mend()

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            for number in range(8):
                text = str(number) * 1_000_000
                out = cells(f"text = {text!r}\n(text * 3 + str(rank)).encode()")
                assert out.values == {rank: (text * 3 + str(rank)).encode() for rank in range(2)}
        finally:
            over.set()
            cutter.join()


@pytest.mark.slow
def test_a_connection_that_stays_cut_costs_the_host(alone):
    with relay_to(alone.joining.bound.port) as relay:
        alone.through(relay)
        cells = alone.start(2)
        said = []
        threading.Timer(0.3, relay.cut).start()
        out = cells(LOUD.replace("STEPS", "100_000"), on_progress=lambda p: said.append(p.silence))
        assert out.diagnosis.kind == "host_gone"
        assert any("has not been heard for 4 s" in one for one in said)
        code, line = ended(alone.processes[0], 2 * GONE_SECONDS + 20)
        assert code == 1
        assert f"has not been heard for {GONE_SECONDS:.0f} s" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_host_that_its_scheduler_ends_is_gone_at_once(alone, number):
    cells = alone.start(2)
    began = time.monotonic()
    threading.Timer(0.3, alone.processes[0].send_signal, (number,)).start()
    out = cells(LOUD.replace("STEPS", "100_000"))
    assert out.diagnosis.kind == "host_gone"
    assert "joined the notebook" in ended(alone.processes[0])[1]
    assert time.monotonic() - began < GONE_SECONDS - 1


def test_the_process_that_has_the_port_ends_and_the_hosts_with_it(alone):
    cells = alone.start(2)
    (router,) = [
        one for one in psutil.Process().children() if "course_lib.ranks.hosts.router" in one.cmdline()
    ]
    threading.Timer(0.3, router.kill).start()
    out = cells("time.sleep(60)")
    assert out.diagnosis.kind == "host_gone"
    assert ended(alone.processes[0], 2 * GONE_SECONDS + 20)[0] == 1


def test_no_thread_of_zmq_is_where_ranks_are_forked(alone):
    alone.start(2)
    (host,) = alone.processes
    below = psutil.Process(host.pid).children(recursive=True)
    names = {
        pid: [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]
        for pid in (host.pid, *(one.pid for one in below), *(link.pid for link in alone.gang.links))
    }
    assert [pid for pid, threads in names.items() if any("ZMQ" in name for name in threads)] == [host.pid]


@pytest.mark.slow
def test_torchrun_starts_hosts_and_their_ranks_are_none_of_its_own(alone):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "-m", "course_lib.host"]
    run = subprocess.Popen([*torchrun, "--join", str(alone.path)], stderr=subprocess.PIPE, text=True)
    alone.processes.append(run)
    cells = alone.start(2, others=1)
    out = cells("[dist.is_torchelastic_launched(), os.environ['WORLD_SIZE'], dist.get_world_size()]")
    assert list(out.values.values()) == [[False, "2", 2]] * 2
    alone.close()
    assert run.returncode == 0


# -- with a network between them --------------------------------------------------------------------------------------


@contextmanager
def inside(namespace):
    """What this thread starts is in this network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as here, open(f"/run/netns/{namespace}") as there:
        assert libc.setns(there.fileno(), 0) == 0
        try:
            yield
        finally:
            assert libc.setns(here.fileno(), 0) == 0


@pytest.mark.slow
@pytest.mark.skipif(bool(networks.why_not()), reason=networks.why_not() or "-")
def test_a_cable_that_is_pulled_for_some_seconds_costs_nothing(tmp_path):
    with networks.two_machines() as machines:
        here, there = machines.names
        with inside(here):
            dialled = Dialled(tmp_path, 1, "cable")
        try:
            assert dialled.joining.address == machines.addresses[0]
            with inside(there):
                dialled.processes.append(started(dialled.path))
            cells = dialled.start(2, others=1)
            for seconds in (1, 6):
                threading.Timer(0.3, machines.pull).start()
                threading.Timer(0.3 + seconds, machines.put_back).start()
                out = cells(LOUD.replace("STEPS", "200"))
                assert out.ok, out
                assert len(out.stdout[1]) == 200 * 121
        finally:
            dialled.close()


# -- in a notebook ----------------------------------------------------------------------------------------------------


def test_in_a_notebook(new_kernel, tmp_path):
    kernel = new_kernel()
    path = tmp_path / "join.json"
    assert "No host is waited for" in kernel.run("%ranks listen").text
    assert "%ranks listen N waits" in kernel.run("%ranks listen two").text
    shown = kernel.run(f"%ranks listen 2 --join {path}").text
    assert "Only this machine can reach this address" in shown
    assert f"ddp-course host --join {path}" in shown
    _, _, manifest = shown.partition("an image that has the course\n")
    job = yaml.safe_load(manifest.partition("\n\n")[0])
    assert job["spec"]["template"]["spec"]["volumes"][0]["secret"]["defaultMode"] == 0o400
    hosts, forked = [started(path), started(path, DDP_COURSE_JOIN=str(path))], 0
    try:
        shown = kernel.run("%ranks hosts").text
        assert "2 of 2 hosts have come" in shown
        assert "neither encrypt" in shown
        kernel.run("%%ranks 4\nimport os")
        assert "ranks 2,3 | 1" in kernel.run("%%ranks\nprint(os.environ['GROUP_RANK'])").text
        # A child that the kernel has forked must not keep hosts from seeing it end.
        forked = int(kernel.run("import os, time\nos.fork() or time.sleep(600)").value)
        kernel.start("%%ranks\nwhile True: pass")
        ranks = [one.pid for host in hosts for one in psutil.Process(host.pid).children(recursive=True)]
        processes = [pid for pid in kernel.processes() if pid != forked]
        kernel.kill()
        until_gone([*ranks, *processes], 5)
        assert [ended(host)[0] for host in hosts] == [0, 0]
    finally:
        if forked:
            os.kill(forked, signal.SIGKILL)
        for host in hosts:
            host.kill()


def test_waiting_for_hosts_can_be_stopped_and_ended(new_kernel, tmp_path):
    kernel = new_kernel()
    before = listening([psutil.Process(kernel.pid)])
    kernel.run(f"%ranks listen 1 --join {tmp_path / 'join.json'}")
    waits = kernel.start("%ranks hosts")
    assert "0 of 1 hosts have come" in kernel.wait_for("display_data", waits)["content"]["data"]["text/plain"]
    kernel.press_stop()
    assert kernel.finish(waits).status == "error"
    assert "0 of 1 hosts have come: none yet" in kernel.run("%ranks listen").text
    assert "No host is waited for" in kernel.run("%ranks listen off").text
    assert listening([psutil.Process(kernel.pid)]) == before
