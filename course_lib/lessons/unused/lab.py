"""Lesson 08: graphs of one's own on real ranks, and twelve of the lesson's.

Everything here speaks of `lab.heads.TwoHeads`, a body and two heads of one weight each. Rank 0's sample is 1 and rank
1's is 3, so `.grad` tells what was averaged: 2 is the mean, 1 and 3 are what each rank computed alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.lab.explorer import Explorer, in_turn, to_find
from course_lib.lab.reducer import SHARES, describe_grad
from course_lib.lessons.unused.tasks.schedules import WAYS as WAYS
from realranks.cells.run import run_quietly
from realranks.draw import Box, Cell, Drawing, Text, grid
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

Gradients = list[float | None]
#: What the steps of one rank have left in `.grad`; the words of an error end them.
Found = Sequence[Gradients | str]
HEADS = ("left", "right", "both")
#: The look, the sign and the name of each way in which a step ends.
LOOKS = {
    "right": ("plain", "✓", "right"),
    "silent": ("bad", "≠", "wrong, without an error"),
    "raises": ("forward", "!", "raises"),
    "hangs": ("communication", "…", "hangs"),
}
_LEGEND = " · ".join(f"{sign} {name}" for _, sign, name in LOOKS.values()) + " · white: not reached"
_STEPS = 4


@dataclass(frozen=True)
class Graph:
    """The use of a model in some steps.

    Attributes:
        steps: the heads in the loss, for each rank. kind: what the forward returns, a key of `heads.RETURNS`.
    """

    steps: tuple[tuple[str, ...], tuple[str, ...]]
    kind: str = "tensor"


def _same(*steps: str, kind: str = "tensor") -> Graph:
    return Graph((steps, steps), kind)


GRAPHS = {
    "everything is used": _same(*["both"] * _STEPS),
    "a head is never used": _same(*["left"] * _STEPS),
    "each rank has its own head": Graph((("left",) * _STEPS, ("right",) * _STEPS)),
    "rank 0 uses one head more": Graph((("both",) * _STEPS, ("left",) * _STEPS)),
    "another head in each step": _same(*["left", "right"] * 2),
    "... and on each rank": Graph((("left", "right") * 2, ("right", "left") * 2)),
    "a head is dropped in step 2": _same("both", "both", "left", "left"),
    "a head is added in step 2": _same("left", "left", "both", "both"),
    "an output is not in the loss": _same(*["left"] * _STEPS, kind="tuple"),
    "the same, in a dataclass": _same(*["left"] * _STEPS, kind="dataclass of two"),
    "the output is a dataclass": _same(*["both"] * _STEPS, kind="dataclass"),
    "the output is an object": _same(*["both"] * _STEPS, kind="object"),
}
#: The graph and the way that hang, so that they cannot be measured with the others.
HANGS = ("rank 0 uses one head more", "default")


def own(heads: str, sample: float) -> Gradients:
    """Return what one rank computes alone."""
    used = [heads in (name, "both") for name in ("left", "right")]
    return [sum(used) * sample, *(sample if each else None for each in used)]


def right(heads: Sequence[str]) -> list[float]:
    """Return what both ranks should hold: the mean of what each computes alone; no gradient counts as 0."""
    alone = [own(each, sample) for each, sample in zip(heads, SHARES, strict=True)]
    return [sum(number or 0.0 for number in numbers) / len(alone) for numbers in zip(*alone, strict=True)]


def judged(steps: Sequence[Sequence[str]], found: Sequence[Found]) -> list[list[str]]:
    """Return how each rank's steps ended, in keys of `LOOKS`; a step that did not come is missing."""
    ends: list[list[str]] = []
    for of_rank in found:
        ends.append([])
        for number, left in enumerate(of_rank):
            good = not isinstance(left, str) and [each or 0.0 for each in left] == right(
                [heads[number] for heads in steps]
            )
            ends[-1].append("raises" if isinstance(left, str) else "right" if good else "silent")
    for rank, of_rank_ends in enumerate(ends):
        if len(of_rank_ends) < len(steps[rank]) and of_rank_ends[-1:] != ["raises"]:
            of_rank_ends.append("hangs")
    return ends


def measured(way: str, steps: Sequence[Sequence[str]]) -> list[Found]:
    """Return what each step has left in `.grad` on two real ranks, as far as they came."""
    outcome = run_quietly(_say_steps, way, [list(each) for each in steps], ranks=2)
    found = [[json.loads(line) for line in outcome.stdout[rank].splitlines()] for rank in range(2)]
    # A rank that waits is freed in the end: the error that it then gets is not DDP's.
    return [
        [step for step in of_rank if rank not in outcome.waiting or isinstance(step, list)]
        for rank, of_rank in enumerate(found)
    ]


def _say_steps(way: str, steps: Sequence[Sequence[str]]) -> None:
    """Make the steps on the ranks: `lab.heads` loads torch, which the kernel does not."""
    from course_lib.lessons.unused import heads

    heads.say_steps(way, steps)


# Compose the graph


