"""How long a lesson takes an attentive reader: computed from what there is to read and to do, not wished.

180 words of text per minute, 25 lines of code per minute, a minute for each prediction and for each widget to play
with, and half a minute for the cells to run; rounded up to five minutes. Tasks are not included, nor is what stands
under a heading of the second level that begins with "Deeper", nor the code of a collapsed cell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import nbformat

_WORDS, _LINES = 180, 25
#: Minutes in which a lesson's cells run, all together.
RUNNING = 0.5
_WORD = re.compile(r"\w[\w'’.-]*")
_QUESTION = re.compile(r"\bpredict\(")
_PLAY = re.compile(r"\bimport ipywidgets\b|^explore_\w+\(", re.MULTILINE)
#: Where a section begins; a heading of the third level stays in the section of the heading above it.
_SECTION = re.compile(r"^(?=##? )", re.MULTILINE)


def minutes(notebook: nbformat.NotebookNode) -> int:
    """Minutes for a lesson, a multiple of five."""
    core = list(_core(notebook))
    text = [source for kind, source in core if kind == "markdown"]
    code = [source for kind, source in core if kind == "code"]
    return 5 * math.ceil((reading_minutes(text, code) + RUNNING) / 5)


def reading_minutes(text: Sequence[str], code: Sequence[str]) -> float:
    """Minutes for pieces of Markdown and of code, without the time in which cells run; not rounded."""
    words = sum(len(_WORD.findall(each)) for each in text)
    lines = sum(bool(line.strip()) for each in code for line in each.splitlines())
    widgets = sum(len(_PLAY.findall(each)) for each in code)
    return words / _WORDS + lines / _LINES + count_questions(code) + widgets


def count_questions(code: Sequence[str]) -> int:
    """How many predictions these pieces of code ask for."""
    return sum(len(_QUESTION.findall(each)) for each in code)


def _core(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """What everybody reads: kind and source of cells, or of the parts of a cell that belong to the core."""
    deeper = False
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            if not deeper and not is_collapsed(cell):
                yield cell.cell_type, cell.source
            continue
        for part in _SECTION.split(cell.source):
            if part.startswith(("# ", "## ")):
                deeper = part.startswith("## Deeper")
            if not deeper:
                yield cell.cell_type, part


def is_collapsed(cell: nbformat.NotebookNode) -> bool:
    """Whether the code of a cell is hidden until somebody opens it."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))
