"""Lesson 10: the loop between two steps as a strip, its usual mistakes as controls, computed and run on two ranks.

The model has one weight, and a micro-batch's gradient is its input: in a group of m, micro-batch k (from 0) has
m * 10^k on rank 0 and three times that on rank 1. So the right gradient of the group has a 2 for each of its
micro-batches, and every other digit names a micro-batch and what happened to it. With groups of four they are the
lesson's 4, 40, 400, 4000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Any

from course_lib.lab.explorer import Explorer, buttons, explore, tick
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Drawing, Text
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

_SHARES = (1, 3)
_LEFT, _MICRO, _GAP, _STEP, _TOP, _ROW = 62, 56, 7, 78, 34, 96


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
    """One epoch of a training loop that accumulates.

    Attributes:
        k: how many micro-batches make a group.
        zero_inside: whether `zero_grad` runs before each micro-batch, instead of after each step.
        short: whether half a group follows the full one.
        step_at_end: whether a step follows the last micro-batch, too, where its group is short.
    """

    k: int = 4
    zero_inside: bool = False
    divide: Divide = Divide.GROUP
    no_sync: NoSync = NoSync.ALL_BUT_LAST
    short: bool = False
    step_at_end: bool = True

    @property
    def count(self) -> int:
        """The number of micro-batches in the epoch."""
        return self.k + (self.k // 2 if self.short else 0)

    def group(self, number: int) -> range:
        """Return the micro-batches of this one's group."""
        first = number // self.k * self.k
        return range(first, min(first + self.k, self.count))

    def steps_after(self, number: int) -> bool:
        """Return whether the optimizer steps after this micro-batch."""
        return (number + 1) % self.k == 0 or (self.step_at_end and number == self.count - 1)

    def is_synced(self, number: int) -> bool:
        """Return whether this micro-batch's backward reduces."""
        if self.no_sync is NoSync.ALL_BUT_LAST:
            return self.steps_after(number)
        return self.no_sync is NoSync.NONE

    def gradient(self, number: int, rank: int) -> int:
        """Return this micro-batch's own gradient, not divided."""
        return int(_SHARES[rank] * len(self.group(number)) * 10**number)

    def divisor(self, number: int) -> int:
        """Return the divisor of this micro-batch's loss."""
        return {Divide.NOTHING: 1, Divide.K: self.k, Divide.GROUP: len(self.group(number))}[self.divide]

    @property
    def right(self) -> list[float]:
        """The gradients that the steps of a right loop see."""
        return [
            float(sum(2 * 10**number for number in self.group(first)))
            for first in range(0, self.count, self.k)
        ]


@dataclass(frozen=True)
class Seen:
    """The result of a loop on one rank: `.grad` at each step, and after the last one.

    Attributes:
        left: what stays in `.grad` at the end without a step of its own; 0 where the epoch ends with a step.
    """

    steps: tuple[float, ...]
    left: float = 0.0


def computed(loop: Loop) -> list[Seen]:
    """Compute the gradients that both ranks see in this loop."""
    grads, steps = [0.0, 0.0], ([], [])  # type: tuple[list[float], tuple[list[float], list[float]]]
    for number in range(loop.count):
        if loop.zero_inside:
            grads = [0.0, 0.0]
        grads = [grad + loop.gradient(number, rank) / loop.divisor(number) for rank, grad in enumerate(grads)]
        if loop.is_synced(number):
            grads = [sum(grads) / 2] * 2
        if loop.steps_after(number):
            for seen, grad in zip(steps, grads, strict=True):
                seen.append(grad)
            grads = [0.0, 0.0]
    return [Seen(tuple(seen), left) for seen, left in zip(steps, grads, strict=True)]


def run_loop(loop: Loop) -> Seen:
    """Run the loop itself with DDP, on two ranks."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    ddp, seen = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False)), []
    for number in range(loop.count):
        if loop.zero_inside:
            ddp.zero_grad()
        x = torch.full((1, 1), float(loop.gradient(number, dist.get_rank())))
        with nullcontext() if loop.is_synced(number) else ddp.no_sync():
            (ddp(x).sum() / loop.divisor(number)).backward()
        if loop.steps_after(number):
            seen.append(float(ddp.module.weight.grad))
            ddp.zero_grad()
    grad = ddp.module.weight.grad
    return Seen(tuple(seen), 0.0 if grad is None else float(grad))


def verdict(loop: Loop, seen: list[Seen]) -> str:
    """Describe what is wrong with the gradients that the steps have seen, read off their digits."""
    if all([*each.steps] == loop.right for each in seen):
        return "right: a 2 for each micro-batch"
    if seen[0].steps != seen[1].steps:
        return "wrong: the ranks differ, so nothing was reduced"
    if any(each.left for each in seen):
        alone = seen[0] != seen[1]
        return "wrong: the last micro-batches have no step" + (", and no reduction" if alone else "")
    digits = {digit for step in seen[0].steps for digit in f"{step:.0f}"}
    if loop.zero_inside and loop.k > 1:
        return "wrong: a micro-batch with the digit 0 is missing"
    return f"wrong: {' and '.join(sorted(digits - {'0', '2'}))} where a 2 is right"


def more_than(number: float) -> Callable[[Outcome], bool]:
    """Predict that the cell's value is larger than this on both ranks."""
    return lambda outcome: outcome.ok and min(outcome.values.values()) > number


