"""Code in sight is not wider than the page in a window of 1024 pixels."""

from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for folder in ("notebooks", "exercises", "solutions") for path in (ROOT / folder).glob("*.ipynb")
)
#: As JupyterLab 4 shows code by default, beside a scroll bar of 15 pixels, in the layout with which `ddp-course lab`
#: begins (tests/browser/test_lesson.py measures it).
COLUMNS = 104


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_line_of_code_in_sight_is_wider_than_the_page(path):
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    in_sight = [cell for cell in cells if not cell.metadata.get("jupyter", {}).get("source_hidden")]
    wide = [line for cell in in_sight for line in cell.source.splitlines() if len(line) > COLUMNS]
    assert wide == []
