"""Events that travel from a learner to the board: verdicts and votes, checked and limited. Pure data, for both sides.

An event names a task or a question, and what was said of it. The question itself does not travel, only its digest:
the board knows the questions of the course, and what learners ask themselves stays with them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

VERDICTS = ("wrong", "error", "deadlock", "pass")
#: The limits of one request. The board's answer names every event in it, so it stays small too.
MAX_EVENTS = 50
LONGEST_BODY = 64 * 1024
LONGEST_NAME = 40
_MAX_MISCONCEPTIONS = 20
_ID = re.compile(r"[0-9a-f]{32}")
_QUESTION = re.compile(r"[0-9a-f]{16}")
_WORD = re.compile(r"[A-Za-z0-9_.\-]{1,80}")
_TOKEN = re.compile(r"[A-Za-z0-9_\-]{43}")
#: No event waits longer than a workshop lasts; a clock that was set in between could say anything.
_LONGEST_WAIT = 30 * 86400.0


class MalformedEventError(ValueError):
    """An event that is not one of the course; the message says why."""


@dataclass(frozen=True)
class Event:
    """One verdict or one vote of a learner.

    Attributes:
        id: unique everywhere: an event that is sent twice counts once.
        number: in the order in which the learner's machine noted its events.
        kind: "verdict" or "vote".
        about: the task, or the digest of the question.
        said: the verdict, or the number of the answer (from 0).
        misconceptions: ids of those that the verdict recognised.
        at: seconds since 1970, by the clock of the machine that holds the event.
    """

    id: str
    number: int
    kind: str
    about: str
    said: str
    misconceptions: tuple[str, ...]
    at: float


def question_id(question: str, answers: Iterable[str]) -> str:
    """Return the digest that stands for this question in votes."""
    text = json.dumps([question, list(answers)], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def on_the_wire(event: Event, now: float) -> dict[str, object]:
    """Encode the event as JSON. Clocks differ between machines: it has the time it has waited, not when it was."""
    return {
        "id": event.id,
        "number": event.number,
        "kind": event.kind,
        "about": event.about,
        "said": event.said,
        "misconceptions": list(event.misconceptions),
        "waited": round(max(0.0, now - event.at), 3),
    }


def from_the_wire(data: object, now: float) -> Event:
    """Decode the event that a learner's machine sent.

    Raises:
        MalformedEventError: a part is missing, of another kind, or too long.
    """
    if not isinstance(data, Mapping):
        raise MalformedEventError("not an object")
    kind, said = data.get("kind"), data.get("said")
    number = _number(data.get("number"))
    if kind == "verdict":
        about, allowed = _matching(_WORD, data.get("about"), "task"), said in VERDICTS
    elif kind == "vote":
        about = _matching(_QUESTION, data.get("about"), "question")
        allowed = isinstance(said, str) and said.isascii() and said.isdecimal() and len(said) < 3
    else:
        raise MalformedEventError("neither a verdict nor a vote")
    if not allowed:
        raise MalformedEventError(f"a {kind} cannot say this")
    misconceptions = _misconceptions(data.get("misconceptions", []))
    at = now - min(max(0.0, _seconds(data.get("waited", 0.0))), _LONGEST_WAIT)
    return Event(_matching(_ID, data.get("id"), "id"), number, kind, about, str(said), misconceptions, at)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise MalformedEventError("no number")
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise MalformedEventError("no number of seconds")
    return value


def _misconceptions(ids: object) -> tuple[str, ...]:
    if not isinstance(ids, list) or len(ids) > _MAX_MISCONCEPTIONS:
        raise MalformedEventError("no list of misconceptions")
    return tuple(_matching(_WORD, each, "misconception") for each in ids)


def _matching(pattern: re.Pattern[str], text: object, what: str) -> str:
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise MalformedEventError(f"no {what}")
    return text


def is_token(text: object) -> bool:
    """Return whether this looks like `secrets.token_urlsafe(32)`: the proof of being the learner who joined."""
    return isinstance(text, str) and _TOKEN.fullmatch(text) is not None


def clean_name(text: object) -> str:
    """Return a name that can be shown: one line, of limited length, without invisible characters; '' if none is left.

    Whatever else is in it is text, which the page never reads as HTML.
    """
    if not isinstance(text, str):
        return ""
    spaced = " ".join(unicodedata.normalize("NFKC", text[:1000]).split())
    # Control characters, marks that turn the direction of writing, and what no font knows. More than one accent
    # per letter can be stacked over the lines of others.
    kept: list[str] = []
    for letter in spaced:
        category = unicodedata.category(letter)
        if category[0] == "C" or (
            category in ("Mn", "Me") and (not kept or unicodedata.category(kept[-1])[0] == "M")
        ):
            continue
        kept.append(letter)
    return "".join(kept)[:LONGEST_NAME].strip()
