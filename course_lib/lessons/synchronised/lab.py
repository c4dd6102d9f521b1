"""Lesson 09: what travels when, something to change on rank 1, and what the lesson's questions ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from course_lib.lab.explorer import Explorer, in_turn, to_find
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Cell, Drawing, Frame, Stepper, Text, grid
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

#: By moment and by what is held, as `lab.moments` records it.
_Record = Mapping[str, Mapping[str, float | None]]

#: What rank 1 may do, in words, and at which moments.
CHANGES = {
    "weights": (
        "adds 1 to its weight",
        ("built", "wrapped", "backward 2 is over", "step 2 is over"),
    ),
    "buffers": (
        "adds 1 to BatchNorm's running mean",
        ("built", "wrapped", "forward 2 is over", "step 2 is over"),
    ),
    "gradient": (
        "adds 1 to .grad",
        ("forward 2 is over", "backward 2 is over", "step 2 is over"),
    ),
    "momentum": ("adds 1 to the momentum", ("backward 2 is over", "step 2 is over")),
    "learning rate": ("doubles its learning rate", ("wrapped", "step 2 is over")),
    "random seed": ("seeds its random numbers anew", ("built", "wrapped", "step 2 is over")),
    "loss": ("doubles its loss", ("forward 2 is over",)),
    "zero_grad": ("forgets the next zero_grad", ("step 1 is over", "step 2 is over")),
    "eval mode": ("calls eval()", ("wrapped", "step 2 is over")),
}


def _moments(what: str, when: str, dropout: float) -> object:
    """Run on the ranks what `lab.moments` does: it loads torch, which the kernel does not."""
    from course_lib.lessons.synchronised.moments import record

    return record(what, when, dropout)


def _record(what: str, when: str, dropout: float = 0.5) -> tuple[list[_Record], list[_Record]]:
    """Record what four real ranks hold from moment to moment: with the change, and without it."""
    outcome = run_quietly(_moments, what, when, dropout)
    found = [outcome.values[rank] for rank in sorted(outcome.values)]
    return [changed for changed, _ in found], [calm for _, calm in found]


def is_same(records: Sequence[_Record], moment: str, thing: str) -> bool | None:
    """Return whether all ranks hold the same, bit by bit; None where there is nothing yet."""
    values = {record[moment][thing] for record in records}
    return None if values == {None} else len(values) == 1


# What travels when

#: By moment: what has been sent since the one before, from rank 0 or as a mean; and a sentence.
_TRAVELS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "built": ((), "", "Each rank has built its own model: weights and buffers differ."),
    "wrapped": (
        ("weights", "buffers"),
        "from rank 0",
        "The wrapper's constructor sends rank 0's weights and buffers. Weights are never sent again.",
    ),
    "forward 1 begins": (
        ("buffers",),
        "from rank 0",
        "The first forward begins: rank 0's buffers are sent once more.",
    ),
    "forward 1 is over": (
        (),
        "",
        "The forward is over. BatchNorm has moved its running mean towards each rank's own batch: buffers differ.",
    ),
    "backward 1 is over": (
        (".grad",),
        "mean of all",
        "In the backward, gradients are averaged: .grad is the same on all ranks. Buffers still differ.",
    ),
    "step 1 is over": (
        (),
        "",
        "The optimizer sends nothing. The same weights, the same .grad and the same optimizer make the same weights.",
    ),
    "forward 2 begins": (
        ("buffers",),
        "from rank 0",
        "The next training forward begins with rank 0's buffers: those of the other ranks are lost.",
    ),
    "forward 2 is over": ((), "", "And each rank moves its own away again."),
}
_SHOWN = ("weights", "buffers", ".grad", "momentum")
_LEFT, _COLUMN, _WIDTH, _TOP, _ROW = 84, 168, 104, 34, 42


def what_travels() -> Stepper:
    """Show two training steps on four real ranks: what each rank holds, and what has been sent."""
    records, _ = _record("own start", "built", 0.0)
    frames = tuple(
        Frame(_draw_moment(records, moment, sent, how), said)
        for moment, (sent, how, said) in _TRAVELS.items()
    )
    return Stepper(frames, "What travels when", matter=(0, 1, 3, 4, 6))


def _draw_moment(records: Sequence[_Record], moment: str, sent: Sequence[str], how: str) -> Drawing:
    """Draw a row for each rank, a column for each thing; differing ones in their rank's colour, equal ones gray."""
    shapes: list[Shape] = [
        Text(_LEFT - 10, _TOP + row * _ROW + 20, f"rank {row}", 13, "end", bold=True)
        for row in range(len(records))
    ]
    for column, thing in enumerate(_SHOWN):
        x = _LEFT + column * _COLUMN
        same = is_same(records, moment, thing)
        sign = {True: " =", False: " ≠", None: ""}[same]
        shapes.append(Text(x + _WIDTH / 2, _TOP - 12, thing + sign, 13, "middle", bold=thing in sent))
        for row, record in enumerate(records):
            value = record[moment][thing]
            look = "" if value is None else "even" if same else f"rank {row}"
            text = "" if value is None else f"{value:.2f}"
            shapes.append(Box(x, _TOP + row * _ROW, _WIDTH, 30, look, text, dashed=value is None, edge=0.5))
        if thing in sent:
            shapes += _arrows(x + _WIDTH, len(records), how)
    return Drawing(
        760, _TOP + len(records) * _ROW, tuple(shapes), moment, moment, f"sent: {how}" if how else ""
    )


