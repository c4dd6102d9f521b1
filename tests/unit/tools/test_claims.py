"""A claim is shown by a cell of its lesson, with a verdict there is, and the page says what the cells say."""

from pathlib import Path

import nbformat
import pytest

from tests.support.tiny_course import make, only, write
from tools.claims import check_claims, read_claims, write_claims_page
from tools.source import notebook_for

CLAIMS = read_claims(
    """
    said.forum = "a forum"
    claim.1 = {text = "One", said = ["forum"], lessons = [3]}
    claim.2 = {text = "Two", said = ["forum"], lessons = [4]}
    claim.S1 = {text = "More", said = ["forum"], lessons = []}
    """
)
LESSON = """\
# %% [markdown]
# # Tiny
#
# ## Ones
#
# ```
# # no heading
# ```

# %% tags=["keep"] claims={"1": "wrong", "S1": "holds"}
x = 1
"""


@pytest.fixture
def course(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr("tools.claims.read_claims", lambda: CLAIMS)
    (tmp_path / "docs").mkdir()
    return make(tmp_path)


def save(course: Path, text: str, name: str = "03_tiny") -> nbformat.NotebookNode:
    """Save the lesson as the build does, but for running it, and the page with it."""
    write(course, f"notebooks/{name}", text)
    target = only(course, name)
    notebook = notebook_for(target)
    nbformat.write(notebook, target.notebook)
    write_claims_page(course)
    return notebook


def test_a_mark_reaches_the_notebook_and_the_page_names_cell_and_verdict(course):
    notebook = save(course, LESSON)
    assert notebook.cells[1].metadata == {"tags": ["keep"], "claims": {"1": "wrong", "S1": "holds"}}
    assert check_claims(course) == []
    rows = (course / "docs/claims.md").read_text(encoding="utf-8").splitlines()
    assert "| 1 | One | a forum | wrong | [03, Ones](../notebooks/03_tiny.ipynb) |" in rows
    assert "| 2 | Two | a forum | not yet shown | lesson 04 |" in rows


def test_a_claim_is_missed_as_soon_as_its_lesson_has_a_source(course):
    save(course, LESSON)
    assert check_claims(course) == []
    write(course, "notebooks/04_next", "# %%\nx = 1\n")
    assert check_claims(course) == ["notebooks/04_next: claim 2 is not shown (Two)"]


def test_a_claim_shown_in_another_lesson_is_still_missed_in_its_own(course):
    save(course, LESSON.replace('"S1"', '"2"'))
    save(course, "# %%\nx = 1\n", "04_next")
    assert check_claims(course) == ["notebooks/04_next: claim 2 is not shown (Two)"]


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ('{"1": "true"}', "claim 1 has verdict 'true', not one of holds, refined,"),
        ('{"1": "wrong", "7": "holds"}', "there is no claim '7'"),
        ('["1"]', "no table of claims"),
    ],
)
def test_a_mark_that_means_nothing_is_named(course, mark, said):
    save(course, LESSON.replace('{"1": "wrong", "S1": "holds"}', mark))
    assert any(said in problem and "'Ones'" in problem for problem in check_claims(course))


def test_a_cell_that_is_not_run_shows_nothing(course):
    save(course, LESSON.replace('"keep"', '"nbval-skip"'))
    assert any("not run" in problem for problem in check_claims(course))
    save(course, LESSON.replace('# %% tags=["keep"]', "# %% [markdown]").replace("x = 1", "# x = 1"))
    assert any("not run" in problem for problem in check_claims(course))


def test_a_page_that_the_notebooks_do_not_give_is_named(course):
    save(course, LESSON)
    page = course / "docs/claims.md"
    page.write_text(page.read_text(encoding="utf-8").replace("wrong |", "holds |"), encoding="utf-8")
    assert check_claims(course) == ["docs/claims.md: is not what the notebooks give"]
    page.unlink()
    assert check_claims(course) == ["docs/claims.md: is not what the notebooks give"]


def test_every_row_of_the_claims_is_complete():
    claims = read_claims()
    assert [c.number for c in claims if c.number.isdigit()] == [str(n) for n in range(1, 64)]
    assert [c.number for c in claims if not c.text.endswith(".") or not c.said or "|" in c.text] == []
