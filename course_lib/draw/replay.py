"""A picture of lanes, watched again: a cursor that plays, steps and can be dragged, and what each lane does under it.

One piece of HTML with its script in it, so it works in a notebook that has just run and in an exported page, without a
kernel. Where scripts are not run, the picture is left.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from string import Template

from course_lib.draw.drawing import HEAD
from course_lib.draw.lanes import LaneDrawing

_BUTTONS = (("home", "start"), ("back", "‹ step"), ("play", "play"), ("on", "step ›"))
_BUTTON = "min-width: 4em; padding: 2px 6px"
_SIDE = (
    "text-align: left; padding: 0 0.8em; border: none; background: transparent; line-height: 1.5; "
    "white-space: nowrap"
)


@dataclass(frozen=True)
class Moment:
    """What a lane does from one time to another, in words."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Told:
    """What is said of one lane.

    Attributes:
        moments: what its main thread does, by start; they do not overlap.
        collectives: when each of its collectives was under way, by start. A lane waits for those that have begun fewer
            than it has; and where none of its own is under way yet, for those that have not begun the next one.
    """

    name: str
    moments: tuple[Moment, ...]
    collectives: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Replay:
    """A drawing and what is said beside it.

    Attributes:
        waiting: the text of the moments in which a lane waits for others.
        one_group: all lanes take part in all collectives, so that counting says who is late; else nobody is named.
    """

    drawing: LaneDrawing
    told: tuple[Told, ...]
    waiting: str = "waiting"
    unit: str = "ms"
    one_group: bool = True

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"[replay: {self.drawing.alt}]"

    def html(self) -> str:
        """The replay as one element and its script."""
        svg = self.drawing.svg()
        name = f"ddp-replay-{zlib.crc32(svg.encode()):08x}"
        rows = "\n".join(
            f'<tr style="background: transparent"><th scope="row" style="{_SIDE}">{escape(one.name)}</th>'
            f'<td style="{_SIDE}" data-lane="{place}"></td></tr>'
            for place, one in enumerate(self.told)
        )
        buttons = "\n".join(
            f'<button type="button" data-do="{do}" style="{_BUTTON}">{word}</button>' for do, word in _BUTTONS
        )
        return _template().substitute(
            name=name,
            alt=escape(self.drawing.alt),
            width=f"{self.drawing.width:g}",
            head=HEAD,
            height=f"{self.drawing.floor - HEAD:g}",
            svg=svg,
            buttons=buttons,
            rows=rows,
            script=_script(),
            name_as_json=_json(name),
            data=_json(self._data()),
        )

    def _data(self) -> dict[str, object]:
        return {
            "left": self.drawing.left,
            "scale": self.drawing.scale,
            "unit": self.unit,
            "waiting": self.waiting,
            "named": self.one_group,
            "lanes": [_lane(one) for one in self.told],
        }


def _lane(one: Told) -> dict[str, object]:
    moments = [[round(each.start, 4), round(each.end, 4), each.text] for each in one.moments]
    collectives = [[round(start, 4), round(end, 4)] for start, end in one.collectives]
    return {"name": one.name, "moments": moments, "collectives": collectives}


def without_overlaps(moments: Sequence[Moment]) -> tuple[Moment, ...]:
    """Moments one after the other: where one lies in another, it is the inner one that counts while it lasts."""
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


@cache
def _template() -> Template:
    return Template(Path(__file__).with_name("replay.html").read_text(encoding="utf-8"))


@cache
def _script() -> str:
    return Path(__file__).with_name("replay.js").read_text(encoding="utf-8").strip().rstrip(";")


def _json(value: object) -> str:
    """As JavaScript within a script element: nothing in it can end the element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