def _arrows(x: float, ranks: int, how: str) -> Iterator[Shape]:
    """Yield arrows from rank 0's box to the others, or from each box and back."""
    middle = [_TOP + row * _ROW + 15 for row in range(ranks)]
    yield Arrow(x + 22, middle[0], x + 22, middle[-1], plain=True)
    for row, y in enumerate(middle):
        if row == 0 or how != "from rank 0":
            yield Arrow(x + 22, y, x, y, plain=True)
        if row or how != "from rank 0":
            yield Arrow(x + 22, y, x + 2, y)


# Something to change on rank 1


class ChangeExplorer(Explorer):
    """Choose what rank 1 does and when: what is the same on four real ranks from then on."""

    controls = "on rank 1, change " + ", ".join(CHANGES)

    def __init__(self) -> None:
        import ipywidgets as widgets

        fits = {"button_width": "auto"}
        # No Dropdown: its arrow keys and letters are JupyterLab's.
        self.what = widgets.ToggleButtons(
            options={says: what for what, (says, _) in CHANGES.items()}, description="rank 1", style=fits
        )
        self.when = widgets.ToggleButtons(
            options=CHANGES["weights"][1], value="wrapped", description="when", style=fits
        )
        self.picture = widgets.HTML()
        goals = to_find(
            "a change that DDP undoes; one that stays for ever; one after which all ranks have equal weights, but "
            "not those they would have had. What does a change of the gradient do before the backward, and after it?"
        )
        self.whole = widgets.VBox([goals, self.what, self.when, self.picture])
        self.static = self._run()
        self.what.observe(self._choose, names="value")
        self.when.observe(lambda _: self._run(), names="value")

    @in_turn
    def _choose(self, _: object) -> None:
        moments = CHANGES[self.what.value][1]
        before = self.when.value
        self.when.options = moments  # chooses the first, and so runs, unless that was chosen already
        if self.when.value == before:
            self._run()

    @in_turn
    def _run(self) -> Drawing:
        what, when = self.what.value, self.when.value
        changed, calm = _record(what, when)
        drawing = lanes_of_equal(changed, calm, CHANGES[what][0], when)
        self.picture.value = drawing.svg()
        return drawing


def explore_changes() -> ChangeExplorer:
    """Return the controls and the picture, to be the last line of a cell."""
    return ChangeExplorer()


def ended(changed: Sequence[_Record], calm: Sequence[_Record]) -> str:
    """Describe whether the final weights are the same on all ranks, and the same as without the change."""
    last = list(changed[0])[-1]
    if not is_same(changed, last, "weights"):
        return "weights end different"
    kept = changed[0][last]["weights"] == calm[0][last]["weights"]
    return f"weights end equal, {'' if kept else 'not '}as without the change"


