"""The explorables of lessons 02, 03 and 05 in JupyterLab: each choice, by mouse or keyboard, is a run of real ranks."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CELLS = (
    "%load_ext course_lib",
    (
        "from course_lib.lab.process_groups import AGENT, Start, explore_start\n"
        "explore_start(Start(AGENT, {}, frozenset()))"
    ),
    "from course_lib.lab.samplers import explore_deals\nexplore_deals()",
    "from course_lib.lab.stragglers import explore_lateness\nexplore_lateness()",
)


def test_explorables_are_worked_by_mouse_and_by_keyboard(open_notebook):
    notebook = open_notebook("notebooks/scratch.ipynb", *CELLS)
    keyboard = notebook.page.keyboard
    for index in range(len(CELLS)):
        notebook.run(index)

    start = notebook.output(1)
    start.get_by_role("button", name="rank 3 comes").click()
    picture = start.locator("svg.ddp")
    expect(picture).to_have_attribute(
        "aria-label", re.compile("rank 0 has not come.*rank 3 waits for rank 0's address")
    )
    start.get_by_role("button", name="rank 0 comes").focus()
    keyboard.press("Space")
    expect(picture).to_have_attribute("aria-label", re.compile("rank 1 has not come"))
    notebook.shoot("explore_start", at=1)

    deals = notebook.output(2)
    deals.get_by_role("slider").first.focus()
    keyboard.press("ArrowRight")
    expect(deals).to_contain_text("In order: taken more than once: 0")
    deals.get_by_label("drop_last").click()
    expect(deals).to_contain_text("In order, drop_last: never: 8, 9, 10")
    notebook.shoot("explore_deals", at=2)

    late = notebook.output(3)
    late.get_by_role("button", name="always rank 0").click()
    expect(late).to_contain_text("Reduced every step: 320 ms late at most, 320 ms lost by all (computed)")
    late.get_by_role("slider").nth(1).focus()
    keyboard.press("ArrowRight")
    expect(late).to_contain_text("Reduced every 2 steps: 320 ms late at most, 320 ms lost by all (computed)")
    expect(late).to_contain_text("measured:")
    for index in range(len(CELLS)):
        expect(notebook.errors(index)).to_have_count(0)
    notebook.shoot("explore_lateness", at=3)
