"""A drawing: shapes with places and words, frozen, and the SVG of it.

Lengths are CSS pixels; y grows downwards. The SVG stands alone: it brings its fonts' names, its patterns and its
background, and is dark where the page around it is. Text in it is text: it can be searched, copied and read aloud, and
the picture's alternative text is part of it. The ids in it are its own: a page may hide one of several drawings, and
with it whatever the others borrowed from it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from realranks.draw.looks import LOOKS, PATTERNS

#: Estimated width of a character, in parts of the font's size; enough to decide whether a word fits into a box.
_CHARACTER = 0.56
#: No text in a picture is smaller (11 px are 8.25 pt).
SMALLEST = 11
#: A wider drawing shrinks until its smallest letters are below 8 pt (10.67 px) in JupyterLab on a screen of 1024 px,
#: where a cell's output is 809 px wide beside a scroll bar, with the file browser closed (557 with it open).
WIDEST = 834
#: The height of the line with a picture's title.
HEAD = 28
_STYLE = (
    "svg.ddp{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif;--ink:#1a1a1a;--paper:#fff;--faint:#767676;"
    "--pause:#f4f0e2}svg.ddp:not(:root){max-width:100%;height:auto}"
    "svg.ddp .mono{font-family:ui-monospace,'DejaVu Sans Mono',monospace}"
    "@media (prefers-color-scheme:dark){"
    "svg.ddp{--ink:#e8e8e8;--paper:#1e1e1e;--faint:#a0a0a0;--pause:#35322a}}"
    # Within a page, what counts is whether this page is dark; as an image of its own, what the page around it asks for.
    "@supports (color:light-dark(#000,#fff)){svg.ddp:root{color-scheme:light dark}"
    "svg.ddp{--ink:light-dark(#1a1a1a,#e8e8e8);--paper:light-dark(#fff,#1e1e1e);"
    "--faint:light-dark(#767676,#a0a0a0);--pause:light-dark(#f4f0e2,#35322a)}}"
)


@dataclass(frozen=True)
class Box:
    """A rectangle.

    Attributes:
        look: a key of `LOOKS`, or "" for a frame without a filling.
        text: written in its middle where there is room for it.
        hint: what a pointer that rests on it shows.
        edge: the width of its outline; 0 for none.
        dashed: with a dashed outline, for what is planned or missing.
    """

    x: float
    y: float
    width: float
    height: float
    look: str = ""
    text: str = ""
    hint: str = ""
    edge: float = 1
    dashed: bool = False
    size: float = 12

    def svg(self) -> str:
        """Render the element, or a group of two."""
        place = f'x="{_n(self.x)}" y="{_n(self.y)}" width="{_n(self.width)}" height="{_n(self.height)}"'
        dash = ' stroke-dasharray="4 3"' if self.dashed else ""
        look = LOOKS.get(self.look)
        # What is filled keeps a dark outline on dark paper: most fillings are light.
        colour = "#1a1a1a" if look and look.fill.startswith("#") else "var(--ink)"
        edge = f'stroke="{colour}" stroke-width="{_n(self.edge)}"{dash}' if self.edge else ""
        parts = [f'<rect {place} fill="{look.fill if look else "none"}" {edge}/>']
        if look and look.pattern:
            parts.append(f'<rect {place} fill="url(#ddp-{look.pattern})"/>')
        if self.text and text_width(self.text, self.size) <= self.width - 4:
            parts += self._words(look.ink if look else "var(--ink)", bool(look and look.pattern))
        hint = f"<title>{escape(self.hint)}</title>" if self.hint else ""
        return f"<g>{hint}{''.join(parts)}</g>" if len(parts) > 1 or hint else parts[0]

    def _words(self, ink: str, patterned: bool) -> Iterable[str]:
        x, y = self.x + self.width / 2, self.y + self.height / 2
        if patterned:  # a plain ground: words over a pattern are hard to read
            width = text_width(self.text, self.size) + 4
            ground = LOOKS[self.look].fill
            yield (
                f'<rect x="{_n(x - width / 2)}" y="{_n(y - 0.65 * self.size)}" width="{_n(width)}" '
                f'height="{_n(1.3 * self.size)}" fill="{ground}"/>'
            )
        yield Text(x, y + 0.36 * self.size, self.text, self.size, "middle", colour=ink).svg()


@dataclass(frozen=True)
class Text:
    """Words on one line.

    Attributes:
        y: of the baseline. anchor: `start`, `middle` or `end`: which part of the words is at x.
        faint: less important. mono: code.
    """

    x: float
    y: float
    text: str
    size: float = 12
    anchor: str = "start"
    bold: bool = False
    mono: bool = False
    faint: bool = False
    colour: str = ""

    def svg(self) -> str:
        """Render the element."""
        colour = self.colour or ("var(--faint)" if self.faint else "var(--ink)")
        bold = ' font-weight="600"' if self.bold else ""
        mono = ' class="mono"' if self.mono else ""
        return (
            f'<text x="{_n(self.x)}" y="{_n(self.y)}" font-size="{_n(max(SMALLEST, self.size))}" '
            f'text-anchor="{self.anchor}" fill="{colour}"{bold}{mono}>{escape(self.text, quote=False)}</text>'
        )


@dataclass(frozen=True)
class Arrow:
    """A line from one place to another, with a head unless it is `plain`; `bend` pixels to its left in the middle."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float = 1.5
    dashed: bool = False
    plain: bool = False
    faint: bool = False
    bend: float = 0

    def svg(self) -> str:
        """Render the element."""
        length = ((self.x2 - self.x1) ** 2 + (self.y2 - self.y1) ** 2) ** 0.5 or 1
        across = ((self.y2 - self.y1) / length, (self.x1 - self.x2) / length)
        middle = (
            (self.x1 + self.x2) / 2 + 2 * self.bend * across[0],
            (self.y1 + self.y2) / 2 + 2 * self.bend * across[1],
        )
        way = f"Q{_n(middle[0])} {_n(middle[1])} " if self.bend else "L"
        dash = ' stroke-dasharray="4 3"' if self.dashed else ""
        head = "" if self.plain else ' marker-end="url(#ddp-head)"'
        colour = "var(--faint)" if self.faint else "var(--ink)"
        return (
            f'<path d="M{_n(self.x1)} {_n(self.y1)}{way}{_n(self.x2)} {_n(self.y2)}" fill="none" stroke="{colour}" '
            f'stroke-width="{_n(self.width)}"{dash}{head}/>'
        )


