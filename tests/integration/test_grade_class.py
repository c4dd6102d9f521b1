"""`ddp-course grade` on a class as it really is: good answers, bad files, a grader that is killed, a crash."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from tests.support.ranks_and_kernels import ROOT, until, until_gone
from tests.support.submissions import (
    RIGHT,
    STUB,
    TASK,
    WRONG,
    cell,
    notebook,
    notebook_of_format_3,
    task_cell,
    write,
)

HANGING = """
import torch, torch.distributed as dist

def evaluate(model, dataset):
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1))
    return 1.0
"""
# From the rank to the forkserver to the process that grades.
KILLER = """
import os, time

def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    open(f"kill {os.getpid()}", "w").close()
    time.sleep(60)
"""


def kill_graders(folder, over):
    """End whoever grades such an answer, as the system does when memory runs out: an answer is locked in."""
    while not over.wait(0.02):
        # os.walk, which goes on where a folder is removed under it: rglob raises
        for asked in (name for _, _, files in os.walk(folder) for name in files if name.startswith("kill ")):
            with contextlib.suppress(psutil.Error, AttributeError):
                psutil.Process(int(asked.split()[1])).parent().parent().kill()


def hand_in(folder):
    write(folder / "anna" / "03.ipynb", notebook(cell("# Samplers", "markdown"), task_cell(RIGHT)))
    write(folder / "bo.ipynb", notebook(task_cell(WRONG), task_cell(HANGING, "samplers.evaluate")))
    write(folder / "copycat" / "03.ipynb", notebook(task_cell(RIGHT)))
    write(folder / "old.ipynb", notebook_of_format_3(f"%%task {TASK}\n{RIGHT.strip()}\n"))
    write(folder / "script.py", f"# %%task {TASK}\n{STUB}")
    large = [{"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}]
    write(folder / "large.ipynb", notebook(task_cell(RIGHT, outputs=large)))
    write(folder / "twice.ipynb", notebook(task_cell(WRONG), task_cell(STUB)))
    write(folder / "renamed.ipynb", notebook(task_cell(RIGHT, "samplers.shards")))
    write(folder / "damaged.ipynb", notebook(task_cell(RIGHT))[:-30])
    write(folder / "empty.ipynb", "")
    (folder / "folder.ipynb").mkdir()
    (folder / "latin.ipynb").write_bytes(notebook(task_cell(RIGHT)).encode() + "é".encode("latin-1"))
    (folder / "loop").symlink_to("loop")
    write(folder / "O'Néill <img src=x>\n" / "a b.ipynb", notebook(task_cell(WRONG)))
    write(folder / "zkiller.ipynb", notebook(task_cell(KILLER)))


def command(folder, *options):
    return [sys.executable, "-m", "course_lib.cli", "grade", str(folder), "--jobs", "2", *map(str, options)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The class, graded in a run that is killed in the middle and in one that goes on."""
    folder = tmp_path_factory.mktemp("class")
    hand_in(folder / "in")
    kept = folder / "in" / "ddp-course-results.jsonl"
    (folder / "temporary").mkdir()
    first = subprocess.Popen(
        command(folder / "in"),
        env={**ENVIRONMENT, "TMPDIR": str(folder / "temporary")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: kept.exists() and kept.read_bytes().count(b"\n"), 60)
    family = psutil.Process(first.pid).children(recursive=True)
    first.send_signal(signal.SIGKILL)
    first.wait()
    known = kept.read_bytes()
    until_gone(process.pid for process in family)
    reports = ("--csv", folder / "class.csv", "--json", folder / "class.json", "--html", folder / "html")
    over = threading.Event()
    (folder / "other").mkdir()
    watch = threading.Thread(target=kill_graders, args=(folder / "other", over))
    watch.start()
    environment = {**ENVIRONMENT, "TMPDIR": str(folder / "other")}
    second = subprocess.run(
        command(folder / "in", *reports), env=environment, capture_output=True, text=True, check=False
    )
    over.set()
    watch.join()
    return folder, family, known, second


def states(folder):
    with (folder / "class.csv").open(newline="") as file:
        return {
            (row["learner"], row["task"]): row["verdict"]
            for row in csv.DictReader(file)
            if row["verdict"] not in ("missing", "files") and (row["place"] or row["task"] == TASK)
        }


@pytest.mark.slow
def test_every_answer_gets_its_verdict_whatever_the_others_are(graded):
    folder, _, _, second = graded
    assert second.returncode == 1, second.stderr  # there were files that could not be read
    assert states(folder) == {
        ("O'Néill <img src=x>\n", TASK): "wrong",
        ("anna", TASK): "pass",
        ("bo", TASK): "wrong",
        ("bo", "samplers.evaluate"): "deadlock",
        ("copycat", TASK): "pass",
        ("large", TASK): "pass",
        ("old", TASK): "pass",
        ("script", TASK): "not attempted",
        ("twice", TASK): "not attempted",
        ("zkiller", TASK): "not graded",
        # Nobody knows what is in these files; that is not the same as no answer.
        **{(name, TASK): "not graded" for name in ("damaged", "empty", "folder", "latin", "loop")},
    }


@pytest.mark.slow
def test_what_is_wrong_with_files_is_named(graded):
    _, _, _, second = graded
    for line in (
        "damaged: damaged.ipynb is not a notebook (no JSON).",
        "empty: empty.ipynb is empty.",
        "folder: folder.ipynb is a folder, not a file.",
        "latin: latin.ipynb is not UTF-8 text.",
        "loop: loop is a link that leads nowhere.",
        "renamed: renamed.ipynb, cell 1: There is no task 'samplers.shards'.",
        f"twice: {TASK} is answered 2 times (twice.ipynb, cell 1; twice.ipynb, cell 2): the last one counts.",
        f"zkiller: {TASK}: The process that graded this answer was killed 2 times, with this answer each time.",
    ):
        assert line in second.stdout


@pytest.mark.slow
def test_a_crash_loses_nothing_and_leaves_nobody(graded):
    folder, family, known, second = graded
    assert len(family) >= 4, "two workers, each with a forkserver"
    kept = (folder / "in" / "ddp-course-results.jsonl").read_bytes()
    assert kept.startswith(known)
    keys = [json.loads(line)["key"] for line in kept.splitlines()]
    assert len(keys) == len(set(keys)), "nothing was graded twice"
    assert list((folder / "temporary").iterdir()) == []
    already = known.count(b"\n")
    total = len(keys) - already + 1  # and the one that kills
    assert f"{total} of {total} answers graded" in second.stderr


@pytest.mark.slow
def test_only_what_is_new_is_graded_again(graded):
    folder, *_ = graded
    (folder / "in" / "zkiller.ipynb").unlink()
    write(folder / "in" / "script.py", f"# %%task {TASK}\n# still nothing\n")
    again = subprocess.run(
        command(folder / "in"), env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert again.stderr.strip() == "1 of 1 answers graded"


@pytest.mark.slow
def test_the_report_shows_the_class_and_each_learner(graded):
    folder, *_ = graded
    index = (folder / "html" / "index.html").read_text(encoding="utf-8")
    assert 'title="deadlock">∞' in index
    assert "&lt;img src=x&gt;" in index
    assert "damaged.ipynb is not a notebook" in index
    page = (folder / "html" / "learners" / "bo.html").read_text(encoding="utf-8")
    assert "all_reduce() at your answer, line 6" in page
    assert "Read again:" in page
