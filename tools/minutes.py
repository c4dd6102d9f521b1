"""The minutes of an attentive reader: computed from what there is to read and to do, not wished.

130 words of text per minute, 200 words of output, 12 lines of code (constants that fit the times of two readers), two
minutes for each prediction, four for each experiment with controls, two for a stepper or a replay, half a minute for
each figure, and half a minute for the cells of a lesson to run. The code of a collapsed cell is not counted; what it
shows is. Which sections of a lesson are counted, and how the sum is rounded, is said in `sections`.
"""

import re
from collections.abc import Iterable, Sequence

import nbformat

_WORDS, _SHOWN_WORDS, _LINES = 130, 200, 12
_QUESTION, _EXPERIMENT, _STEPPER, _FIGURE = 2, 4, 2, 0.5
#: Minutes in which a lesson's cells run, all together.
RUNNING = 0.5
_WORD = re.compile(r"\w[\w'’.-]*")
_ASKS = re.compile(r"\bpredict\(")
_CONTROLS = re.compile(r"\bimport ipywidgets\b|^explore_\w+\(", re.MULTILINE)
_PICTURE = re.compile(r"<img\b|<svg\b")


def reading_minutes(text: Sequence[str], cells: Sequence[nbformat.NotebookNode]) -> float:
    """Return the minutes for Markdown and for code cells with their outputs, without the cells' running time."""
    code = [cell.source for cell in cells if not is_collapsed(cell)]
    lines = sum(bool(line.strip()) for each in code for line in each.splitlines())
    shown = sum(map(_shown_minutes, cells))
    return _words(text) / _WORDS + lines / _LINES + _QUESTION * count_questions(cells) + shown


def count_questions(cells: Iterable[nbformat.NotebookNode]) -> int:
    """Count the predictions that these cells ask for."""
    return sum(len(_ASKS.findall(cell.source)) for cell in cells)


def is_collapsed(cell: nbformat.NotebookNode) -> bool:
    """Return whether the code of a cell is hidden until somebody opens it."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def _shown_minutes(cell: nbformat.NotebookNode) -> float:
    """Return the minutes for what a cell shows: something to play with, pictures, words."""
    if controls := len(_CONTROLS.findall(cell.source)):
        return _EXPERIMENT * controls
    return sum(map(_output_minutes, cell.get("outputs", ())))


def _output_minutes(output: nbformat.NotebookNode) -> float:
    data = output.get("data", {})
    html = data.get("text/html", "")
    if "<button" in html:
        return _STEPPER
    if _PICTURE.search(html) or any(kind.startswith("image/") for kind in data):
        return _FIGURE
    return _words([data.get("text/plain", ""), output.get("text", "")]) / _SHOWN_WORDS


def _words(text: Iterable[str]) -> int:
    return sum(len(_WORD.findall(each)) for each in text)
