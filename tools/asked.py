"""The predictions of a lesson, read from the saved notebook: what is asked, what came true, how it is explained.

A question's words and answers are those of its saved output, so it does not matter how the lesson puts them together.
What came true is what the run said, in the output of the cell that decided. The replies to those who chose another
answer are those of its `questions.toml`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import nbformat

from course_lib import questions
from tools.sections import Lesson, Part, Section

_SHOWN = re.compile(r"(?P<asks>.+?)\n(?P<answers>  1\. .+)", re.DOTALL)
_ANSWER = re.compile(r"^  \d+\. (.+)$", re.MULTILINE)
_SAID = re.compile(r"The run says “(.+?)”\.")


@dataclass(frozen=True)
class Question:
    """A prediction that a lesson asks for.

    Attributes:
        lesson: its number, or "". section: the heading under which it is asked.
        came_true: the answer that fits the saved run; empty where the run fitted none.
        explanation: the text after the run, up to the next heading, as Markdown.
        asked_in: the id of the cell that asks. decided_in: that of the cell whose run decides.
        written: the lesson's question, if the cell asks for it by name.
    """

    lesson: str
    section: str
    asks: str
    answers: tuple[str, ...]
    came_true: str
    explanation: str
    asked_in: str
    decided_in: str
    written: questions.Question | None = None

    def reply_to(self, answer: str) -> str:
        """Return the reply to those who chose this answer; "" for the one that came true."""
        return self.written.reply_to(answer) if self.written and answer != self.came_true else ""


def find_questions(lesson: Lesson) -> list[Question]:
    """Return the lesson's questions, in their order."""
    places = [(section, part) for section in lesson.sections for part in section.parts]
    return [
        _question(lesson, places[index:], shown)
        for index, (_, part) in enumerate(places)
        if part.cell is not None and (shown := _match_question(part.cell))
    ]


def _question(lesson: Lesson, places: Sequence[tuple[Section, Part]], shown: re.Match[str]) -> Question:
    """Return the question that the first place asks, with the texts of the places after it."""
    section, asking = places[0]
    assert asking.cell is not None
    decided_in = came_true = explanation = ""
    below: Section | None = None
    for where, part in places[1:]:
        if part.cell is None:
            # Text right after the run; text before it belongs to the question.
            if came_true and where is below:
                explanation = part.text
            if came_true:
                break
        elif _match_question(part.cell):
            break
        else:
            if not came_true and (said := _SAID.search("\n".join(plain_texts(part.cell)))):
                came_true, below, decided_in = said[1], where, part.cell.get("id", "")
    asks = " ".join(shown["asks"].split())
    return Question(
        lesson.number,
        section.title,
        asks,
        tuple(_ANSWER.findall(shown["answers"])),
        came_true,
        explanation,
        asking.cell.get("id", ""),
        decided_in,
        _find_question(lesson.number, asks),
    )


def _find_question(number: str, asks: str) -> questions.Question | None:
    """Return the question with these words: of this lesson, or of any where there is no number."""
    written = questions.read_questions(number).values() if number else questions.all_questions()
    return next((each for each in written if questions.is_said(each.asks, asks)), None)


def check_questions(found: Sequence[Question]) -> Iterator[str]:
    """Yield a line for each question of a `questions.toml` that no lesson asks, or that lacks a reply."""
    for written in questions.all_questions():
        asked = [each for each in found if each.written == written]
        if len(asked) != 1:
            yield f"{written.name}: {'several cells ask' if asked else 'no saved cell asks'} this"
            continue
        yield from (
            f"{written.name}: nothing is replied to {option.says!r}"
            for option in written.options
            if not option.reply and not questions.is_said(option.says, asked[0].came_true)
        )


def _match_question(cell: nbformat.NotebookNode) -> re.Match[str] | None:
    """Match what the cell's output asks, if it is a question."""
    for output in cell.outputs:
        data = output.get("data", {})
        if "ddp-ask" in data.get("text/html", "") and "<ol" in data["text/html"]:
            return _SHOWN.fullmatch(data.get("text/plain", ""))
    return None


def plain_texts(cell: nbformat.NotebookNode) -> list[str]:
    """Return the outputs of a code cell as text, one by one."""
    return [
        output.text if output.output_type == "stream" else output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    ]
