"""`observe(machines=FOLDER)`: a torchrun job on two machines, which share nothing but a folder, or not even that.

The machines are two network namespaces, joined by one wire.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from course_lib.cli.app import application

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
SCRIPT = """
import os, sys
import torch, torch.distributed as dist
import realranks

fault, folder = sys.argv[1:]
with realranks.observe("told.txt", machines=folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        if rank == 1 and step == 3:
            if fault == "uneven": break
            if fault == "killed": os.kill(os.getpid(), 9)
            if fault == "cut": os.system("ip link set wire down; (sleep 8; ip link set wire up) &")
        optimizer.zero_grad()
        model(torch.full((8, 4), float(rank))).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
print(f"rank {rank} is through")
"""
ADDRESSES = ("10.123.0.1", "10.123.0.2")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[str, str]]:
    names = (f"ddp{os.getpid()}a", f"ddp{os.getpid()}b")
    if shutil.which("ip") is None:
        pytest.skip("there is no program ip (iproute2)")
    made = []
    try:
        for name in names:
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
            made.append(name)
        ip(
            "link",
            "add",
            "wire",
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            "wire",
            "netns",
            names[1],
        )
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "wire")
            for device in ("lo", "wire"):
                ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in made:
            ip("netns", "del", name)


def torchrun(
    machines: tuple[str, str], folder: Path, fault: str, shared: bool = True
) -> list[tuple[int, str, Path]]:
    """Run the script with a rank on each machine: exit code, standard error, and the folder of observe()'s file."""
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    running = []
    with tempfile.TemporaryDirectory(prefix="ddp") as temporary:
        for number, (name, address) in enumerate(zip(machines, ADDRESSES, strict=True)):
            notes = folder / ("notes" if shared else f"notes{number}")
            command = [
                *("ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"),
                *("--nnodes=2", "--nproc-per-node=1", f"--node-rank={number}", f"--local-addr={address}"),
                *(f"--master-addr={ADDRESSES[0]}", "--master-port=29400"),
                *(str(folder / "train.py"), fault, str(notes)),
            ]
            here = {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "wire", "TMPDIR": temporary}
            here["OMP_NUM_THREADS"] = "1"
            running.append(
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**os.environ, **here},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        try:
            errors = [machine.communicate(timeout=150)[1] for machine in running]
        finally:
            for machine in running:  # a torchrun that is killed leaves its ranks behind
                with contextlib.suppress(psutil.NoSuchProcess):
                    for each in psutil.Process(machine.pid).children(recursive=True):
                        each.kill()
                machine.kill()
    return [
        (machine.returncode, error, folder / ("notes" if shared else f"notes{number}"))
        for number, (machine, error) in enumerate(zip(running, errors, strict=True))
    ]


def judged(folder: Path) -> tuple[int, str]:
    done = CliRunner().invoke(application(), ["doctor", "--from", str(folder)])
    return done.exit_code, done.output


def test_a_sound_job_has_one_report_for_both_machines(machines, tmp_path):
    first, second = torchrun(machines, tmp_path, "none")
    assert (first[0], second[0]) == (0, 0), first[1] + second[1]
    assert (tmp_path / "told.txt").is_file(), first[1] + second[1]
    report = (tmp_path / "told.txt").read_text(encoding="utf-8")
    assert report.startswith("train.py on 2 ranks\n\nNo fault found on ranks 0 and 1.\n")
    assert "6 optimizer steps on each rank" in report
    assert sorted(path.name for path in first[2].glob("ranks-*")) == ["ranks-0-0.json", "ranks-1-1.json"]
    code, told = judged(first[2])
    assert code == 0
    assert "No fault found on ranks 0 and 1." in told


def test_a_deadlock_between_machines_is_proved_and_ended(machines, tmp_path):
    first, second = torchrun(machines, tmp_path, "uneven")
    assert first[0] != 0
    report = (tmp_path / "told.txt").read_text(encoding="utf-8").splitlines()
    assert report[2].startswith("Diagnosis: Rank 1 has finished after 3 "), report
    assert report[-2] == "[uneven_batches]"
    assert report[2] in first[1]
    code, told = judged(second[2])  # the files are as they were when it was proved
    assert code == 1
    assert "[uneven_batches]" in told
    assert "Not proved" not in told


def test_a_wire_that_is_cut_for_some_seconds_is_no_deadlock(machines, tmp_path):
    """Both ranks are blocked meanwhile, and nothing moves, but what they have sent comes later."""
    first, second = torchrun(machines, tmp_path, "cut")
    assert (first[0], second[0]) == (0, 0), first[1] + second[1]
    report = (tmp_path / "told.txt").read_text(encoding="utf-8")
    assert "No fault found on ranks 0 and 1." in report


def test_files_that_were_copied_together_tell_who_was_killed(machines, tmp_path):
    done = torchrun(machines, tmp_path, "killed", shared=False)
    together = tmp_path / "together"
    together.mkdir()
    for _, _, folder in done:
        (file,) = folder.glob("ranks-*.json")
        assert judged(folder)[0] == 2  # one machine's file says nothing of the job
        shutil.copy(file, together)
    code, told = judged(together)
    assert code == 1
    assert "Diagnosis: Rank 1 died (killed by SIGKILL)" in told
    assert "[rank_killed]" in told
