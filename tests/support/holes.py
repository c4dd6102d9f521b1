"""Holes in what the doctor says: words that were to be filled in, and are empty."""

import re

from realranks.outcome.outcome import Diagnosis

_HOLE = re.compile(
    r"  |\b(at|in|for|of|on|by|from|with|to) ([,.;:)](?= |$)|for\b|$)|\b(at|for|of|from|with)$"
    r"| [,.;:)](?= |$)|\( | \(\)|\([,;]|``|\"\"|(?<!\w)''|\bNone\b(?! of|,)|[,;:] ?[.;](?= |$)|\{\w*\}"
)
#: Who it is about stands in a column; a line of the script may hold anything.
_LABEL, _SOURCE = (
    re.compile(r"^(ranks? [\d,-]+|the process that starts the ranks) +"),
    re.compile(r"(line \d+[^:]*): .*"),
)


def holes(found: Diagnosis) -> list[str]:
    """The sentences of a diagnosis that have one."""
    lines = [_SOURCE.sub(r"\1", _LABEL.sub("", line)).partition("  ◀")[0] for line in found.evidence]
    return [each for each in (found.summary, found.advice, *lines) if _HOLE.search(each)]
