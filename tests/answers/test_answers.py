"""Every right answer passes, every wrong one fails with its own misconception named, every stub is not attempted."""

import re
from pathlib import Path

import pytest

from course_lib.grading import VerdictKind, grade
from course_lib.notebook.task_sources import task_cell
from course_lib.tasks import all_tasks, find_task

HERE = Path(__file__).parent
ANSWERS = sorted(HERE.glob("*/*/*.py"))
RIGHT = [path for path in ANSWERS if path.name.startswith("right_")]
WRONG = [path for path in ANSWERS if path.name.startswith("wrong_")]


def task_name(path):
    return f"{path.parent.parent.name}.{path.parent.name}"


def name_of(path):
    return str(path.relative_to(HERE).with_suffix(""))


def misconception_of(path):
    found = re.fullmatch(r"# misconception: (\w+)", path.read_text().splitlines()[0])
    assert found, f"{path.name} must begin with  # misconception: <id>"
    return found[1]


@pytest.mark.parametrize("path", RIGHT, ids=name_of)
def test_right_answers_pass(path):
    verdict = grade(task_name(path), path.read_text())
    assert verdict.passed, repr(verdict)
    assert verdict.ran_on == find_task(task_name(path)).world_sizes


@pytest.mark.parametrize("path", WRONG, ids=name_of)
def test_wrong_answers_fail_with_their_own_misconception(path):
    verdict = grade(task_name(path), path.read_text())
    assert not verdict.passed
    assert [item.id for item in verdict.misconceptions] == [misconception_of(path)], repr(verdict)
    text = repr(verdict)
    assert find_task(task_name(path)).misconception(misconception_of(path)).sentence in text
    assert "rank" in text


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_a_stub_is_not_attempted(task):
    for body in ("raise NotImplementedError", "...", "return ...", "indices = ...\n    return indices"):
        source = f"def {task.signature}:\n    # YOUR CODE HERE\n    {body}\n"
        expected = VerdictKind.NOT_ATTEMPTED
        if body == "...":
            # Without a return it gives None: that may be meant, and is told as what it is.
            expected = VerdictKind.WRONG
        assert grade(task, source).kind is expected


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_exercise_and_solution_are_what_they_say(task):
    assert grade(task, task_cell(task, solved=False)).kind is VerdictKind.NOT_ATTEMPTED
    assert grade(task, task_cell(task, solved=True)).passed


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_a_task_is_complete(task):
    folder = HERE / task.name.replace(".", "/")
    right = [path for path in RIGHT if path.parent == folder]
    wrong = [path for path in WRONG if path.parent == folder]
    assert len(right) >= 3
    assert len(wrong) >= 4
    assert {misconception_of(path) for path in wrong} == {item.id for item in task.misconceptions}
    assert len(task.hints) >= 2
    assert all(hint.strip() for hint in task.hints)
    assert len({item.id for item in task.misconceptions}) == len(task.misconceptions)
    assert all(item.sentence and item.taught for item in task.misconceptions)
    assert task.checks
    assert all(check.sentence.endswith(".") for check in task.checks)
    assert task.signature.startswith(f"{task.function}(")


def test_no_answer_belongs_to_no_task():
    names = {task.name for task in all_tasks()}
    assert {task_name(path) for path in ANSWERS} <= names
    assert all(path.name.startswith(("right_", "wrong_")) for path in ANSWERS)
