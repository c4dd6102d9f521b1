"""Lesson 11: who met whom after a swallowed error, a failure placed in a step of two real ranks, batches by size.

Ranks run `lab.detector`: image k of its steps is k on rank 0, 100 k on rank 1, 10,000 k on rank 2.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypedDict

from course_lib.lab.explorer import Explorer, buttons, explore, tick
from course_lib.lessons.process_groups.lab import objects_in
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Cell, Drawing, Text, grid
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

#: DDP's own part of the forward, the model's part, backward with the gradients of so many layers there, the optimizer.
Place = Literal["wrapper", "forward", "optimizer"] | int
LAYERS = 4
#: Where memory runs out, in words.
PLACES: dict[str, Place] = {
    "DDP's part of the forward": "wrapper",
    "the model's forward": "forward",
    "backward, no gradient yet": 0,
    "backward, 1 of 4 layers": 1,
    "backward, 2 of 4 layers": 2,
    "backward, 4 of 4 layers": 4,
    "optimizer": "optimizer",
}
HANDLERS = {"go on with the next image": "go on", "agree after the forward, skip together": "agree"}
#: What a step says that ended with another error than the missing memory.
RAISES = "raises"


# What a prediction asks


def stops_after(count: int) -> Callable[[Outcome], bool]:
    """Predict that rank 1 came through so many steps and no further."""
    return lambda outcome: len(outcome["met"][1]) == count


def attempts_did(*attempts: tuple[int, int]) -> Callable[[Outcome], bool]:
    """Predict the number of attempts, and the first and last step of each."""
    return lambda outcome: [(steps[0], steps[-1]) for steps in outcome.values[0]["steps"]] == [*attempts]


# The zip


def draw_zip(met: Sequence[Sequence[int]]) -> Drawing:
    """Draw rank 0's images and those of the others as rows of teeth, and lines between averaged ones."""
    images = max(max(each) for each in met)
    first = next((each for each in met if len(set(each)) > 1), None)
    shapes: list[Shape] = [Text(92, 40, "rank 0", 13, "end", bold=True)]
    shapes.append(Text(92, 148, "ranks 1, 2", 13, "end", bold=True))

    def x_of(number: int) -> float:
        return 104.0 + (number - 1) * 100

    for each in met:
        mixed = len(set(each)) > 1
        line = (x_of(each[0]) + 36, 56, x_of(each[1]) + 36, 126)
        shapes.append(Arrow(*line, 3 if mixed else 1.5, plain=True, dashed=mixed))
    for number in range(1, images + 1):
        paired = [[each[0] for each in met], [each[1] for each in met]]
        for y, numbers, waits in ((20, paired[0], False), (128, paired[1], True)):
            look = "even" if number in numbers else "waiting" if waits else "bad"
            says = f"image {number}" if number in numbers else "waits" if waits else "no memory"
            shapes.append(Box(x_of(number), y, 72, 34, look, says))
    alt = "; ".join(
        f"image {a} of rank 0 with image {b} of rank 1 and image {c} of rank 2" for a, b, c in met
    )
    title = (
        f"From the gap on, rank 0 is {abs(first[0] - first[1])} image ahead in each all-reduce"
        if first
        else "Each all-reduce averages the same image of all ranks"
    )
    return Drawing(690, 176, tuple(shapes), alt, title)


# The border


#: A place in backward, as the border calls it.
_GRADIENTS = f"{{}} of {LAYERS}"
Lives = Mapping[tuple[str, str], tuple[str, Sequence[float]]]
_ENDS = {
    "silent": ("communication", "≠", "silent: images are mixed, then a hang"),
    "raises": ("forward", "!", "rank 0 raises in every later forward, the others wait"),
    "differs": ("bad", "✗", "silent: rank 0 misses a step, different weights from then on"),
}


def ends(found: Mapping[int, Lives]) -> dict[tuple[str, str], str]:
    """Return, by kind of wrapper and place, how both ranks' six steps ended, as a key of the legend."""

    def end(key: tuple[str, str]) -> str:
        letters, weights = found[0][key]
        if "E" in letters:
            return "raises"
        return "silent" if [*weights] == [*found[1][key][1]][: len(weights)] else "differs"

    return {key: end(key) for key in found[0]}


