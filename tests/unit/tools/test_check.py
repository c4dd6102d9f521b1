"""A saved notebook that differs from its source, did not run or shows this machine's traces is named by cell."""

from pathlib import Path

import nbformat
import pytest

from tests.support.tiny_course import make, only, write
from tools.check import check_notebooks
from tools.source import notebook_for


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return make(tmp_path)


def saved(course: Path, *outputs: nbformat.NotebookNode, execution_count: int | None = 1) -> Path:
    """A one-cell notebook that matches its source and shows these outputs."""
    write(course, "notebooks/00_saved", "# %%\nx = 1\n")
    target = only(course, "00_saved")
    notebook = notebook_for(target)
    notebook.cells[0].execution_count = execution_count
    notebook.cells[0].outputs = list(outputs)
    nbformat.write(notebook, target.notebook)
    return target.notebook


def test_a_notebook_edited_by_hand_is_named_with_its_cell(course):
    path = saved(course)
    path.write_text(path.read_text(encoding="utf-8").replace("x = 1", "x = 2"), encoding="utf-8")
    (problem,) = check_notebooks(course)
    assert problem == "notebooks/00_saved, cell 1: its source does not match the source ('x = 1' there)"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda nb: nb.metadata.update(title="mine"), "metadata differ"),
        (lambda nb: nb.cells[0].metadata.update(tags=["nbval-skip"]), "cell 1: its metadata"),
        (lambda nb: nb.cells[0].update(id="another"), "cell 1: its id"),
        (lambda nb: nb.cells.append(nbformat.v4.new_markdown_cell("more")), "2 cells, but the source has 1"),
    ],
)
def test_every_part_of_a_notebook_is_checked(course, edit, said):
    path = saved(course)
    notebook = nbformat.read(path, as_version=4)
    edit(notebook)
    nbformat.write(notebook, path)
    assert any(said in problem for problem in check_notebooks(course))


def test_a_source_never_built_and_a_notebook_without_source_are_named(course):
    write(course, "notebooks/00_new", "# %%\nx = 1\n")
    (course / "exercises").mkdir()
    (course / "exercises/99_lost.ipynb").write_text("{}", encoding="utf-8")
    assert check_notebooks(course) == ["notebooks/00_new: not built yet", "exercises/99_lost: has no source"]


def test_a_damaged_notebook_is_a_problem_not_a_crash(course):
    saved(course).write_text('{"cells": [', encoding="utf-8")
    (problem,) = check_notebooks(course)
    assert problem.startswith("notebooks/00_saved: ")


def test_a_cell_that_ran_in_no_run_is_named(course):
    saved(course, execution_count=None)
    assert check_notebooks(course) == ["notebooks/00_saved, cell 1: ran in no run"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"in {Path.home() / 'x.py'}", "a path of this machine"),
        ('File "/home/ada/train.py", line 3', "a path of one machine"),
        ("/opt/venv/lib/python3.12/site-packages/torch/nn.py", "a path of one machine"),
        ("see /tmp/torchelastic_1x2/0", "a path of one machine"),
        ("listening on 127.0.0.1:41233", "a port"),
        ("rank 0 (pid 4711)", "a process id"),
        ("<Net object at 0x7f3a12b4c5d0>", "a memory address"),
        ("rank 0 |     <<<<<<< HEAD", "a merge conflict"),
        ("<pre>     &gt;&gt;&gt;&gt;&gt;&gt;&gt; theirs</pre>", "a merge conflict"),
    ],
)
@pytest.mark.parametrize("kind", ["stream", "execute_result", "error"])
def test_traces_of_the_machine_in_an_output_are_named(course, text, what, kind):
    outputs = {
        "stream": {"text": f"fine\n{text}\n"},
        "execute_result": {
            "data": {"text/html": f"<b>{text}</b>", "image/png": "AAAA"},
            "execution_count": 1,
        },
        "error": {"ename": "E", "evalue": "e", "traceback": ["fine", text]},
    }
    saved(course, nbformat.v4.new_output(kind, **outputs[kind]))
    (problem,) = check_notebooks(course)
    assert problem.startswith(f"notebooks/00_saved, cell 1: its output holds {what}: ")


@pytest.mark.parametrize("text", ["1.0000001192092896", "x = 0.12345678", "-3.1415927e-05", "1234567.5"])
def test_an_output_with_more_digits_than_processors_agree_on_is_named(course, text):
    saved(course, nbformat.v4.new_output("stream", text=f"a sum: {text}\n"))
    (problem,) = check_notebooks(course)
    assert "more than six digits" in problem


@pytest.mark.parametrize(
    "text", ["0.333333", "00.400000", "2026.10.1842", "3.11.7", "10000000", "v2.1234567x"]
)
def test_six_digits_versions_and_whole_numbers_may_stay(course, text):
    saved(course, nbformat.v4.new_output("stream", text=f"a sum: {text}\n"))
    assert check_notebooks(course) == []


def test_ordinary_output_holds_no_traces(course):
    text = "ranks 0-3 | 6.0\nstep 41233 at 0.5 s\nfile /etc/hosts\n10:41233 rapid 12\n"
    saved(course, nbformat.v4.new_output("stream", text=text))
    assert check_notebooks(course) == []
