"""Task 2: a model that branches, trained under DDP in three ways.

Hooks on the parameters tell which of them a loss touches: the weights alone hide a touch with a tiny factor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict
from unittest.mock import patch

from course_lib.outcome.outcome import Outcome
from course_lib.tasks import toys
from course_lib.tasks.compared import compared, same_everywhere
from course_lib.tasks.task import (
    Miss,
    Recognised,
    Task,
    Trial,
    WrongKind,
    check,
    gate,
    recognise_by_message,
)
from course_lib.tasks.weights import ROUNDING, close, drawn, fill, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel

#: The ways, in the order of the cases.
_WAYS = ("find_unused_parameters", "static_graph", "touch_all")
_HEADS, _STEPS, _RATE = 4, 4, 0.1


class Case(TypedDict):
    """A way to train, and by step and rank the head that is used."""

    way: str
    seed: int
    steps: list[list[int]]


class Seen(TypedDict):
    """The weights, the wrapper's flags, and how the model was called.

    Attributes:
        touched: by name of a parameter, its largest gradient in steps that do not use it.
        module, wrapper: how often each was called.
    """

    weights: list[float]
    flags: dict[str, bool]
    touched: dict[str, float]
    module: int
    wrapper: int


ThisTrial = Trial[Case, Seen, list[float]]


def _around(trial: ThisTrial, rank: int) -> str | None:
    seen = trial.seen[rank]
    return "around_the_wrapper" if seen["module"] > 0 and seen["wrapper"] == 0 else None


class Train(Task[Case, Seen, list[float]]):
    """A model that branches, trained in three ways."""

    name = "unused.train"
    world_sizes = (2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """For each way a schedule it is right for: which head every rank uses in every step."""
        for way in _WAYS:
            if way == "static_graph":
                steps = [chance.sample(range(_HEADS), world_size)] * _STEPS
            else:
                steps = [[chance.randrange(_HEADS) for _ in range(world_size)] for _ in range(_STEPS)]
                steps[1] = [(head + 1) % _HEADS for head in steps[0]]
            yield {"way": way, "seed": chance.randint(1, 10**6), "steps": steps}

    def describe(self, case: Case) -> str:
        """The way says enough."""
        return f"way={case['way']!r}"

    def trial(
        self, answer: Callable[[nn.Module, list[tuple[Tensor, Tensor, int]], str], object], case: Case
    ) -> Seen:
        """The wrapper's flags, the weights after the training, and how the model was called."""
        from torch.nn.parallel import DistributedDataParallel

        net, rank = _net(case["seed"]), int(os.environ["RANK"])
        calls: list[str] = []
        forward: Callable[..., Any] = DistributedDataParallel.forward

        def counted(self: DistributedDataParallel, *inputs: Any, **kwargs: Any) -> Any:
            calls.append("wrapper")
            return forward(self, *inputs, **kwargs)

        net.register_forward_pre_hook(lambda *_: calls.append("module"))
        touched = _watch_idle_heads(net)
        with patch.object(DistributedDataParallel, "forward", counted):
            ddp = answer(net, _batches(case, rank), case["way"])
        if not isinstance(ddp, DistributedDataParallel):
            raise toys.wrong_kind(ddp)
        if ddp.module is not net:
            raise WrongKind("a DistributedDataParallel around another model than the one given")
        flags = {"find_unused_parameters": ddp.find_unused_parameters, "static_graph": ddp.static_graph}
        return {
            "weights": numbers(net.parameters()),
            "flags": flags,
            "touched": touched,
            "module": calls.count("module"),
            "wrapper": calls.count("wrapper"),
        }

    def oracle(self, case: Case, world_size: int) -> list[float]:
        """The weights of one process that takes every step with the batches of all ranks."""
        import torch

        net = _net(case["seed"])
        optimizer = torch.optim.SGD(net.parameters(), lr=_RATE)
        everything = [_batches(case, rank) for rank in range(world_size)]
        for step in range(_STEPS):
            optimizer.zero_grad()
            for x, y, head in (batches[step] for batches in everything):
                (torch.nn.functional.mse_loss(net(x, head), y) / world_size).backward()
            optimizer.step()
        return numbers(net.parameters())

    #: The wrapper of the model that was given.
    gives_wrapper = gate("Every rank returns the model, wrapped in DistributedDataParallel.")

    @check("The way that was asked for is taken, and no other.")
    def way_taken(self, trial: ThisTrial) -> Miss | None:
        way = trial.case["way"]
        for rank, seen in trial.seen.items():
            flags = seen["flags"]
            # What static_graph makes of the other flag does not matter: it is not looked at.
            wrong = flags["static_graph"] != (way == "static_graph") or (
                way != "static_graph" and flags["find_unused_parameters"] != (way == "find_unused_parameters")
            )
            if wrong:
                given = [name for name, value in flags.items() if value] or ["no flag"]
                return Miss(
                    f"with way={way!r}, the wrapper of rank {rank} has {' and '.join(given)}", "way_ignored"
                )
            if way != "touch_all" and seen["touched"]:
                name = next(iter(seen["touched"]))
                return Miss(
                    f"with way={way!r}, the loss of rank {rank} touches parameters of a head that it does not use: "
                    f"{name} gets a gradient",
                    "two_ways_at_once",
                )
        return None

    @check("Touching gives a parameter that is not used a gradient of exactly zero.")
    def touch_is_zero(self, trial: ThisTrial) -> Miss | None:
        """Before DDP's average: what arrives at the parameter."""
        for rank, seen in trial.seen.items():
            moved = {name: size for name, size in seen["touched"].items() if size != 0}
            if trial.case["way"] == "touch_all" and moved:
                name, size = max(moved.items(), key=lambda item: item[1])
                return Miss(
                    f"on rank {rank} of {trial.world_size}, {name} gets a gradient of up to {size:.2g} in a step that "
                    "does not use it",
                    "touch_moves",
                )
        return None

    agree = same_everywhere(
        "All ranks end with the same weights.",
        "with way={way!r} the weights of rank {rank} differ from those of rank 0 by up to {gap:.2g}",
        of="weights",
        known=_around,
    )
    right = compared(
        "The weights are those of one process that trains on the batches of all ranks.",
        "with way={way!r} on {ranks} ranks, the weights of rank {rank} are off by up to {gap:.2g} after "
        f"{_STEPS} steps",
        of="weights",
        right=lambda trial, _: trial.oracle,
    )

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Weights that are only wrong where parameters are touched, and equally on all ranks, were pulled at."""
        wrong = {
            trial.case["way"]
            for trial in trials
            if any(not close(seen["weights"], trial.oracle) for seen in trial.seen.values())
        }
        equal = all(
            close(seen["weights"], trial.seen[0]["weights"])
            for trial in trials
            for seen in trial.seen.values()
        )
        return "touch_moves" if wrong == {"touch_all"} and equal else None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """By DDP's own words."""
        texts = {
            "mark a variable ready only once": "two_ways_at_once",
            "Expected to have finished reduction": "not_touched",
        }
        return recognise_by_message(outcome, texts) or self.recognise(trials)


