"""How a lesson's text and code become short enough for a slide: pure functions from text to text.

Prose is shortened to the sentences with which its paragraphs begin, and what is left out goes into the speaker notes.
Code and outputs are never shortened: they are set smaller, and where that would be too small, split.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: A slide's canvas, and what of it is left for content below the heading, in CSS pixels.
WIDTH, HEIGHT = 1280, 720
ROOM_WIDTH, ROOM_HEIGHT = 1160, 560
#: Text.
TEXT_SIZE, TEXT_LINE, TEXT_GAP = 28, 1.36, 14
#: Code and printed output: the largest size, the one that is still comfortable, the smallest; a character's width in
#: parts of the size.
CODE_LARGEST, CODE_MIDDLE, CODE_SMALLEST, CODE_LINE, CODE_PADDING = 27, 20, 16, 1.32, 24
#: So small code may become to stay on one slide with its outputs.
CODE_TOGETHER = 18
_MONO = 0.61
_PROSE = 0.5

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
    """The blocks of a text: paragraphs, lists, tables, quotations, code. A fenced block stays together."""
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
    """A list whose items stand apart, with the indented lines that belong to them, is one block."""
    found: list[str] = []
    for block in blocks:
        if found and _ITEM.match(found[-1]) and (_ITEM.match(block) or block.startswith("  ")):
            found[-1] = f"{found[-1]}\n\n{block}"
        else:
            found.append(block)
    return found


def is_prose(block: str) -> bool:
    """True for a paragraph: neither a list, a table, a quotation, code nor HTML."""
    return not (_ITEM.match(block) or block.startswith(("|", ">", "``", "    ", "<", "$$")))


def shortened(block: str, words: int = 34) -> Shortened:
    """A paragraph, list or quotation with about so many words (in each item); other blocks as they are."""
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
    """The first sentences, as long as they have no more words than this; at least one that says something."""
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
    """Whether every emphasis, quotation, code and bracket that is opened is closed."""
    bare = re.sub(r"`[^`]*`", "", text)
    return (
        text.count("`") % 2 == 0
        and bare.count("*") % 2 == 0
        and bare.count("(") == bare.count(")")
        and bare.count("[") == bare.count("]")
        and bare.count("“") == bare.count("”")
    )


def text_height(markdown: str) -> float:
    """About how many pixels a block of text takes on a slide."""
    size, lines = TEXT_SIZE, 0
    if markdown.startswith("|"):
        rows = markdown.splitlines()
        widest = max(len(row) for row in rows)
        return (len(rows) - 1) * 22 * 1.9 * max(1, math.ceil(widest / 105)) + TEXT_GAP
    if markdown.startswith(("``", "    ")):
        return (len(markdown.splitlines()) + 1) * 20 * CODE_LINE + TEXT_GAP
    for line in re.split(r"\n(?=(?:[-*]|\d+\.|>) )", markdown):
        bare = re.sub(r"\]\([^)]*\)|[*`\[>]", "", line)
        lines += max(1, math.ceil(len(bare) * _PROSE * size / (ROOM_WIDTH - 40)))
    return lines * size * TEXT_LINE + TEXT_GAP


def code_size(lines: Sequence[str], height: float = ROOM_HEIGHT) -> int | None:
    """The largest size in which these lines fit into this height; None where it would be too small to be read.

    Nearly all lines stay whole: only in small sizes may one line in ten be wrapped, and in the smallest any.
    """
    for size in range(CODE_LARGEST, CODE_SMALLEST - 1, -1):
        columns = _columns(size)
        wrapped = sum(len(line) > columns for line in lines)
        allowed = (
            0 if size > CODE_MIDDLE else max(1, len(lines) // 10) if size > CODE_SMALLEST else len(lines)
        )
        if wrapped <= allowed and code_height(lines, size) <= height:
            return size
    return None


def code_height(lines: Sequence[str], size: int) -> float:
    """How many pixels these lines take in this size, wrapped where they are too wide."""
    rows = sum(max(1, math.ceil(len(line) / _columns(size))) for line in lines)
    return rows * size * CODE_LINE + CODE_PADDING


def _columns(size: int) -> int:
    return max(1, int((ROOM_WIDTH - 2 * CODE_PADDING) / (_MONO * size)))


def one_blank_line(code: str) -> list[str]:
    """The lines of a cell's code, with no more than one empty line between two others."""
    found: list[str] = []
    for line in code.splitlines():
        if line.strip() or (found and found[-1].strip()):
            found.append(line)
    return found


def split_lines(lines: Sequence[str], height: float = ROOM_HEIGHT) -> Iterator[list[str]]:
    """The lines in pieces that fit, cut at empty lines where there are some, and about equally long."""
    if code_size(lines, height) is not None:
        yield list(lines)
        return
    pieces = max(2, math.ceil(code_height(lines, CODE_SMALLEST) / height))
    wanted = math.ceil(len(lines) / pieces)
    rest = list(lines)
    while rest:
        if code_size(rest, height) is not None and len(rest) <= wanted * 1.25:
            yield rest
            return
        cut = _cut(rest, wanted, height)
        yield _without_blank_ends(rest[:cut])
        rest = _without_blank_ends(rest[cut:])


def _cut(lines: Sequence[str], wanted: int, height: float) -> int:
    """Where to cut: the best place that leaves no more than fits."""
    most = len(lines)
    while most > 1 and code_height(lines[:most], CODE_SMALLEST) > height:
        most -= 1
    places = range(max(1, wanted // 2), min(most, len(lines) - 1) + 1)

    def cost(place: int) -> float:
        after = lines[place] if place < len(lines) else ""
        empty = not lines[place - 1].strip() or not after.strip()
        top = empty and not after.startswith((" ", ")", "]", "}"))
        return abs(place - wanted) + (0 if top else 6 if empty else 14)

    return min(places, key=cost, default=most)


def _without_blank_ends(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[0].strip():
        kept.pop(0)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
