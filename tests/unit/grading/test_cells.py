"""Task cells are found in whatever learners hand in, and what cannot be read is said in one line."""

import json
import os

import pytest

from course_lib.grading.cells import read_cells
from tests.support.submissions import RIGHT, TASK, cell, notebook, notebook_of_format_3, task_cell, write


def problems(path):
    reading = read_cells(path)
    assert reading.cells == ()
    assert all("\n" not in problem for problem in reading.problems)
    return " / ".join(reading.problems)


def test_a_notebook_s_task_cells_are_found_with_their_lines(tmp_path):
    path = write(
        tmp_path / "a.ipynb",
        notebook(
            cell("# Title", "markdown"),
            cell("%load_ext course_lib"),
            task_cell(RIGHT),
            cell(f"\n\n%%task {TASK} --seed 7  # again\nx = 1"),
            cell("print('%%task is only mentioned')"),
        ),
    )
    first, second = read_cells(path).cells
    assert (first.task, first.first_line, first.place, first.seed) == (TASK, 2, "cell 3", None)
    assert first.source.startswith("from torch")
    assert (second.first_line, second.place, second.seed, second.source) == (4, "cell 4", 7, "x = 1\n")
    assert read_cells(path).problems == ()


def test_sources_as_lists_of_lines_are_read(tmp_path):
    path = write(tmp_path / "a.ipynb", notebook(cell(["%%task samplers.evaluate\n", "x = 1\n", "y = 2"])))
    assert read_cells(path).cells[0].source == "x = 1\ny = 2\n"


@pytest.mark.parametrize(
    "text",
    [
        notebook_of_format_3(f"%%task {TASK}\nx = 1"),
        notebook(task_cell("x = 1"), minor=0),
        notebook({**task_cell("x = 1"), "id": "one"}, minor=5),
        notebook(task_cell("x = 1"), minor=5),  # says that cells have ids, and they have none
        notebook({"cell_type": "code", "source": f"%%task {TASK}\nx = 1"}, {"no": "cell"}),
    ],
    ids=["format 3", "format 4.0", "format 4.5", "ids missing", "half a cell"],
)
def test_old_and_sloppy_formats_are_read(tmp_path, text):
    (found,) = read_cells(write(tmp_path / "a.ipynb", text)).cells
    assert found.source.strip() == "x = 1"


def test_large_and_broken_outputs_are_not_looked_at(tmp_path):
    outputs = [{"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}, "nonsense", None]
    path = write(tmp_path / "a.ipynb", notebook(task_cell(RIGHT, outputs=outputs)))
    assert len(read_cells(path).cells) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"not json at all", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1, 2]", "JSON of something else"),
        (b'{"cells": []}', "JSON of something else"),
        (b'{"nbformat": "4", "cells": []}', "its nbformat is '4', not a number"),
        (b'{"nbformat": 99, "nbformat_minor": 0, "metadata": {}, "cells": []}', "damaged notebook"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}', "has no task cells"),
        ('{"metadata": "é"}'.encode("latin-1"), "is not UTF-8"),
        (b"\xff\xfe\x00", "is not UTF-8"),
    ],
)
def test_what_is_no_notebook_is_said_in_one_line(tmp_path, content, said):
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    assert said in problems(path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marks_of_other_systems_are_understood(tmp_path, encoding):
    path = tmp_path / "a.ipynb"
    path.write_bytes(notebook(task_cell("x = 'é'")).encode(encoding))
    assert len(read_cells(path).cells) == 1


def test_folders_pipes_and_links_in_circles_are_no_files(tmp_path):
    (tmp_path / "folder.ipynb").mkdir()
    os.mkfifo(tmp_path / "pipe.ipynb")  # reading it would wait for ever
    (tmp_path / "circle.ipynb").symlink_to("circle.ipynb")
    assert "is a folder" in problems(tmp_path / "folder.ipynb")
    assert "no regular file" in problems(tmp_path / "pipe.ipynb")
    assert "cannot be read" in problems(tmp_path / "circle.ipynb")
    assert "cannot be read" in problems(tmp_path / "missing.ipynb")


def test_a_task_that_is_called_something_else_is_named_with_what_was_meant(tmp_path):
    path = write(tmp_path / "a.ipynb", notebook(task_cell("x = 1", task="samplers.shard_indexes")))
    assert f"cell 1: There is no task 'samplers.shard_indexes'. Did you mean {TASK}" in problems(path)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("%%task\nx = 1", "names no task"),
        ("x = 1\n%%task samplers.evaluate", "is not in its first line"),
        (f"%%task {TASK}\n" + "x" * 2_000_000, "too large"),
    ],
)
def test_cells_that_cannot_be_graded_are_named(tmp_path, source, said):
    text = problems(write(tmp_path / "a.ipynb", notebook(cell(source))))
    assert text.startswith("cell 1")
    assert said in text


SCRIPT = f"""\
import unrelated

# %% [markdown]
# Words

# %%
# %%task {TASK}
def shard_indices():
    return 1

# %%
print("no task")
# %%task samplers.evaluate --seed 3
def evaluate(): ...
"""


def test_a_script_s_cells_end_where_the_next_begins(tmp_path):
    first, second = read_cells(write(tmp_path / "a.py", SCRIPT)).cells
    assert (first.source, first.first_line, first.place) == (
        "def shard_indices():\n    return 1\n",
        8,
        "line 7",
    )
    assert (second.task, second.seed, second.source) == ("samplers.evaluate", 3, "def evaluate(): ...\n")


def test_lines_of_a_script_from_windows_are_lines(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    assert read_cells(path).cells[0].source == "def shard_indices():\n    return 1\n"


def test_reading_a_script_brings_no_nbformat(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys, pathlib; from course_lib.grading.cells import read_cells\n"
        "read_cells(pathlib.Path(sys.argv[1])); sys.exit('nbformat' in sys.modules or 'torch' in sys.modules)"
    )
    path = write(tmp_path / "a.py", SCRIPT)
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


def test_json_is_not_trusted_to_be_shallow(tmp_path):
    deep = json.dumps({"nbformat": 4, "metadata": {}}).replace("{}", "[" * 5000 + "]" * 5000)
    assert problems(write(tmp_path / "a.ipynb", deep))


@pytest.mark.parametrize(
    "source",
    [
        "  %%task samplers.shard_indices\n  def shard_indices():\n      return 1\n",
        "\n\n    %%task samplers.shard_indices\n    def shard_indices():\n        return 1\n",
        "In [3]: %%task samplers.shard_indices\n   ...: def shard_indices():\n   ...:     return 1\n",
        ">>> %%task samplers.shard_indices\n... def shard_indices():\n...     return 1\n",
        "%%task samplers.shard_indices\r\ndef shard_indices():\r\n    return 1\r\n",
    ],
)
def test_a_cell_is_read_as_ipython_reads_it(tmp_path, source):
    """Indented as a whole, below empty lines, with prompts that were copied along: it works in the notebook."""
    reading = read_cells(write(tmp_path / "a.ipynb", notebook(cell(source))))
    assert reading.problems == ()
    (found,) = reading.cells
    assert (found.task, found.source) == ("samplers.shard_indices", "def shard_indices():\n    return 1\n")
    assert found.first_line == 2 + source.split("%%task")[0].count("\n")


def test_an_indented_magic_below_other_code_is_named(tmp_path):
    reading = read_cells(
        write(tmp_path / "a.ipynb", notebook(cell("x = 1\n  %%task samplers.shard_indices\n")))
    )
    assert reading.problems[0] == "cell 1: %%task is not in its first line"
