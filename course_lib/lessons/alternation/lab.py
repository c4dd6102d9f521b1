"""Lesson 06: orders of calls to play with, and the patterns of `lab.patterns` put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from course_lib.lab.explorer import Explorer, buttons, explore
from course_lib.lab.reducer import (
    CALLS,
    DIGITS,
    FORWARDS,
    HEADS,
    ONE,
    Model,
    draw_moment,
    measured,
    play,
    split,
    verdict,
)
from realranks.cells.run import run_quietly
from realranks.draw import Cell, Drawing, Text, grid
from realranks.outcome.outcome import Collective, DDPStage

#: A pattern, a mode of the wrapper, whether the model has buffers.
Place = tuple[str, str, bool]
#: Where rank 0 alone calls the wrapper: after which step, and with gradients or without.
ALONE = {
    "rank 0: no_grad F after step 0": (0, False),
    "rank 0: no_grad F after step 1": (1, False),
    "rank 0: F with gradients on": (0, True),
}
#: The look and the sign of each way to end.
LOOKS = {
    "right": ("plain", "✓"),
    "wrong": ("bad", "≠"),
    "late": ("sleep", "≠ !"),
    "raises": ("forward", "!"),
    "hangs": ("communication", "…"),
    "rank": ("optimizer", "†"),
}


# Build an order yourself

MODELS = {
    "one weight": ONE,
    "one weight, and a buffer": replace(ONE, buffers=True),
    "a body and two heads": HEADS,
}


def explore_orders() -> Explorer:
    """Return two orders to type and three models, computed and run on two real ranks; the last line of a cell."""
    import ipywidgets as widgets

    def order(rank: int, first: str) -> widgets.Text:
        return widgets.Text(
            first,
            description=f"rank {rank} calls",
            placeholder="the same",
            continuous_update=False,
            style={"description_width": "9em"},
        )

    def draw(first: str, second: str, model: Model, new: bool) -> tuple[Drawing, str]:
        orders = (first, second or first)
        try:
            drawing = draw_end(orders, model, new)
        except ValueError as error:
            return Drawing(760, 24, (Text(8, 18, str(error)),), str(error)), ""
        return drawing, f"<p>two real ranks: {measured(orders, model, new)}</p>"

    return explore(
        draw,
        f"orders of {', '.join(CALLS.values())}",
        "an order that is wrong in between and right in the end; with <i>rank 1</i>'s own order, one after which each "
        "rank has averaged, and the two differ; one that hangs on a new wrapper only; with two heads, one that raises.",
        draw_end(("FFBB", "FFBB"), ONE),
        first=order(0, "FFBB"),
        second=order(1, ""),
        model=buttons("model", MODELS),
        new=buttons("wrapper", {"has made three steps": False, "is new": True}),
    )


def draw_end(orders: Sequence[str], model: Model, new: bool = False) -> Drawing:
    """Draw both ranks after their calls; the title says what they amount to.

    Raises:
        ValueError: this cannot be called, or `.grad` has too few digits for so many losses.
    """
    forwards = max(sum(call[0] in FORWARDS for call in split(order)) for order in orders)
    if forwards * len(model.losses) > DIGITS:
        raise ValueError(f"{forwards} forwards: .grad has digits for {DIGITS // len(model.losses)}")
    end = play(orders, model, new)[-1]
    return draw_moment(end, model, [split(order) for order in orders], verdict(end.ranks, model))


# The patterns of `lab.patterns`: measured by their ranks, put together here


def matrix(found: Mapping[Place, float | str]) -> dict[Place, float | str]:
    """Add to the ranks' measurements what happens when rank 0 alone evaluates in the middle of training.

    Some of those runs hang or kill a rank, so each has two ranks of its own.
    """
    modes = list(dict.fromkeys(mode for _, mode, _ in found))
    places = [(name, mode, buffers) for name in ALONE for mode in modes for buffers in (False, True)]
    with ThreadPoolExecutor(4) as pool:
        runs = pool.map(
            lambda place: _ended("rank_0_evaluates", place[1], place[2], *ALONE[place[0]]), places
        )
        return {**found, **dict(zip(places, runs, strict=True))}


def swapped_orders() -> str:
    """Return a table: two models, taken by rank 1 in the other order, in one group and in groups of their own."""
    orders = [(both, own, warm_up) for both in (False, True) for own in (False, True) for warm_up in (0, 2)]
    with ThreadPoolExecutor(4) as pool:
        runs = pool.map(lambda order: _ended("swapped", *order), [*orders, (False, False, 0, 8)])
        words = [word(end) for end in runs]
    rows = {"F B, then F B": words[:4], "F F, one B": words[4:8], "other shapes": words[8:]}
    lines = [
        f"{'':18}{'one group':28}groups of their own",
        f"{'':18}{'at once':14}{'after 2 steps':14}{'at once':14}after 2 steps",
        *(f"{name:18}" + "".join(f"{each:14}" for each in row).rstrip() for name, row in rows.items()),
    ]
    return "\n".join(lines)


def list_messages(collectives: Sequence[Collective], calls: Mapping[int, str]) -> str:
    """List what each call has sent: buffers, new buckets, gradients.

    Args:
        calls: by the line of their cell; line 2 sends the first buffers.
    """
    stages: dict[int, dict[str, None]] = {line: {} for line in calls}
    sent = [(each.origin.line, each.stage) for each in collectives if each.origin and each.stage]
    begin = min(line for line, stage in sent if stage is DDPStage.BUFFERS) - 2
    for line, stage in sent:
        stages.get(line - begin, {})[stage] = None
    return "\n".join(f"{call:12}{', '.join(stages[line]) or '-'}" for line, call in calls.items())


def _ended(name: str, *arguments: object) -> float | str:
    outcome = run_quietly(_from_patterns, name, *arguments, ranks=2)
    return max(outcome.values.values()) if outcome.ok else outcome.kind.value


def _from_patterns(name: str, *arguments: object) -> float:
    """Call a function of `lab.patterns` on the ranks: it loads torch, which the kernel does not."""
    from course_lib.lab import patterns

    function: Callable[..., float] = getattr(patterns, name)
    return function(*arguments)


def word(found: float | str) -> str:
    """Describe a measurement in a word or two."""
    if isinstance(found, str):
        late, _, message = found.rpartition(": ")
        return {"hang": "hangs", "died": "rank dies"}.get(message) or late or "raises"
    return "right" if found < 0.1 else f"wrong {found:.0f} %"


def same(tiny: float | str, real: float | str) -> bool:
    """Return whether both are the same error, or percentages that differ by rounding only."""
    if isinstance(tiny, str) or isinstance(real, str):
        return str(real).startswith(str(tiny))
    return abs(tiny - real) < 0.01


def draw_matrix(found: Mapping[Place, float | str]) -> Drawing:
    """Draw a row for each pattern, two columns for each mode: without and with buffers."""
    names = list(dict.fromkeys(name for name, _, _ in found))
    columns = list(dict.fromkeys((mode, buffers) for _, mode, buffers in found))
    cells, texts = {}, []
    for row, name in enumerate(names):
        words = [word(found[name, *column]) for column in columns]
        for number, (said, column) in enumerate(zip(words, columns, strict=True)):
            look, sign = LOOKS[said.partition(" ")[0]]
            cells[row, number] = Cell(
                look, sign + said.removeprefix("wrong")[-5:] * (sign == "≠"), _hint(found[name, *column])
            )
        texts.append(f"{name}: {', '.join(dict.fromkeys(words))}")
    legend = ", ".join(f"{sign} {kind}{' dies' * (kind == 'rank')}" for kind, (_, sign) in LOOKS.items())
    always = [
        name for name in names if all(word(found[name, *column]).startswith("wrong") for column in columns)
    ]
    return grid(
        names,
        ["+ buf" if buffers else mode.partition("_")[0] for mode, buffers in columns],
        cells,
        title=f"Silently wrong in all six columns: {len(always)} of {len(names)} patterns",
        alt="; ".join(texts),
        axis=legend,
    )


def _hint(found: float | str) -> str:
    return found if isinstance(found, str) else f"off by {found:.3g} %"
