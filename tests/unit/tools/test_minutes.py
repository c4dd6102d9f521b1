"""The minutes that a lesson, the index and the README promise are those that its text and code take."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.syllabus import all_lessons
from tests.support.tiny_course import make, write
from tools.minutes import is_collapsed, reading_minutes
from tools.plan import find_targets
from tools.promised import write_minutes
from tools.sections import lesson_of
from tools.source import notebook_for

ROOT = Path(__file__).parents[3]
LESSONS = [
    target
    for target in find_targets(ROOT)
    if re.match(r"notebooks/\d\d_", target.name)
    and "capstone" not in target.name  # that one takes an evening
]


def minutes(cells) -> int:
    return lesson_of(new_notebook(cells=list(cells)), "06_lesson").core_minutes


@pytest.mark.parametrize("target", LESSONS, ids=lambda target: target.name)
def test_a_lesson_takes_the_minutes_that_it_says(target):
    saved = nbformat.read(target.notebook, as_version=4)
    number = target.notebook.stem[:2]
    wanted = str(minutes(saved.cells))
    assert int(wanted) <= 55  # what an attentive reader really needs; with a break, an hour
    assert re.findall(r"(\d+)\sminutes\b", notebook_for(target).cells[0].source) == [wanted]
    for page in ("README.md", "course_lib/lessons/index.py"):
        row = next(
            line for line in (ROOT / page).read_text().splitlines() if re.match(rf"#? ?\| {number} \|", line)
        )
        assert re.findall(r"\| (\d+)(?= min| \|)", row)[-1] == wanted, page


def test_two_hours_take_two_hours():
    (target,) = find_targets(ROOT, ["two_hours"])
    wanted = minutes(nbformat.read(target.notebook, as_version=4).cells)
    assert re.findall(r"(\d+)\sminutes\b", notebook_for(target).cells[0].source) == [str(wanted)]
    assert wanted <= 120


@pytest.mark.parametrize("target", LESSONS[:18], ids=lambda target: target.name)
def test_the_core_of_a_lesson_shows_no_more_code_than_can_be_read(target):
    """Lines in sight: 200 in the core of lessons 00 to 05, 150 in that of others, where Deeper may have long cells.

    A cell has 25, but for a script that is a file, and where the code is the lesson: the reducer of 06.
    """
    sections = lesson_of(notebook_for(target), target.notebook.stem).sections
    early = target.notebook.stem < "06"
    shown = [
        (sum(bool(line.strip()) for line in part.text.splitlines()), section.core, part.text)
        for section in sections
        for part in section.parts
        if part.cell is not None and not is_collapsed(part.cell)
    ]
    assert sum(lines for lines, core, _ in shown if core) <= (200 if early else 150)
    meant = ("%%writefile", "%%ranks\nclass TinyDDP")
    long = [text for lines, core, text in shown if lines > 25 and (core or early)]
    assert [text for text in long if not text.startswith(meant)] == []


@pytest.mark.parametrize(
    ("code", "longer"),
    [
        ("\n\n".join(["x = 1"] * 12), 1),
        ('predict("00.skips")', 2 + 1 / 12),
        ("from course_lib.lessons.dataparallel.lab import explore_rings\n\nexplore_rings()", 4 + 2 / 12),
    ],
)
def test_minutes_grow_with_lines_questions_and_controls(code, longer):
    assert reading_minutes([], [new_code_cell(code)]) == pytest.approx(longer)
    assert reading_minutes(["word " * 130], [new_code_cell(code)]) == pytest.approx(longer + 1)


@pytest.mark.parametrize(
    ("data", "longer"),
    [
        ({"text/plain": "word " * 200}, 1),
        ({"text/plain": "word " * 200, "text/html": "<p>word</p>"}, 1),
        ({"text/plain": "[a picture]", "image/svg+xml": "<svg/>"}, 0.5),
        ({"text/plain": "[a picture]", "text/html": '<img src="data:">'}, 0.5),
        ({"text/plain": "[replay]", "text/html": '<img><button type="button">'}, 2),
    ],
)
def test_what_a_cell_shows_is_read_too(data, longer):
    cell = new_code_cell("", outputs=[new_output("display_data", data)])
    assert reading_minutes([], [cell]) == pytest.approx(longer)


def test_what_is_printed_is_read_too():
    cell = new_code_cell("", outputs=[new_output("stream", text="word " * 100)])
    assert reading_minutes([], [cell]) == pytest.approx(0.5)


def test_what_is_under_deeper_or_collapsed_is_not_counted():
    long = "word " * 130 * 10
    question = 'predict("?", {})'

    def lesson(*cells):
        return minutes([new_markdown_cell("word " * 130 * 4), *cells])

    core = lesson()
    assert core == 5
    deeper = new_markdown_cell(f"## Deeper\n\n### Old launchers\n\n{long}")
    assert lesson(deeper, new_code_cell(question)) == core
    assert lesson(new_markdown_cell(f"## Deeper: old launchers\n\n{long}"), new_code_cell(question)) == core
    after = new_markdown_cell(f"More.\n\n## Further reading\n\n{long}")
    assert lesson(deeper, after) == 15
    assert lesson(new_markdown_cell(f"{long}\n\n## Deeper\n\n{long}")) == 15
    code = "x = 1\n" * 12 * 5
    collapsed = new_code_cell(code, metadata={"jupyter": {"source_hidden": True}})
    assert (lesson(collapsed), lesson(new_code_cell(code))) == (core, 10)


def test_minutes_are_written_where_they_are_promised(tmp_path):
    lesson = new_notebook(cells=[new_markdown_cell("# 00 · A\n\n" + "word " * 130 * 12)])
    first_cell = "# %% [markdown]\n# # 00 · A\n#\n# Takes 5\n# minutes.\n\n"
    write(make(tmp_path), "notebooks/00_a", f"{first_cell}# %% [markdown]\n# 30 minutes.\n")
    pages = {
        "course_lib/lessons/a/lesson.py": f"{first_cell}# %% [markdown]\n# 30 minutes.\n",
        "course_lib/lessons/index.py": "# | 00 | [a](00_a.ipynb) | Why? | 00 | 5 | |\n",
        "README.md": "Words.\n| 00 | [a](notebooks/00_a.ipynb) | Why? | 5 min |\n",
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    nbformat.write(lesson, tmp_path / "notebooks/00_a.ipynb")
    assert write_minutes(tmp_path, {"00_a"}) == ["00_a", "index"]
    for name, text in pages.items():
        assert (tmp_path / name).read_text() == re.sub(r"\b5(?=\s)", "15", text, count=1)
    assert all_lessons(tmp_path / "course_lib/lessons")[0].minutes == 15
    assert write_minutes(tmp_path, {"00_a"}) == []
