"""How long an attentive reader takes: computed from what there is to read and to do, not wished.

180 words of text per minute, 25 lines of code per minute, a minute for each prediction and for each widget to play
with, and half a minute for the cells of a lesson to run. The code of a collapsed cell is not counted. Which sections
of a lesson are counted, and how the sum is rounded, is said in `sections`.
"""

import re
from collections.abc import Sequence

import nbformat

_WORDS, _LINES = 180, 25
#: Minutes in which a lesson's cells run, all together.
RUNNING = 0.5
_WORD = re.compile(r"\w[\w'’.-]*")
_QUESTION = re.compile(r"\bpredict\(")
_PLAY = re.compile(r"\bimport ipywidgets\b|^explore_\w+\(", re.MULTILINE)


def reading_minutes(text: Sequence[str], code: Sequence[str]) -> float:
    """Minutes for pieces of Markdown and of code, without the time in which cells run; not rounded."""
    words = sum(len(_WORD.findall(each)) for each in text)
    lines = sum(bool(line.strip()) for each in code for line in each.splitlines())
    widgets = sum(len(_PLAY.findall(each)) for each in code)
    return words / _WORDS + lines / _LINES + count_questions(code) + widgets


def count_questions(code: Sequence[str]) -> int:
    """How many predictions these pieces of code ask for."""
    return sum(len(_QUESTION.findall(each)) for each in code)


def is_collapsed(cell: nbformat.NotebookNode) -> bool:
    """Whether the code of a cell is hidden until somebody opens it."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))
