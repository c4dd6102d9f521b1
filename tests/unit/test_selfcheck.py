"""The course keeps its own promises, as far as reading shows; and broken promises are found.

That notebooks match their sources is checked in test_house, answers are run in tests/answers.
"""

import shutil
from pathlib import Path

from course_lib.commands.selfcheck import problems_on_paper, stray_files
from tests.unit.submissions import write

ROOT = Path(__file__).resolve().parents[2]


def test_the_course_is_complete_on_paper():
    assert problems_on_paper(ROOT) == []


def test_stray_files_are_found(tmp_path):
    for name in (
        "notebooks/03_samplers.ipynb",
        "notebooks/sources/03_samplers.py",
        "notebooks/.ipynb_checkpoints/03-checkpoint.ipynb",
        "solutions/sources/03_samplers.py",
        "exercises/03_samplers.ipynb",
    ):
        write(tmp_path / name, "")
    assert stray_files(tmp_path) == []
    for name in (
        "notebooks/Untitled.txt",
        "exercises/sources/a.py",
        "solutions/sources/notes.md",
        "notebooks/x/a.ipynb",
    ):
        write(tmp_path / name, "")
    assert stray_files(tmp_path) == [
        "notebooks/Untitled.txt: a stray file",
        "notebooks/x/a.ipynb: a stray file",
        "exercises/sources/a.py: a stray file",
        "solutions/sources/notes.md: a stray file",
    ]


def test_a_course_without_cells_and_answers_has_problems(tmp_path):
    """Every task is named: no answers, no lesson, no cell."""
    said = "\n".join(problems_on_paper(tmp_path))
    for problem in (
        "samplers.evaluate: 0 right answers; there must be 2 or more",
        "samplers.evaluate: 0 wrong answers; there must be 3 or more",
        "samplers.evaluate: no wrong answer shows the misconception mean_of_means",
        "samplers.evaluate: there is no lesson 03_samplers",
        "samplers.evaluate: solutions/sources/03_samplers.py has no cell for it",
    ):
        assert problem in said


def test_a_course_is_broken_in_one_place_and_that_is_said(tmp_path):
    """A lesson without its heading, a source that cannot be built."""
    for part in ("notebooks/sources", "solutions/sources", "tests/answers"):
        shutil.copytree(ROOT / part, tmp_path / part)
    lesson, cells = (
        tmp_path / folder / "sources" / "03_samplers.py" for folder in ("notebooks", "solutions")
    )
    heading = "## A seed of one's own"
    write(lesson, lesson.read_text(encoding="utf-8").replace(heading, "## Another"))
    write(cells, cells.read_text(encoding="utf-8") + "\n# %%\n")
    said = [line for line in problems_on_paper(tmp_path) if line.startswith("samplers.")]
    assert any(
        "is taught nowhere: no lesson has the heading of" in line and heading[3:] in line for line in said
    )
    assert "samplers.evaluate: its cell cannot be read: 03_samplers.py" in "\n".join(said)
    assert all("taught nowhere" in line or "cannot be read" in line for line in said)
