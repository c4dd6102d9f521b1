"""Notebooks are executed when they are built, on a real kernel, and carry nothing of the machine that did it."""

from pathlib import Path

import nbformat
import pytest

from tests.support.tiny_course import make, only, write
from tools.check import check_notebooks
from tools.execute import build_notebook, keep_outputs
from tools.plan import BuildError

RUNNABLE = """\
# %% [markdown]
# # Runs

# %%
x = 20

# %%
# %%capture caught
print("not to be seen")

# %% tags=["nbval-ignore-output"]
print(x + 1)
x + 22
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return make(tmp_path)


def build(course: Path, name: str) -> nbformat.NotebookNode:
    target = only(course, name)
    build_notebook(target)
    return nbformat.read(target.notebook, as_version=4)


def test_a_built_notebook_was_executed_and_matches_its_source(course):
    write(course, "notebooks/00_runs", RUNNABLE)
    _, first, magic, last = build(course, "00_runs").cells
    assert [cell.execution_count for cell in (first, magic, last)] == [1, 2, 3]
    assert magic.outputs == []
    assert [o.output_type for o in last.outputs] == ["stream", "execute_result"]
    assert last.outputs[1].data["text/plain"] == "42"
    assert check_notebooks(course) == []


def test_building_twice_gives_the_same_file_byte_for_byte(course):
    write(course, "notebooks/00_runs", RUNNABLE)
    build(course, "00_runs")
    first = (course / "notebooks/00_runs.ipynb").read_bytes()
    build(course, "00_runs")
    assert (course / "notebooks/00_runs.ipynb").read_bytes() == first
    assert first.endswith(b"}\n")


def test_widgets_leave_their_text_and_no_state(course):
    write(course, "notebooks/00_w", "# %%\nimport ipywidgets\n\nipywidgets.IntSlider(value=3)\n")
    notebook = build(course, "00_w")
    assert "widgets" not in notebook.metadata
    assert list(notebook.cells[0].outputs[0].data) == ["text/plain"]


def test_a_notebook_runs_in_its_own_folder_with_no_trace_of_the_maintainer(course, monkeypatch):
    monkeypatch.setenv("DDP_COURSE_HOME", "the maintainer's own")
    write(
        course,
        "notebooks/00_where",
        "# %%\nimport os\nfrom pathlib import Path\n\n"
        "(Path.cwd().name, 'maintainer' in os.environ['DDP_COURSE_HOME'], 'IPYTHONDIR' in os.environ)\n\n"
        "# %%\nimport shutil\nimport sys\n\nPath(shutil.which('torchrun')).parent == Path(sys.executable).parent\n",
    )
    where, whose = build(course, "00_where").cells
    assert where.outputs[0].data["text/plain"] == "('notebooks', False, True)"
    assert whose.outputs[0].data["text/plain"] == "True"


def test_a_silent_cell_on_ranks_leaves_nothing_behind_however_long_it_takes(course):
    write(
        course,
        "notebooks/00_slow",
        "# %%\n# %load_ext course_lib\n\n# %%\n# %%ranks 1 --no-init\nimport time\n\ntime.sleep(1)\n",
    )
    assert [cell.outputs for cell in build(course, "00_slow").cells] == [[], []]


def test_a_cell_that_fails_fails_the_build_and_nothing_is_written(course):
    write(course, "notebooks/00_bad", "# %%\nx = 1\n\n# %%\ndef boom():\n    1 / 0\n\n\nboom()\n")
    with pytest.raises(BuildError) as failure:
        build(course, "00_bad")
    said = str(failure.value)
    assert said.startswith("notebooks/00_bad, cell 2 of 2 failed:\n    def boom():\n")
    assert "ZeroDivisionError" in said
    assert "----> " in said
    assert "\x1b" not in said
    assert not list((course / "notebooks").glob("*.ipynb*"))


def test_a_kernel_that_dies_fails_the_build_by_cell(course):
    write(course, "notebooks/00_dies", "# %%\nimport os\n\nos._exit(3)\n")
    with pytest.raises(BuildError, match=r"00_dies, cell 1 of 1 failed"):
        build(course, "00_dies")


def test_where_only_text_has_changed_the_saved_outputs_are_kept(course):
    write(course, "notebooks/00_x", "# %% [markdown]\n# Old words.\n\n# %%\n6 * 7\n")
    before = build(course, "notebooks/00_x")
    write(course, "notebooks/00_x", "# %% [markdown]\n# New words.\n\n# %%\n6 * 7\n")
    keep_outputs(only(course, "notebooks/00_x"))
    assert check_notebooks(course) == []
    after = nbformat.read(course / "notebooks/00_x.ipynb", as_version=4)
    assert [cell.source for cell in after.cells] == ["New words.", "6 * 7"]
    assert after.cells[1].outputs == before.cells[1].outputs


def test_outputs_of_other_code_are_never_kept(course):
    write(course, "notebooks/00_x", "# %%\n6 * 7\n")
    with pytest.raises(BuildError, match="no outputs to keep"):
        keep_outputs(only(course, "notebooks/00_x"))
    build(course, "notebooks/00_x")
    write(course, "notebooks/00_x", "# %%\n6 * 8\n")
    with pytest.raises(BuildError, match="code has changed"):
        keep_outputs(only(course, "notebooks/00_x"))
