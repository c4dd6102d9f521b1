"""Lesson 16's two machines: agents meet over the wire, hosts run on both, and a cable that was pulled is put back."""

from pathlib import Path

import pytest

from course_lib.lessons.cluster import lab
from course_lib.lessons.cluster.lab import MEETINGS, last_words, left_over, meet, two_machines
from realranks.cells.run import run_quietly
from realranks.ranks.hosts.spread import Hosts, HostsStart
from realranks.ranks.kernel.gang import Gang
from tests.support import networks

needs_namespaces = pytest.mark.skipif(bool(networks.why_not()), reason=networks.why_not() or "-")
STEPS = """
import time
import torch, torch.distributed as dist
from course_lib.lessons.cluster.lab import pull_cable
for step in range(20):
    if step == 10 and dist.get_rank() == 0:
        pull_cable(seconds=2)
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
step + 1
"""


@pytest.fixture(scope="module")
def machines():
    return two_machines()


@needs_namespaces
@pytest.mark.parametrize("name", [name for name in MEETINGS if "address" in name or "should" in name])
def test_agents_on_two_machines_meet_at_the_right_address_only(machines, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    met = meet(machines, name, "static")
    assert (met.words == ("both ranks run",) * 2) is (name == "as it should be"), met


@needs_namespaces
def test_ranks_on_both_machines_wait_for_a_cable_to_come_back(machines):
    hosts = Hosts(["a", "b"], machines.via)
    try:
        gang = Gang(4, start=HostsStart(hosts, 4, "auto"))
        gang.wait_ready()
        out = gang.run_cell(STEPS, label="In [1]", first_line=2, timeout=60.0)
        assert out.values == dict.fromkeys(range(4), 20), str(out)
        gang.stop()
        gang.reap()
    finally:
        hosts.close()


@needs_namespaces
def test_what_comes_before_the_last_line_tells_an_agent_that_never_reached_the_store_from_one_whose_store_went(
    machines, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    failed = "The connection to the C10d store has failed"
    _, nobody = meet(machines, "an address that nobody has", "c10d").words
    assert failed in nobody
    assert "connect to" in nobody
    Path("job_7.py").write_text("import os, time\nwhile not os.path.exists('begun'): time.sleep(0.1)")
    Path("job_8.py").write_text("import time\nopen('begun', 'w').close()\ntime.sleep(60)")
    line = "torchrun --rdzv-backend=c10d --rdzv-endpoint=10.77.0.1"
    lines = [f"{line} --rdzv-id={job} --rdzv-conf=is_host={job == 7} job_{job}.py" for job in (7, 8)]
    out = run_quietly(machines.torchrun, "\n".join(lines), ranks=2, init=False, timeout=120)
    gone = last_words(out.values[1])
    assert failed in gone
    assert "Failed to recv, got 0 bytes" in gone


def test_lines_for_two_machines_run_where_both_are_this_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lab, "_holder", lambda _: (_ for _ in ()).throw(OSError))
    Path("who.py").write_text("import torch.distributed as dist\ndist.init_process_group('gloo')")
    for way in ("--node-rank={}", "--rdzv-backend=c10d --rdzv-endpoint=10.77.0.1 --rdzv-conf=is_host={}"):
        line = f"GLOO_SOCKET_IFNAME=eth0 torchrun --nnodes=2 --master-addr=10.77.0.1 {way} who.py"
        commands = "\n".join(line.format(number) for number in range(2))
        out = run_quietly(two_machines().torchrun, commands, ranks=2, init=False, timeout=120)
        assert all(log.endswith("exit code 0") for log in out.values.values()), out.values


def test_hung_workers_do_not_hear_ctrl_c_and_are_ended_by_kill():
    out = run_quietly(left_over, ranks=1, init=False, timeout=240)
    assert out.values == {0: {"Ctrl-C": [0, 1], "kill": []}}, str(out)
