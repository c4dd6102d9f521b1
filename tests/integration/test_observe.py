"""`realranks.observe()` in scripts that a plain `torchrun` starts."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, sys
import torch, torch.distributed as dist
import realranks
from realranks.scripts import observe

fault = sys.argv[1]
with realranks.observe("told.txt"):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    trains = fault != "blind"
    if trains:  # DDP and optimizers import torch._dynamo: in these seconds the watcher comes
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        if fault == "blind" and step == 3 and observe._watcher is not None:
            os.kill(observe._watcher.pid, 9)
        if rank == 1 and step == 3:
            if fault == "uneven": break
            if fault == "killed": os.kill(os.getpid(), 9)
        if trains:
            optimizer.zero_grad()
            model(torch.full((8, 4), float(rank))).sum().backward()
            optimizer.step()
        else:
            dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
print(f"rank {rank} is through")
"""


def torchrun(folder: Path, fault: str) -> tuple[subprocess.CompletedProcess[str], str]:
    script = folder / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, fault],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    report = folder / "told.txt"
    return done, report.read_text(encoding="utf-8") if report.is_file() else ""


@pytest.fixture(autouse=True)
def temporary(monkeypatch):
    """A folder of the test's own for what ranks leave; with a short name, for there are sockets in it."""
    with tempfile.TemporaryDirectory(prefix="ddp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield folder


def left_over() -> list[str]:
    folder = Path(os.environ["TMPDIR"]) / f"ddp-course-{os.getuid()}"
    assert folder.is_dir()
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def test_a_sound_script_is_let_alone_and_a_file_that_is_no_report_too(tmp_path):
    (tmp_path / "told.txt").write_text("my own notes\n", encoding="utf-8")
    done, told = torchrun(tmp_path, "none")
    assert done.returncode == 0, done.stderr
    assert told == "my own notes\n"
    assert "told.txt is no report, and stays: see " in done.stderr
    report = (tmp_path / "told-2.txt").read_text(encoding="utf-8")
    assert report.startswith("train.py on 2 ranks\n\nNo fault found on ranks 0 and 1.\n")
    assert "6 optimizer steps on each rank" in report
    assert "Diagnosis" not in done.stderr
    assert not left_over()


def test_a_deadlock_is_ended_and_written_down(tmp_path):
    done, report = torchrun(tmp_path, "uneven")
    assert done.returncode != 0
    assert report.splitlines()[2].startswith("Diagnosis: Rank 1 has finished after 3 ")
    assert report.splitlines()[-2] == "[uneven_batches]"
    assert report.splitlines()[-1].startswith("Watched by ddp-course ")
    verdict, _, _ = report.split("\n\n", 1)[1].rpartition("Watched by")
    assert verdict.strip() in done.stderr


def test_the_rank_that_was_killed_is_to_blame_and_not_those_the_launcher_ended(tmp_path):
    _, report = torchrun(tmp_path, "killed")
    first = report.splitlines()[2]
    assert first.startswith("Diagnosis: Rank 1 died (killed by SIGKILL)")
    assert report.splitlines()[-2] == "[rank_killed]"


def test_ranks_go_on_when_their_watcher_is_killed(tmp_path):
    done, report = torchrun(tmp_path, "blind")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is through") == 2
    assert report == ""


def test_without_ranks_it_says_so_and_watches_nothing(tmp_path):
    code = "import realranks\nwith realranks.observe('told.txt'): print('ran')"
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "ran\n"
    assert "nothing is watched" in done.stderr
    assert not (tmp_path / "told.txt").exists()


@pytest.mark.parametrize("local", ["1", "3"])
def test_ranks_of_several_machines_are_not_watched(tmp_path, local):
    code = "import realranks\nwith realranks.observe('told.txt'): print('ran')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RANK": "0",
            "WORLD_SIZE": "4",
            "LOCAL_WORLD_SIZE": local,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "ran\n"
    assert f"4 ranks, {local} of them on this machine" in done.stderr
