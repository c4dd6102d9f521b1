"""The cheat sheet, printed."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

PAGE = Path(__file__).parents[2] / "docs" / "cheatsheet.html"


def test_the_rules_print_on_one_page_and_the_commands_on_a_second(page):
    page.goto(PAGE.as_uri())
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2


def test_the_cheat_sheet_fits_a_telephone(page, shots):
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto(PAGE.as_uri())
    page.screenshot(path=shots / "cheat_sheet.png")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 380
