"""What DDP keeps between two calls, as one picture for all lessons: a flag, a box for each parameter, messages.

`play` computes it for any order of calls in DDP's default mode, and `make_calls` makes the same calls on real ranks.
All weights are 1. The n-th loss counts 10^n times, on rank 1 three times that: so the digits of `.grad` tell which
losses are in it, and whether they were averaged. Of a first loss, 1 and 3 are what each rank computed alone, 2 is the
mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Drawing, Frame, Stepper, Text
from realranks.draw.drawing import Shape, text_width
from realranks.outcome.outcome import Kind

if TYPE_CHECKING:
    from torch import nn

#: What can be called, by its letter; the heads may follow, as in `F(left)`.
CALLS = {
    "F": "forward",
    "N": "forward in no_sync",
    "G": "forward in no_grad",
    "M": "forward through .module",
    "B": "backward of the oldest loss",
    "S": "one backward of all losses",
    "Z": "zero_grad",
}
FORWARDS, BACKWARDS = "FNGM", "BS"
#: The input of the first forward, on rank 0 and on rank 1.
SHARES = (1.0, 3.0)
#: So many digits are shown: losses of one order that can be told from each other.
DIGITS = 6
#: A picture has room for so wide calls.
_ROOM = 686
_CALL = re.compile(r"([FNGMBSZ])(?:\((\w+)\))?")
_SHORT = {"N": "F no_sync", "G": "F no_grad", "M": "F .module", "S": "B of all", "Z": "zero"}
_SENT = {
    "buckets": "in which buckets gradients travel from now on",
    "buffers": "rank 0's buffers",
}
_LATE, _TWICE = "Expected to have finished reduction", "Expected to mark a variable ready only once"
Gradients = Mapping[str, float]


@dataclass(frozen=True)
class Model:
    """A model, as far as DDP sees it.

    Attributes:
        losses: of one forward, by name: how many times it counts, and the weights on its path.
        buffers: whether it has some.
    """

    losses: Mapping[str, tuple[float, tuple[str, ...]]]
    buffers: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the weights."""
        return tuple(dict.fromkeys(name for _, path in self.losses.values() for name in path))

    def counts(self, forward: int) -> float:
        """Return how many times a loss of this forward counts, in addition to what the loss says."""
        return float(10 ** (len(self.losses) * forward))


ONE = Model({"loss": (1, ("weight",))})
HEADS = Model({"left": (1, ("body", "left")), "right": (10, ("body", "right"))})


@dataclass(frozen=True)
class Reducer:
    """The reducer of one rank between two calls, and what stands around it.

    Attributes:
        calls: those that were made.
        armed: whether the next backward counts.
        ticked: the parameters whose gradient has come since a forward armed.
        losses: the gradients that waiting losses are going to give, the oldest loss first.
        grad: what `.grad` holds; wants: what it would hold without DDP.
        sends: messages of the last call that have not met one of the other rank.
        error: what the last call has raised.
        new: whether buckets are to be settled: 2 before an average, 1 after it, then 0.
        sends_buffers: whether the next forward is to send those that there are.
    """

    calls: tuple[str, ...] = ()
    armed: bool = False
    ticked: frozenset[str] = frozenset()
    losses: tuple[Gradients, ...] = ()
    grad: Gradients = field(default_factory=dict)
    wants: Gradients = field(default_factory=dict)
    sends: tuple[str, ...] = ()
    error: str = ""
    new: int = 0
    sends_buffers: bool = True

    def after(self, call: str, model: Model, share: float) -> Reducer:
        """Return the reducer after one more call, before an answer to its messages has come.

        Args:
            share: this rank's one of `SHARES`.

        Raises:
            ValueError: a backward has no loss to begin from, or there is no such head.
        """
        kind, heads = _parts(call)
        if kind == "Z":
            return replace(self, calls=(*self.calls, call), grad={}, wants={})
        if kind in FORWARDS:
            return self._after_forward(call, kind, heads, model, share)
        if not self.losses:
            raise ValueError(f"call {len(self.calls) + 1}, {call}, has no loss to go back from")
        taken = self.losses if kind == "S" else self.losses[:1]
        came: Gradients = {}
        for loss in taken:
            came = _added(came, loss)
        done = replace(
            self,
            calls=(*self.calls, call),
            losses=self.losses[len(taken) :],
            grad=_added(self.grad, came),
            wants=_added(self.wants, came),
        )
        if not self.armed:
            return done
        if self.ticked & came.keys():
            return replace(done, error=_TWICE)
        ticked = self.ticked | came.keys()
        full = len(ticked) == len(model.parameters)
        return replace(done, ticked=ticked, armed=not full, sends=("mean",) if full else ())

    def _after_forward(self, call: str, kind: str, heads: str, model: Model, share: float) -> Reducer:
        names = [name for name in model.losses if heads in ("", name)]
        if not names:
            raise ValueError(f"{call}: the model has no {heads}, only {' and '.join(model.losses)}")
        counts = share * model.counts(sum(made[0] in FORWARDS for made in self.calls))
        losses = [
            dict.fromkeys(path, times * counts) for times, path in (model.losses[name] for name in names)
        ]
        done = replace(
            self,
            calls=(*self.calls, call),
            losses=self.losses if kind == "G" else (*self.losses, *losses),
        )
        if kind == "M":
            return done
        if kind != "G" and self.armed and self.ticked:
            return replace(done, error=_LATE, losses=self.losses)
        settles = kind != "G" and self.new == 1
        buffers = model.buffers and self.sends_buffers
        return replace(
            done,
            armed=self.armed or kind == "F",
            ticked=frozenset() if kind == "F" else self.ticked,
            new=0 if settles else self.new,
            sends=("buckets",) * settles + ("buffers",) * buffers,
            sends_buffers=kind == "F",
        )


