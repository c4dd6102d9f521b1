"""The doctor on scripts that start their ranks themselves: they run once, as they would without it."""

import functools
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from realranks.scripts.examine import examine, verdict_text
from realranks.scripts.launching import Launcher

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import os, socket, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def join(rank, port, world_size=2):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]

"""
TRAINING = """
def worker(rank, port):
    print(f"rank {rank} begins")
    join(rank, port)
    total = torch.ones(1)
    dist.all_reduce(total)
    sys.stderr.write(f"rank {rank} has {total.item()}\\n")  # print() would write the line in two pieces
    dist.destroy_process_group()


if __name__ == "__main__":
    print("download once", {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")})
    mp.start_processes(worker, args=(free_port(),), nprocs=2, start_method=sys.argv[1])
    with open("results.csv", "a") as file:
        file.write("0.93\\n")
    print("done")
    sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def _no_launchers_variables(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("plain")


def written(folder, text):
    script = folder / "train.py"
    script.write_text(HEAD + text, encoding="utf-8")
    return script


def examined(folder, text, *arguments, **options):
    options.setdefault("method", "forkserver")  # the script's own process is there at once
    out, err = io.StringIO(), io.StringIO()
    script = written(folder, text)
    before = Path.cwd()
    os.chdir(folder)
    try:
        return examine(str(script), arguments, out=out, err=err, timeout=120, **options), out, err
    finally:
        os.chdir(before)


@functools.cache
def plainly(folder, text, *arguments):
    script = written(folder, text)
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_script_runs_once_and_writes_what_it_writes_without_the_doctor(tmp_path, plain_folder, method):
    found, out, err = examined(tmp_path, TRAINING, method, "0")
    assert found.sound, verdict_text(found)
    assert found.outcome.ranks == (0, 1)
    assert {len(records) for records in found.outcome.recorded.values()} == {1}, "both ranks were watched"
    assert (tmp_path / "results.csv").read_text(encoding="utf-8") == "0.93\n"
    plain = plainly(plain_folder, TRAINING, "fork", "0")  # which writes the same with the others, later
    assert sorted(out.getvalue().splitlines()) == sorted(plain.stdout.splitlines())
    assert "download once {'RANK': None, 'WORLD_SIZE': None, 'MASTER_PORT': None}" in out.getvalue()
    assert sorted(err.getvalue().splitlines()) == sorted(plain.stderr.splitlines())


def test_how_the_script_itself_ends_is_told_apart_from_its_ranks(tmp_path):
    found, _, _ = examined(tmp_path, TRAINING, "fork", "3")
    assert not found.sound
    assert found.outcome.diagnosis.summary.startswith(
        "The process that starts the ranks called sys.exit(3) at train.py, line "
    )


def test_processes_that_fail_before_they_join_are_the_ranks(tmp_path):
    text = """
def worker(rank, port):
    join(rank, prot)


if __name__ == "__main__":
    mp.start_processes(worker, args=(free_port(),), nprocs=2, start_method="fork")
"""
    found, _, err = examined(tmp_path, text)
    assert {error.message for error in found.outcome.errors.values()} == {"name 'prot' is not defined"}
    assert "ProcessRaisedException" in err.getvalue()
    assert "realranks" not in err.getvalue()


def test_a_rank_that_fails_before_it_joins_is_missed_by_the_others(tmp_path):
    text = """
def worker(rank, port):
    if rank == 1:
        raise KeyError("dataset")
    join(rank, port)


if __name__ == "__main__":
    for rank in range(2):
        mp.get_context("fork").Process(target=worker, args=(rank, PORT)).start()
""".replace("PORT", "free_port()")
    found, _, _ = examined(tmp_path, text)
    assert found.outcome.diagnosis.kind == "rank_raised", verdict_text(found)
    assert found.outcome.diagnosis.culprits == (1,)


def test_a_rank_that_returns_before_it_joins_is_missed_by_the_others(tmp_path):
    text = """
def worker(rank, port):
    if rank == 0 or port < 0:
        join(rank, port)


if __name__ == "__main__":
    port = free_port()
    for rank in range(2):
        mp.get_context("fork").Process(target=worker, args=(rank, port)).start()
"""
    found, _, _ = examined(tmp_path, text)
    assert found.outcome.diagnosis.kind == "init_rank_missing", verdict_text(found)
    assert found.outcome.diagnosis.culprits == (1,)


def test_a_rank_that_is_started_late_is_waited_for_though_the_script_sleeps(tmp_path):
    text = """
def worker(rank, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    dist.barrier()
    dist.destroy_process_group()


def prepare():
    time.sleep(2.5)


if __name__ == "__main__":
    context = mp.get_context("fork")
    path = os.path.abspath("store")
    methods = (context, mp.get_context("spawn"))
    ranks = [method.Process(target=worker, args=(rank, path)) for rank, method in enumerate(methods)]
    ranks[0].start()
    for helper in (prepare, prepare):
        process = context.Process(target=helper)
        process.start()
        process.join()
    ranks[1].start()
    for rank in ranks:
        rank.join()
        assert rank.exitcode == 0
"""
    found, _, err = examined(tmp_path, text)
    assert found.sound, verdict_text(found) + err.getvalue()
    assert found.outcome.ranks == (0, 1)


def test_fewer_processes_than_the_world_size_says_are_found_out(tmp_path):
    text = """
def worker(rank, port):
    join(rank, port, world_size=3)


if __name__ == "__main__":
    mp.start_processes(worker, args=(free_port(),), nprocs=2, start_method="fork")
"""
    found, _, _ = examined(tmp_path, text)
    assert found.outcome.diagnosis.kind == "init_wrong_world_size", verdict_text(found)


def test_a_rank_that_is_killed_is_to_blame_and_not_those_that_spawn_ends(tmp_path):
    text = """
import os, signal

def worker(rank, port):
    join(rank, port)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


if __name__ == "__main__":
    mp.start_processes(worker, args=(free_port(),), nprocs=2, start_method="fork")
"""
    found, _, err = examined(tmp_path, text)
    assert found.outcome.diagnosis.kind == "rank_killed", verdict_text(found)
    assert found.outcome.exits == {1: -signal.SIGKILL}
    assert "ProcessExitedException: process 1 terminated with signal SIGKILL" in err.getvalue()


def test_the_second_set_of_ranks_is_watched_like_the_first_and_helpers_are_none(tmp_path):
    text = """
def helper(lines):
    lines.get()
    raise ValueError("a helper's own business")


def worker(rank, port, number):
    join(rank, port)
    for _ in range(2 + (number if rank == 1 else 0)):
        dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    context = mp.get_context("fork")
    lines = context.Queue()
    context.Process(target=helper, args=(lines,)).start()
    lines.put("")
    for number in range(2):
        mp.start_processes(worker, args=(free_port(), number), nprocs=2, start_method="fork")
    print("never reached")
"""
    found, out, _ = examined(tmp_path, text)
    assert found.outcome.diagnosis.kind == "rank_left", verdict_text(found)
    assert found.outcome.diagnosis.culprits == (0,)
    assert "never reached" not in out.getvalue()


def test_a_script_that_starts_nobody_is_told_so(tmp_path):
    text = """
def worker(rank, port):
    join(rank, port)


if __name__ == "__main__":
    mp.spawn(worker, args=(free_port(),), nprocs=torch.cuda.device_count())
"""
    found, _, _ = examined(tmp_path, text)
    assert found.outcome.diagnosis.kind == "no_ranks"
    assert "has started no process" in found.outcome.diagnosis.summary
    assert not found.sound


def test_the_launcher_can_be_named(tmp_path):
    text = """
def worker(rank, world_size, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)


if "RANK" in os.environ:
    dist.init_process_group("gloo")
elif __name__ == "__main__":
    mp.start_processes(worker, args=(3, free_port()), nprocs=3, start_method="fork")
"""
    assert examined(tmp_path, text)[0].outcome.ranks == (0, 1)
    assert examined(tmp_path, text, launcher=Launcher.SCRIPT)[0].outcome.ranks == (0, 1, 2)


SLOW = """
def worker(rank, port):
    join(rank, port)
    open(f"joined-{os.getpid()}", "w").close()
    time.sleep(600)


if __name__ == "__main__":
    mp.start_processes(worker, args=(free_port(),), nprocs=2, start_method=sys.argv[1])
"""


@pytest.mark.parametrize(
    ("number", "method"),
    [
        (signal.SIGINT, "fork"),
        (signal.SIGINT, "forkserver"),
        (signal.SIGKILL, "fork"),
        (signal.SIGKILL, "spawn"),
    ],
)
def test_nothing_is_left_when_the_doctor_is_stopped(tmp_path, number, method):
    script = written(tmp_path, SLOW)
    doctor = subprocess.Popen(
        [sys.executable, "-m", "course_lib.cli", "doctor", "--quiet", str(script), method],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("joined-*"))) < 2 and doctor.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    ranks = [int(path.name.partition("-")[2]) for path in tmp_path.glob("joined-*")]
    assert len(ranks) == 2, doctor.communicate(timeout=10)
    started = [*psutil.Process(doctor.pid).children(recursive=True), *map(psutil.Process, ranks)]
    doctor.send_signal(number)
    said, _ = doctor.communicate(timeout=60)
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []
    if number == signal.SIGINT:
        assert "The script was interrupted." in said
        assert doctor.returncode == 1
