"""Lesson 10: the usual mistakes in the loop between two steps as controls, computed and run on two ranks.

What DDP does with a loop is `lab.reducer`'s: a group of micro-batches is an order of calls, in which micro-batch k
(from 0) of a group of m has the gradient m * 10^k on rank 0 and three times that on rank 1. So the right gradient has a
2 for each micro-batch, and every other digit names a micro-batch and what happened to it. With groups of four they
are the lesson's 4, 40, 400, 4000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from course_lib.lab.explorer import Explorer, buttons, explore, tick
from course_lib.lab.reducer import Model, Reducer, draw_moment, measured, play, split
from realranks.draw import Arrow, Drawing, Text
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome


class Divide(Enum):
    """The divisor of a micro-batch's loss."""

    NOTHING = "nothing"
    K = "K"
    GROUP = "the group's size"


class NoSync(Enum):
    """The micro-batches of a group that are under `no_sync`."""

    NONE = "none"
    ALL_BUT_LAST = "all but the last"
    ALL = "all"


@dataclass(frozen=True)
class Loop:
    """A group of micro-batches in a training loop that accumulates.

    Attributes:
        k: how many micro-batches make a full group.
        zero_inside: whether `zero_grad` runs before each micro-batch, instead of once.
        short: whether this group is what an epoch has left over: half a group.
        step_at_end: whether a step follows a short group, too.
    """

    k: int = 4
    zero_inside: bool = False
    divide: Divide = Divide.GROUP
    no_sync: NoSync = NoSync.ALL_BUT_LAST
    short: bool = False
    step_at_end: bool = True

    @property
    def size(self) -> int:
        """The number of micro-batches."""
        return max(1, self.k // 2) if self.short else self.k

    @property
    def steps(self) -> bool:
        """Whether the optimizer steps after the last one."""
        return self.step_at_end or self.size == self.k

    @property
    def order(self) -> str:
        """The calls, as `lab.reducer` has them."""
        synced = [self.no_sync is NoSync.NONE] * self.size
        synced[-1] |= self.no_sync is NoSync.ALL_BUT_LAST and self.steps
        return "Z" + ("Z" if self.zero_inside else "").join("FB" if each else "NB" for each in synced)

    @property
    def model(self) -> Model:
        """The model: its loss is that of the group, divided."""
        divisor = {Divide.NOTHING: 1, Divide.K: self.k, Divide.GROUP: self.size}[self.divide]
        return Model({"loss": (self.size / divisor, ("weight",))})


def verdict(loop: Loop, ranks: Sequence[Reducer]) -> str:
    """Describe what is wrong with the gradient after the last micro-batch, read off its digits."""
    grads = [f"{rank.grad['weight']:.0f}" for rank in ranks]
    if not loop.steps:
        alone = ", and no reduction" if grads[0] != grads[1] else ""
        return f"wrong: no step follows the last micro-batches{alone}"
    if grads == ["2" * loop.size] * 2:
        return "right: a 2 for each micro-batch"
    if grads[0] != grads[1]:
        return "wrong: the ranks differ, so nothing was reduced"
    if loop.zero_inside and loop.size > 1:
        return "wrong: a micro-batch with the digit 0 is missing"
    return f"wrong: {' and '.join(sorted({*grads[0]}))} where a 2 is right"


def draw_loop(loop: Loop) -> Drawing:
    """Draw both ranks after the group; the title says what is wrong, and how often gradients were sent."""
    moments = play((loop.order,), loop.model)
    sent = sum(moment.met.count("mean") for moment in moments)
    title = f"{verdict(loop, moments[-1].ranks)}; all-reduces: {sent}"
    return draw_moment(moments[-1], loop.model, [split(loop.order)] * 2, title)


def more_than(number: float) -> Callable[[Outcome], bool]:
    """Predict that the cell's value is larger than this on both ranks."""
    return lambda outcome: outcome.ok and min(outcome.values.values()) > number


def less_than(number: float) -> Callable[[Outcome], bool]:
    """Predict that the cell's value is smaller than this on both ranks."""
    return lambda outcome: outcome.ok and max(outcome.values.values()) < number


def draw_clips(
    rank_0: tuple[float, float],
    rank_1: tuple[float, float],
    before: Sequence[float],
    after: Sequence[float],
) -> Drawing:
    """Draw gradients of two weights: each rank's, their mean, and that clipped before and after the reduction.

    A broken quarter of a circle shows the length 1.
    """
    mean = ((rank_0[0] + rank_1[0]) / 2, (rank_0[1] + rank_1[1]) / 2)
    arrows = {
        "rank 0": rank_0,
        "rank 1": rank_1,
        "mean of both": mean,
        "clipped, then averaged": (before[0], before[1]),
        "averaged, then clipped": (after[0], after[1]),
    }
    unit, x0, y0 = 150.0, 30.0, 212.0
    turns = [number / 42 * math.pi for number in range(22)]
    circle = [(x0 + unit * math.cos(turn), y0 - unit * math.sin(turn)) for turn in turns]
    shapes: list[Shape] = [
        Arrow(*start, *end, 1, plain=True, faint=True)
        for start, end in zip(circle[::2], circle[1::2], strict=True)
    ]
    shapes.append(Text(x0 + 6, y0 - unit - 8, "length 1", 11, faint=True))
    for name, (east, north) in arrows.items():
        x, y = x0 + unit * east, y0 - unit * north
        alone, down = (
            name.startswith("rank"),
            {"rank 1": 16, "averaged, then clipped": 16, "clipped, then averaged": -16},
        )
        shapes.append(Arrow(x0, y0, x, y, 1.5 if alone else 2.5, dashed=alone))
        shapes.append(Text(x + 6, y + down.get(name, -4), name, 12))
    alt = "; ".join(f"{name}: ({east:.2f}, {north:.2f})" for name, (east, north) in arrows.items())
    turned = abs(math.atan2(before[1], before[0]) - math.atan2(after[1], after[0])) > 0.02
    title = f"Clipped before the reduction, the mean has {'another' if turned else 'the same'} direction"
    return Drawing(760, 236, tuple(shapes), alt, title)


def explore_loop() -> Explorer:
    """Return controls for what stands where in the loop: `.grad` at the step, computed, and run on two real ranks."""

    def draw(**chosen: Any) -> tuple[Drawing, str]:
        loop = Loop(**chosen)
        return draw_loop(loop), f"two real ranks: {measured((loop.order, loop.order), loop.model)}"

    return explore(
        draw,
        "K, zero_grad, the divisor, no_sync, a short last group, a step at its end",
        "8000 and 1111 / 3333; two settings that send more than they need and are right; two loops whose last "
        "group counts for less than it should.",
        k=buttons("K", [1, 2, 4], 4),
        divide=buttons("loss divided by", {each.value: each for each in Divide}, Divide.GROUP),
        no_sync=buttons("under no_sync", {each.value: each for each in NoSync}, NoSync.ALL_BUT_LAST),
        zero_inside=tick("zero_grad before each micro-batch"),
        short=tick("this is the group that is left over"),
        step_at_end=tick("a step after that one, too", True),
    )
