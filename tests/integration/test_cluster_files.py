"""The course's file for Slurm, in a real Slurm of two nodes."""

import os
import re
import sys
from pathlib import Path

import pytest

from course_lib.lessons.cluster.lab import file_text
from tests.support import networks, slurm
from tests.support.ranks_and_kernels import until

TRAIN = """
import os
import socket

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
place = "RANK", dist.get_rank(), "LOCAL_RANK", os.environ["LOCAL_RANK"], "on", socket.gethostname()
print(*place, total.item(), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(bool(slurm.why_not()), reason=slurm.why_not() or "-")
def test_the_file_for_slurm_starts_every_rank_once_on_two_nodes(tmp_path):
    """As it is, without the line that asks for GPUs, and with fewer cores per task."""
    text = re.sub(r"^#SBATCH --gpus-per-node.*\n", "", file_text("train.sbatch"), flags=re.MULTILINE)
    (tmp_path / "train.sbatch").write_text(text.replace("--cpus-per-task=32", "--cpus-per-task=1"))
    (tmp_path / "train.py").write_text(TRAIN)
    with networks.two_machines() as machines, slurm.slurm(machines) as cluster:
        path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        said = cluster.ask(
            "env", path, "sbatch", "--parsable", f"--chdir={tmp_path}", f"{tmp_path}/train.sbatch"
        )
        until(lambda: not cluster.ask("squeue", "--noheader").strip(), 120)
        log = (tmp_path / f"train-{said.strip()}.log").read_text()
        found = sorted(
            (rank, local, machines.names.index(machine), total)
            for rank, local, machine, total in re.findall(r"RANK (\d) LOCAL_RANK (\d) on (\S+) ([\d.]+)", log)
        )
    assert [rank for rank, *_ in found] == ["0", "1", "2", "3"], log
    assert sorted((node, local) for _, local, node, _ in found) == [(0, "0"), (0, "1"), (1, "0"), (1, "1")]
    assert {total for *_, total in found} == {"4.0"}
    assert len([*tmp_path.glob("logs/*/*/attempt_0/*/stderr.log")]) == 4
