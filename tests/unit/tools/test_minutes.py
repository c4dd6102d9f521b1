"""The minutes that a lesson, the index and the README promise are those that its text and code take."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.minutes import is_collapsed
from tools.plan import find_targets
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
    notebook = notebook_for(target)
    number = target.source.name[:2]
    wanted = str(minutes(notebook.cells))
    assert re.findall(r"(\d+)\sminutes\b", notebook.cells[0].source) == [wanted]
    for page in ("README.md", "notebooks/sources/index.py"):
        row = next(
            line for line in (ROOT / page).read_text().splitlines() if re.match(rf"#? ?\| {number} \|", line)
        )
        assert re.findall(r"\| (\d+)(?= min| \|)", row)[-1] == wanted, page


@pytest.mark.parametrize("target", LESSONS[:6], ids=lambda target: target.name)
def test_the_core_of_a_lesson_shows_no_more_code_than_can_be_read(target):
    """Lines in sight: 200 in the core of lessons 00 to 05, and 25 in any of their cells but a script that is a file."""
    sections = lesson_of(notebook_for(target), target.source.name).sections
    shown = [
        (sum(bool(line.strip()) for line in part.text.splitlines()), section.core, part.text)
        for section in sections
        for part in section.parts
        if part.cell is not None and not is_collapsed(part.cell)
    ]
    assert sum(lines for lines, core, _ in shown if core) <= 200
    assert [text for lines, _, text in shown if lines > 25 and not text.startswith("%%writefile")] == []


def test_minutes_grow_with_words_lines_questions_and_widgets():
    def lesson(words: int = 0, *code: str) -> int:
        return minutes([new_markdown_cell("word " * words), *map(new_code_cell, code)])

    assert lesson() == 5
    assert lesson(words=180 * 10) == 15
    assert lesson(180 * 4, "\n\n".join(["x = 1"] * 25)) == 10
    assert lesson(180 * 4, 'predict("?", {})') == 10
    assert lesson(180 * 4, "import ipywidgets") == 10
    assert (
        lesson(180 * 4, "from course_lib.lab.first_ranks import explore_collectives\n\nexplore_collectives()")
        == 10
    )


def test_what_is_under_deeper_or_collapsed_is_not_counted():
    long = "word " * 180 * 10
    question = 'predict("?", {})'

    def lesson(*cells):
        return minutes([new_markdown_cell("word " * 180 * 4), *cells])

    core = lesson()
    assert core == 5
    deeper = new_markdown_cell(f"## Deeper\n\n### Old launchers\n\n{long}")
    assert lesson(deeper, new_code_cell(question)) == core
    assert lesson(new_markdown_cell(f"## Deeper: old launchers\n\n{long}"), new_code_cell(question)) == core
    after = new_markdown_cell(f"More.\n\n## Further reading\n\n{long}")
    assert lesson(deeper, after) == 15
    assert lesson(new_markdown_cell(f"{long}\n\n## Deeper\n\n{long}")) == 15
    collapsed = new_code_cell(question, metadata={"jupyter": {"source_hidden": True}})
    assert (lesson(collapsed), lesson(new_code_cell(question))) == (core, 10)