def less_than(number: float) -> Callable[[Outcome], bool]:
    """Predict that the cell's value is smaller than this on both ranks."""
    return lambda outcome: outcome.ok and max(outcome.values.values()) < number


# How it is drawn


def draw_loop(loop: Loop | None = None, *, clip: bool = True) -> Drawing:
    """Draw the loop as a strip, one row for each rank, with boxes where the gradient is clipped and used."""
    loop = loop or Loop()
    return _strip(loop, "clip, step" if clip else "step", "Between two steps: one reduction, before the clip")


def _strip(loop: Loop, step: str, title: str, seen: list[Seen] | None = None) -> Drawing:
    shapes: list[Shape] = [
        Text(_LEFT - 8, _TOP + _ROW * rank + 20, f"rank {rank}", 13, "end", bold=True) for rank in (0, 1)
    ]
    x, steps, texts, begin = float(_LEFT), 0, [], None
    for number in range(loop.count):
        if loop.zero_inside or number == 0 or loop.steps_after(number - 1):
            shapes += _both(x, 22, "plain", "0", "zero_grad")
            texts.append("zero")
            x += 22 + _GAP / 2
        shapes += _both(x, _MICRO, "forward", f"F B {number}", f"micro-batch {number}: forward and backward")
        texts.append(f"micro-batch {number}")
        quiet = not loop.is_synced(number)
        begin = x if quiet and begin is None else begin
        if begin is not None and (not quiet or loop.steps_after(number) or number == loop.count - 1):
            end = x + _MICRO if quiet else x - _GAP / 2
            shapes += _bracket(begin, end)
            texts.append("these under no_sync" if quiet else "those before it under no_sync")
            begin = None
        x += _MICRO
        if not quiet:
            shapes += _reduction(x - _MICRO / 2)
            texts.append("reduce")
        x += _GAP
        if loop.steps_after(number):
            shapes += _both(x, _STEP, "optimizer", step, "the optimizer uses .grad")
            for rank, each in enumerate(seen or ()):
                shapes.append(
                    Text(x + _STEP / 2, _TOP + _ROW * rank + 48, f"{each.steps[steps]:g}", 15, "middle", True)
                )
            texts.append(step)
            steps += 1
            x += _STEP + _GAP
    for rank, each in enumerate(seen or ()):
        if each.left:
            shapes.append(Text(x, _TOP + _ROW * rank + 20, f"left: {each.left:g}", 13))
    if seen:
        texts += [f"rank {rank}: {' '.join(f'{s:g}' for s in each.steps)}" for rank, each in enumerate(seen)]
    return Drawing(760, _TOP + _ROW + (64 if seen else 42), tuple(shapes), ", ".join(texts), title)


def _both(x: float, width: float, look: str, text: str, hint: str) -> Iterator[Shape]:
    for rank in (0, 1):
        yield Box(x, _TOP + _ROW * rank, width, 30, look, text, hint)


def _bracket(begin: float, end: float) -> Iterator[Shape]:
    yield Text((begin + end) / 2, _TOP - 18, "no_sync", 12, "middle", mono=True)
    yield Arrow(begin, _TOP - 10, end, _TOP - 10, 2, plain=True)
    for x in (begin, end):
        yield Arrow(x, _TOP - 10, x, _TOP - 3, 2, plain=True)


def _reduction(x: float) -> Iterator[Shape]:
    top, bottom = _TOP + 34, _TOP + _ROW - 4
    yield Arrow(x - 6, top, x - 6, bottom, 2)
    yield Arrow(x + 6, bottom, x + 6, top, 2)


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
    """Return controls for what stands where in the loop: what the steps see, computed, and run on two real ranks."""

    def draw(**chosen: Any) -> tuple[Drawing, str]:
        loop = Loop(**chosen)
        seen = computed(loop)
        return _strip(loop, ".grad", verdict(loop, seen), seen), f"two real ranks: {_measured(loop)}"

    return explore(
        draw,
        "K, zero_grad, the divisor, no_sync, a short last group, a step at its end",
        "8000 and 1111 / 3333; two settings that send more than they need and are right; two loops whose last "
        "group counts for less than it should.",
        k=buttons("K", [1, 2, 4], 4),
        divide=buttons("loss divided by", {each.value: each for each in Divide}, Divide.GROUP),
        no_sync=buttons("under no_sync", {each.value: each for each in NoSync}, NoSync.ALL_BUT_LAST),
        zero_inside=tick("zero_grad before each micro-batch"),
        short=tick("half a group is left over"),
        step_at_end=tick("a step after the last micro-batch", True),
    )


def _measured(loop: Loop) -> str:
    """Describe what two real ranks see at the loop's steps."""
    outcome = run_quietly(run_loop, loop, ranks=2)
    if not outcome.ok:
        return outcome.kind.value
    steps = {
        rank: ", ".join(f"{step:g}" for step in seen.steps) for rank, seen in sorted(outcome.values.items())
    }
    return "; ".join(f"rank {rank}: {each}" for rank, each in steps.items())
