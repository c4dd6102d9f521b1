"""Lesson 07: the boundary of DDP as a picture, and where a parameter lives, tried on two real ranks.

What runs on the ranks is in `lab.places`, which needs torch and is not loaded here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from course_lib.lab.explorer import Explorer, buttons, explore
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Cell, Drawing, Text, grid
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Collective, Outcome

#: What `places.steps` finds: the weight after wrapping, .grad in each step, and the words of an error.
Steps = Sequence[float | str]
#: The places of `places.PLACES`, by what it does with them. A test compares.
PLACES = (
    "in forward",
    "in forward, and in the loss",
    "in the module, used in the loss only",
    "one weight, two layers",
    "one weight, inside and in a head outside",
    "in a head outside",
    "in a plain list of the module",
    "added after wrapping",
    "put in another's place after wrapping",
    "frozen when wrapped, thawed later",
)
#: The lesson's ways to wrap A and B, with a heading.
WAYS = {"two_ddp": "2 DDP", "the_forums": "forum", "one_wrapper": "one"}
MODES = ("default", "find_unused_parameters", "static_graph")
_WORDS = {
    "mean": "averaged",
    "local": "each rank's own",
    "local, then raises": "each rank's own, then an error",
}
_LOOKS = {"mean": "plain", "local": "bad", "raises": "forward"}


# What a question asks of a run


def needed_where(
    *, mode: str | None = None, buffers: bool | None = None, different: bool | None = None
) -> Callable[[Outcome], bool]:
    """Predict that the wrapper is right and two DDP models are not in exactly the runs of this kind."""
    kind = (mode, buffers, different)

    def decides(outcome: Outcome) -> bool:
        found: Mapping[tuple[str, bool, bool], Mapping[str, str]] = outcome["found"][0]
        asked = {
            run for run in found if all(want in (None, have) for want, have in zip(kind, run, strict=True))
        }
        return needed(found) == asked

    return decides


def needed_nowhere(outcome: Outcome) -> bool:
    """Return whether two DDP models are right wherever the wrapper is."""
    return not needed(outcome["found"][0])


def needed(found: Mapping[tuple[str, bool, bool], Mapping[str, str]]) -> set[tuple[str, bool, bool]]:
    """Return the runs in which the wrapper is right and two DDP models are not."""
    return {run for run, ended in found.items() if ended["one_wrapper"] == "right" != ended["two_ddp"]}


# The boundary


def boundary() -> Drawing:
    """Draw what `DistributedDataParallel.forward` does around your module, and a call that goes around it."""
    shapes: list[Shape] = [
        Box(150, 30, 470, 126, "plain", dashed=True),
        Text(160, 48, "DistributedDataParallel.forward", 12, mono=True),
        Box(166, 70, 126, 56, "communication", "_pre_forward", "sends rank 0's buffers, if there are any"),
        Box(322, 70, 126, 56, "forward", "your forward", "self.module(*inputs, **kwargs)"),
        Box(478, 70, 126, 56, "communication", "_post_forward", "arms: the next backward averages"),
        Text(229, 144, "sends buffers", 12, "middle"),
        Text(541, 144, "arms", 12, "middle"),
        Text(72, 88, "ddp(x)", 13, "middle", mono=True),
        Arrow(16, 98, 164, 98, 2.5),
        Arrow(294, 98, 320, 98, 2.5),
        Arrow(450, 98, 476, 98, 2.5),
        Arrow(606, 98, 740, 98, 2.5),
        Text(690, 88, "averaged", 13, "middle"),
        Box(322, 206, 126, 42, "forward", "your encode", "a method of the wrapped module"),
        Text(100, 218, "ddp.module.encode(x)", 13, "middle", mono=True),
        Arrow(16, 228, 318, 228, 2.5, dashed=True),
        Arrow(450, 228, 740, 228, 2.5, dashed=True),
        Text(620, 218, "arms nothing: each rank's own", 13, "middle"),
        Arrow(385, 204, 385, 130, 1, plain=True),
        Text(393, 184, "the same weights, the same hooks", 12),
    ]
    alt = (
        "ddp(x) passes _pre_forward, which sends buffers, then your forward, then _post_forward, which arms: averaged. "
        "ddp.module.encode(x) passes by below them all: nothing is armed, each gradient stays its rank's own. "
        "Both use the same weights."
    )
    return Drawing(760, 262, tuple(shapes), alt, "Through the wrapper, and around it")


# One wrapper around two models, or a DDP for each


def draw_ways(found: Mapping[tuple[str, bool, bool], Mapping[str, str]]) -> Drawing:
    """Draw modes and kinds of paths (rows) by ways to wrap (columns), without and with a BatchNorm."""
    rows = list(dict.fromkeys((mode, different) for mode, _, different in found))
    names = [f"{mode}, {'different paths' if different else 'the same path'}" for mode, different in rows]
    cells, texts = {}, []
    for row, (mode, different) in enumerate(rows):
        ends = [found[mode, buffers, different][way] for way in WAYS for buffers in (False, True)]
        for column, end in enumerate(ends):
            cells[row, column] = Cell(
                "plain" if end == "right" else "bad", "✓" if end == "right" else "!", end
            )
        texts.append(f"{names[row]}: {', '.join(ends)}")
    return grid(
        names,
        [heading for heading in WAYS.values() for _ in (False, True)],
        cells,
        title=f"A wrapper is needed in {len(needed(found))} of {len(found)} kinds of step",
        alt="; ".join(texts),
        axis="one: around both models.  Each without and with a BatchNorm in B.  ✓ right, ! raises",
    )


def count_stages(collectives: Iterable[Collective]) -> list[dict[str, int]]:
    """Count the buffers and gradients that were sent before and after a barrier."""
    parts: list[Counter[str]] = [Counter()]
    for record in collectives:
        if record.op == "barrier":
            parts.append(Counter())
        elif record.stage in ("buffers", "gradients"):
            parts[-1][record.stage] += 1
    return [dict(part) for part in parts]


# Where a parameter lives


def ended(ranks: Sequence[Steps]) -> tuple[bool, str]:
    """Describe the end: whether the parameter was equal once wrapped, and what became of its gradients.

    The words are `mean`, `local`, `raises` or `local, then raises`.
    """
    weights, grads = [steps[0] for steps in ranks], [steps[1:] for steps in ranks]
    words = [
        "raises" if isinstance(first, str) else "mean" if first == second else "local"
        for first, second in zip(*grads, strict=True)
    ]
    return weights[0] == weights[1], ", then ".join(dict.fromkeys(words))


def draw_places(found: Sequence[Mapping[tuple[str, str], Steps]]) -> Drawing:
    """Draw for each place (row) whether the ranks are equal once wrapped, then a column for each mode."""
    cells, texts = {}, []
    for row, name in enumerate(PLACES):
        ends = [ended([rank[name, mode] for rank in found]) for mode in MODES]
        cells[row, 0] = Cell("plain", "=") if ends[0][0] else Cell("bad", "≠")
        for column, (mode, (_, words)) in enumerate(zip(MODES, ends, strict=True), 1):
            first = [rank[name, mode][1] for rank in found]
            text = "" if isinstance(first[0], str) else " ".join(f"{grad:g}" for grad in first)
            cells[row, column] = Cell(
                _LOOKS[words.partition(",")[0]], f"{text} {'!' * ('raises' in words)}".strip(), words
            )
        texts.append(
            f"{name}: {'equal' if ends[0][0] else 'not equal'}; {', '.join(words for _, words in ends)}"
        )
    return grid(
        PLACES,
        ["wrapped", "default", "find", "static"],
        cells,
        title="Looked after: what the module listed, to be trained, when it was wrapped",
        alt="; ".join(texts),
        axis=".grad on ranks 0 and 1: the same is averaged, 1 3 is each rank's own.  ! raises",
    )


def run_places() -> Drawing:
    """Run all places in all modes on two ranks, and draw them."""
    places = [(name, mode) for name in PLACES for mode in MODES]
    values = run_quietly(lambda: {place: _look(*place, False) for place in places}, ranks=2).values
    return draw_places([values[rank] for rank in (0, 1)])


def _look(name: str, mode: str, around: bool) -> Steps:
    """Run `places.steps` on the ranks."""
    from course_lib.lessons.wrappers.places import steps

    return list(steps(name, mode, around))


def draw_steps(ranks: Sequence[Steps], name: str) -> Drawing:
    """Draw the parameter once wrapped and its gradient in each step, on both ranks."""
    shapes: list[Shape] = [Text(140, 22, "weight, once wrapped", 12, "middle")]
    shapes += [Text(300 + 120 * n, 22, f".grad, step {n}", 12, "middle") for n in range(3)]
    for rank, steps in enumerate(ranks):
        y = 34 + 44 * rank
        shapes.append(Text(64, y + 21, f"rank {rank}", 13, "end", bold=True))
        for number, value in enumerate(steps):
            other = ranks[1 - rank][number]
            look = "forward" if isinstance(value, str) else "even" if value == other else "bad"
            x = 90 if number == 0 else 130 + 120 * number
            text = "raises" if isinstance(value, str) else f"{value:g}"
            shapes.append(Box(x, y, 100, 32, look, text, str(value)))
    equal, words = ended(ranks)
    title = f"{name}: {'equal' if equal else 'not equal'}; .grad {_WORDS.get(words, words)}"
    texts = [
        f"rank {rank}: weight {steps[0]:g}, .grad {', '.join(map(str, steps[1:]))}"
        for rank, steps in enumerate(ranks)
    ]
    errors = [value for value in ranks[0] if isinstance(value, str)]
    shapes += [Text(90, 140, error, 12) for error in errors]
    return Drawing(760, 152 if errors else 124, tuple(shapes), "; ".join(texts), title)


def explore_places() -> Explorer:
    """Return controls for where a parameter lives, the flags and the call: each choice runs on two ranks."""

    def draw(place: str, mode: str, around: bool) -> Drawing:
        outcome = run_quietly(_look, place, mode, around, ranks=2)
        if not outcome.ok:
            return Drawing(680, 30, (Text(10, 20, escape(outcome.kind.value), 13),), outcome.kind.value)
        return draw_steps([outcome.values[rank] for rank in (0, 1)], place)

    return explore(
        draw,
        "where a parameter lives, DDP's flags, called through the wrapper or around it",
        "a place that is equal at first and never averaged; one that is averaged although it is outside; a flag "
        "that turns an error into a parameter that each rank trains alone; a flag that makes a right step raise.",
        # No Dropdown: its arrow keys and letters are JupyterLab's.
        place=buttons("it lives", PLACES),
        mode=buttons("flag", MODES),
        around=buttons("called by", {"ddp(x)": False, "ddp.module(x)": True}, False),
    )
