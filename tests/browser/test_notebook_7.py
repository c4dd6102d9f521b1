"""The lessons in Notebook 7, for those who open them there."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import Notebook
from tests.browser.servers import notebook_7

pytestmark = pytest.mark.browser
LESSON = "notebooks/00_first_ranks.ipynb"
FIRST_CELLS = 15  # to the first hang


def test_lesson_00_runs_in_notebook_7(course, home, page, shots):
    cells = course.fresh(LESSON, counts=False).cells
    with notebook_7(course, home) as server:
        page.goto(server.url(LESSON))
        notebook = Notebook(page, shots).ready(len(cells))
