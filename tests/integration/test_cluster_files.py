"""The course's file for Slurm, in a real Slurm of two nodes."""

import os
import re
import sys
import time
from pathlib import Path

import pytest

from course_lib.lab.cluster import file_text
from tests.support import slurm

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
@pytest.mark.skipif(bool(slurm.why_not()), reason=slurm.why_not() or "-")
def test_the_file_for_slurm_starts_every_rank_once_on_two_nodes(tmp_path):
    """As it is, without the line that asks for GPUs, and with fewer cores per task."""
    text = re.sub(r"^#SBATCH --gpus-per-node.*\n", "", file_text("train.sbatch"), flags=re.MULTILINE)
    (tmp_path / "train.sbatch").write_text(text.replace("--cpus-per-task=32", "--cpus-per-task=1"))
    (tmp_path / "train.py").write_text(TRAIN)
    daemons = tmp_path / "slurm"
    daemons.mkdir()
    with slurm.two_nodes(daemons) as cluster:
        if cluster is None:
            pytest.skip(f"Slurm's nodes do not start here: {(daemons / 'daemons.log').read_text()[-400:]}")
        path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        said = cluster.run("env", path, "sbatch", "--parsable", "train.sbatch", cwd=tmp_path)
        log = tmp_path / f"train-{said.strip()}.log"
        until = time.monotonic() + 120
        while cluster.idle() < 2 or not log.exists():
            assert time.monotonic() < until, log.read_text() if log.exists() else "no log"
            time.sleep(0.5)
        found = sorted(re.findall(r"RANK (\d) LOCAL_RANK (\d) on m(\d) ([\d.]+)", log.read_text()))
    assert [rank for rank, *_ in found] == ["0", "1", "2", "3"], log.read_text()
    assert sorted((node, local) for _, local, node, _ in found) == [
        ("0", "0"),
        ("0", "1"),
        ("1", "0"),
        ("1", "1"),
    ]
    assert {total for *_, total in found} == {"4.0"}
    assert len([*tmp_path.glob("logs/*/*/attempt_0/*/stderr.log")]) == 4
