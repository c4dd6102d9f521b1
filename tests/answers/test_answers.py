"""Every right answer passes, every wrong one fails with its own misconception named, every stub is not attempted."""

import ast
import builtins
from pathlib import Path

import pytest

from course_lib.grading import grader
from course_lib.grading.grader import grade
from course_lib.grading.judge import judge
from course_lib.grading.known_answers import catalogue, problems_with_catalogue
from course_lib.grading.task_sources import task_cell
from course_lib.grading.verdict import VerdictKind
from course_lib.syllabus import LESSONS
from course_lib.tasks import all_tasks, find_task
from tests.records.judged import said_of_answer
from tests.records.store import Records
from tools.selfcheck import problems_with_answer, problems_with_stubs, problems_with_task

ROOT = Path(__file__).parents[2]
IMPORT = builtins.__import__
SPECIMENS = catalogue(LESSONS)
SOURCES = {specimen.name: specimen.source for specimen in SPECIMENS}
SAMPLERS = [task for task in all_tasks() if task.name.startswith("samplers.")]
SCRIPTS = [task for task in all_tasks() if task.script]


@pytest.fixture(autouse=True)
def attempts(monkeypatch):
    """Attempts, judged as in the learner's kernel, which has no torch: to load it takes seconds, and 200 MB."""
    seen = []

    def refuse(name, *arguments):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is not for the kernel")
        return IMPORT(name, *arguments)

    def judged(task, attempt, seed):
        seen.append(attempt)
        with monkeypatch.context() as without_torch:
            without_torch.setattr(builtins, "__import__", refuse)
            return judge(task, attempt, seed)

    monkeypatch.setattr(grader, "judge", judged)
    return seen


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
def test_an_answer_is_what_its_name_says(specimen, attempts, recorder):
    assert problems_with_answer(specimen) == []
    lesson, name = specimen.name.split("/", 1)
    recorder(Records("answers", lesson), name, attempts[-1], said_of_answer(specimen), compares=False)


# The stubs and solutions of all tasks are graded where they stand: the notebooks in exercises/ and solutions/ are run
# and their verdicts compared. Here: every form that a stub may have, and the script that is handed out with its faults.
@pytest.mark.parametrize("task", [*SAMPLERS, *SCRIPTS], ids=lambda task: task.name)
def test_stubs_are_not_attempted(task):
    assert problems_with_stubs(task, task_cell(task, solved=False)) == []


@pytest.mark.parametrize("task", SAMPLERS, ids=lambda task: task.name)
def test_a_bare_ellipsis_gives_none_and_may_be_meant(task):
    assert grade(task, f"def {task.signature}:\n    ...\n").kind is VerdictKind.WRONG


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_a_task_is_complete(task):
    assert problems_with_task(task, SPECIMENS) == []


def test_every_answer_belongs_to_a_task():
    assert problems_with_catalogue(LESSONS) == []
    assert {specimen.task for specimen in SPECIMENS} == {task.name for task in all_tasks()}


def test_an_answer_in_the_wrong_place_is_a_problem(tmp_path):
    """The checks above can fail: a wrong answer called right, and a right one called wrong."""
    folder = tmp_path / "samplers/answers/shard_indices"
    folder.mkdir(parents=True)
    blocks = "# misconception: contiguous_blocks\n" + SOURCES["samplers/shard_indices/wrong_blocks"]
    right = SOURCES["samplers/shard_indices/right_tensor"]
    (folder / "right_blocks.py").write_text(blocks)
    (folder / "wrong_tensor.py").write_text("# misconception: no_padding\n" + right)
    (folder / "wrong_blocks.py").write_text(blocks.replace("contiguous_blocks", "no_padding"))
    (folder / "notes.txt").write_text("what is this")
    found = {specimen.path.name: problems_with_answer(specimen) for specimen in catalogue(tmp_path)}
    assert "is right, but" in found["right_blocks.py"][0]
    assert "is wrong, but passes" in found["wrong_tensor.py"][0]
    assert "shows ['contiguous_blocks'], not its own" in found["wrong_blocks.py"][0]
    assert "notes.txt" in problems_with_catalogue(tmp_path)[0]
    (problem, *_) = problems_with_task(find_task("samplers.shard_indices"), catalogue(tmp_path))
    assert "1 right answers" in problem


def test_a_rank_that_gloo_ends_is_not_said_to_have_ended_itself():
    verdict = grade("alternation.train_and_evaluate", SOURCES["alternation/train_and_evaluate/wrong_wrapper"])
    if verdict.kind is VerdictKind.ERROR:  # which collectives meet first is the machine's choice
        assert verdict.headline.startswith("gloo ended rank")
        assert "os._exit" not in repr(verdict)


def test_memory_that_the_task_itself_takes_away_is_not_the_answer_s():
    headline = grade(
        "out_of_memory.safe_step", SOURCES["out_of_memory/safe_step/wrong_forward_only"]
    ).headline
    assert "let the task's own out-of-memory error through" in headline
    assert "an answer may use" not in headline


def test_a_right_answer_passes_with_seeds_that_draw_trainings_which_diverge():
    """These seeds draw a case for wrappers.Together in which rounding decides: it is drawn again."""
    for seed in (77, 89):
        assert grade("wrappers.Together", SOURCES["wrappers/Together/right_class"], seed=seed).passed


def test_a_recipe_of_the_lesson_does_not_pass_as_it_is():
    """Word for word from lesson 11, with the task's head and its losses."""
    lesson = (ROOT / "course_lib/lessons/out_of_memory/lesson.py").read_text()
    functions = {part.name: part for part in ast.parse(lesson).body if isinstance(part, ast.FunctionDef)}
    parts = [str(ast.get_source_segment(lesson, functions[name])) for name in ("out_of_memory", "agree")]
    answer = "\n\n\n".join(["import torch\nimport torch.distributed as dist", *parts])
    for here, there in (
        ("def agree(ddp, optimizer, x)", "def safe_step(ddp, optimizer, x, targets, losses_of)"),
        ("loss_of(ddp, x)", "losses_of(ddp(x), targets).mean()"),
    ):
        assert answer.count(here) == 1
        answer = answer.replace(here, there)
    verdict = grade("out_of_memory.safe_step", answer)
    assert not verdict.passed
    assert [one.id for one in verdict.misconceptions] == ["forward_only"], verdict
