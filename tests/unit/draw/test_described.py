"""Every figure says in words what it shows: made from its titles, labels and data, and saved with it."""

import io
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from realranks.cells.show import description_in
from realranks.draw.described import described
from realranks.ranks.inside.pictures import png_of

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted(ROOT.glob("*/*.ipynb"))


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_titles_axes_and_named_lines_are_told_and_helpers_are_not():
    figure, axes = plt.subplots()
    axes.plot([0, 1, 2], [0.5, 0.25, 0.125], label="with overlap")
    axes.plot([0, 1], [3, 3])
    axes.axhline(1.0)
    axes.set(title="Overlap\npays", xlabel="step", ylabel="loss ($\\log$)")
    assert described(figure) == (
        "Overlap pays. across: step; up: loss (\\log). with overlap from 0.5 to 0.125."
    )


@pytest.mark.parametrize("lying", [False, True])
def test_bars_are_told_with_their_names_and_values(lying):
    figure, axes = plt.subplots()
    (axes.barh if lying else axes.bar)(["spawn", "fork"], [5.789, 0.06])
    assert described(figure) == "spawn 5.79, fork 0.06."


def test_groups_of_bars_are_told_by_the_legend():
    figure, axes = plt.subplots()
    axes.bar([0.0, 1.0], [1, 2], 0.4, label="sent")
    axes.bar([0.4, 1.4], [3, 4], 0.4, label="kept")
    axes.set_xticks([0.2, 1.2], ["rank 0", "rank 1"])
    assert described(figure) == "sent: rank 0 1, rank 1 2; kept: rank 0 3, rank 1 4."


def test_panels_come_one_after_the_other_below_the_title_of_all():
    figure, (left, right) = plt.subplots(1, 2)
    figure.suptitle("Two ways?")
    left.imshow([[0, 1, 2], [3, 4, 5]])
    right.set_title("measured")
    right.text(0, 0, "rank 2\nwaits")
    assert described(figure) == (
        "Two ways? a map of 2 rows and 3 columns. measured. written in it: rank 2 waits."
    )


def test_what_cannot_be_said_is_left_out_and_what_is_too_long_is_cut():
    figure, axes = plt.subplots()
    axes.plot([1, 2], [float("nan"), float("nan")], label="nothing")
    axes.plot([1, 2], [float("nan"), 2], label="late")
    assert described(figure) == "late at 2."
    axes.set_title("word " * 500)
    assert len(described(figure)) <= 900
    assert described(plt.figure()) == ""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_saved_picture_is_without_alternative_text(path):
    outputs = [
        (number, output)
        for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"])
        for output in cell.get("outputs", ())
    ]
    without = [
        number
        for number, output in outputs
        for kind in ("image/png", "image/svg+xml")
        if kind in output.get("data", {}) and not output["metadata"].get(kind, {}).get("alt")
    ]
    assert without == [], "build these notebooks anew: their figures say nothing"


@pytest.mark.parametrize("title", ["speed × 2", "speed … and so on", "plain"])
def test_a_figure_of_a_rank_carries_its_description_in_its_png(title):
    figure, axes = plt.subplots(figsize=(1, 1))
    axes.set_title(title)
    assert description_in(png_of(figure.savefig)) == f"{title}."


def test_a_picture_without_a_description_or_that_is_no_png_has_none():
    figure, _ = plt.subplots(figsize=(1, 1))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert description_in(buffer.getvalue()) == ""
    assert description_in(b"\x89PNG") == ""
    assert description_in(b"JFIF") == ""
