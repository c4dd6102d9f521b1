"""Small models that are hard on a hand-made DDP, and a few steps of training on them: by the answer, and by the oracle.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NotRequired, TypedDict

from course_lib.tasks import toys, weights
from course_lib.tasks.task import WrongKind
from realranks.ranks.inside.flight_recorder import recorded_collectives

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed import Store

#: Samples a rank has in each step; all ranks have the same number.
SHARE = 4
RATE = 0.2
#: How long a late rank waits for rank 0 to come through its backward; only wrong answers take so long.
_PATIENCE = timedelta(seconds=3)
#: How long it waits for rank 0 to come through the synchronization; right answers take so long, in one case.
_GLANCE = timedelta(seconds=0.15)


class Case(TypedDict):
    """A kind of model, its number of steps, and whether rank 1 is made late."""

    kind: str
    seed: int
    steps: int
    late: bool
    bucket_size_mb: NotRequired[float]
    #: By step and rank, the head that a model of the kind `branches` uses.
    heads: NotRequired[list[list[int]]]


#: A gradient as plain numbers; None where there is none.
Flat = list[float] | None


class State(TypedDict):
    """A model."""

    parameters: list[list[float]]
    buffers: list[list[float]]


class Noticed(TypedDict, total=False):
    """Observations of a step by `_Watch`.

    Attributes:
        through: rank 0 came through its backward before rank 1 began its own.
        hasty: rank 0 even came through the synchronization.
        early: collectives issued when the backward came to the model's inputs.
        issued: those issued when the synchronization was over.
    """

    through: bool
    hasty: bool
    early: int
    issued: int


class Step(Noticed):
    """Gradients and buffers after a step."""

    gradients: list[Flat]
    buffers: list[list[float]]


class Seen(TypedDict):
    """Observations of a rank that trains with the answer's wrapper."""

    start: State
    steps: list[Step]
    end: State


class RightStep(TypedDict):
    """The gradients averaged over ranks; by rank, its own ones for the same weights, and its buffers."""

    means: list[Flat]
    local: list[list[Flat]]
    buffers: list[list[list[float]]]


class Alone(TypedDict):
    """The training of one process, and the names of its parameters."""

    start: State
    steps: list[RightStep]
    end: State
    names: list[str]


@dataclass
class Head:
    """The layers that a model of the kind `branches` uses."""

    number: int = 0


def build(kind: str, seed: int, head: Head) -> nn.Module:
    """Build a model: `plain`, `frozen`, `tied`, `spare`, `branches` (by the head), `buffers` or `many`."""
    import torch
    from torch import nn

    toys.seed_torch(seed)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if kind == "many":
                self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(12))
                return
            self.first = nn.Linear(16, 6)
            self.second = nn.Linear(6, 6)
            self.third = nn.Linear(6, 6)
            if kind == "tied":
                self.third.weight = self.second.weight
            if kind == "frozen":
                self.second.bias.requires_grad = False
                self.fixed = nn.Parameter(torch.rand(2), requires_grad=False)
            if kind == "spare":
                self.spare = nn.Linear(6, 6)
            if kind == "branches":
                self.heads = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
            if kind == "buffers":
                self.register_buffer("mean", torch.rand(16))
                self.register_buffer("steps", torch.tensor(int(torch.randint(100, ()))))
            self.last = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            if kind == "many":
                for layer in self.layers:
                    x = torch.tanh(layer(x))
                return x
            if kind == "buffers":
                with torch.no_grad():
                    self.get_buffer("mean").mul_(0.5).add_(x.mean(0), alpha=0.5)
                    self.get_buffer("steps").add_(1)
                x = x - self.get_buffer("mean")
            x = torch.relu(self.first(x))
            x = torch.tanh(self.second(x))
            x = torch.tanh(self.third(x))
            if kind == "branches":
                x = torch.tanh(self.heads[head.number](x))
            out: Tensor = self.last(x)
            return out

    return Model()


