"""The instructor's pages: plans that add up, words for every answer, and nothing that has grown old."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib import questions
from course_lib.questions import Option, Question
from course_lib.tasks.catalogue import all_tasks
from tools.asked import check_questions, find_questions
from tools.instructor import check_plans, lessons_page, read_plans, with_plans
from tools.sections import lesson_of, read_lessons

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def lessons():
    return read_lessons(ROOT)


def lesson(name: str, *texts: str):
    return lesson_of(new_notebook(cells=[new_markdown_cell(text) for text in texts]), name)


SMALL = [
    lesson("00_first", "# 00 · First\n\n" + "word " * 1080, "## Deeper: a side way\n\n" + "word " * 1300),
    lesson(
        "01_next",
        "# 01 · Next\n\n**Before this:** lesson 00.\n\n## Half\n\n" + "word " * 1200,
        "## Rest\n\n" + "word " * 1300,
    ),
]


def plan(steps: str, minutes: int = 60):
    text = f'[[plan]]\ntitle = "P"\nstart = "09:00"\nminutes = {minutes}\nsteps = [{steps}]'
    return read_plans(SMALL, all_tasks(), text)


def test_the_plans_of_the_guide_add_up_and_keep_the_order_of_the_lessons(lessons):
    plans = read_plans(lessons, all_tasks())
    assert [(each.title, each.minutes) for each in plans][:2] == [("Half a day", 210), ("One day", 480)]
    assert [sum(step.minutes for step in each.steps) for each in plans] == [each.minutes for each in plans]
    assert list(check_plans(plans, lessons, all_tasks())) == []


def test_the_guide_names_the_lessons_that_are_in_no_plan(lessons):
    plans = read_plans(lessons, all_tasks())
    taught = {step.lesson for plan in plans for step in plan.steps}
    named = re.search(r"Lessons ([\d, and]+) are in no plan", (ROOT / "docs/instructor.md").read_text())
    # The capstone is a task in the plans.
    assert re.findall(r"\d\d", named[1]) == [
        each.number for each in lessons if each.number not in taught | {"18"}
    ]


def test_a_plan_takes_the_core_only_and_what_is_left_is_for_questions():
    (found,) = plan('{ lesson = "00" }, { slack = true }')
    assert [(step.lesson, step.minutes, step.slack) for step in found.steps] == [
        ("00", 10, False),
        ("", 50, True),
    ]


def test_parts_of_the_two_hours_teach_the_lessons_whose_cells_they_show():
    (found,) = plan('{ parts = [1, 2] }, { task = "first_ranks.train", minutes = 5 }, { slack = true }', 90)
    parts = found.steps[0]
    assert parts.what.endswith(", parts 1 and 2")
    assert {"00", "01", "03"} <= set(parts.shows)
    assert list(check_plans([found], SMALL, all_tasks())) == []


def test_a_section_that_is_left_out_costs_no_time_and_must_be_there():
    (found,) = plan('{ lesson = "00" }, { lesson = "01", without = ["Rest"] }, { slack = true }')
    assert found.steps[1].minutes == 10
    assert found.steps[1].what.endswith(", without “Rest”")
    with pytest.raises(LookupError, match="lesson 01 has no section 'Gone'"):
        plan('{ lesson = "01", without = ["Gone"] }')
    with pytest.raises(LookupError, match="no section 'Deeper: a side way' in its core"):
        plan('{ lesson = "00", without = ["Deeper: a side way"] }')


@pytest.mark.parametrize(
    ("steps", "minutes", "said"),
    [
        ('{ lesson = "00" }, { slack = true }', 10, "0 of 10 minutes are left for questions"),
        ('{ lesson = "01" }, { slack = true }', 60, "lesson 01 builds on 00"),
        ('{ what = "Talk", minutes = 111 }, { slack = true }', 200, "111 minutes without a break"),
        ('{ task = "first_ranks.train", minutes = 9 }, { slack = true }', 20, "comes before its lesson"),
        ('{ lesson = "00" }', 20, "do not add up to 20 minutes"),
    ],
)
def test_a_plan_that_cannot_be_held_is_told(steps, minutes, said):
    assert any(said in line for line in check_plans(plan(steps, minutes), SMALL, all_tasks()))


def test_a_plan_is_a_table_with_the_clock_and_all_around_it_stays():
    guide = "Before.\n<!-- plans -->\nold\n<!-- end of plans -->\nAfter.\n"
    page = with_plans(guide, plan('{ lesson = "00" }, { what = "Break", minutes = 15 }, { slack = true }'))
    assert page.startswith("Before.\n")
    assert page.endswith("\nAfter.\n")
    assert "old" not in page
    assert (
        "| 09:10 | 15 | Break |\n| 09:25 | 35 | Questions, and what took longer |\n| 10:00 | 60 in all | |"
        in page
    )


def test_the_core_of_a_lesson_takes_the_minutes_that_the_lesson_says(lessons):
    for each in lessons:
        text = " ".join(part.text for part in each.sections[0].parts if part.cell is None)
        said = re.search(r"(\d+)\sminutes\b", text)
        if said:
            assert each.core_minutes == int(said[1]), each.name


def test_every_prediction_is_found_with_the_answer_that_came_true(lessons):
    questions = [question for each in lessons for question in find_questions(each)]
    asked = sum(
        cell.text.count("predict(")
        for each in lessons
        for section in each.sections
        for cell in section.parts
        if cell.cell
    )
    assert len(questions) == asked
    assert [question.asks for question in questions if question.came_true not in question.answers] == []
    assert all(len(question.answers) >= 2 for question in questions)


def test_a_question_that_no_lesson_asks_and_a_choice_without_a_reply_are_told(monkeypatch):
    options = (Option("yes, {n}", "ok", "Not here."), Option("no", "hang"), Option("perhaps", "raises"))
    ours = {
        name: Question(name, asks, options) for name, asks in {"06.a": "Is it {n}?", "06.b": "B?"}.items()
    }
    monkeypatch.setattr(questions, "read_questions", {"06": ours}.get)
    monkeypatch.setattr(questions, "all_questions", lambda: list(ours.values()))
    shown = '<div class="ddp-ask"><ol></ol></div>', "Is it 4?\n  1. yes, 4\n  2. no\n  3. perhaps"
    cells = [
        new_markdown_cell("# 06 · T"),
        new_code_cell(
            "", outputs=[new_output("display_data", {"text/html": shown[0], "text/plain": shown[1]})]
        ),
        new_code_cell("", outputs=[new_output("stream", name="stdout", text="The run says “no”.")]),
    ]
    found = find_questions(lesson_of(new_notebook(cells=cells), "06_x"))
    assert [found[0].reply_to(answer) for answer in found[0].answers] == ["Not here.", "", ""]
    assert list(check_questions(found)) == [
        "06.a: nothing is replied to 'perhaps'",
        "06.b: no saved cell asks this",
    ]


def test_the_page_names_every_misconception_of_every_task(lessons):
    page = lessons_page(lessons, all_tasks())
    for task in all_tasks():
        assert f"(`{task.name}`)" in page
        assert all(item.sentence in page for item in task.misconceptions)
