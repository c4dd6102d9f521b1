"""The scripts of lesson 12, launched as a learner types it: `torchrun`, from a folder in which they lie."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from course_lib import run_quietly
from course_lib.lab.elastic import events, job, losses, machines, second_life, steps_in
from tests.support.ranks_and_kernels import ROOT, is_gone, until, until_gone

pytestmark = pytest.mark.slow
SOURCE = ROOT / "notebooks" / "sources" / "12_elastic.py"
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
SECONDS = 150


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the scripts that the lesson writes."""
    for name, text in re.findall(
        r"^# %%writefile scratch/elastic/(\w+\.py)\n(.*?)(?=^# %% ?|\Z)",
        SOURCE.read_text(),
        re.MULTILINE | re.DOTALL,
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


def launched(folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """torchrun with these words, on one machine."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    return subprocess.Popen(
        [Path(sys.executable).with_name("torchrun"), "--standalone", *words],
        cwd=folder,
        env={**known, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code, and what it and its workers have printed."""
    said, _ = process.communicate(timeout=SECONDS)
    return process.returncode, said


def test_by_default_the_job_ends_and_with_restarts_it_begins_with_step_0(folder):
    code, said = ended(launched(folder, "--nproc-per-node=2", "train.py"))
    assert (code, steps_in(said.splitlines())) == (1, [*range(7)])
    again = launched(folder, "--nproc-per-node=2", "--max-restarts=3", "train.py", **OWN_STORE)
    code, said = ended(again)
    assert (code, steps_in(said.splitlines())) == (0, [*range(7), *range(10)]), said


def test_the_script_that_may_be_killed_loses_two_steps_and_no_bit(folder):
    (folder / "kill machine 0 at 7").touch()
    words = "--nproc-per-node=2", "--max-restarts=3", "elastic.py"
    code, said = ended(launched(folder, *words, **OWN_STORE))
    assert code == 0, said
    assert [one["step"] for one in events(str(folder), "ready")] == [0, 5]
    killed = losses(str(folder))
    for name in ("checkpoint.pt", "log"):
        (folder / name).unlink()
    assert ended(launched(folder, *words, **OWN_STORE))[0] == 0
    assert killed == losses(str(folder))
    assert sorted(killed) == [*range(30)]


@pytest.mark.parametrize(("options", "equal"), [("", False), (", find_unused_parameters=True", True)])
def test_three_workers_lose_a_bit_because_a_new_wrapper_orders_its_buckets_anew(folder, options, equal):
    """With this option it never does, and three workers add in the same order after a restart."""
    script = folder / "elastic.py"
    script.write_text(
        script.read_text().replace("DistributedDataParallel(net)", f"DistributedDataParallel(net{options})")
    )
    line = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node=3 --max-restarts=1 elastic.py"
    jobs = [job(str(folder)), job(str(folder), "kill machine 0 at 7")]
    for one in jobs:
        run_quietly(machines, one, line, ranks=1, init=False, timeout=80)
    calm, killed = map(losses, jobs)
    assert calm == pytest.approx(killed, rel=1e-5)
    assert (calm == killed) is equal


def test_asked_to_leave_all_save_and_leave_after_the_same_step(folder):
    """Three workers, whose shares of 32 samples are not equal."""
    first = step_of_leaving(folder, begins_with=0)
    second = step_of_leaving(folder, begins_with=first)
    assert [one["step"] for one in events(str(folder), "step")] == [*range(second)]


def step_of_leaving(folder, begins_with):
    """Launch, send SIGTERM to torchrun after some steps, and return after which step all have left."""
    known = len(events(str(folder), "step"))
    process = launched(folder, "--nproc-per-node=3", "leave.py", **OWN_STORE)
    until(lambda: len(events(str(folder), "step")) > known + 2, SECONDS)
    assert events(str(folder), "ready")[-1]["step"] == begins_with
    process.send_signal(signal.SIGTERM)
    code, said = ended(process)
    assert code == 1, said
    left = [one["step"] for one in events(str(folder), "left", rank=None)][-3:]
    assert left == left[:1] * 3
    return left[0]


@pytest.mark.parametrize(
    ("name", "options", "code", "got", "live_on"),
    [
        ("SIGTERM", [], 1, {"SIGTERM": 2}, False),
        ("SIGUSR1", [], -signal.SIGUSR1, {}, True),
        ("SIGUSR1", ["--signals-to-handle=SIGTERM,SIGUSR1"], 1, {"SIGUSR1": 2}, False),
    ],
)
def test_which_signals_workers_get(folder, name, options, code, got, live_on):
    process = launched(folder, "--nproc-per-node=2", "--shutdown-timeout=1", *options, "asked.py")
    until(lambda: len(events(str(folder), "ready", rank=None)) == 2, SECONDS)
    workers = [one["pid"] for one in events(str(folder), "ready", rank=None)]
    process.send_signal(getattr(signal, name))
    try:
        assert process.wait(SECONDS) == code
        assert Counter(one["signal"] for one in events(str(folder), "got", rank=None)) == got
        assert [is_gone(pid) for pid in workers] == [not live_on] * 2
    finally:
        for pid in workers:
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)
        until_gone(workers)
        process.communicate()


def test_without_the_variable_the_store_holds_addresses_of_the_dead(folder):
    """What the variable is for: rank 0 looks into its store before any of the new workers has written there."""
    ended(launched(folder, "--nproc-per-node=2", "--max-restarts=1", "meet.py"))
    assert events(str(folder), "look")[0]["addresses"] > 0
    assert second_life(str(folder))


@pytest.mark.parametrize(("option", "named"), [("plain", False), ("record", True)])
def test_the_summary_names_the_error_of_a_function_that_is_recorded(folder, option, named):
    _, said = ended(launched(folder, "--nproc-per-node=1", "raises.py", option))
    assert ("sample 17" in said[said.rindex("FAILED") :]) is named
