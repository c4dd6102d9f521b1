"""Lesson 08: DDP's count of gradients as a sheet with a box for each parameter; graphs of one's own on real ranks.

Everything here speaks of `lab.heads.TwoHeads`, a body and two heads of one weight each. Rank 0's sample is 1 and rank
1's is 3, so `.grad` tells what was averaged: 2 is the mean, 1 and 3 are what each rank computed alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from course_lib.lab.explorer import Explorer, in_turn, to_find
from course_lib.lessons.unused.tasks.schedules import WAYS as WAYS
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Cell, Drawing, Frame, Stepper, Text, grid
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

Gradients = list[float | None]
#: What the steps of one rank have left in `.grad`; the words of an error end them.
Found = Sequence[Gradients | str]
PARAMETERS = ("body", "left", "right")
HEADS = ("left", "right", "both")
#: The look, the sign and the name of each way in which a step ends.
LOOKS = {
    "right": ("plain", "✓", "right"),
    "silent": ("bad", "≠", "wrong, without an error"),
    "raises": ("forward", "!", "raises"),
    "hangs": ("communication", "…", "hangs"),
}
_LEGEND = " · ".join(f"{sign} {name}" for _, sign, name in LOOKS.values()) + " · white: not reached"
_SAMPLES = (1.0, 3.0)
_SENT = "full: sent"
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
    alone = [own(each, sample) for each, sample in zip(heads, _SAMPLES, strict=True)]
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


# The model and the sheet, drawn


def draw_model() -> Drawing:
    """Draw the model and the ways through it."""
    return Drawing(
        760,
        108,
        (
            Text(96, 58, "1 on rank 0, 3 on rank 1", 12, "middle"),
            Arrow(176, 54, 216, 54),
            Box(220, 38, 120, 32, "even", "body"),
            Arrow(344, 48, 398, 26),
            Arrow(344, 60, 398, 82),
            Box(402, 8, 120, 32, "even", "left"),
            Box(402, 68, 120, 32, "even", "right"),
            Arrow(526, 26, 580, 48),
            Arrow(526, 82, 580, 60),
            Text(592, 58, "their sum is the loss", 12),
        ),
        "the sample goes through the body, then through the left head, the right head or both; their sum is the loss",
        "A body and two heads: one weight each, and every weight is 1",
    )


@dataclass(frozen=True)
class Sheet:
    """The state of one rank between two calls, in DDP's default mode.

    Attributes:
        heads: those of the last call. ticked: whose gradients have come since the last forward.
        grad: of each parameter.
        state: what the wrapper is about to do, in a word or two.
    """

    heads: str = ""
    ticked: tuple[bool, ...] = (False,) * len(PARAMETERS)
    grad: Gradients = field(default_factory=lambda: [None] * len(PARAMETERS))
    state: str = ""


def count(*steps: str | tuple[str, str]) -> Stepper:
    """Show both ranks' steps, forward by forward and backward by backward: gradients that have come, and sent ones.

    Args:
        steps: the heads that are used, of both ranks, or of rank 0 and of rank 1.
    """
    sheets = tuple(Sheet() for _ in _SAMPLES)
    frames = [_frame(sheets, "Nothing has been called. No gradient has come.")]
    for number, step in enumerate(steps):
        heads = (step, step) if isinstance(step, str) else step
        late = [rank for rank, sheet in enumerate(sheets) if any(sheet.ticked)]
        sheets = tuple(
            replace(sheet, heads=f"forward, {each}", state="raises" if rank in late else "armed")
            for rank, (sheet, each) in enumerate(zip(sheets, heads, strict=True))
        )
        if late:
            frames.append(_frame(sheets, _describe_late(number, late)))
            break
        frames.append(
            _frame(sheets, f"Step {number}, the forward: the sheet is empty, and the wrapper is armed.")
        )
        sheets = tuple(
            _after_backward(sheet, each, sample)
            for sheet, each, sample in zip(sheets, heads, _SAMPLES, strict=True)
        )
        full = [all(sheet.ticked) for sheet in sheets]
        said = f"Step {number}, the backward: {_describe_backward(full)}"
        if not all(full):
            sheets = tuple(
                replace(sheet, state="full: waits") if done else sheet
                for sheet, done in zip(sheets, full, strict=True)
            )
            frames.append(_frame(sheets, said))
            if any(full):
                break
            continue
        sheets = tuple(replace(sheet, grad=list(right(heads))) for sheet in sheets)
        frames.append(_frame(sheets, said))
        sheets = tuple(Sheet() for _ in sheets)
    return Stepper(tuple(frames), "A box for each parameter", matter=tuple(range(len(frames))))


def _after_backward(sheet: Sheet, heads: str, sample: float) -> Sheet:
    grad = own(heads, sample)
    ticked = tuple(each is not None for each in grad)
    state = _SENT if all(ticked) else f"{sum(ticked)} of {len(ticked)}: not sent"
    return Sheet(f"backward, {heads}", ticked, grad, state)


def _describe_backward(full: Sequence[bool]) -> str:
    if all(full):
        return "every box is ticked on both ranks. The bucket is sent, and .grad is the mean."
    if any(full):
        waits = full.index(True)
        return (
            f"rank {waits} has every box ticked, sends its bucket and waits. Rank {1 - waits} has a box empty and "
            f"sends nothing. Rank {waits} waits for ever, or until rank {1 - waits} is gone."
        )
    return "a box is empty, so nothing is sent and nothing is raised. Each rank keeps its own gradients."


def _describe_late(number: int, late: Sequence[int]) -> str:
    who = "both ranks find" if len(late) == len(_SAMPLES) else f"rank {late[0]} finds"
    return f"Step {number}, the forward: {who} the last step's sheet neither empty nor full. That raises."


def _frame(sheets: Sequence[Sheet], said: str) -> Frame:
    shapes: list[Shape] = []
    for rank, sheet in enumerate(sheets):
        shapes += _row(rank, 8.0 + 104 * rank, sheet)
    if all(sheet.state == _SENT for sheet in sheets):
        shapes += [Arrow(560, 90, 560, 142, 2), Arrow(640, 142, 640, 90, 2), Text(652, 120, "mean", 12)]
    alt = "; ".join(f"rank {rank}: {_in_words(sheet)}" for rank, sheet in enumerate(sheets))
    return Frame(Drawing(760, 196, tuple(shapes), alt), said)


def _row(rank: int, y: float, sheet: Sheet) -> Iterator[Shape]:
    yield Text(62, y + 22, f"rank {rank}", 13, "end", bold=True)
    yield Text(74, y + 22, sheet.heads or "-", 12)
    look = {"full": "communication", "armed": "even", "raises": "bad"}.get(
        sheet.state.partition(":")[0], "plain"
    )
    yield Box(216, y, 150, 30, look, sheet.state or "not armed")
    yield Text(62, y + 68, "sheet", 12, "end")
    for number, (name, ticked) in enumerate(zip(PARAMETERS, sheet.ticked, strict=True)):
        yield Box(
            74 + 98 * number,
            y + 46,
            94,
            32,
            "communication" if ticked else "plain",
            f"{name} ✓" if ticked else name,
        )
    yield Text(418, y + 68, ".grad", 12, "end", mono=True)
    for number, (name, grad) in enumerate(zip(PARAMETERS, sheet.grad, strict=True)):
        sent = sheet.state == _SENT
        look = "plain" if grad is None else "sum" if sent else "even"
        yield Box(430 + 98 * number, y + 46, 94, 32, look, _number(grad), name)


def _number(grad: float | None) -> str:
    return "None" if grad is None else f"{grad:g}"


def _in_words(sheet: Sheet) -> str:
    ticked = ", ".join(name for name, tick in zip(PARAMETERS, sheet.ticked, strict=True) if tick) or "nothing"
    grads = ", ".join(map(_number, sheet.grad))
    return f"{sheet.heads or 'nothing called'}, {sheet.state or 'not armed'}, ticked: {ticked}, .grad {grads}"


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
            for rank in range(len(_SAMPLES))
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
            text = (
                name if grads is None or isinstance(grads, str) else f".grad {', '.join(map(_number, grads))}"
            )
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
