"""Tasks as data: found by name, complete, tied to the lesson; and what is said without running anything."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.grading.grader import grade, seed_of
from course_lib.grading.verdict import VerdictKind, sizes
from course_lib.syllabus import all_lessons, lesson_of
from course_lib.tasks import UnknownTaskError, all_tasks, find_task
from course_lib.tasks.toys import flat_numbers, number, whole_numbers

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("samplers.shard_indexes", "samplers.shard_indices"),
        ("shard_indices", "samplers.shard_indices"),
        ("sampler.evaluate", "samplers.evaluate"),
    ],
)
def test_a_wrong_name_is_one_line_with_what_was_meant(name, meant):
    with pytest.raises(UnknownTaskError, match=f"Did you mean {meant}") as caught:
        find_task(name)
    assert "\n" not in str(caught.value)


def test_a_name_like_no_other_says_what_names_look_like_and_where_they_are():
    with pytest.raises(UnknownTaskError, match=r"A task is lesson\.name, such as .*ddp-course progress"):
        find_task("zzz")


def test_a_lesson_without_that_task_lists_its_tasks_only():
    with pytest.raises(UnknownTaskError, match=r"Tasks of that lesson: .*samplers\.shard_indices") as caught:
        find_task("samplers.zzzzzzzzzzzzzzzzzzzz")
    assert "alternation" not in str(caught.value)


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_cases_are_plain_data_and_come_from_the_seed_alone(task):
    for world_size in task.world_sizes:
        once, again, *others = (list(task.cases(world_size, random.Random(s))) for s in (7, *range(7, 15)))
        assert once == again
        assert any(other != once for other in others)
        assert json.loads(json.dumps(once)) == once
        assert all(task.describe(case) for case in once)


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_what_a_misconception_points_at_is_in_the_lesson(task):
    for item in task.misconceptions:
        number, heading = re.fullmatch(r"lesson (\d\d), (.+)", item.taught).groups()
        assert number <= task.lesson[:2], f"{item.id} points at a later lesson"
        source = next(each.folder for each in all_lessons() if each.name[:2] == number) / "lesson.py"
        headings = re.findall(r"^# ###? (.+)$", source.read_text(), re.MULTILINE)
        assert heading in headings, f"{item.id} points at {heading!r}"


def test_every_task_has_a_cell_in_its_exercises():
    for task in all_tasks():
        assert f"# %%task {task.name}\n" in (lesson_of(task.topic).folder / "exercises.py").read_text()


def test_tasks_and_grading_do_not_bring_torch_into_the_kernel():
    check = (
        "import sys, course_lib.tasks, course_lib.grading.grader, course_lib.grading.progress\n"
        "course_lib.tasks.all_tasks()\nsys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("source", ["", "\n\n", "# YOUR CODE HERE\n", "   # nothing yet"])
def test_an_empty_cell_is_not_attempted(source):
    assert grade("samplers.evaluate", source).kind is VerdictKind.NOT_ATTEMPTED


@pytest.mark.parametrize(
    "source", ["def f(:", "%matplotlib inline", "x = 'a\0b'", "\tx = 1\n  y = 2", "x = " + "(" * 500]
)
def test_what_is_not_python_is_an_error_that_names_the_line(source):
    verdict = grade("samplers.evaluate", "\n" + source, first_line=2)
    assert verdict.kind is VerdictKind.ERROR
    assert "your answer" in repr(verdict) or "cannot read" in repr(verdict)
    assert "<" not in verdict.headline


def test_the_seed_belongs_to_the_answer_but_not_to_its_trailing_blanks():
    assert seed_of("a.b", "x = 1\n") == seed_of("a.b", "\nx = 1  \n\n")
    assert seed_of("a.b", "x = 1") != seed_of("a.b", "x = 2")
    assert seed_of("a.b", "x = 1") != seed_of("a.c", "x = 1")


def test_sizes_are_said_in_words():
    assert sizes((1,)) == "1 rank"
    assert sizes((1, 2, 4)) == "1, 2 and 4 ranks"


def test_numbers_are_read_in_every_usual_form():
    assert whole_numbers(range(3)) == [0, 1, 2]
    assert whole_numbers(x for x in (1, 2.0)) == [1, 2]
    assert whole_numbers([]) == []
    assert flat_numbers([[1, 2], (3,)]) == [1, 2, 3]
    assert number(True) == 1.0