def draw_border(found: Mapping[int, Lives]) -> Drawing:
    """Draw a row for each kind of wrapper, a column for each place: how it ended."""
    ended = {
        (row, _GRADIENTS.format(place) if place.isdigit() else place): end
        for (row, place), end in ends(found).items()
    }
    rows, columns = ([*dict.fromkeys(names)] for names in zip(*ended, strict=True))
    cells = {
        (rows.index(row), columns.index(column)): Cell(*_ENDS[end]) for (row, column), end in ended.items()
    }
    at_first = [
        next((place for place in columns if ended[row, place] == "raises"), "nowhere") for row in rows
    ]
    where = at_first[0] if len(set(at_first)) == 1 else "at places that depend on the wrapper"
    legend = [f"{sign}  {words}" for _, sign, words in _ENDS.values()]
    return grid(
        rows,
        columns,
        cells,
        title=f"The first place with an error, for each of these wrappers: {where}",
        alt="; ".join(f"{row}, {column}: {_ENDS[end][2]}" for (row, column), end in ended.items()),
        axis="\n".join(["where memory runs out; 0 to 4 of 4: in backward, with so many gradients", *legend]),
    )


# A failure anywhere in a step


class Step(TypedDict):
    """One rank's result of a step: the images it averaged, what failed, its first weight."""

    met: list[int]
    failed: str
    weight: float


@dataclass(frozen=True)
class Measured:
    """Steps of two ranks; `waits` names those that were still waiting, `raised` those that an error ended."""

    steps: tuple[tuple[Step, ...], ...]
    waits: tuple[int, ...] = ()
    raised: tuple[int, ...] = ()


def measured(place: Place, handler: str, buffers: bool, unused: bool) -> Measured:
    """Measure two real ranks; rank 0 runs out of memory in its second step."""
    outcome = run_quietly(_take_steps, place, handler, buffers, unused, ranks=2)
    waits = tuple(sorted(outcome.waiting))
    steps = tuple(_of_rank(outcome.stdout[rank], rank in waits) for rank in range(2))
    return Measured(steps, waits, tuple(rank for rank in sorted(outcome.errors) if rank not in waits))


def _of_rank(printed: str, waits: bool) -> tuple[Step, ...]:
    """Return a rank's steps, without the errors that a waiting one gets when it is freed: they are not DDP's."""
    steps: list[Step] = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return tuple(takewhile(lambda step: not waits or step["failed"] != RAISES, steps))


def _take_steps(place: Place, handler: str, buffers: bool, unused: bool) -> None:
    """Make the steps on the ranks: `lab.detector` loads torch, which the kernel does not."""
    from course_lib.lessons.out_of_memory import detector

    detector.take_steps(place, handler, buffers, unused)


def verdict(seen: Measured) -> str:
    """Describe how it ended."""
    pairs = [*zip(*seen.steps, strict=False)]
    said = []
    if seen.raised:
        rank = seen.raised[0]
        return f"rank {rank} raises in step {len(seen.steps[rank]) + 1}, which ends its process"
    if any(step["failed"] == RAISES for step in seen.steps[0]):
        said.append("rank 0 raises in each later step")
    elif any(len(set(step["met"])) > 1 for steps in seen.steps for step in steps):
        said.append("images of different steps are averaged, silently")
    elif any(a["weight"] != b["weight"] for a, b in pairs):
        said.append("the weights differ from then on, silently")
    elif not seen.waits:
        said.append("all ranks skip that step, and their weights are equal")
    said += [f"rank {rank} is stuck in step {len(seen.steps[rank]) + 1}" for rank in seen.waits]
    return ", ".join(said)


