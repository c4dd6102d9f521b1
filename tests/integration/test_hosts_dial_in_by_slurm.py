"""The batch job that `%ranks listen` shows starts hosts on the nodes of a Slurm."""

import sys
import threading

import pytest

from course_lib.notebook.hosts import starters
from tests.integration.test_hosts_dial_in import LOUD, Dialled, inside
from tests.support import networks

slurm = pytest.importorskip("tests.support.slurm")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(bool(slurm.why_not()), reason=slurm.why_not() or "-"),
]


def test_the_batch_job_that_is_shown_starts_hosts_and_what_ends_it_ends_them(tmp_path):
    with networks.two_machines() as machines, slurm.slurm(machines) as cluster:
        (tmp_path / "join").mkdir()
        with inside(machines.names[0]):
            dialled = Dialled(tmp_path / "join", 2, "cable")
        try:
            _, _, job = starters(dialled.joining).partition("sbatch FILE\n")
            script = tmp_path / "hosts.sh"
            script.write_text(
                job.partition("\n\n")[0].replace("ddp-course host", f"{sys.executable} -m course_lib.host")
            )
            said = cluster.ask("sbatch", f"--output={tmp_path}/job.log", str(script))
            cells = dialled.start(4, others=2)
            assert dialled.joining.names == sorted(machines.names)
            out = cells("x = torch.ones(1) * rank\ndist.all_reduce(x)\nx.item()")
            assert out.values == dict.fromkeys(range(4), 6.0)
            threading.Timer(0.5, cluster.ask, ("scancel", said.split()[-1])).start()
            assert cells(LOUD.replace("STEPS", "100_000")).diagnosis.kind == "host_gone"
        finally:
            dialled.close()