def _net(seed: int) -> nn.Module:
    import torch

    class Branches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Linear(4, 5)
            self.heads = torch.nn.ModuleList(torch.nn.Linear(5, 2) for _ in range(_HEADS))

        def forward(self, x: Tensor, head: int) -> Tensor:
            scores: Tensor = self.heads[head](self.body(x).tanh())
            return scores

    return fill(Branches(), seed)


def _watch_idle_heads(net: nn.Module) -> dict[str, float]:
    """Fills with the largest gradient of every parameter of a head that gets one in a step that does not use it."""
    import torch

    used: set[int] = set()
    found: dict[str, float] = {}

    def forward(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if torch.is_grad_enabled():
            used.clear()
            used.add(int(kwargs["head"] if "head" in kwargs else args[1]))

    def backward(name: str, head: int, gradient: Tensor) -> None:
        if head not in used:
            found[name] = max(found.get(name, 0.0), gradient.abs().max().item())

    net.register_forward_pre_hook(forward, with_kwargs=True)
    for name, parameter in net.named_parameters():
        if name.startswith("heads."):
            parameter.register_hook(partial(backward, name, int(name.split(".")[1])))
    return found


def _batches(case: Case, rank: int) -> list[tuple[Tensor, Tensor, int]]:
    seeds = [case["seed"] + 100 * step + 10 * rank for step in range(_STEPS)]
    return [
        (drawn(seed + 1, 4, 4), drawn(seed + 2, 4, 2), heads[rank])
        for seed, heads in zip(seeds, case["steps"], strict=True)
    ]