@dataclass(frozen=True)
class Moment:
    """Two ranks between two calls.

    Attributes:
        ranks: both reducers. met: the messages that have just been exchanged.
        said: what has happened, in words.
    """

    ranks: tuple[Reducer, ...]
    met: tuple[str, ...] = ()
    said: str = "Nothing has been called. No loss waits, nothing is armed, and .grad is None."


def play(orders: Sequence[str], model: Model = ONE, new: bool = False) -> list[Moment]:
    """Let two ranks make these calls: the n-th message of one meets the n-th of the other.

    Args:
        orders: of each rank, as `FFBB` or `F(left) B`; one order is that of both.
        new: whether the wrapper is: if not, it has made some steps.

    Raises:
        ValueError: a call cannot be made where it stands.
    """
    calls = [split(order) for order in (*orders, *orders)[:2]]
    ranks: tuple[Reducer, ...] = (Reducer(new=2 * new),) * 2
    moments = [Moment(ranks)]
    while True:
        moved = tuple(
            rank
            if rank.sends or rank.error or len(rank.calls) == len(order)
            else rank.after(order[len(rank.calls)], model, share)
            for rank, order, share in zip(ranks, calls, SHARES, strict=True)
        )
        if moved == ranks:
            return moments
        came, met = _exchange(moved)
        moments.append(Moment(came, met, _describe(ranks, moved, came, met, model)))
        ranks = came


def split(order: str) -> list[str]:
    """Return the calls of an order.

    Raises:
        ValueError: it has something else, or too many of them.
    """
    if rest := _CALL.sub("", order).strip():
        raise ValueError(f"{rest!r} is no call: {', '.join(f'{key}: {what}' for key, what in CALLS.items())}")
    calls = [match[0] for match in _CALL.finditer(order)]
    if sum(map(_width, calls)) > _ROOM:
        raise ValueError(f"{len(calls)} calls: too many for the picture")
    return calls


def _parts(call: str) -> tuple[str, str]:
    match = _CALL.fullmatch(call)
    assert match
    return match[1], match[2] or ""


def _added(one: Gradients, other: Gradients) -> Gradients:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in (*one, *other)}


def _exchange(ranks: tuple[Reducer, ...]) -> tuple[tuple[Reducer, ...], tuple[str, ...]]:
    """Return the ranks after the messages of theirs that meet, and these."""
    met: tuple[str, ...] = ()
    while all(rank.sends for rank in ranks) and ranks[0].sends[0] == ranks[1].sends[0]:
        met += ranks[0].sends[:1]
        ranks = tuple(replace(rank, sends=rank.sends[1:]) for rank in ranks)
        if met[-1] == "mean":
            mean = {name: sum(rank.grad[name] for rank in ranks) / 2 for name in ranks[0].grad}
            ranks = tuple(replace(rank, grad=mean, new=min(rank.new, 1)) for rank in ranks)
    return ranks, met


# What it amounts to, in words


def verdict(ranks: Sequence[Reducer], model: Model) -> str:
    """Describe how two ranks have ended."""
    waits = [number for number, rank in enumerate(ranks) if rank.sends]
    raised = [number for number, rank in enumerate(ranks) if rank.error]
    if len(waits) == 2:
        return f"rank 0's message ({ranks[0].sends[0]}) meets another one of rank 1 ({ranks[1].sends[0]})"
    if raised:
        who = "both ranks raise" if len(raised) == 2 else f"rank {raised[0]} raises"
        return f"{who}: “{ranks[raised[0]].error}”"
    if waits:
        return f"rank {waits[0]} waits for ever: rank {1 - waits[0]} makes no more calls"
    right = {name: sum(rank.wants.get(name, 0.0) for rank in ranks) / 2 for name in model.parameters}
    values = " and ".join(_values(rank.grad, model) for rank in ranks)
    if all(rank.grad.get(name, 0.0) == right[name] for rank in ranks for name in right):
        return f"{values}: right"
    return f"{values}: no error, and wrong (right is {_values(right, model)} on both)"


