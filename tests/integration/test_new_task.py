"""`ddp-course new-task` makes a task that works as it is; docs/tasks.md shows exactly that task."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.integration.ranks_and_kernels import ROOT

NAME = "samplers.mean_over_ranks"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course, with a new task in it."""
    copy = tmp_path_factory.mktemp("course")
    for part in ("course_lib", "notebooks", "exercises", "solutions", "tests/answers"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    made = ddp_course(copy, "new-task", NAME)
    assert made.returncode == 0, made.stderr
    return copy


def ddp_course(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "course_lib.cli", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_new_task_works_as_it_is(course):
    done = ddp_course(course, "selfcheck", NAME)
    # What is left to do is to build the notebooks; nothing else is wrong.
    left = [line for line in done.stdout.splitlines() if not line.startswith("  ok  ")]
    assert all(line.startswith(("exercises/03_samplers", "solutions/03_samplers")) for line in left[:-1]), (
        done.stdout
    )
    names = re.findall(r"  ok  (.+)", done.stdout)
    answers = [f"samplers/mean_over_ranks/{kind}" for kind in (
        "right_all_gather", "right_all_reduce", "wrong_not_reduced", "wrong_only_rank_0", "wrong_summed"
    )]  # fmt: skip
    assert names == [f"{NAME}, stubs", f"{NAME}, solution", *answers]


def test_nothing_that_is_there_is_overwritten(course):
    before = {path: path.read_bytes() for path in course.rglob("*.py")}
    for words in ((NAME,), ("samplers.evaluate",)):
        done = ddp_course(course, "new-task", *words)
        assert done.returncode == 2
        assert "already" in done.stderr
    assert {path: path.read_bytes() for path in course.rglob("*.py")} == before


def test_a_name_that_cannot_be_one_is_one_clear_line(course):
    for words, said in (
        (("samplers",), "not the name of a task"),
        (("samplers.Mean",), "not the name of a task"),
        (("samplers.class",), "not the name of a task"),
        (("nowhere.mean",), "--lesson 07_nowhere"),
        (("nowhere.mean", "--lesson", "seven"), "is no lesson"),
    ):
        done = ddp_course(course, "new-task", *words)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_task_of_a_new_lesson_brings_its_source(course):
    assert ddp_course(course, "new-task", "stragglers.mean", "--lesson", "77_stragglers").returncode == 0
    text = (course / "solutions" / "sources" / "77_stragglers.py").read_text()
    assert text.startswith("# %% [markdown]\n# # 77 · Stragglers")
    assert "# %%task stragglers.mean\n" in text
    assert (course / "course_lib" / "tasks" / "stragglers" / "__init__.py").exists()


def test_the_page_on_tasks_shows_this_task(course):
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    task, cell, right, wrong = blocks
    answers = course / "tests" / "answers" / "samplers" / "mean_over_ranks"
    assert task == (course / "course_lib" / "tasks" / "samplers" / "mean_over_ranks.py").read_text()
    assert (course / "solutions" / "sources" / "03_samplers.py").read_text().endswith(cell)
    assert right == (answers / "right_all_reduce.py").read_text()
    assert wrong == (answers / "wrong_summed.py").read_text()
