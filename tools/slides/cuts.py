"""Shortening a lesson's text and code for slides: pure functions from text to text.

Prose is shortened to the sentences with which its paragraphs begin, and what is left out goes into the speaker notes.
Code and outputs are never shortened: where they have more lines than a slide, they are split. How large letters are is
for the browser to say (`slides.js`).
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: What a slide holds: so many lines of code, each of so many characters, in letters that are read from the last row.
LINES, COLUMNS = 22, 95
#: A line of text is set larger, holds fewer characters, and has room around its paragraph.
_TEXT_LINE, _TEXT_COLUMNS, _TEXT_GAP = 1.6, 78, 0.6

#: With fewer words, a beginning says nothing: "**Construction.**"
_FEWEST = 5
_SENTENCE = re.compile(r"(?<=[.!?:])[*”’)`]*\s+(?=[A-Z“(`*\d])")
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")


@dataclass(frozen=True)
class Shortened:
    """Markdown for the slide, and whether it is less than what stood there."""

    text: str
    less: bool


def paragraphs(markdown: str) -> list[str]:
    """Split a text into paragraphs, lists, tables, quotations and code. A fenced block stays together."""
    found: list[list[str]] = [[]]
    fenced = False
    for line in markdown.splitlines():
        if line.strip().startswith("``"):
            fenced = not fenced
        if line.strip() or fenced:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return _lists_together(["\n".join(lines) for lines in found if lines])


def _lists_together(blocks: Sequence[str]) -> list[str]:
    """Join the items of a list, and the indented lines that belong to them, to one block."""
    found: list[str] = []
    for block in blocks:
        if found and _ITEM.match(found[-1]) and (_ITEM.match(block) or block.startswith("  ")):
            found[-1] = f"{found[-1]}\n\n{block}"
        else:
            found.append(block)
    return found


def is_prose(block: str) -> bool:
    """Return whether this is a paragraph: neither a list, a table, a quotation, code nor HTML."""
    return not (_ITEM.match(block) or block.startswith(("|", ">", "``", "    ", "<", "$$")))


def shortened(block: str, words: int = 34) -> Shortened:
    """Shorten a paragraph, list or quotation to about so many words (in each item); leave other blocks."""
    if block.startswith(("|", "``", "    ", "<", "$$")):
        return Shortened(block, False)
    if block.startswith(">"):
        inner = "\n".join(line.removeprefix(">").removeprefix(" ") for line in block.splitlines())
        parts = [_lead(part, words + 10) for part in paragraphs(inner)]
        text = "\n>\n".join("\n".join(f"> {line}" for line in part.text.splitlines()) for part in parts)
        return Shortened(text, any(part.less for part in parts))
    if _ITEM.match(block):
        items = re.split(r"\n+(?=(?:[-*]|\d+\.) )", block)
        short = [_lead(" ".join(item.split()), max(12, words - 14)) for item in items]
        return Shortened("\n".join(item.text for item in short), any(item.less for item in short))
    return _lead(block, words)


def _lead(paragraph: str, words: int) -> Shortened:
    """Return the first sentences within this number of words; at least one that says something."""
    text = " ".join(paragraph.split())
    if len(text.split()) <= words + 6:
        return Shortened(text, False)
    kept = ""
    for end in [match.start() for match in _SENTENCE.finditer(text)]:
        # The closing marks that belong to the sentence.
        while end < len(text) and not text[end].isspace():
            end += 1
        if not _balanced(text[:end]):
            continue
        if len(kept.split()) >= _FEWEST and len(text[:end].split()) > words:
            break
        kept = text[:end]
    # A sentence that ends in a colon announces what follows.
    if not kept or kept.endswith(":"):
        return Shortened(text, False)
    return Shortened(kept, True)


def _balanced(text: str) -> bool:
    """Return whether every emphasis, quotation, code and bracket that is opened is closed."""
    bare = re.sub(r"`[^`]*`", "", text)
    return (
        text.count("`") % 2 == 0
        and bare.count("*") % 2 == 0
        and bare.count("(") == bare.count(")")
        and bare.count("[") == bare.count("]")
        and bare.count("“") == bare.count("”")
    )


def text_lines(markdown: str) -> float:
    """Estimate how many lines of code fit into the space of this block of text."""
    rows = markdown.splitlines()
    if markdown.startswith("|"):
        return (len(rows) - 1) * 1.8 * math.ceil(max(map(len, rows)) / 105) + _TEXT_GAP
    if markdown.startswith(("``", "    ")):
        return len(rows) + 1
    items = re.split(r"\n(?=(?:[-*]|\d+\.|>) )", markdown)
    bare = [re.sub(r"\]\([^)]*\)|[*`\[>]", "", item) for item in items]
    return _TEXT_LINE * sum(math.ceil(len(item) / _TEXT_COLUMNS) or 1 for item in bare) + _TEXT_GAP


def code_lines(lines: Sequence[str]) -> int:
    """Count these lines on a slide, where long ones are wrapped, with the space around them."""
    return sum(math.ceil(len(line) / COLUMNS) or 1 for line in lines) + 1


def one_blank_line(code: str) -> list[str]:
    """Return the lines of a cell's code, with at most one empty line between two others."""
    found: list[str] = []
    for line in code.splitlines():
        if line.strip() or (found and found[-1].strip()):
            found.append(line)
    return found


def split_lines(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines in pieces that fit, cut at empty lines where possible, and about equally long."""
    rest = list(lines)
    pieces = math.ceil(code_lines(lines) / LINES)
    wanted = math.ceil(len(lines) / pieces)
    while code_lines(rest) > LINES or len(rest) > wanted * 1.25:
        cut = _cut(rest, wanted)
        yield _without_blank_ends(rest[:cut])
        rest = _without_blank_ends(rest[cut:])
    yield rest


def _cut(lines: Sequence[str], wanted: int) -> int:
    """Return where to cut: the best place that leaves no more than fits."""

    def cost(place: int) -> float:
        after = lines[place]
        empty = not lines[place - 1].strip() or not after.strip()
        top = empty and not after.startswith((" ", ")", "]", "}"))
        return abs(place - wanted) + (0 if top else 6 if empty else 14)

    places = range(max(1, wanted // 2), len(lines))
    return min((place for place in places if code_lines(lines[:place]) <= LINES), key=cost, default=1)


def _without_blank_ends(lines: Sequence[str]) -> list[str]:
    return "\n".join(lines).strip("\n").split("\n")
