"""What to say to those who chose an answer: the idea behind each one, written by hand in ``rooms.toml``.

There are no figures from real rooms in it. An entry belongs to a question of a lesson (``asks`` stands in its words)
and has a word on each answer that did not come true: what somebody who chose it has in mind, and what to tell them.
A question without an entry is explained by the lesson's own text alone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .asked import Question


@dataclass(frozen=True)
class Entry:
    """The ideas behind the answers of one question, by how the answers begin."""

    lesson: str
    asks: str
    ideas: Mapping[str, str]


def read_entries(text: str | None = None) -> list[Entry]:
    """Return the entries in the file's order; ``text`` stands for the file in tests."""
    table = tomllib.loads(text or Path(__file__).with_name("rooms.toml").read_text(encoding="utf-8"))
    return [Entry(row["lesson"], row["asks"], row["ideas"]) for row in table.get("question", ())]


def ideas_for(question: Question, entries: Sequence[Entry]) -> Mapping[str, str]:
    """Return the ideas behind this question's answers, by their whole words; empty where nobody has written any."""
    ideas = next((entry.ideas for entry in entries if _belongs(entry, question)), {})
    return {answer: idea for answer in question.answers if (idea := _idea(answer, question, ideas))}


def check_entries(entries: Sequence[Entry], questions: Sequence[Question]) -> Iterator[str]:
    """One line for each entry that fits no question of the lessons, and for each answer that it forgets or invents."""
    for entry in entries:
        place = f"rooms.toml, lesson {entry.lesson}, {entry.asks!r}"
        found = [question for question in questions if _belongs(entry, question)]
        if len(found) != 1:
            yield f"{place}: {'no question says' if not found else 'several questions say'} this"
            continue
        (question,) = found
        wrong = [answer for answer in question.answers if answer != question.came_true]
        said, known = ideas_for(question, [entry]), entry.ideas
        yield from (
            f"{place}: there is no answer {begin!r}" for begin in known if known[begin] not in said.values()
        )
        yield from (f"{place}: nothing is said of {answer!r}" for answer in wrong if answer not in said)


def _idea(answer: str, question: Question, ideas: Mapping[str, str]) -> str | None:
    """What is said of an answer: under its own words, or under words with which it alone begins."""
    begins = (words for words in ideas if words not in question.answers and answer.startswith(words))
    return ideas.get(answer) or next((ideas[words] for words in begins), None)


def _belongs(entry: Entry, question: Question) -> bool:
    return entry.lesson == question.lesson and entry.asks in question.asks