def describe_grad(grad: Sequence[float | None]) -> str:
    """Return what `.grad` of each parameter holds, in words."""
    return ", ".join("None" if each is None else f"{each:g}" for each in grad)


def _values(grad: Gradients, model: Model) -> str:
    return describe_grad([grad.get(name) for name in model.parameters])


def _describe(
    before: Sequence[Reducer],
    moved: Sequence[Reducer],
    came: Sequence[Reducer],
    met: Sequence[str],
    model: Model,
) -> str:
    said = [
        "" if old is new else _describe_call(old, new, model) for old, new in zip(before, moved, strict=True)
    ]
    words = [f"Rank {number}: {each}" for number, each in enumerate(said) if each]
    if said[0] == said[1]:
        words = said[:1]
    words += [f"Before it, a message: {_SENT[each]}." for each in met if each in _SENT]
    if any(new.grad != old.grad for old, new in zip(before, came, strict=True)):
        values = dict.fromkeys(_values(rank.grad, model) for rank in came)
        words.append(f".grad is {' and '.join(values)}{' on both ranks' * (len(values) == 1)}.")
    words += [
        f"Rank {number} waits with its {rank.sends[0]}." for number, rank in enumerate(came) if rank.sends
    ]
    return " ".join(words)


def _describe_call(old: Reducer, new: Reducer, model: Model) -> str:
    kind, heads = _parts(new.calls[-1])
    if kind == "Z":
        return "zero_grad() empties .grad. What is armed or ticked stays."
    name = f"A {CALLS[kind].partition(' of ')[0].removeprefix('one ')}" + (
        f" of the {heads} head" if heads else ""
    )
    if new.error == _LATE:
        return f"{name} finds a box that is ticked, and one that is not. That raises: “{_LATE}”."
    if kind in FORWARDS:
        waits = (
            "no loss waits"
            if kind == "G"
            else "its loss waits"
            if heads or len(model.losses) == 1
            else "its losses wait"
        )
        if kind != "F":
            return f"{name}: {waits}. It arms nothing."
        armed = (
            "It was armed already: twice armed is once armed."
            if old.armed
            else "It arms, and empties the boxes."
        )
        return f"{name}: {waits}. {armed}"
    if not old.armed:
        return f"{name}. It is not armed, so no box is ticked, and nothing is sent."
    if new.error:
        return f"{name} reaches a box that is ticked. That raises: “{_TWICE}”."
    missing = [each for each in model.parameters if each not in new.ticked]
    if missing:
        return f"{name}. {' and '.join(missing).capitalize()} is not ticked, so nothing is sent."
    return (
        f"{name}. Every box is ticked, so what is in .grad is sent to be averaged. Nothing is armed any more."
    )


# How it is drawn


def step_through(
    *orders: str, heads: bool = False, buffers: bool = False, new: bool = False, title: str = ""
) -> Stepper:
    """Show calls of both ranks one after the other: flag, boxes, messages and `.grad`.

    Args:
        orders: the calls of both ranks, or those of rank 0 and those of rank 1: see `play`.
        heads: whether the model is a body with two heads; else it is a single weight.

    Raises:
        ValueError: a call cannot be made where it stands.
    """
    model = replace(HEADS if heads else ONE, buffers=buffers)
    moments = play(orders, model, new)
    calls = [split(order) for order in (*orders, *orders)[:2]]
    frames = tuple(Frame(draw_moment(moment, model, calls), moment.said) for moment in moments)
    return Stepper(frames, title or f"What DDP keeps: {' | '.join(orders)}", matter=tuple(range(len(frames))))


def draw_moment(moment: Moment, model: Model, calls: Sequence[Sequence[str]], title: str = "") -> Drawing:
    """Draw both ranks: their calls, flag, boxes and `.grad`, and an arrow for each message that has met."""
    shapes: list[Shape] = []
    for number, (rank, order) in enumerate(zip(moment.ranks, calls, strict=True)):
        y = 8.0 + 112 * number
        shapes += [Text(62, y + 19, f"rank {number}", 13, "end", bold=True), *_draw_calls(y, order, rank)]
        shapes += _draw_reducer(y + 36, rank, model, "mean" in moment.met)
    for place, message in enumerate(moment.met):
        x = 630.0 + 64 * place
        shapes += [Arrow(x, 80, x, 150, 2), Text(x + 8, 104, message, 12)]
        if message == "mean":
            shapes.append(Arrow(x - 14, 150, x - 14, 80, 2))
    alt = "; ".join(
        f"rank {number}: {', '.join(map(_short, order))}, {_in_words(rank, model)}"
        for number, (rank, order) in enumerate(zip(moment.ranks, calls, strict=True))
    )
    return Drawing(760, 220, tuple(shapes), alt, title)


