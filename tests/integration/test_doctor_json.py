"""`doctor --json` on real ranks: one object on standard output, whatever the script prints."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.hung_runs import HUNG, running
from tests.support.ranks_and_kernels import ROOT

SCRIPT = """
import sys
import torch, torch.distributed as dist

def step(fault):
    if fault == "raises" and dist.get_rank() == 1:
        raise ValueError("no more batches")
    if fault != "hangs" or dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1))

dist.init_process_group("gloo")
print("for people")
step(sys.argv[1])
"""


def doctor(folder: Path, *words: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "realranks.cli", "doctor", "--json", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    return json.loads(done.stdout), done


@pytest.fixture
def examined(tmp_path):
    """Run the script with a fault; gives what is said of the run, and the process that said it."""
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")

    def run(fault: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
        told, done = doctor(tmp_path, "train.py", fault)
        assert told["exit_code"] == done.returncode
        assert told["problem"] is None
        assert done.stderr.count("for people") == 2
        (of_run,) = told["runs"]
        return of_run, done

    return run


def test_a_deadlock_is_told_rank_by_rank(examined, tmp_path):
    run, done = examined("hangs")
    assert done.returncode == 1
    assert (run["kind"], run["certainty"], run["world_size"]) == ("hang", "proved", 2)
    assert run["diagnosis"]["id"] == "rank_only_collective"
    assert f"Diagnosis: {run['diagnosis']['sentence']}" in done.stderr
    assert run["diagnosis"]["advice"].startswith("take the collective out of the condition")
    waits, left = run["ranks"]
    assert waits == {
        "rank": 0,
        "state": "blocked",
        "culprit": True,
        "file": str(tmp_path / "train.py"),
        "line": 9,
        "function": "step",
        "waiting_in": "all_reduce",
        "waits_for": [1],
        "error": None,
        "exit_code": None,
    }
    assert (left["state"], left["waiting_in"]) == ("finished", None)


def test_an_exception_is_told_with_its_line(examined, tmp_path):
    run, done = examined("raises")
    assert done.returncode == 1
    assert (run["kind"], run["diagnosis"]["id"]) == ("raises", "rank_raised")
    raised = run["ranks"][1]
    assert raised["error"] == {"type": "ValueError", "message": "no more batches"}
    assert (raised["file"], raised["line"], raised["function"]) == (str(tmp_path / "train.py"), 7, "step")
    assert run["ranks"][0]["waits_for"] == [1]


def test_a_sound_run_has_no_diagnosis(examined):
    run, done = examined("none")
    assert done.returncode == 0
    assert (run["kind"], run["certainty"], run["diagnosis"]) == ("ok", None, None)
    assert [rank["state"] for rank in run["ranks"]] == ["finished", "finished"]


def test_what_cannot_be_run_is_told_in_the_same_form(tmp_path):
    told, done = doctor(tmp_path, "nowhere.py")
    assert done.returncode == told["exit_code"] == 2
    assert (told["problem"], told["runs"]) == ("There is no file nowhere.py.", [])


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="reads /proc, which only Linux has")
@pytest.mark.skipif(
    shutil.which("py-spy", path=str(Path(sys.executable).parent)) is None, reason="there is no py-spy"
)
def test_a_run_that_hangs_now_is_told_too(tmp_path):
    text, (kind, diagnosis, *_) = HUNG["only rank 0 in a barrier"]
    with running(tmp_path, text, 3) as pids:
        told, done = doctor(tmp_path, "--attach", "--pids", ",".join(map(str, pids)))
        while done.returncode == 0:  # the ranks were still on their way
            told, done = doctor(tmp_path, "--attach", "--pids", ",".join(map(str, pids)))
    (run,) = told["runs"]
    assert done.returncode == told["exit_code"] == 1
    assert (run["kind"], run["certainty"], run["diagnosis"]["id"]) == ("hang", kind, diagnosis)
    assert {rank["rank"]: rank["waiting_in"] for rank in run["ranks"]}[0] == "barrier"
