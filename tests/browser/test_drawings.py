"""Drawings in JupyterLab: whole in a narrow window, patterned wherever the notebook is scrolled to, in both themes."""

import io
import itertools

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import STARTED, WINDOW
from tests.browser.servers import DARK, LIGHT

pytestmark = pytest.mark.browser

NARROW = {"width": 960, "height": 900}
SKIPPED = """%%ranks 4 --trace --expect hang --as out
import torch.distributed as dist
if dist.get_rank() != 2:
    dist.barrier()"""
STEPPER = "from course_lib.lessons.buckets.lab import buckets_fill\nbuckets_fill()"
EXPLORER = "from course_lib.lab.network import explore_caps\nexplore_caps()"
CELLS = (
    "%load_ext course_lib",
    "from course_lib.lessons.first_ranks.lab import four_processes\nfour_processes()",
    STEPPER,
    EXPLORER,
    SKIPPED,
    "out.replay('Rank 2 does not come')",
)
#: The parts of a picture that refer to something by an id, and whether it is in the same picture.
REFERENCES = """pictures => pictures.flatMap(svg =>
    [...svg.querySelectorAll('[fill^="url("], [marker-end]')].map(part => {
        const id = /#([^)]+)/.exec(part.getAttribute('marker-end') || part.getAttribute('fill'))[1];
        return svg.contains(document.getElementById(id));
    }))"""


def colours(part: Locator) -> set[tuple[int, ...]]:
    """Those of the pixels of a part of the page."""
    import matplotlib.pyplot as plt

    pixels = plt.imread(io.BytesIO(part.screenshot(animations="disabled")))
    return {tuple(round(255 * float(value)) for value in pixel[:3]) for row in pixels for pixel in row}


def is_patterned(picture: Locator) -> bool:
    """Whether the widest box that has a pattern shows one: its filling, and lines over it."""
    parts = picture.locator('rect[fill^="url("]').all()
    widest = max(parts, key=lambda part: float(part.get_attribute("width") or 0))
    return len(colours(widest)) > 3


@pytest.fixture
def narrow(open_notebook, lab_page):
    """In half a screen; opened before that, because a narrow toolbar hides what says that the kernel is ready."""
    notebook = open_notebook("notebooks/scratch.ipynb", *CELLS)
    lab_page.set_viewport_size(NARROW)
    yield notebook
    lab_page.set_viewport_size(WINDOW)


def test_a_picture_has_its_patterns_and_arrow_heads_when_others_are_out_of_sight(open_notebook):
    between = [f"print({number})\n" + "#\n" * 8 for number in range(40)]
    notebook = open_notebook("notebooks/scratch.ipynb", CELLS[0], STEPPER, *between, EXPLORER, STEPPER)
    for index in (0, 1, 42, 43):
        notebook.run(index)
        if index in (1, 43):  # the same picture, in two places
            notebook.output(index).get_by_role("slider").press("End")
            notebook.output(index).get_by_role("slider").press("ArrowLeft")
    stepper = notebook.output(43)
    # The browser leaves out what is far from sight: nobody may borrow patterns from there.
    assert not notebook.output(1).evaluate("one => one.checkVisibility({ contentVisibilityAuto: true })")
    for picture in (notebook.output(42).locator("svg.ddp"), stepper.locator("svg.ddp")):
        picture.scroll_into_view_if_needed()
        assert is_patterned(picture)
    found = notebook.panel.locator("svg.ddp").evaluate_all(REFERENCES)
    assert len(found) > 30
    assert all(found)
    notebook.shoot("patterns", at=43)


def test_in_a_narrow_window_nothing_is_cut_off_and_each_theme_has_its_paper(narrow, lab_page):
    for index in range(len(CELLS)):
        narrow.run(index)
    for index, kind in itertools.product((1, 2, 3, 5), ("img", "svg.ddp")):
        room = narrow.output(index).bounding_box()
        for picture in narrow.output(index).locator(kind).all():
            if (box := picture.bounding_box()) is not None:
                assert box["x"] + box["width"] <= room["x"] + room["width"], (index, kind)
    replay = narrow.output(5)
    replay.get_by_role("slider", name="time").fill("500")
    waits = "waits for rank 2"
    expect(replay.locator("tbody td")).to_contain_text([waits, waits, "left the cell at", waits])
    for theme, paper in ((LIGHT, (255, 255, 255)), (DARK, (30, 30, 30))):
        lab_page.evaluate(STARTED, theme)
        expect(lab_page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        for index in (1, 2, 3, 5):
            narrow.shoot(f"narrow-{index}-{theme.split()[1].lower()}", at=index)
        image = narrow.output(1).locator("img")
        assert image.get_attribute("alt").startswith("One cell, four processes")
        assert paper in colours(image)
