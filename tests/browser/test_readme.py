"""README's first cell shows what README says; its picture is taken here (DDP_COURSE_SCREENSHOTS=docs/images)."""

import re
from pathlib import Path

import pytest

from tests.support.ranks_and_kernels import ROOT

pytestmark = pytest.mark.browser


def words(text: str) -> list[str]:
    return re.sub(r"[*\\>]", " ", text).split()


def test_the_first_cell_of_the_readme_says_what_stands_below_it(open_notebook, shots: Path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    cell = re.search(r"^```\n(%%ranks.*?)\n```$", readme, re.MULTILINE | re.DOTALL)[1]
    said = re.search(r"^(> .*\n)+", readme, re.MULTILINE)[0]
    notebook = open_notebook("notebooks/scratch.ipynb", "%load_ext course_lib", cell)
    notebook.run(0)
    output = notebook.run(1)
    shown = words(output.inner_text())
    assert shown[: len(words(said))] == words(said)
    notebook.cell(1).screenshot(path=shots / "verdict.png", animations="disabled")
