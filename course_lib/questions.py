"""The questions of the lessons: their `questions.toml` holds the words, what decides them, and what to reply.

`predict("00.skips")` asks the question `skips` of lesson 00. Words may have places for what the cell computes
(`asks = "What are {n} bytes?"`, `predict("01.bytes", n=4)`). The options are shown in an order that is drawn from the
words: the same for everybody, so that a room can speak of answer B, and no place is a better guess than another.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import re
import string
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from course_lib.syllabus import all_lessons
from realranks.outcome.expect import Expectation, ExpectationError
from realranks.outcome.outcome import Outcome
from realranks.outcome.syntax import parsed_expression

#: What makes an answer right.
Decider = Expectation | Callable[[Outcome], bool]

#: With this number each place is right about as often as the others (tests/unit/test_questions.py).
_SALT = 1771
#: Names that questions had before their lesson moved: a learner's own copy of the lesson still asks for them.
_MOVED = {"16.four_ranks": "18.four_ranks", "17.four_ranks": "18.four_ranks"}


class QuestionError(Exception):
    """There is no such question, or its file says what cannot be understood; the message says which."""


@dataclass(frozen=True)
class Option:
    """An answer to choose.

    Attributes:
        says: its words. when: what makes it right, as `decider` reads it.
        reply: shown to those who chose it, where it does not come true.
        example: the values and variables of a run in which a predicate finds it right, and no other option; the test
            of questions makes that run.
    """

    says: str
    when: str
    reply: str = ""
    example: str = ""


@dataclass(frozen=True)
class Question:
    """A question of a lesson. `name` is such as `00.skips`; `options` are in the order in which they are shown."""

    name: str
    asks: str
    options: tuple[Option, ...]

    def with_values(self, values: Mapping[str, object]) -> Question:
        """Return the question with the values in its words; what decides takes them later (`decider`).

        Raises:
            QuestionError: a value is missing.
        """
        try:
            options = tuple(
                replace(option, says=option.says.format_map(values), reply=option.reply.format_map(values))
                for option in self.options
            )
            return replace(self, asks=self.asks.format_map(values), options=options)
        except (LookupError, ValueError) as error:
            raise QuestionError(f"{self.name} needs a value: {error}.") from None

    def reply_to(self, answer: str) -> str:
        """Return the reply to an option as it was shown; "" where there is none."""
        return next((option.reply for option in self.options if is_said(option.says, answer)), "")


def is_said(words: str, shown: str) -> bool:
    """Return whether these words were shown, whatever fills their gaps."""
    parts = string.Formatter().parse(words)
    pattern = "".join(re.escape(text) + (".+?" if place is not None else "") for text, place, *_ in parts)
    return re.fullmatch(pattern, shown, re.DOTALL) is not None


@cache
def read_questions(number: str) -> Mapping[str, Question]:
    """Return a lesson's questions by their names, such as `00.skips`; {} for a lesson without a file."""
    path = next((each.folder / "questions.toml" for each in all_lessons() if each.name[:2] == number), None)
    table = tomllib.loads(path.read_text(encoding="utf-8")) if path else {}
    return {
        f"{number}.{name}": Question(
            f"{number}.{name}",
            entry["asks"],
            in_drawn_order(entry["asks"], (Option(**option) for option in entry["options"])),
        )
        for name, entry in table.items()
    }


def all_questions() -> list[Question]:
    """Return the questions of all lessons, in their order."""
    return [question for lesson in all_lessons() for question in read_questions(lesson.name[:2]).values()]


def question_named(name: str, values: Mapping[str, object]) -> Question:
    """Return the question of this name, with these values in its words.

    Raises:
        QuestionError: there is none, or a value is missing.
    """
    name = _MOVED.get(name, name)
    questions = read_questions(name.partition(".")[0])
    if name not in questions:
        known = f" The lesson asks: {', '.join(questions)}." if questions else ""
        raise QuestionError(f"There is no question {name!r}.{known}")
    return questions[name].with_values(values)


def in_drawn_order(asks: str, options: Iterable[Option], salt: int = _SALT) -> tuple[Option, ...]:
    """Return the options in the order in which they are shown under this question."""

    def lot(option: Option) -> bytes:
        return hashlib.sha256(f"{salt}\n{asks}\n{option.says}".encode()).digest()

    return tuple(sorted(options, key=lot))


def decider(when: str, values: Mapping[str, object] | None = None) -> Decider:
    """Return the decider for `when`: an expectation such as `raises:2`, or a predicate.

    A predicate is a function of the `Outcome` (`stragglers.go_on_without`), or is made by one from literals
    (`value_is("steps", 11)`, or of a value: `elastic.went_on_at({folder!r}, 12)`). It stands in the `lab.py` of the
    lesson of that topic, or in a module of `course_lib.lab`; without such a name in `course_lib.lab.predictions`.

    Raises:
        QuestionError: it is neither, or a value is missing.
    """
    try:
        when = when.format_map(values or {})
    except (LookupError, ValueError) as error:
        raise QuestionError(f"{when} needs a value: {error}.") from None
    try:
        return Expectation.parse(when)
    except ExpectationError as error:
        if not (found := _predicate(when)):
            raise QuestionError(str(error)) from None
        return found


def _predicate(when: str) -> Callable[[Outcome], bool] | None:
    """Return the predicate of this name, called with literals if there are any; None for another form."""
    try:
        tree = parsed_expression(when)
    except SyntaxError:
        return None
    call = tree if isinstance(tree, ast.Call) else None
    match call.func if call else tree:
        case ast.Name(id=name):
            module = "predictions"
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            pass
        case _:
            return None
    try:
        is_topic = any(module == lesson.topic for lesson in all_lessons())
        place = f"course_lib.lessons.{module}.lab" if is_topic else f"course_lib.lab.{module}"
        found = getattr(importlib.import_module(place), name)
        if call is not None:
            named = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
            found = found(*map(ast.literal_eval, call.args), **named)
        predicate: Callable[[Outcome], bool] = found
        return predicate
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise QuestionError(f"No predicate {when!r}: {error}") from None
