"""Ranks on two machines that ssh reaches through the cable between them, and each way in which that is cut."""

import threading
import time

import pytest

from realranks.ranks.hosts.host import HostError
from realranks.ranks.hosts.spread import Hosts
from tests.support import cable_cuts, networks
from tests.support.on_hosts import Cells
from tests.support.ranks_and_kernels import until, until_gone

pytestmark = pytest.mark.skipif(bool(networks.why_no_ssh()), reason=networks.why_no_ssh() or "-")

#: A loop in which all ranks meet, and whose result is wrong when one meeting is lost or counted twice.
SUM = """
total = 0.0
for step in range(STEPS):
    met = torch.ones(1000) * step
    dist.all_reduce(met)
    total += met[-1].item()
    if step == 10:
        print("begun", flush=True)
    time.sleep(0.01)
total
"""


@pytest.fixture
def ssh(tmp_path):
    with networks.two_machines() as machines, networks.ssh_servers(machines, tmp_path) as servers:
        yield servers


@pytest.fixture
def hosts(ssh):
    both = Hosts(ssh.machines.names, ssh.via())
    yield both
    both.close()


class Once:
    """For `on_progress`: does something when all ranks have begun, and remembers what was said of silent hosts."""

    def __init__(self, action):
        self.action = action
        self.at = None
        self.said = []

    def __call__(self, progress):
        if self.at is None and all("begun" in text for text in progress.stdout.values()):
            self.at = time.monotonic()
            self.action()
        if progress.silence:
            self.said.append((time.monotonic() - self.at, progress.silence))


@pytest.mark.parametrize(("how", "seconds"), [("pull", 2), ("pull", 8), ("lose_all", 2), ("lose_all", 8)])
def test_a_cut_in_the_middle_of_a_cell_that_is_mended_changes_nothing(hosts, ssh, how, seconds):
    cells = Cells(hosts)

    def cut():
        getattr(ssh.machines, how)()
        threading.Timer(seconds, ssh.machines.put_back).start()

    once = Once(cut)
    out = cells(SUM.replace("STEPS", "100"), on_progress=once)
    assert once.at is not None
    assert out.ok, out
    assert out.values == dict.fromkeys(range(4), sum(4.0 * step for step in range(100)))
    assert bool(once.said) == (seconds == 8), once.said


@pytest.mark.parametrize("how", ["pull", "lose_all"])
def test_a_cut_that_is_not_mended_is_said_soon_and_the_next_ranks_are_on_the_rest(hosts, ssh, how):
    first, second = ssh.machines.names
    cells = Cells(hosts)
    once = Once(getattr(ssh.machines, how))
    out = cells(SUM.replace("STEPS", "100_000"), on_progress=once)
    assert once.said[0][0] < 6  # it is asked every second, and waited for 4
    assert f"Host {second} has not been heard for 4 s" in once.said[0][1]
    assert out.diagnosis.kind == "host_gone"
    assert f"gone with host {second}" in out.diagnosis.summary
    assert not out.proved
    assert set(out.endings) == {0, 1, 2, 3}
    again = Cells(hosts, 2)
    assert set(again("rank").hosts.values()) == {first}
    ssh.machines.put_back()


def test_when_ssh_is_killed_its_machine_is_gone_at_once_and_nothing_stays_there(hosts, ssh):
    second = ssh.machines.names[1]
    cells = Cells(hosts)
    left = ssh.machines.processes(second) - {ssh.servers[second].pid}
    once = Once(hosts.hosts[1]._process.kill)
    out = cells(SUM.replace("STEPS", "100_000"), on_progress=once)
    assert time.monotonic() - once.at < 8
    assert out.diagnosis.kind == "host_gone"
    until_gone(left, 2)


def test_a_machine_that_is_started_anew_is_gone_and_can_be_named_again(hosts, ssh):
    second = ssh.machines.names[1]
    cells = Cells(hosts)

    def start_anew():
        ssh.crash(second)
        ssh.machines.put_back()
        ssh.start(second)

    out = cells(SUM.replace("STEPS", "100_000"), on_progress=Once(start_anew))
    assert out.diagnosis.kind == "host_gone"
    assert out.diagnosis.culprits == (2, 3)
    both = Hosts(ssh.machines.names, ssh.via())
    try:
        assert Cells(both)("rank").hosts[3] == second
    finally:
        both.close()


def test_what_ssh_refuses_is_said_in_a_line(ssh):
    first, second = ssh.machines.names
    with pytest.raises(HostError, match=rf"^{first}: .*Permission denied \(publickey\)\.$"):
        Hosts([first, second], ssh.via("other"))
    (ssh.folder / "known").write_text("")
    with pytest.raises(HostError, match=r"^[^\n]*Host key verification failed\.$"):
        Hosts([first, second], ssh.via())
    ssh.stop(second)
    with pytest.raises(HostError, match=rf"^{second}: [^\n]*Connection refused\.$"):
        Hosts([second], ssh.via())


def test_in_a_notebook_a_machine_that_is_lost_between_two_cells_is_gone_until_it_is_named_again(
    ssh, new_kernel
):
    first, second = ssh.machines.names
    kernel = new_kernel(within=("ip", "netns", "exec", first))
    line = f"%ranks hosts {first} {second} --via {ssh.via()!r}"
    kernel.run(line)
    asks = "import os\nos.environ['GROUP_RANK']"
    assert "ranks 2,3 | '1'" in kernel.run(f"%%ranks 4\n{asks}").text
    ssh.machines.lose_all()
    until(lambda: f"host {second}: gone" in kernel.run("%ranks hosts").text, 40)
    shown = kernel.run(f"%%ranks\n{asks}").text
    assert "ranks 0-3 | '0'" in shown
    assert "A rank was gone, so all ranks are new: the variables of the old ones are lost." in shown
    ssh.machines.put_back()
    kernel.run(line)
    assert "ranks 2,3 | '1'" in kernel.run(f"%%ranks 4\n{asks}").text


@pytest.mark.alone
def test_nothing_is_left_on_any_machine_when_the_kernel_is_killed(ssh, new_kernel):
    first, second = ssh.machines.names
    kernel = new_kernel(within=("ip", "netns", "exec", first))
    shown = kernel.run(f"%ranks hosts {first} {second} --via {ssh.via()!r}")
    assert "reached by 10.83.0.2 (cable)" in shown.text
    assert (
        "2.0"
        in kernel.run(
            "%%ranks 2\nimport torch, torch.distributed as dist\nx = torch.ones(1)\ndist.all_reduce(x)\nx.item()"
        ).text
    )
    kernel.start("%%ranks\nprint('begun')\nwhile True: dist.all_reduce(x)")
    running = until(ssh.processes)
    assert len(running) > 8
    kernel.kill()
    until_gone(running, 2)


@pytest.mark.slow
def test_whatever_ranks_do_when_the_network_is_cut_the_kernel_answers_and_tells_the_truth():
    with cable_cuts.cuts() as cut:
        for moment in cable_cuts.moments(5, seed=5):
            assert not cut(moment).broken, moment
