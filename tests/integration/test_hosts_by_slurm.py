"""Ranks on the nodes of a Slurm allocation, which `srun --overlap` reaches."""

import shlex
import sys
import threading

import pytest

from realranks.ranks.hosts.host import HostError
from realranks.ranks.hosts.spread import Hosts
from tests.support import networks, slurm
from tests.support.on_hosts import MEETINGS, Cells
from tests.support.ranks_and_kernels import until

pytestmark = pytest.mark.skipif(bool(slurm.why_not()), reason=slurm.why_not() or "-")

HOST = f"{shlex.quote(sys.executable)} -m realranks.ranks.hosts"


@pytest.fixture(scope="module")
def cluster():
    with networks.two_machines() as machines, slurm.slurm(machines) as mine:
        yield mine


@pytest.fixture
def job(cluster):
    """The number of an allocation of both nodes."""
    said = cluster.ask("salloc", "--nodes=2", "--ntasks=2", "--no-shell")
    number = next(word for word in said.split() if word.isdecimal())
    yield number
    cluster.ask("scancel", number)
    until(lambda: not cluster.ask("squeue", "--noheader").strip())


def via(cluster, job):
    """As from a login node: `srun --jobid`."""
    srun = ["srun", f"--jobid={job}", "--overlap", "-N1", "-n1", "-w", "{}", *shlex.split(HOST)]
    return shlex.join(
        ["env", f"SLURM_CONF={cluster.folder}/slurm.conf", *cluster.on(cluster.machines.names[0], *srun)]
    )


def ranks_and_hosts(cluster):
    """The host processes of the course on both nodes, and their ranks."""
    found = set()
    for name in cluster.machines.names:
        for pid in cluster.machines.processes(name):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if b"realranks" in file.read():
                        found.add(pid)
            except OSError:
                pass
    return found


def test_cells_run_on_the_nodes_of_an_allocation_and_nothing_stays_there(cluster, job):
    both = Hosts(cluster.machines.names, via(cluster, job))
    try:
        cells = Cells(both)
        out = cells("x = torch.ones(1) * rank\ndist.all_reduce(x)\nx.item()")
        assert out.values == dict.fromkeys(range(4), 6.0)
        assert set(out.hosts.values()) == set(cluster.machines.names)
        assert cells("if rank:\n    dist.all_reduce(torch.ones(1))").proved
        assert cells("len('" + "x" * 2_000_000 + "')").values[3] == 2_000_000
    finally:
        both.close()
    until(lambda: not ranks_and_hosts(cluster), 10)


def test_an_allocation_that_ends_takes_its_hosts_with_it(cluster, job):
    both = Hosts(cluster.machines.names, via(cluster, job))
    try:
        cells = Cells(both)
        threading.Timer(0.5, cluster.ask, ("scancel", job)).start()
        out = cells(MEETINGS.replace("STEPS", "100_000"))
        assert out.diagnosis.kind == "host_gone"
        until(lambda: not ranks_and_hosts(cluster), 10)
    finally:
        both.close()


def test_a_batch_job_that_holds_its_machines_is_entered_when_it_runs(cluster, job):
    said = cluster.ask("sbatch", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep infinity")
    queued = said.split()[-1]

    def is_in_state(state):
        return cluster.ask("squeue", "--noheader", f"--jobs={queued}", "--format=%T").strip() == state

    try:
        assert is_in_state("PENDING"), said
        cluster.ask("scancel", job)
        until(lambda: is_in_state("RUNNING"), 60)
        both = Hosts(cluster.machines.names, via(cluster, queued))
        try:
            out = Cells(both)("x = torch.ones(1) * rank\ndist.all_reduce(x)\nx.item()")
            assert out.values == dict.fromkeys(range(4), 6.0)
            assert {host.ready.cores for host in both.hosts} == {2}
        finally:
            both.close()
    finally:
        cluster.ask("scancel", queued)


def test_what_srun_refuses_is_said_in_a_line(cluster):
    first = cluster.machines.names[0]
    with pytest.raises(HostError, match=rf"^{first}: [^\n]*Invalid job id specified"):
        Hosts([first], via(cluster, "12345"))


def test_a_notebook_in_an_allocation_uses_the_line_of_the_documentation(cluster, job, new_kernel):
    first, second = cluster.machines.names
    kernel = new_kernel(
        within=cluster.on(first), SLURM_CONF=str(cluster.folder / "slurm.conf"), SLURM_JOB_ID=job
    )
    line = f"%ranks hosts {first} {second} --via 'srun --overlap -N1 -n1 -w {{}} {HOST}'"
    assert f"host {second}: 2 cores" in kernel.run(line).text
    assert (
        f"ranks 2,3 | {second}"
        in kernel.run("%%ranks 4\nimport os\nprint(os.environ['SLURMD_NODENAME'])").text
    )
    kernel.start("%%ranks\nwhile True: pass")
    kernel.kill()
    until(lambda: not ranks_and_hosts(cluster), 10)