class GraphExplorer(Explorer):
    """Choose the heads that two ranks use in four steps, and how the model is wrapped; each change is a run."""

    controls = "the heads that two ranks use in four steps, and four ways to train them"

    def __init__(self) -> None:
        import ipywidgets as widgets

        self.way = widgets.ToggleButtons(
            options=list(WAYS), description="way", style={"button_width": "auto"}
        )
        self.tiles = [
            [
                widgets.Button(description="left", tooltip=f"rank {rank}, step {step}")
                for step in range(_STEPS)
            ]
            for rank in range(len(SHARES))
        ]
        for tile in (tile for row in self.tiles for tile in row):
            tile.on_click(self._turn)
        self.way.observe(lambda _: self._show(), names="value")
        self.picture = widgets.HTML()
        goals = to_find(
            "with <code>default</code>: four steps of which one is wrong and none raises; then four in which one rank "
            "raises while the other one waits. With <code>static_graph</code>: steps that differ between the ranks and "
            "are right; then a wrong step that does not raise."
        )
        rows = [
            widgets.HBox([widgets.Label(f"rank {rank} uses", layout={"flex": "none"}), *row])
            for rank, row in enumerate(self.tiles)
        ]
        self.whole = widgets.VBox([goals, self.way, *rows, self.picture])
        self.static = self._show()

    @property
    def steps(self) -> list[list[str]]:
        """The heads of each rank, step by step."""
        return [[tile.description for tile in row] for row in self.tiles]

    @in_turn
    def _turn(self, tile: Any) -> None:
        tile.description = HEADS[(HEADS.index(tile.description) + 1) % len(HEADS)]
        self._show()

    @in_turn
    def _show(self) -> Drawing:
        drawing = draw_steps(self.way.value, self.steps, measured(self.way.value, self.steps))
        self.picture.value = drawing.svg()
        return drawing


def draw_steps(way: str, steps: Sequence[Sequence[str]], found: Sequence[Found]) -> Drawing:
    """Draw for each rank and step the heads, how the step ended, and what is in `.grad`."""
    ends, shapes, texts = judged(steps, found), list[Shape](), []
    for rank, of_rank in enumerate(ends):
        y = 28.0 + 74 * rank
        shapes.append(Text(62, y + 36, f"rank {rank}", 13, "end", bold=True))
        for number, heads in enumerate(steps[rank]):
            x = 74.0 + 170 * number
            if not rank:
                shapes.append(Text(x + 80, 18, f"step {number}", 12, "middle", faint=True))
            end = of_rank[number] if number < len(of_rank) else ""
            look, sign, name = LOOKS.get(end, ("", "", "is not reached"))
            shapes.append(Box(x, y, 160, 28, look, f"{heads} {sign}", name, dashed=not end))
            grads = found[rank][number] if number < len(found[rank]) else None
            text = name if grads is None or isinstance(grads, str) else f".grad {describe_grad(grads)}"
            shapes.append(
                Text(x + 80, y + 46, text, 12, "middle", mono=isinstance(grads, list), faint=not end)
            )
            texts.append(f"rank {rank}, step {number}, {heads}: {name}")
    errors = dict.fromkeys(each[-1] for each in found if each and isinstance(each[-1], str))
    shapes += [Text(74, 196 + 20 * number, f"! {error}", 12) for number, error in enumerate(errors)]
    shapes.append(Text(74, 176, _LEGEND, 12, faint=True))
    title = f"{way}, on two real ranks; .grad is that of body, left, right"
    return Drawing(760, 190 + 20 * len(errors), tuple(shapes), "; ".join(texts), title)


def explore_graphs() -> GraphExplorer:
    """Return the buttons and the picture, to be the last line of a cell."""
    return GraphExplorer()


# Twelve graphs in four ways, measured by `lab.heads.measure_graphs`


def draw_graphs(found: Sequence[Mapping[tuple[str, str], Found]]) -> Drawing:
    """Draw a row for each graph, four places for each way: a sign for each step, the worst of both ranks."""
    ends = {
        (name, way): worst(
            judged(GRAPHS[name].steps, [[] if (name, way) == HANGS else each[name, way] for each in found])
        )
        for name in GRAPHS
        for way in WAYS
    }
    cells = {
        (row, (_STEPS + 1) * column + number): Cell(*LOOKS[end][:2], f"step {number}: {LOOKS[end][2]}")
        for row, name in enumerate(GRAPHS)
        for column, way in enumerate(WAYS)
        for number, end in enumerate(ends[name, way])
    }
    silent = ends["a head is never used", "default"].count("silent")
    columns = [way.partition("_")[0] if number == 1 else "" for way in WAYS for number in range(_STEPS + 1)]
    return grid(
        [*GRAPHS],
        columns[:-1],
        cells,
        title=f"A head is never used: by default {silent} silent wrong step, then an error",
        alt="; ".join(
            f"{name}, {way}: {', '.join(LOOKS[end][2] for end in each)}" for (name, way), each in ends.items()
        ),
        axis=f"{_STEPS} steps each: {_LEGEND}",
    )


def worst(ends: Sequence[Sequence[str]]) -> list[str]:
    """Return how each step ended on the rank on which it ended worst, in keys of `LOOKS`."""
    rank = [*LOOKS].index
    return [
        max((each[number] for each in ends if number < len(each)), key=rank)
        for number in range(max(map(len, ends)))
    ]


# Predictions


def has_nan(outcome: Outcome) -> bool:
    """Return whether the cell ends well, and a gradient is not a number."""
    return outcome.ok and any(math.isnan(grad) for grads in outcome.values.values() for grad in grads if grad)
