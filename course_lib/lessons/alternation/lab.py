"""Lesson 06: what DDP remembers between calls as a tally sheet, stepped through, played with, held against real ranks.

What the sheet says of an order is computed in `tasks.alternation.orders`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from course_lib.lab.explorer import Explorer, in_turn, to_find
from course_lib.lessons.alternation.tasks.orders import (
    CALLS,
    FORWARDS,
    SHARES,
    Sheet,
    after,
    ending,
    make_calls,
    possible,
)
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Cell, Drawing, Frame, Stepper, Text, grid
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Collective, DDPStage, Kind, Outcome

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
_NAMES = ("F", "F no_sync", "F no_grad", "F .module", "B", "B of all")


def measured(orders: Sequence[str]) -> str:
    """Describe, in the words of `Ending`, how two real ranks end that make these calls."""
    outcome = run_quietly(make_calls, tuple(orders), ranks=2)
    if not outcome.ok:
        return "a deadlock, proved" if outcome.kind is Kind.HANG else outcome.kind.value
    return " and ".join(f"{outcome.values[rank]:g}" for rank in sorted(outcome.values))


# How it is drawn


def tally(order: str = "FFBB") -> Stepper:
    """Show one order on both ranks, call by call: what is armed, which losses wait, what `.grad` holds.

    Raises:
        ValueError: the order has a call that cannot be made where it stands.
    """
    for number, call in enumerate(order):
        if call not in possible(order[:number]):
            raise ValueError(f"call {number + 1} of {order!r} cannot be made there")
    frames = [_frame(order, 0, (Sheet(), Sheet()), "Nothing has been called. No loss waits, and .grad is 0.")]
    sheets = (Sheet(), Sheet())
    for made, call in enumerate(order, 1):
        came = (after(sheets[0], call, SHARES[0]), after(sheets[1], call, SHARES[1]))
        said = _describe_call(call, sheets, came)
        if came[0].sends:
            mean = (came[0].grad + came[1].grad) / 2
            came = (replace(came[0], grad=mean), replace(came[1], grad=mean))
        frames.append(_frame(order, made, came, said))
        sheets = came
    return Stepper(tuple(frames), f"The tally sheet: {' '.join(order)}", matter=tuple(range(len(frames))))


def _describe_call(call: str, before: tuple[Sheet, Sheet], now: tuple[Sheet, Sheet]) -> str:
    """Describe the effect of a call that both ranks have made."""
    if call in FORWARDS:
        if call != "F":
            return f"A {CALLS[call]}: it arms nothing" + ("." if call == "G" else ", and its loss waits.")
        armed = (
            "It was armed already: twice armed is once armed." if before[0].armed else "The wrapper is armed."
        )
        return f"A forward: its loss waits. {armed}"
    added = " and ".join(f"{new.wants - old.wants:g}" for old, new in zip(before, now, strict=True))
    sums = " and ".join(f"{sheet.grad:g}" for sheet in now)
    if now[0].sends:
        mean = sum(sheet.grad for sheet in now) / 2
        return (
            f"A backward adds {added} to .grad: {sums}. It is armed, so what is in .grad is averaged: "
            f"{mean:g} on both ranks. Now it is not armed."
        )
    return f"A backward adds {added} to .grad. It is not armed, so nothing is sent: {sums} stay."


def _frame(order: str, made: int, sheets: tuple[Sheet, Sheet], said: str) -> Frame:
    return Frame(_picture((order, order), (made, made), sheets), said)


def _picture(orders: Sequence[str], made: Sequence[int], sheets: Sequence[Sheet], title: str = "") -> Drawing:
    """Draw calls and sheet of each rank, and an arrow between the two `.grad` where they are averaged."""
    shapes: list[Shape] = []
    averaged = all(sheet.sends for sheet in sheets)
    for rank, sheet in enumerate(sheets):
        y = 8.0 + 104 * rank
        shapes += [
            Text(62, y + 22, f"rank {rank}", 13, "end", bold=True),
            *_calls(74, y, orders[rank], made[rank]),
        ]
        shapes += _sheet(74, y + 44, sheet, averaged)
    if averaged:
        shapes += [Arrow(668, 90, 668, 150, 2), Arrow(700, 150, 700, 90, 2), Text(710, 124, "mean", 12)]
    alt = "; ".join(
        f"rank {rank}: {' '.join(orders[rank])}, {_in_words(sheet)}" for rank, sheet in enumerate(sheets)
    )
    return Drawing(760, 204, tuple(shapes), alt, title)


def _calls(x: float, y: float, order: str, made: int) -> Iterator[Shape]:
    for number, call in enumerate(order):
        name = dict(zip(CALLS, _NAMES, strict=True))[call]
        look = ("forward" if call in FORWARDS else "backward") if number < made else "plain"
        yield Box(x + 104 * number, y, 96, 28, look, name, CALLS[call], edge=3 if number == made - 1 else 0.5)


def _sheet(x: float, y: float, sheet: Sheet, averaged: bool) -> Iterator[Shape]:
    yield Box(
        x, y, 96, 30, "communication" if sheet.armed else "plain", "armed" if sheet.armed else "not armed"
    )
    yield Text(x + 112, y + 20, "losses wait:", 12)
    for number, loss in enumerate(sheet.losses):
        yield Box(x + 188 + 55 * number, y, 51, 30, "even", f"{loss:g}", edge=0.5)
    if not sheet.losses:
        yield Text(x + 188, y + 20, "none", 12, faint=True)
    yield Text(x + 560, y + 20, ".grad", 12, "end", mono=True)
    yield Box(x + 570, y, 110, 30, "sum" if averaged else "even", f"{sheet.grad:g}")


def _in_words(sheet: Sheet) -> str:
    losses = ", ".join(f"{loss:g}" for loss in sheet.losses) or "none"
    return f"{'armed' if sheet.armed else 'not armed'}, losses that wait: {losses}, .grad {sheet.grad:g}"


class OrdersExplorer(Explorer):
    """Put calls in an order, the same one for both ranks or two: computed by the sheet, and run on two real ranks."""

    controls = f"orders of {', '.join(CALLS.values())}"

    def __init__(self) -> None:
        import ipywidgets as widgets

        self.orders = ["FFBB", "FFBB"]
        self.static = self._computed()
        self.whose = widgets.ToggleButtons(
            options={"both ranks": (0, 1), "rank 0": (0,), "rank 1": (1,)}, description="calls of"
        )
        self.calls = {
            call: widgets.Button(description=name, tooltip=CALLS[call], layout={"width": "auto"})
            for call, name in zip(CALLS, _NAMES, strict=True)
        }
        self.undo = widgets.Button(description="undo", layout={"width": "auto"})
        self.clear = widgets.Button(description="clear", layout={"width": "auto"})
        self.picture, self.result = widgets.HTML(), widgets.HTML()
        for call, button in self.calls.items():
            button.on_click(lambda _, call=call: self.change(lambda order: order + call))
        self.undo.on_click(lambda _: self.change(lambda order: order[:-1]))
        self.clear.on_click(lambda _: self.change(lambda order: ""))
        self.whose.observe(lambda _: self._allow(), names="value")
        goals = to_find(
            "an order that is wrong in between and right in the end; one after which each rank has averaged, and the "
            "two differ; one that hangs."
        )
        buttons = widgets.HBox(
            [*self.calls.values(), self.undo, self.clear], layout={"flex_flow": "row wrap"}
        )
        self.whole = widgets.VBox([goals, self.whose, buttons, self.picture, self.result])
        self._show()

    @in_turn
    def change(self, to: Callable[[str], str]) -> None:
        """Change the orders of the chosen ranks, and run both on real ranks."""
        for rank in self.whose.value:
            self.orders[rank] = to(self.orders[rank])
        self._show()

    def _allow(self) -> None:
        for call, button in self.calls.items():
            button.disabled = not all(call in possible(self.orders[rank]) for rank in self.whose.value)

    def _show(self) -> None:
        self._allow()
        self.picture.value = self._computed().svg()
        self.result.value = f"two real ranks: {measured(self.orders)}" if any(self.orders) else ""

    def _computed(self) -> Drawing:
        """Draw both orders with the sheets after them; the title says what they amount to."""
        end = ending(self.orders)
        return _picture(self.orders, [len(order) for order in self.orders], end.sheets, f".grad: {end}")


def explore_orders() -> OrdersExplorer:
    """Return the buttons and the picture, to be the last line of a cell."""
    return OrdersExplorer()


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


# Predictions


def heads_hold(body: float, left: float, right: float) -> Callable[[Outcome], bool]:
    """Predict the gradients of rank 0's body, left head and right head."""
    return lambda outcome: outcome.ok and list(outcome.values[0]) == [body, left, right]
