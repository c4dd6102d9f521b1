"""The cheat sheet: made of the lessons' rules, and missing none."""

from pathlib import Path

import nbformat
import pytest

from tools.cheatsheet import check_cheat_sheet, find_rules, write_cheat_sheet


@pytest.fixture
def course(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "notebooks").mkdir()
    add(
        tmp_path,
        "00_first",
        "# 00 · First <things>",
        "## Rule of thumb\n\n> Call `it`\n> *once*.\n\n> Not this.",
    )
    return tmp_path


def add(course: Path, name: str, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(cell) for cell in cells])
    nbformat.write(notebook, course / "notebooks" / f"{name}.ipynb")


def test_a_rule_is_the_quotation_under_its_heading(course):
    (rule,) = find_rules(course)
    assert (rule.number, rule.title, rule.text) == ("00", "First <things>", "Call `it` *once*.")


def test_the_page_holds_the_rules_as_html(course):
    write_cheat_sheet(course)
    page = (course / "docs/cheatsheet.html").read_text(encoding="utf-8")
    assert "Call <code>it</code> <em>once</em>." in page
    assert "First &lt;things&gt;" in page
    assert check_cheat_sheet(course) == []


def test_a_lesson_without_a_rule_and_an_old_page_are_told(course):
    write_cheat_sheet(course)
    add(course, "01_next", "# 01 · Next", "> A quotation that is no rule.")
    assert check_cheat_sheet(course) == [
        "notebooks/01_next.ipynb: no quoted rule under '## Rule of thumb'",
        "docs/cheatsheet.html: is not what the notebooks give",
    ]


def test_the_commands_are_those_of_the_page_on_runs_that_hang(course):
    (course / "docs/hung-run.md").write_text(
        "# A\n\n## Commands for the night\n\n- `kill -USR1 PID`\n\n## After\n\nno"
    )
    write_cheat_sheet(course)
    page = (course / "docs/cheatsheet.html").read_text(encoding="utf-8")
    assert "<li><code>kill -USR1 PID</code></li>" in page
    assert "After" not in page
