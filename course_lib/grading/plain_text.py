"""Text of a learner's, free of what terminals and browsers may take for commands."""

from __future__ import annotations

import re


def one_line(text: str) -> str:
    """Remove control characters and line ends, as for names in a table."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def plain(text: str) -> str:
    """Remove control characters, which terminals and browsers may take for commands."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", lambda m: f"\\x{ord(m[0]):02x}", text)
