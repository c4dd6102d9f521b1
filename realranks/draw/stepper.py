"""Pictures one after the other: played, paused, stepped through with buttons or keys, and a strip of them on paper.

Where scripts are not run, and in print, the strip is shown: the frames that matter, each with its sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from realranks.draw.drawing import HEAD, Arrow, Box, Drawing, Shape, Text, text_width
from realranks.draw.scripted import scripted

#: What a page has room for, and the room around each frame of a strip.
_WIDTH, _GAP = 760, 16
_LINE, _SAID = 18, 13
#: A strip shows this many frames unless its maker names others.
_USUAL = 4


@dataclass(frozen=True)
class Frame:
    """One picture of a stepper.

    Attributes:
        drawing: what is to be seen; its title is written above it.
        said: the sentence that says what has happened: shown below the picture, read aloud by screen readers, and the
            text alternative of the picture. Without numbers that differ from run to run (see `Drawing`).
    """

    drawing: Drawing
    said: str


@dataclass(frozen=True)
class Stepper:
    """Frames to step through: buttons, a slider, and from the keyboard arrows, Home, End and the space bar.

    A notebook shows it when it is the last line of a cell. Nothing moves before somebody presses play.

    Attributes:
        frames: the pictures in order, at least one.
        title: what the frames show together; names the group of buttons for screen readers.
        matter: which frames the static strip shows, by place; left out: the first, the last, and two between.
        seconds: how long a frame stays when the stepper plays.
    """

    frames: tuple[Frame, ...]
    title: str
    matter: tuple[int, ...] = ()
    seconds: float = 1.5

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("a stepper needs at least one frame")
        if outside := [place for place in self.matter if not 0 <= place < len(self.frames)]:
            raise ValueError(f"there is no frame {outside[0]}: {len(self.frames)} frames, counted from 0")

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return f"[{self.alt}]"

    @property
    def alt(self) -> str:
        """The title and the sentences of all frames: what the stepper shows, in words."""
        sentences = " ".join(f"{number}. {frame.said}" for number, frame in enumerate(self.frames, start=1))
        return f"{self.title}: {sentences}"

    def html(self) -> str:
        """Render the stepper as one element with its script; it loads nothing from elsewhere."""
        data = {
            "pictures": [replace(frame.drawing, alt=frame.said).svg() for frame in self.frames],
            "said": [frame.said for frame in self.frames],
            "milliseconds": round(1000 * self.seconds),
        }
        width = max(_WIDTH, *(frame.drawing.width for frame in self.frames))
        return scripted("stepper", self.title, width, self.strip().html(), data)

    def strip(self) -> Drawing:
        """Draw the frames that matter as one picture, each with its number and its sentence below it."""
        shapes: list[Shape] = []
        x, y, row, width = 0.0, 0.0, 0.0, 0.0
        for place in self._shown():
            drawing, said = self.frames[place].drawing, self.frames[place].said
            room = max(drawing.width, 240)
            lines = wrapped(f"{place + 1}. {said}", room - 16, _SAID)
            head = HEAD if drawing.title or drawing.note else 0
            height = head + drawing.height + len(lines) * _LINE + 8
            if x and x + room > _WIDTH:
                x, y, row = 0.0, y + row + _GAP, 0.0
            if drawing.title:
                shapes.append(Text(x + 8, y + 19, drawing.title, 14, bold=True))
            if drawing.note:
                shapes.append(Text(x + drawing.width - 14, y + 19, drawing.note, 12, "end"))
            shapes += (moved(shape, x, y + head) for shape in drawing.shapes)
            below = y + head + drawing.height
            shapes += (
                Text(x + 8, below + 14 + number * _LINE, line, _SAID) for number, line in enumerate(lines)
            )
            x, row, width = x + room + _GAP, max(row, height), max(width, x + room)
        return Drawing(width, y + row, tuple(shapes), self.alt)

    def save(self, path: str | Path) -> Path:
        """Write the strip as an SVG file: for a page or a slide in which no script runs."""
        return self.strip().save(path)

    def _shown(self) -> Sequence[int]:
        if self.matter:
            return self.matter
        last = len(self.frames) - 1
        return sorted({round(last * part / (_USUAL - 1)) for part in range(_USUAL)})


def moved(shape: Shape, right: float, down: float) -> Shape:
    """Move a shape."""
    match shape:
        case Arrow():
            return replace(
                shape, x1=shape.x1 + right, y1=shape.y1 + down, x2=shape.x2 + right, y2=shape.y2 + down
            )
        case Box() | Text():
            return replace(shape, x=shape.x + right, y=shape.y + down)


def wrapped(text: str, width: float, size: float = 12) -> list[str]:
    """Wrap the words to this width; a word that is longer gets a line of its own."""
    return list(_lines(text.split(), width, size))


def _lines(words: Sequence[str], width: float, size: float) -> Iterator[str]:
    line = ""
    for word in words:
        longer = f"{line} {word}" if line else word
        if line and text_width(longer, size) > width:
            yield line
            line = word
        else:
            line = longer
    if line:
        yield line
