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

from course_lib.lessons.process_groups.lab import free_port
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


#: How the page's commands find a job's ranks.
BY_ID = "grep -lsz '^TORCHELASTIC_RUN_ID=JOB$' /proc/[0-9]*/environ"


def command(beginning: str) -> str:
    """The command of the page that begins so, or is just that."""
    found = {text for text in re.findall("`([^`]+)`", PAGE) if text.startswith(beginning)}
    (one,) = found & {beginning} or found
    return one


@dataclass
class Job:
    """A job whose two ranks hang; `id` and the `name` of its script take the place of the page's JOB and train.py."""

    id: str
    name: str
    folder: Path
    agent: int

    def typed(self, line: str) -> str:
        """What a line of the page gives, typed in a shell beside the job."""
        asked = subprocess.run(
            ["bash", "-c", line.replace("JOB", self.id).replace("train.py", self.name)],
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


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Job]:
    """By the page's line on one machine instead of two, with the words for a scheduler that asks first."""
    job, name = uuid.uuid4().hex, "train.py"
    folder.mkdir()
    (folder / name).write_text(SCRIPT)
    line = command("TORCH_DISABLE_SHARE_RDZV_TCP_STORE").replace("HOST:29500", f"127.0.0.1:{free_port()}")
    line = line.replace("--nnodes=2 --nproc-per-node=8", "--nnodes=1 --nproc-per-node=2").replace("JOB", job)
    asks = f"{command('--signals-to-handle')} {command('--shutdown-timeout')} {name} {folder}"
    line = "exec env " + line.replace("train.py", asks)
    with subprocess.Popen(
        ["bash", "-c", line],
        cwd=folder,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        stdout=(folder / "console").open("w"),
        stderr=subprocess.STDOUT,
    ) as agent:
        family: list[psutil.Process] = []
        try:
            yield Job(job, name, folder, agent.pid)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                family = psutil.Process(agent.pid).children(recursive=True)
            agent.kill()
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with started(tmp_path / "job") as job:
        yield job


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Job]:
    """Another job on the machine, of a script of the same name."""
    with started(tmp_path / "other") as other:
        yield other


def test_both_ways_to_look_show_a_rank_that_stands_elsewhere(job):
    ranks = job.ranks()
    stacks = job.typed(command(BY_ID + " | cut -d/ -f3 | xargs"))
    assert stacks.count("Process ") == 2, "the job's ranks, and not its torchrun"
    for rank, function in ((0, "all_reduce"), (1, "barrier")):
        seen = stacks.partition(f"Process {ranks[rank]}:")[2].partition("\nProcess ")[0]
        assert re.search(rf"{function} .*\n.*wrapper.*\n.*train \({job.name}", seen), stacks
        job.typed(command("kill -USR1").replace("PID", str(ranks[rank])))
        until(
            lambda rank=rank, function=function: re.search(
                rf"in {function}\n.*in wrapper\n.*in train\n", job.log(rank)
            )
        )
    said = job.typed(f"{command('realranks attach')} --pids {ranks[0]},{ranks[1]}")
    assert "barrier() at" in said, said


def test_a_job_started_by_the_page_restarts_and_says_what_came_first(job):
    first = job.ranks()
    os.kill(first[1], signal.SIGKILL)
    second = job.ranks(life=1)
    assert set(second.values()).isdisjoint(first.values())
    assert "attempt_0/0/stderr.log" in job.typed(command("grep -rl"))  # what rank 1's death did to rank 0


def test_ranks_that_have_lost_their_torchrun_are_found_and_ended_and_those_of_another_job_are_not(job, other):
    left, others = job.ranks().values(), other.ranks().values()
    os.kill(job.agent, signal.SIGKILL)
    found = job.typed(command(BY_ID))
    assert sorted(found.split()) == sorted(f"/proc/{pid}/environ" for pid in left)
    job.typed(command("kill $("))
    until_gone([*left], 60)
    assert all(psutil.pid_exists(pid) for pid in others), "the other job's ranks"


def test_a_signal_to_torchrun_reaches_the_ranks(job):
    job.ranks()
    os.kill(job.agent, signal.SIGUSR1)
    for rank in (0, 1):
        until(lambda rank=rank: "in train" in job.log(rank))
