"""Cells on ranks as a script: what is in it, in which part, how it is written, and what is left out and why."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.learner.course import without_answers
from realranks.cells.as_script import NoScript, parts_of, rank_cells, script_of
from realranks.cells.refused import UsageError

ROOT = Path(__file__).resolve().parents[3]
REBUILT = "The process group has been rebuilt; variables are kept."
RAISED = "ranks 0,1 |   line 2 of this cell\n          |     1 / 0\n          | ZeroDivisionError: no"


def ran(source, said=""):
    shown = [new_output("display_data", {"text/plain": said})] if said else []
    return new_code_cell(source, execution_count=1, outputs=shown)


def written(*cells, given=None):
    text = script_of("mine", new_notebook(cells=[ran(c) if isinstance(c, str) else c for c in cells]), given)
    compile(text, "mine.py", "exec")
    return text


def part(text, number=1):
    """The lines of a part, without what every cell has."""
    body = re.search(rf"^def part_{number}\(\):\n(.*?)\n\n\n", text, re.DOTALL | re.MULTILINE)[1]
    return [line[4:] for line in body.split("\n") if line.strip() and "begin_cell(" not in line]


def code(text, number=1):
    return [line for line in part(text, number) if not line.startswith("# --")]


def test_cells_of_the_kernel_are_not_in_it_and_headings_are():
    text = written(new_markdown_cell("# One\n\ntext\n\n## Two"), "kernels = 1", "%%ranks 2\nx = 1")
    assert "kernels" not in text
    assert part(text) == ["# -- cell 2: Two (%%ranks 2)", "x = 1"]
    assert '    begin_cell(2, "Two")\n' in text


def test_cells_that_share_ranks_are_one_part():
    cells = [
        "%%ranks 4\na = 1",
        "%%ranks\na",
        "%%ranks 4\na",
        "%%ranks 2 --no-init\nb = 1",
        "%%ranks\nb",
        "%%ranks 2\nc = 1",
        "%%ranks 2 --fresh\nd = 1",
        "%%ranks --backend gloo\ne = 1",
        "%%ranks --expect died\n1",
        "%%ranks\nf = 1",
        ran("%%ranks\ng = 1", "ranks 0,1 | 1\nNew ranks: the variables of the old ones are lost."),
    ]
    parts = parts_of(rank_cells(new_notebook(cells=[ran(c) if isinstance(c, str) else c for c in cells])))
    assert [[cell.number for cell in one.cells] for one in parts] == [
        *([1, 2, 3], [4, 5], [6], [7], [8, 9], [10], [11])
    ]
    assert [(one.ranks, one.backend, one.init) for one in parts[:3]] == [
        *((4, "auto", True), (2, "auto", False), (2, "auto", True))
    ]
    assert parts[4].backend == parts[5].backend == "gloo"


def test_the_value_of_the_last_line_is_shown_as_in_a_notebook():
    assert code(written("%%ranks 2\n1, 2")) == ["show_value((1, 2))"]
    assert code(written("%%ranks 2\n(1, 2)")) == ["show_value((1, 2))"]
    assert code(written('%%ranks 2\n"ü" + "é"  # ä')) == ['show_value("ü" + "é")  # ä']
    assert code(written("%%ranks 2\n1;")) == ["1;"]
    assert code(written("%%ranks 2\nprint(1)")) == ["print(1)"]
    assert code(written("%%ranks 2\n[\n    1,\n]")) == ["show_value([", "    1,", "])"]


def test_text_of_several_lines_keeps_its_columns():
    source = 'text = """a\nb\n  c"""\nother = f"""{text}\nd"""\ndef f():\n    """Of\n    f."""'
    (function,) = [
        node
        for node in ast.parse(written(f"%%ranks 2\n{source}")).body
        if getattr(node, "name", "") == "part_1"
    ]
    texts = {node.value for node in ast.walk(function) if isinstance(node, ast.Constant)}
    assert {"a\nb\n  c", "\nd", "Of\n    f."} <= texts


def test_only_some_ranks_and_ranks_that_raise_are_written_as_code():
    assert code(written("%%ranks 4 --only 1,3\nx = 1")) == ["if RANK in (1, 3,):", "    x = 1"]
    text = written(ran("%%ranks 4 --only 0 --expect raises:ZeroDivisionError\n1 / 0", RAISED))
    assert code(text) == ["if RANK in (0,):", "    with meant_to_raise():", "        show_value(1 / 0)"]
    assert code(written(ran("%%ranks 2 --predicted\nx = 1 / 0", RAISED)))[0] == "with meant_to_raise():"


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (ran("%%ranks 2 --expect hang\nx = 1"), "it does not end by itself"),
        (ran("%%ranks 2 --timeout 1 --expect slow\nx = 1"), "it does not end by itself"),
        (ran("%%ranks 2 --predicted\nx = 1", REBUILT), "it does not end by itself"),
        (ran("%%ranks 2\nx = 1", REBUILT), "it does not end by itself"),
        (ran("%%ranks 2 --expect died:1\nx = 1"), "a rank dies in it"),
        (ran("%%ranks 2 --stop-after 1\nx = 1"), "it waits for the stop button"),
        (new_code_cell("%%ranks 2 --predicted\nx = 1"), "nobody has run it yet"),
        (new_code_cell("%%ranks 2 --expect raises\nx = 1"), "nobody has run it yet"),
        (ran("%%ranks 2\nglobal x\nx = 1"), "it says `global`"),
        (ran("%%ranks 2\nfrom math import *"), "it says `from math import *`"),
        (ran("%%ranks 2\nfrom __future__ import annotations"), "it says `from __future__"),
        (ran("%%ranks 2\nx = ("), "it is no Python"),
        (ran("%%ranks 2\nx = unknown"), "it needs unknown, which no cell above it makes here"),
        (ran("%%ranks 2\ndisplay(1)"), "it needs display"),
        (
            new_code_cell("%%ranks 2\nx = 1", metadata={"tags": ["notebook-only"]}),
            "it needs what the notebook's kernel",
        ),
    ],
)
def test_what_cannot_be_in_a_script_is_left_out_with_the_reason(cell, why):
    lines = part(written(cell, "%%ranks 2 --fresh\ny = 1"))
    assert lines[1].startswith(f"# Left out: {why}")
    assert all(line.startswith("#") for line in lines[:-1])
    assert lines[-1] == "pass"


def test_what_needs_a_cell_that_is_left_out_is_left_out_apart_from_functions_that_do_not():
    text = written(
        "%%ranks 2 --expect hang\nimport math\n\n\ndef half(x):\n    return x / 2\n\n\n"
        "def late():\n    return found\n\n\nfound = half(math.pi)",
        "%%ranks\nhalf(math.e)",
        "%%ranks\nfound",
        "%%ranks\nlate()",
    )
    assert "    # Left out, apart from half: it does not end by itself" in text
    assert "\n    def half(x):\n        return x / 2\n" in text
    assert "\n    #     def late():\n" in text
    assert "\n    show_value(half(math.e))\n" in text
    assert "# Left out: it needs found, which no cell above it makes here." in text
    assert "# Left out: it needs late, which no cell above it makes here." in text


def test_imports_stand_at_the_top_where_a_name_means_one_thing():
    text = written(
        "%%ranks 2\nimport math\nimport torch.nn\nfrom torch import nn, optim\n"
        "from json import loads as read\nimport torch as dist",
        "%%ranks\nfrom torch import nn\nfrom pickle import loads as read\noptim = nn",
    )
    top, _, _ = text.partition("def part_1")
    for line in ("import math", "import torch", "import torch.nn", "from torch import nn"):
        assert f"\n{line}\n" in top
    assert code(text) == [
        "from torch import nn, optim",
        "from json import loads as read",
        "import torch as dist",
        "from pickle import loads as read",
        "optim = nn",
    ]


def test_an_import_that_shares_its_line_or_has_a_comment_stays():
    assert code(written("%%ranks 2\nimport math  # why\nimport json; x = 1\nmath, json")) == [
        "import math  # why",
        "import json; x = 1",
        "show_value((math, json))",
    ]


def test_a_cell_that_has_not_run_in_the_copy_is_known_from_the_course():
    given = new_notebook(cells=[ran("%%ranks 2 --predicted\nx = 1", "rank 0 | 1"), ran("%%ranks\nx = 2")])
    mine = new_code_cell("%%ranks 2 --predicted\nx = 1")
    assert code(written(mine, given=given)) == ["x = 1"]
    changed = new_code_cell("%%ranks 2 --predicted\nx = 3")
    assert "nobody has run it yet" in written(changed, given=given)


def test_a_variable_that_the_kernel_sets_is_asked_for():
    text = written('import os\nos.environ["PLACE"] = "here"', '%%ranks 2\nimport os\nos.environ["PLACE"]')
    assert '    part_1: (2, "", True, ("PLACE",)),\n'.replace('"PLACE"', "'PLACE'") in text
    assert 'set it yourself: os.environ["PLACE"] = "here"' in text


def test_a_notebook_without_ranks_or_without_their_number_is_refused():
    with pytest.raises(NoScript, match="no cells on ranks"):
        written("x = 1")
    with pytest.raises(NoScript, match="cell 1 does not say on how many ranks"):
        written("%%ranks\nx = 1")
    with pytest.raises(UsageError, match="--nonsense"):
        written("%%ranks 2 --nonsense\nx = 1")


@pytest.mark.parametrize("number", ["00", "06", "13"])
def test_a_copy_in_which_nothing_has_run_gives_the_same_script_as_the_course(number):
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    given = nbformat.read(path, as_version=4)
    copy = nbformat.reads(without_answers(path.read_bytes()).decode(), as_version=4)
    assert script_of(path.stem, copy, given) == script_of(path.stem, given)