def _draw_calls(y: float, order: Sequence[str], rank: Reducer) -> Iterator[Shape]:
    x = 74.0
    for number, call in enumerate(order):
        look = "plain"
        if number < len(rank.calls):
            look = "forward" if call[0] in FORWARDS else "optimizer" if call[0] == "Z" else "backward"
        edge = 3 if number == len(rank.calls) - 1 else 0.5
        yield Box(x, y, _width(call) - 5, 26, look, _short(call), CALLS[call[0]], edge=edge)
        x += _width(call)


def _draw_reducer(y: float, rank: Reducer, model: Model, averaged: bool) -> Iterator[Shape]:
    state = _state(rank)
    looks = {"armed": "forward", "not armed": "plain", "raises": "bad"}
    yield Box(74, y, 98, 30, looks.get(state, "waiting"), state, rank.error)
    for number, name in enumerate(model.parameters):
        ticked = name in rank.ticked
        yield Box(
            178 + 92 * number,
            y,
            86,
            30,
            "communication" if ticked else "plain",
            f"{name} ✓" if ticked else name,
        )
    yield Text(496, y + 20, ".grad", 12, "end", mono=True)
    for number, name in enumerate(model.parameters):
        grad = rank.grad.get(name)
        look = "plain" if grad is None else "sum" if averaged else "even"
        yield Box(504 + 84 * number, y, 80, 30, look, describe_grad([grad]), name)
    yield Text(178, y + 46, _losses(rank), 12, faint=True)


def _state(rank: Reducer) -> str:
    if rank.error or rank.sends:
        return "raises" if rank.error else f"waits: {rank.sends[0]}"
    return "armed" if rank.armed else "not armed"


def _losses(rank: Reducer) -> str:
    return "losses that wait: " + (", ".join(f"{max(loss.values()):g}" for loss in rank.losses) or "none")


def _in_words(rank: Reducer, model: Model) -> str:
    ticked = ", ".join(name for name in model.parameters if name in rank.ticked) or "nothing"
    return f"{_state(rank)}, ticked: {ticked}, {_losses(rank)}, .grad {_values(rank.grad, model)}"


def _width(call: str) -> float:
    return text_width(_short(call)) + 19


def _short(call: str) -> str:
    kind, heads = _parts(call)
    return f"{_SHORT.get(kind, kind)} {heads}".rstrip()


# The same on real ranks


def make_calls(
    orders: Sequence[str],
    model: Model = ONE,
    new: bool = False,
    wrap: Callable[[nn.Module], nn.Module] | None = None,
) -> list[float | None]:
    """Return `.grad` of each parameter after this rank's calls; runs on two ranks.

    Args:
        orders, model, new: as for `play`. wrap: what wraps the model; DDP, if left out.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    rank, net = dist.get_rank(), _make_net(model)
    ddp = (wrap or DistributedDataParallel)(net)
    # Afterwards buckets are settled, with static_graph after the third step.
    for _ in range(0 if new else 3):
        torch.stack(ddp(torch.ones(1))).sum().backward()
    ddp.zero_grad()
    losses: list[torch.Tensor] = []
    forwards = 0
    for kind, heads in map(_parts, split(orders[rank])):
        if kind == "Z":
            ddp.zero_grad()
            continue
        if kind in BACKWARDS:
            taken, losses = (losses, []) if kind == "S" else (losses[:1], losses[1:])
            torch.stack(taken).sum().backward()
            continue
        x = torch.full((1,), SHARES[rank] * model.counts(forwards))
        forwards += 1
        with {"N": getattr(ddp, "no_sync", nullcontext), "G": torch.no_grad}.get(kind, nullcontext)():
            made = (net if kind == "M" else ddp)(x, heads)
        losses += [loss for loss in made if loss.requires_grad]
    return [None if p.grad is None else float(p.grad) for p in net.parameters()]


def measured(orders: Sequence[str], model: Model, new: bool = False) -> str:
    """Describe how two real ranks end that make these calls."""
    outcome = run_quietly(make_calls, tuple(orders), model, new, ranks=2)
    if not outcome.ok:
        return "a deadlock, proved" if outcome.kind is Kind.HANG else "an error"
    return " and ".join(describe_grad(grad) for grad in outcome.values.values())


def _make_net(model: Model) -> nn.Module:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in model.parameters:
                self.register_parameter(name, torch.nn.Parameter(torch.ones(1)))
            if model.buffers:
                self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor, heads: str = "") -> list[Any]:
            made = []
            for name, (times, path) in model.losses.items():
                if heads in ("", name):
                    y = times * x
                    for each in path:
                        y = y * getattr(self, each)
                    made.append(y.sum())
            return made

    return Net()
