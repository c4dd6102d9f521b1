"""Lesson 16's two machines: agents meet over the wire, hosts run on both, and a cable that was pulled is put back."""

import pytest

from course_lib.lab.cluster import MEETINGS, left_over, meet, two_machines
from course_lib.notebook.run import run_quietly
from course_lib.ranks.hosts.spread import Hosts, HostsStart
from course_lib.ranks.kernel.gang import Gang
from tests.support import networks

needs_namespaces = pytest.mark.skipif(bool(networks.why_not()), reason=networks.why_not() or "-")
STEPS = """
import time
import torch, torch.distributed as dist
from course_lib.lab.cluster import pull_cable
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


def test_workers_outlive_an_agent_that_was_killed_and_not_one_that_was_interrupted():
    out = run_quietly(left_over, ranks=1, init=False, timeout=120)
    assert out.values == {0: {"kill -9": [0, 1], "Ctrl-C": []}}, str(out)
