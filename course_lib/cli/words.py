"""Which words of a text say what it is about: to find the section of a lesson that teaches something."""

from __future__ import annotations

import re

#: The beginnings of words that stand in every text.
_EVERYWHERE = frozenset(
    re.findall(
        r"\w+",
        """
    after again all also alway been befor does each even every from gives have into made make makes more
    most much must never only other over rank ranks same some such than that them then there these they
    this those what when where which with whole
    """,
    )
)


def words_in(text: str) -> set[str]:
    """The beginnings of a text's longer words: `averaged` and `average` count as one."""
    return {word[:5] for word in re.findall(r"[a-z]{4,}", text.lower().replace("_", " "))} - _EVERYWHERE
