"""Task 2: two methods of a model, both averaged, chained or side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Protocol, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Trial, check, gate
from course_lib.tasks.weights import ROUNDING, added, close, drawn, farthest, network, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn

    Method = Callable[[Tensor], Tensor]

_LR = 0.2
_CALLS = {
    "both": "decode on what encode returns",
    "codes": "encode alone",
    "decode": "decode alone",
    "apart": "encode and decode side by side",
}


class Autoencoder(Protocol):
    """A module with two methods and no forward."""

    def encode(self, x: Tensor) -> Tensor:
        """Return a code for each sample."""

    def decode(self, code: Tensor) -> Tensor:
        """Return a sample for each code."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters, as any module does."""


class Case(TypedDict):
    """The calls by step (see `_CALLS`)."""

    seed: int
    batch: int
    calls: list[str]


#: At the start and after each step.
Weights = list[list[float]]
ThisTrial = Trial[Case, Weights, dict[str, list[Weights]]]


def _model(seed: int) -> Autoencoder:
    """Return an autoencoder with two methods and no forward."""
    import torch

    class Auto(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = network(seed, 4, 3), network(seed + 1, 3, 5, 4)

        def encode(self, x: Tensor) -> Tensor:
            code: Tensor = self.inner(x)
            return code.tanh()

        def decode(self, code: Tensor) -> Tensor:
            x: Tensor = self.outer(code)
            return x

    return Auto()


def _loss(case: Case, step: int, rank: int, encode: Method, decode: Method) -> Tensor:
    seed = case["seed"] + 1000 * step + 10 * rank
    x, code = drawn(seed + 1, case["batch"], 4), drawn(seed + 2, case["batch"], 3)
    kind = case["calls"][step]
    terms = []
    if kind in ("codes", "apart"):
        terms.append((encode(x) - code).square().mean())
    if kind != "codes":
        terms.append((decode(encode(x) if kind == "both" else code) - x).square().mean())
    return added(terms)


def _other_start(trial: ThisTrial, rank: int) -> str:
    seen = trial.seen[rank]
    return "copied" if seen[-1] == seen[0] else "not_equal_at_start"


class Expose(Compared[Case, Weights, Weights]):
    """Two methods of a model, both averaged."""

    name = "wrappers.expose"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield steps of three kinds, a last one that needs both methods, and methods called side by side.

        The first step calls one method only: after it, a promise that is broken (`static_graph`) raises another error
        than a gradient that is missing.
        """
        for more, last in ((["codes", "decode"], "both"), (["apart"], "apart")):
            first, other = chance.sample(("codes", "decode"), 2)
            calls = ["both", other, *more]
            chance.shuffle(calls)
            yield {
                "seed": chance.randint(1, 10**6),
                "batch": chance.choice((3, 4, 5)),
                "calls": [first, *calls, last],
            }

    def describe(self, case: Case) -> str:
        return ", then ".join(_CALLS[kind] for kind in case["calls"][:2])

    def trial(self, answer: Callable[[Autoencoder], object], case: Case) -> Weights:
        import torch

        rank = int(os.environ["RANK"])
        net = _model(case["seed"] + 17 * rank)
        given = answer(net)
        if not isinstance(given, tuple | list) or len(given) != 2 or not all(map(callable, given)):
            raise toys.wrong_kind(given)
        optimizer = torch.optim.SGD(net.parameters(), lr=_LR)
        weights = [numbers(net.parameters())]
        for step in range(len(case["calls"])):
            optimizer.zero_grad()
            _loss(case, step, rank, *given).backward()
            optimizer.step()
            weights.append(numbers(net.parameters()))
        return weights

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Weights]]:
        return {"right": [_train_alone(case, world_size)] * world_size}

    #: A pair of callables.
    gives_functions = gate("expose(net) returns two functions.")

    starts_equal = compared(
        "All ranks begin with rank 0's weights.",
        "on {gang}, the weights of rank {rank} are off by up to {gap:.2g} before the first step",
        of=0,
        known=_other_start,
    )

    @check("net is trained: each step changes its weights.")
    def moves(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if seen[-1] == seen[0]:
                return Miss(
                    f"after {len(trial.case['calls'])} steps, rank {rank} has the weights it began with",
                    "copied",
                )
        return None

    @check("After each step, all ranks have the weights of one process that has all samples.")
    def right(self, trial: ThisTrial) -> Miss | None:
        for step, kind in enumerate(trial.case["calls"], start=1):
            for rank, seen in trial.seen.items():
                right = trial.oracle["right"][rank][step]
                gap = farthest(seen[step], right)
                if not close(seen[step], right):
                    only_this_rank = any(
                        not close(seen[step], other[step]) and close(seen[0], other[0])
                        for other in trial.seen.values()
                    )
                    return Miss(
                        f"after a step that calls {_CALLS[kind]}, the weights of rank {rank} of {trial.world_size} are "
                        f"off by up to {gap:.2g}",
                        "around_the_wrapper" if only_this_rank else None,
                    )
        return None


def _train_alone(case: Case, world_size: int) -> Weights:
    """Return the weights of one process at the start and after each step."""
    import torch

    net = _model(case["seed"])
    optimizer = torch.optim.SGD(net.parameters(), lr=_LR)
    weights = [numbers(net.parameters())]
    for step in range(len(case["calls"])):
        optimizer.zero_grad()
        losses = [_loss(case, step, rank, net.encode, net.decode) for rank in range(world_size)]
        torch.stack(losses).mean().backward()
        optimizer.step()
        weights.append(numbers(net.parameters()))
    return weights
