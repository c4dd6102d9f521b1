"""The cheat sheet's commands for the night, typed as they stand there, at a job that was started as it says."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from course_lib.lab.process_groups import free_port
from tests.support.ranks_and_kernels import ROOT, until, until_gone
from tools.cheatsheet import find_commands

PAGE = find_commands(ROOT)
BIN = Path(sys.executable).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="py-spy reads a child here only on Linux"),
    pytest.mark.skipif(shutil.which("py-spy", path=str(BIN)) is None, reason="there is no py-spy"),
]
SCRIPT = """
import faulthandler, os, signal, sys
import torch, torch.distributed as dist

faulthandler.register(signal.SIGUSR1, all_threads=False)
dist.init_process_group("gloo")
life, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], dist.get_rank()

def train():
    total = torch.ones(1)
    dist.all_reduce(total)
    open(f"{sys.argv[1]}/ready {life} {rank} {os.getpid()}", "w").close()
    if rank == 1:
        dist.barrier()
    dist.all_reduce(total)

train()
"""


def command(beginning: str) -> str:
    """The command of the page that begins so."""
    (found,) = {text for text in re.findall("`([^`]+)`", PAGE) if text.startswith(beginning)}
    return found


@dataclass
class Job:
    """A job whose two ranks hang, `name` its script's in the place of the page's train.py."""

    name: str
    folder: Path
    agent: int

    def typed(self, line: str) -> str:
        """What a line of the page gives, typed in a shell beside the job."""
        asked = subprocess.run(
            ["bash", "-c", line.replace("train.py", self.name)],
            cwd=self.folder,
            env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return asked.stdout + asked.stderr

    def ranks(self, life: int = 0) -> dict[int, int]:
        """The process of each rank, once both of this life hang."""
        ready = until(lambda: len(found := [*self.folder.glob(f"ready {life} *")]) == 2 and found, 60)
        return {int(path.name.split()[2]): int(path.name.split()[3]) for path in ready}

    def log(self, rank: int) -> str:
        """What a rank of the first life has written to stderr."""
        (path,) = self.folder.glob(f"logs/*/attempt_0/{rank}/stderr.log")
        return path.read_text()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """Started by the page's line on one machine instead of two, with the words for a scheduler that asks first."""
    name = f"night_{uuid.uuid4().hex}.py"
    (tmp_path / name).write_text(SCRIPT)
    line = command("TORCH_DISABLE_SHARE_RDZV_TCP_STORE").replace("HOST:29500", f"127.0.0.1:{free_port()}")
    line = line.replace("--nnodes=2 --nproc-per-node=8", "--nnodes=1 --nproc-per-node=2")
    asks = f"{command('--signals-to-handle')} {command('--shutdown-timeout')} train.py {tmp_path}"
    line = "exec env " + line.replace("train.py", asks).replace("train.py", name)
    with subprocess.Popen(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        stdout=(tmp_path / "console").open("w"),
        stderr=subprocess.STDOUT,
    ) as agent:
        family: list[psutil.Process] = []
        try:
            yield Job(name, tmp_path, agent.pid)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                family = psutil.Process(agent.pid).children(recursive=True)
            agent.kill()
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def test_both_ways_to_look_show_a_rank_that_stands_elsewhere(job):
    ranks = job.ranks()
    stacks = job.typed(command("pgrep -f"))
    for rank, function in ((0, "all_reduce"), (1, "barrier")):
        seen = stacks.partition(f"Process {ranks[rank]}:")[2].partition("\nProcess ")[0]
        assert re.search(rf"{function} .*\n.*wrapper.*\n.*train \({job.name}", seen), stacks
        job.typed(command("kill -USR1").replace("PID", str(ranks[rank])))
        until(
            lambda rank=rank, function=function: re.search(
                rf"in {function}\n.*in wrapper\n.*in train\n", job.log(rank)
            )
        )
    said = job.typed(f"{command('ddp-course doctor --attach')} --pids {ranks[0]},{ranks[1]}")
    assert "barrier() at" in said, said


def test_a_job_started_by_the_page_restarts_says_what_came_first_and_goes_when_told(job):
    first = job.ranks()
    os.kill(first[1], signal.SIGKILL)
    second = job.ranks(life=1)
    assert set(second.values()).isdisjoint(first.values())
    assert "attempt_0/0/stderr.log" in job.typed(command("grep -rl"))  # what rank 1's death did to rank 0
    left = job.typed(command("pgrep -af"))
    assert all(str(pid) in left for pid in (job.agent, *second.values())), left
    job.typed(command("pkill -f"))
    until_gone([*second.values(), job.agent], 60)


def test_a_signal_to_torchrun_reaches_the_ranks(job):
    job.ranks()
    os.kill(job.agent, signal.SIGUSR1)
    for rank in (0, 1):
        until(lambda rank=rank: "in train" in job.log(rank))
