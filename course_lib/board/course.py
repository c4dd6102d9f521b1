"""The part of the course that the board knows: tasks, their misconceptions, and questions with a prediction."""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.board.events import question_id
from course_lib.questions import Option, QuestionError, in_drawn_order, question_named
from realranks.outcome.syntax import parsed


@dataclass(frozen=True)
class BoardTask:
    """A task. `misconceptions`: by id, its sentence and where it is taught."""

    name: str
    title: str
    misconceptions: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class BoardLesson:
    """A lesson and its tasks, in order."""

    stem: str
    title: str
    tasks: tuple[BoardTask, ...]


@dataclass(frozen=True)
class Question:
    """A question that a lesson asks before a run decides it."""

    id: str
    lesson: str
    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class BoardCourse:
    """All of it; what learners send of anything else is refused, so names are the only text of theirs that is shown."""

    lessons: tuple[BoardLesson, ...]
    questions: tuple[Question, ...]

    def tasks(self) -> dict[str, BoardTask]:
        """Return every task by its name."""
        return {task.name: task for lesson in self.lessons for task in lesson.tasks}


def questions_in(notebook: Path) -> list[Question]:
    """Return the questions of a notebook: its calls of `predict`, with a lesson's question or with literal words.

    A file that is not a notebook has none. The answers are in the order in which learners see them.
    """
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return [
        Question(question_id(text, answers), notebook.stem, text, answers)
        for source in sources
        for text, answers in _asked(source)
    ]


def _asked(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if "predict(" not in source:
        return
    plain = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())
    try:
        tree = parsed(plain)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "predict"):
            continue
        match node.args:
            case [ast.Constant(value=str(text)), ast.Dict(keys=keys), *_]:
                answers = [
                    Option(key.value, "")
                    for key in keys
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                ]
                if len(answers) == len(keys) >= 2:
                    yield text, tuple(option.says for option in in_drawn_order(text, answers))
            case [ast.Constant(value=str(name))]:
                values = {
                    each.arg: each.value.value
                    for each in node.keywords
                    if each.arg and isinstance(each.value, ast.Constant)
                }
                with contextlib.suppress(QuestionError):
                    named = question_named(name, values)
                    yield named.asks, tuple(option.says for option in named.options)
