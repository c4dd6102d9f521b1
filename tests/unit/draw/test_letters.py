"""No letter of a saved drawing is below 8 pt where JupyterLab shows it on a screen of 1024 pixels."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from realranks.draw.drawing import SMALLEST, WIDEST

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
#: CSS pixels. The width of a cell's output was measured in JupyterLab 4, beside a scroll bar of 15 pixels, with the
#: file browser closed, as `ddp-course lab` opens it.
COLUMN, EIGHT_POINTS = 809, 8 * 96 / 72


def drawings(html: str) -> Iterator[str]:
    """The pictures of the course in an output: as an `<img>`, and the frames of a stepper."""
    for found in re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", html):
        yield base64.b64decode(found).decode()
    for found in re.findall(r'"pictures":(\[.*?\]),"said"', html, re.DOTALL):
        yield from json.loads(found)


def smallest_letters(svg: str) -> float:
    """Pixels of the smallest letters as they are shown: a drawing is never enlarged."""
    root = ElementTree.fromstring(svg)
    width = float(root.attrib["width"])
    sizes = [float(each.attrib["font-size"]) for each in root.iter() if "font-size" in each.attrib]
    return min(sizes, default=EIGHT_POINTS) * min(1, COLUMN / width)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_smallest_letters_of_a_lesson_s_drawings_can_be_read(path):
    outputs = [out for cell in nbformat.read(path, 4).cells for out in cell.get("outputs", [])]
    shown = [svg for out in outputs for svg in drawings(out.get("data", {}).get("text/html", ""))]
    small = {svg for svg in shown if smallest_letters(svg) < EIGHT_POINTS}
    assert not small


def test_what_is_drawn_keeps_to_the_width_at_which_its_letters_can_be_read():
    assert SMALLEST * COLUMN / WIDEST >= EIGHT_POINTS > SMALLEST * COLUMN / (WIDEST + 1)
