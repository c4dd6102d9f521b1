"""A picture of lanes, watched again: a cursor that plays, steps and can be dragged, and what each lane does under it.

Where scripts are not run, the picture is left.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from realranks.draw.drawing import HEAD
from realranks.draw.lanes import LaneDrawing
from realranks.draw.scripted import scripted


@dataclass(frozen=True)
class Moment:
    """A lane's activity from one time to another, in words."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class ReplayLane:
    """A lane of a replay, in words.

    Attributes:
        moments: what its main thread does, by start; they do not overlap.
        collectives: when each of its collectives was under way, by start. A lane waits for those that have begun fewer
            than it has; and where none of its own is under way yet, for those that have not begun the next one.
        begins: when it began.
        ends: when it ended; left out: with the last of the lanes.
        ended: what is said of it from then on.
    """

    name: str
    moments: tuple[Moment, ...]
    collectives: tuple[tuple[float, float], ...] = ()
    begins: float = 0.0
    ends: float = math.inf
    ended: str = "has ended"

    def data(self, last: float) -> dict[str, object]:
        """Return the lane's data as the script reads it."""
        moments = [[round(each.start, 4), round(each.end, 4), each.text] for each in self.moments]
        collectives = [[round(start, 4), round(end, 4)] for start, end in self.collectives]
        begins, ends = round(self.begins, 4), round(min(self.ends, last), 4)
        return {
            "name": self.name,
            "moments": moments,
            "collectives": collectives,
            "begins": begins,
            "ends": ends,
            "ended": self.ended,
        }


@dataclass(frozen=True)
class Replay:
    """A drawing with the lanes described beside it.

    Attributes:
        waiting: the text of the moments in which a lane waits for others.
        one_group: all lanes take part in all collectives, so that counting says who is late; else nobody is named.
    """

    drawing: LaneDrawing
    lanes: tuple[ReplayLane, ...]
    waiting: str = "waiting"
    unit: str = "ms"
    one_group: bool = True

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return f"[replay: {self.drawing.alt}]"

    @property
    def last(self) -> float:
        """The end of the last lane."""
        times = [m.end for one in self.lanes for m in one.moments]
        return max((*times, *(one.ends for one in self.lanes if one.ends < math.inf)), default=0.0)

    def html(self) -> str:
        """Render the replay as one element with its script; positions are in percent, because its width varies."""
        drawing = self.drawing
        wide, high = 100 / drawing.width, 100 / (drawing.height + HEAD)
        data = {
            "left": round(drawing.left * wide, 4),
            "scale": drawing.scale * wide,
            "top": round(HEAD * high, 4),
            "height": round((drawing.floor - HEAD) * high, 4),
            "end": round(self.last, 4),
            "unit": self.unit,
            "waiting": self.waiting,
            "named": self.one_group,
            "lanes": [one.data(self.last) for one in self.lanes],
        }
        return scripted("replay", f"Replay. {drawing.alt}", drawing.width, drawing.html(), data)

    def save(self, path: str | Path, seconds: float = 8.0) -> Path:
        """Write an SVG in which the cursor goes round by itself: for a page or a slide in which no script runs."""
        left, top = self.drawing.left, HEAD
        right, height = self.drawing.width, self.drawing.floor - HEAD
        last = left + self.drawing.scale * self.last

        def moving(what: str, begin: float, end: float) -> str:
            return (
                f'<animate attributeName="{what}" from="{begin:.1f}" to="{end:.1f}" dur="{seconds:g}s" '
                'repeatCount="indefinite"/>'
            )

        cursor = (
            f'<rect x="{left:.1f}" y="{top}" width="{right - left:.1f}" height="{height:.1f}" fill="#808080" '
            f'opacity="0.35">{moving("x", left, last)}{moving("width", right - left, right - last)}</rect>'
            f'<rect x="{left:.1f}" y="{top}" width="2" height="{height:.1f}" fill="#CC79A7">'
            f"{moving('x', left, last)}</rect>"
        )
        target = Path(path)
        target.write_text(self.drawing.svg().removesuffix("</svg>") + cursor + "</svg>", encoding="utf-8")
        return target


def without_overlaps(moments: Sequence[Moment]) -> tuple[Moment, ...]:
    """Put moments one after the other; of nested ones, the inner one counts while it lasts."""
    found: list[Moment] = []
    waiting = sorted(moments, key=lambda each: (each.start, -each.end), reverse=True)
    over: list[Moment] = []
    times = sorted({time for each in moments for time in (each.start, each.end)})
    for start, end in itertools.pairwise(times):
        over = [each for each in over if each.end > start]
        while waiting and waiting[-1].start <= start:
            over.append(waiting.pop())
        if not over:
            continue
        if found and found[-1].text == over[-1].text and found[-1].end == start:
            found[-1] = Moment(found[-1].start, end, over[-1].text)
        else:
            found.append(Moment(start, end, over[-1].text))
    return tuple(found)
