"""The instructor's pages: plans that add up, words for every answer, and nothing that has grown old."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from course_lib.build.asked import Question, find_questions
from course_lib.build.instructor import check_plans, lessons_page, read_plans, with_plans
from course_lib.build.rooms import Entry, check_entries, read_entries
from course_lib.build.sections import lesson_of, read_lessons
from course_lib.tasks.catalogue import all_tasks

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def lessons():
    return read_lessons(ROOT)


def lesson(name: str, *texts: str):
    return lesson_of(new_notebook(cells=[new_markdown_cell(text) for text in texts]), name)


SMALL = [
    lesson("00_first", "# 00 · First\n\n" + "word " * 1500, "## Deeper: a side way\n\n" + "word " * 1800),
    lesson(
        "01_next",
        "# 01 · Next\n\n**Before this:** lesson 00.\n\n## Half\n\n" + "word " * 1700,
        "## Rest\n\n" + "word " * 1800,
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


def test_a_plan_takes_the_core_only_and_what_is_left_is_for_questions():
    (found,) = plan('{ lesson = "00" }, { slack = true }')
    assert [(step.lesson, step.minutes, step.slack) for step in found.steps] == [
        ("00", 10, False),
        ("", 50, True),
    ]


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


def test_an_entry_without_its_question_and_a_forgotten_answer_are_told():
    question = Question("06", "S", "Does it hang?", ("yes", "no", "perhaps"), "no", "", "a", "b")
    told = list(
        check_entries(
            [
                Entry("06", "Does", {"ye": "x", "never": "y"}),
                Entry("06", "Will it?", {}),
                Entry("07", "Does", {}),
            ],
            [question],
        )
    )
    assert told == [
        "rooms.toml, lesson 06, 'Does': there is no answer 'never'",
        "rooms.toml, lesson 06, 'Does': nothing is said of 'perhaps'",
        "rooms.toml, lesson 06, 'Will it?': no question says this",
        "rooms.toml, lesson 07, 'Does': no question says this",
    ]


def test_the_page_names_every_misconception_of_every_task(lessons):
    page = lessons_page(lessons, all_tasks(), read_entries())
    for task in all_tasks():
        assert f"(`{task.name}`)" in page
        assert all(item.sentence in page for item in task.misconceptions)
