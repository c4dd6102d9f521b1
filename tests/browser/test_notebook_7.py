"""The lessons in Notebook 7, for those who open them there."""

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import Notebook, reads
from tests.browser.servers import notebook_7

pytestmark = pytest.mark.browser

LESSON = "notebooks/00_first_ranks.ipynb"


def test_lesson_00_begins_in_notebook_7(course, home, page, shots):
    cells = course.fresh(LESSON, counts=False).cells
    last = next(
        i
        for i, cell in enumerate(cells)
        if "if dist.get_rank() != 2" in cell.source and cell.cell_type == "code"
    )
    with notebook_7(course, home) as server:
        page.goto(server.url(f"notebooks/{LESSON}"))
        notebook = Notebook(page, shots, server).ready(LESSON, len(cells))
        for index in range(last + 1):
            if cells[index].cell_type == "code":
                output = notebook.run(index)
                expect(notebook.errors(index)).to_have_count(0)
                if "predict(" in cells[index].source:
                    output.get_by_role("radio").first.click()
        reads(output, r"Ranks 0, 1 and 3 wait in all_reduce\(\).*[✓✗] You predicted")
        notebook.shoot("notebook_7", at=last)
        assert notebook.too_wide() == []
        notebook.type_into(last, "%progress 03")
        output = notebook.run(last)
        with page.expect_popup() as opened:
            output.get_by_role("link", name="samplers.make_loader").click()
        expect(opened.value.get_by_role("heading", name="03 · Samplers: your turn")).to_be_visible()