def draw_steps(seen: Measured) -> Drawing:
    """Draw a row for each rank, a place for each of its five steps: averaged images, or what failed."""
    shapes, texts = list[Shape](), []
    for rank, steps in enumerate(seen.steps):
        y = 24.0 + 52 * rank
        shapes.append(Text(62, y + 22, f"rank {rank}", 13, "end", bold=True))
        for number, step in enumerate([*steps, None] if len(steps) < 5 else steps):
            look, says = _shown(step, rank in seen.waits)
            shapes.append(Box(74 + 132.0 * number, y, 124, 34, look, says))
            texts.append(f"rank {rank}, step {number + 1}: {says}")
    shapes += [
        Text(136 + 132.0 * number, 16, f"step {number + 1}", 12, "middle", faint=True) for number in range(5)
    ]
    return Drawing(748, 130, tuple(shapes), "; ".join(texts), verdict(seen))


def _shown(step: Step | None, waits: bool) -> tuple[str, str]:
    if step is None:
        return ("waiting", "waits") if waits else ("plain", "has ended")
    if step["failed"]:
        return "forward" if step["failed"] == "skipped" else "bad", step["failed"]
    mixed = len(set(step["met"])) > 1
    return "communication" if mixed else "even", "images " + " and ".join(map(str, step["met"]))


def explore_failures() -> Explorer:
    """Return controls for where memory runs out, what the handler does, and DDP's options: each choice runs."""
    return explore(
        lambda place, handler, buffers, unused: draw_steps(measured(place, handler, buffers, unused)),
        "where in a step memory runs out, what the handler does, buffers, find_unused_parameters",
        "the first place at which rank 0 raises; a place where going on is silent to the end; then, where all "
        "<i>agree</i>: a failure in the forward that is survived, and one that is not.",
        place=buttons("no memory in", PLACES, "forward"),
        handler=buttons("rank 0 then", HANDLERS),
        buffers=tick("a BatchNorm, whose buffers are broadcast"),
        unused=tick("find_unused_parameters=True"),
    )


# Batches that fit


def draw_batches(
    policies: Mapping[str, Sequence[Sequence[int]]], needs: Callable[[Sequence[int]], float]
) -> None:
    """Plot the batches of each policy, the largest first, by what they need; the title says the largest of each."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
    marks = (("o", "#D55E00"), ("s", "#0072B2"), ("^", "#009E73"))
    largest = []
    for (name, batches), (marker, colour) in zip(policies.items(), marks, strict=True):
        sizes = sorted((needs(batch) / 1e6 for batch in batches), reverse=True)
        largest.append(f"{sizes[0]:.0f} ({name})")
        label = f"{name}: {len(batches)} batches, {sum(sizes):.0f} in all"
        where = [100 * number / len(sizes) for number in range(len(sizes))]
        axes.plot(where, sizes, marker, ms=5, mfc="none", color=colour, label=label)
    axes.set_title("Largest batch: " + ", ".join(largest), fontsize=10)
    axes.set(xlabel="% of the batches, the largest first", ylabel="table entries (millions)", yscale="log")
    axes.minorticks_off()
    axes.legend(fontsize=8)
    plt.show()


# Restarts


class Launched(TypedDict):
    """The result of a launch: for each attempt the steps that rank 1 began, and whether the job ended well."""

    steps: list[list[int]]
    ok: bool


def restarted(script: str, restarts: int, *arguments: str) -> Launched:
    """Start this script with torchrun's own agent, on two processes that have torch loaded; runs on a rank.

    Args:
        script: prints a line of JSON with `attempt` and `step` for each step that its rank 1 begins.
        restarts: as `--max-restarts`.
    """
    from course_lib.lessons.first_ranks.tasks.process import run_script
    from course_lib.tasks.launching import launch

    with tempfile.TemporaryDirectory() as folder:
        ended = launch(
            run_script,
            script,
            list(arguments),
            folder,
            ranks=2,
            folder=Path(folder),
            seconds=60.0,
            restarts=restarts,
        )
        printed = Path(folder, "said-1").read_text()
    steps: dict[str, list[int]] = {}
    for one in objects_in(printed):
        steps.setdefault(one["attempt"], []).append(int(one["step"]))
    return {"steps": [*steps.values()], "ok": ended.ok}
