"""A learner's way through the index and lesson 00."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import Notebook

pytestmark = pytest.mark.browser
LESSON = "notebooks/00_first_ranks.ipynb"


def test_lesson_00_runs_to_its_end_by_keyboard(open_notebook, course):
    notebook = open_notebook(LESSON)
    cells = course.fresh(LESSON, counts=False).cells
    notebook.select(0)
    for index, cell in enumerate(cells):
        if cell.cell_type == "code":
            notebook.run_next(index)
            expect(notebook.errors(index)).to_have_count(0)
            notebook.shoot(f"x{index:02}", at=index)
        else:
            notebook.page.keyboard.press("Shift+Enter")
