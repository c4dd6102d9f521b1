"""The looks that things have in every picture: a colour, and a pattern that means the same without colour.

The colours are those of M. Okabe and K. Ito, "Color Universal Design", 2008; they stay apart for colour-blind readers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """A filling for boxes.

    Attributes:
        fill: a colour, as in CSS; `var(--paper)` and others follow the page's theme.
        pattern: the name of one of `PATTERNS`, drawn over it; "" for none.
        ink: the colour of text on it.
    """

    fill: str
    pattern: str = ""
    ink: str = "#000"


LOOKS = {
    "forward": Look("#56B4E9"),
    "backward": Look("#0072B2", "rising", "#fff"),
    "optimizer": Look("#999999", "dots"),
    "waiting": Look("var(--pause)", "level", "var(--ink)"),
    "communication": Look("#E69F00", "falling"),
    "sleep": Look("#D55E00", "crossed", "#fff"),
    "even": Look("#E6E6E6"),
    "odd": Look("#9FC8E3", "rising"),
    "good": Look("#009E73", "", "#fff"),
    "bad": Look("#D55E00", "crossed", "#fff"),
    "rank 0": Look("#56B4E9"),
    "rank 1": Look("#E69F00", "falling"),
    "rank 2": Look("#F0E442", "dots"),
    "rank 3": Look("#CC79A7", "crossed"),
    "sum": Look("#009E73", "", "#fff"),
    "plain": Look("var(--paper)", ink="var(--ink)"),
}
#: Tiles of 8 by 8, as the attributes of the lines in them.
PATTERNS = {
    "rising": '<path d="M-2 2l4 -4M0 8l8 -8M6 10l4 -4"/>',
    "falling": '<path d="M-2 6l4 4M0 0l8 8M6 -2l4 4"/>',
    "level": '<path d="M0 4h8" stroke="var(--ink)" stroke-opacity=".22"/>',
    "crossed": '<path d="M0 8l8 -8M0 0l8 8"/>',
    "dots": '<path d="M2 2h.01M6 6h.01" stroke-linecap="round" stroke-width="2"/>',
}