def lanes_of_equal(changed: Sequence[_Record], calm: Sequence[_Record], says: str, when: str) -> Drawing:
    """Draw a row for each thing, a column for each moment: `=` where all ranks hold the same."""
    moments, things = list(changed[0]), list(changed[0]["built"])
    cells, texts = {}, []
    for row, thing in enumerate(things):
        for column, moment in enumerate(moments):
            same = is_same(changed, moment, thing)
            if same is not None:
                hint = f"{thing}, {moment}: {'the same' if same else 'not the same'} on all ranks"
                cells[row, column] = Cell("even" if same else "bad", "=" if same else "≠", hint)
        differs = [moment for moment in moments if is_same(changed, moment, thing) is False]
        texts.append(f"{thing} differ at: {', '.join(differs) or 'no moment'}")
    names = [("▼ " if moment == when else "") + _short(moment) for moment in moments]
    return grid(
        things,
        names,
        cells,
        title=f"Rank 1 {says} (▼): {ended(changed, calm)}",
        alt="; ".join(texts),
        axis="1 in: forward 1 begins, 1 F: forward 1 is over, 1 B: backward 1, 1 S: the optimizer's step 1",
    )


def _short(moment: str) -> str:
    """Shorten `forward 2 is over` to `2 F`, `forward 2 begins` to `2 in`."""
    kind, _, rest = moment.partition(" ")
    if not rest:
        return kind.removesuffix("ped")
    number, _, end = rest.partition(" ")
    return f"{number} {'in' if end == 'begins' else kind[0].upper()}"


# Which forwards send buffers


def draw_sent(sent: Mapping[tuple[str, str], bool]) -> Drawing:
    """Draw a row for each kind of forward before, a column for each kind of this one."""
    kinds = list(dict.fromkeys(before for before, _ in sent))
    cells = {
        (kinds.index(before), kinds.index(now)): Cell(*(("forward", "sent") if arrived else ("", "-")))
        for (before, now), arrived in sent.items()
    }
    texts = []
    for before in kinds:
        ways = {sent[before, now] for now in kinds}
        words = "some" if len(ways) == 2 else "sent" if True in ways else "not sent"
        texts.append(f"after {before}: {words}")
    return grid(
        [f"after {number} {kind}" for number, kind in enumerate(kinds, 1)],
        [str(number) for number in range(1, len(kinds) + 1)],
        cells,
        title="Does this forward begin with rank 0's buffers?",
        alt="; ".join(texts),
        axis="this forward, of one of the same kinds",
    )


# Questions


#: By two kinds of forward, such as `eval, no_grad`: whether the second began with rank 0's buffers.
_Sent = dict[tuple[str, str], bool]


def _sent(outcome: Outcome) -> _Sent:
    sent: _Sent = outcome["sent"][3]
    return sent


def always_sent(outcome: Outcome) -> bool:
    """Return whether every forward began with rank 0's buffers."""
    return all(_sent(outcome).values())


def sent_in_train_mode(outcome: Outcome) -> bool:
    """Return whether the forwards in train mode, and no others, began with rank 0's buffers."""
    return all(sent == now.startswith("train") for (_, now), sent in _sent(outcome).items())


def sent_where_gradients_are_on(outcome: Outcome) -> bool:
    """Return whether the forwards with gradients on, and no others, began with rank 0's buffers."""
    return all(
        sent == ("grad" not in now and "inference" not in now) for (_, now), sent in _sent(outcome).items()
    )


def sent_by_the_forward_before(outcome: Outcome) -> bool:
    """Return whether it depended on the forward before, and on nothing else."""
    after: dict[str, set[bool]] = {}
    for (before, _), sent in _sent(outcome).items():
        after.setdefault(before, set()).add(sent)
    return all(len(each) == 1 for each in after.values()) and len(set(_sent(outcome).values())) == 2


def _off(outcome: Outcome) -> tuple[float, float]:
    """Return the gradient's error in percent with 8 samples per rank: with all batches' statistics, and its own."""
    errors = outcome["errors"][0]
    return errors["all batches, detached"][1], errors["own batch"][1]


def detached_is_right(outcome: Outcome) -> bool:
    """Return whether statistics that autograd does not know of give the right gradient."""
    return _off(outcome)[0] < 1


def detached_is_nearer(outcome: Outcome) -> bool:
    """Return whether detached statistics give a wrong gradient, but a better one than a rank's own."""
    detached, own = _off(outcome)
    return 1 <= detached < own


def detached_is_further_off(outcome: Outcome) -> bool:
    """Return whether detached statistics give a worse gradient than a rank's own."""
    detached, own = _off(outcome)
    return detached >= own