Shape = Box | Text | Arrow


@dataclass(frozen=True)
class Drawing:
    """A picture; a notebook shows it, and `alt` where pictures are not shown.

    Attributes:
        alt: what is to be seen, in a sentence or two, for readers who do not see it; without numbers that differ from
            run to run, because a notebook's test compares it.
        title: the finding, written above the picture.
        note: beside the title; what is measured and differs from run to run.
    """

    width: float
    height: float
    shapes: tuple[Shape, ...]
    alt: str
    title: str = ""
    note: str = ""

    def svg(self) -> str:
        """Render the whole picture as one `<svg>` element."""
        head = HEAD if self.title or self.note else 0
        height = self.height + head
        title = Text(8, 19, self.title, 14, bold=True).svg() if self.title else ""
        title += Text(self.width - 14, 19, self.note, 12, "end").svg() if self.note else ""
        body = (
            title + f'<g transform="translate(0 {head})">{"".join(shape.svg() for shape in self.shapes)}</g>'
        )
        drawn = f"<defs>{_defs(self.shapes)}</defs>{body}"
        # The same picture has the same ids in every run: saved outputs stay as they are.
        own = f"ddp-{zlib.crc32(body.encode()):08x}-"
        drawn = drawn.replace('id="ddp-', f'id="{own}').replace('="url(#ddp-', f'="url(#{own}')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="ddp" role="img" aria-label="{escape(self.alt)}" '
            f'width="{_n(self.width)}" height="{_n(height)}" viewBox="0 0 {_n(self.width)} {_n(height)}">'
            f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="var(--paper)"/>{drawn}</svg>'
        )

    def html(self) -> str:
        """Render the picture as an `<img>`: as wide as the page allows, with its words as alternative text.

        An `<svg>` element would be removed from a notebook that is not trusted, and JupyterLab shows `image/svg+xml`
        without alternative text, at its full width.
        """
        return image(self.words, "svg+xml", base64.b64encode(self.svg().encode()).decode())

    def save(self, path: str | Path) -> Path:
        """Write the picture as an SVG file."""
        target = Path(path)
        target.write_text(self.svg(), encoding="utf-8")
        return target

    @property
    def words(self) -> str:
        """A description of the picture, with its title."""
        return f"{self.title}: {self.alt}" if self.title else self.alt

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return f"[{self.words}]"


def text_width(text: str, size: float = 12) -> float:
    """Estimate the width of words in pixels."""
    return _CHARACTER * max(SMALLEST, size) * len(text)


def _defs(shapes: Iterable[Shape]) -> str:
    used = sorted(
        {
            LOOKS[shape.look].pattern
            for shape in shapes
            if isinstance(shape, Box) and shape.look and LOOKS[shape.look].pattern
        }
    )
    tiles = "".join(
        f'<pattern id="ddp-{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<g fill="none" stroke="#000" stroke-opacity=".45" stroke-width="1">{PATTERNS[name]}</g></pattern>'
        for name in used
    )
    if any(isinstance(shape, Arrow) and not shape.plain for shape in shapes):
        tiles += (
            '<marker id="ddp-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="var(--ink)"/></marker>'
        )
    return tiles


def _n(number: float) -> str:
    """Format a number with at most two decimals: a picture of a thousand bars stays small."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def image(words: str, kind: str, data: str) -> str:
    """Build an `<img>` with alternative text, which stays if a notebook is not trusted; `data` is in base64."""
    return f'<img alt="{escape(words)}" style="max-width: 100%" src="data:image/{kind};base64,{data}">'