def part(case: Case, step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a rank in a step."""
    import torch

    generator = torch.Generator().manual_seed(case["seed"] + 1000 + 17 * step + rank)
    width = 16 if case["kind"] == "many" else 3
    inputs = torch.randn(SHARE, 16, generator=generator) + rank
    return inputs, torch.randn(SHARE, width, generator=generator)


def loss_of(model: nn.Module, case: Case, step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return the loss of a rank's part, and its inputs (which take part in the backward, too)."""
    import torch

    inputs, targets = part(case, step, rank)
    inputs.requires_grad_()
    return torch.nn.functional.mse_loss(model(inputs), targets), inputs


def numbers(tensors: Iterable[Tensor]) -> list[list[float]]:
    """Return tensors as flat lists."""
    return [[float(x) for x in one.detach().flatten().tolist()] for one in tensors]


def gradients(tensors: Iterable[Tensor | None]) -> list[Flat]:
    """Return gradients as flat lists; None where there is none."""
    return [None if one is None else numbers([one])[0] for one in tensors]


def state(model: nn.Module) -> State:
    """Return parameters and buffers as plain data."""
    return {"parameters": numbers(model.parameters()), "buffers": numbers(model.buffers())}


# -- with the answer, on every rank -------------------------------------------------------------------------------


def train(wrap: Callable[[nn.Module], object], case: Case) -> Seen:
    """Wrap a model, train it for some steps, and tell what was there after each of them."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    head = Head()
    model = build(case["kind"], case["seed"] + rank, head)  # other weights on every rank
    wrapped = wrap(model)
    if not isinstance(wrapped, torch.nn.Module):
        raise toys.wrong_kind(wrapped)
    finish = getattr(wrapped, "finish_gradient_synchronization", None)
    if not callable(finish):
        raise WrongKind("a module without finish_gradient_synchronization()")
    start, steps = state(model), list[Step]()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in range(case["steps"]):
        if case["kind"] == "branches":
            head.number = case["heads"][step][rank]
        optimizer.zero_grad()
        loss, inputs = loss_of(wrapped, case, step, rank)
        watch = _Watch(f"{case['seed']}-{step}", rank) if case["kind"] == "many" else None
        if watch:
            watch.before_backward(case["late"])
            inputs.register_hook(lambda _, watch=watch: watch.at_the_inputs())
        loss.backward()
        finish()
        found = gradients(one.grad for one in model.parameters())
        if watch:
            watch.after_synchronization()
        noticed: Noticed = watch.noticed if watch else {}
        steps.append({"gradients": found, "buffers": numbers(model.buffers()), **noticed})
        optimizer.step()
    return {"start": start, "steps": steps, "end": state(model)}


class _Watch:
    """A rank's watch on one step: collectives issued until the backward's end, and who waited for whom.

    Rank 1 may be made late: it begins its backward only when rank 0 has come to the end of its own. So an all-reduce
    that blocks rank 0 inside its backward is noticed, and so is a synchronization that does not wait.
    """

    def __init__(self, name: str, rank: int) -> None:
        self._name, self._rank = name, rank
        self._began_ns = 0
        self.noticed: Noticed = {}

    def before_backward(self, late: bool) -> None:
        """Begin on all ranks at the same time, or later on rank 1."""
        import torch.distributed as dist

        dist.barrier()
        if late and self._rank == 1:
            self.noticed["through"] = self._comes("through", _PATIENCE)
            self.noticed["hasty"] = self.noticed["through"] and self._comes("synchronized", _GLANCE)
        self._began_ns = time.time_ns()

    def at_the_inputs(self) -> None:
        """Note that the backward has reached the model's inputs."""
        self.noticed["early"] = self._issued()
        if self._rank == 0:
            self._set("through")

    def after_synchronization(self) -> None:
        """Note that finish_gradient_synchronization() has returned."""
        self.noticed["issued"] = self._issued()
        if self._rank == 0:
            self._set("synchronized")

    def _issued(self) -> int:

        return len(recorded_collectives(self._began_ns))

    def _set(self, event: str) -> None:
        _store().set(f"{self._name}-{event}", "1")

    def _comes(self, event: str, patience: timedelta) -> bool:
        try:
            _store().wait([f"{self._name}-{event}"], patience)
        except RuntimeError:
            return False
        return True


def _store() -> Store:
    from torch.distributed.distributed_c10d import _get_default_store

    return _get_default_store()


# -- without it ---------------------------------------------------------------------------------------------------


def alone(case: Case, world: int) -> Alone:
    """Train one process that computes every rank's part: the correct result after each step."""
    import torch

    head = Head()
    model = build(case["kind"], case["seed"], head)
    start, steps = state(model), list[RightStep]()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in range(case["steps"]):
        common = [buffer.clone() for buffer in model.buffers()]
        local, buffers = [], []
        for rank in range(world):
            for buffer, value in zip(model.buffers(), common, strict=True):
                buffer.copy_(value)
            if case["kind"] == "branches":
                head.number = case["heads"][step][rank]
            optimizer.zero_grad()
            loss, _ = loss_of(model, case, step, rank)
            loss.backward()
            local.append([one.grad for one in model.parameters()])
            buffers.append([buffer.clone() for buffer in model.buffers()])
        for number, one in enumerate(model.parameters()):
            given = [grad for grads in local if (grad := grads[number]) is not None]
            one.grad = weights.added(given) / world if given else None
        for buffer, value in zip(model.buffers(), buffers[0], strict=True):
            buffer.copy_(value)
        steps.append(
            {
                "means": gradients(one.grad for one in model.parameters()),
                "local": [gradients(grads) for grads in local],
                "buffers": [numbers(values) for values in buffers],
            }
        )
        optimizer.step()
    names = [name for name, _ in model.named_parameters()]
    return {"start": start, "steps": steps, "end": state(model), "names": names}


def close(a: Flat, b: Flat) -> bool:
    """Return whether two are equal up to rounding; no gradient counts as zeros."""
    if a is None or b is None:
        return not any(a or ()) and not any(b or ())
    return len(a) == len(b) and all(abs(x - y) <= 1e-4 * (0.01 + abs(y)) for x, y in zip(a, b, strict=True))
