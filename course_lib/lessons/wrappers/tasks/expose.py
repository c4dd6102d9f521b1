"""Task 2: two methods of a model, both averaged, chained or side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Protocol, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import (
    Miss,
    Recognised,
    Task,
    Trial,
    check,
    gate,
    recognise_by_message,
)
from course_lib.tasks.weights import ROUNDING, added, close, drawn, farthest, network, numbers
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn

    Method = Callable[[Tensor], Tensor]

_LR = 0.2
#: Misconceptions that a step's weights show.
_WAYS = ("detached", "added_up")
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
#: For `right` and for each misconception.
Oracle = dict[str, Weights]
ThisTrial = Trial[Case, Weights, Oracle]


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


class Expose(Task[Case, Weights, Oracle]):
    """Two methods of a model, both averaged."""

    name = "wrappers.expose"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield steps of three kinds, a last one that needs both methods, and methods called side by side."""
        for more, last in ((["codes", "decode"], "both"), (["apart"], "apart")):
            calls = ["both", "codes", "decode", *more]
            chance.shuffle(calls)
            yield {
                "seed": chance.randint(1, 10**6),
                "batch": chance.choice((3, 4, 5)),
                "calls": [*calls, last],
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

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], list[list[float]]]]:
        return {
            "right": partial(_train_alone, case, world_size, 1 / world_size),
            "added_up": partial(_train_alone, case, world_size, 1.0),
            "detached": partial(_train_alone, case, world_size, 1 / world_size, cut=True),
        }

    #: A pair of callables.
    gives_functions = gate("expose(net) returns two functions.")

    starts_equal = compared(
        "All ranks begin with rank 0's weights.",
        "on {gang}, the weights of rank {rank} are off by up to {gap:.2g} before the first step",
        of=0,
        right=lambda trial, _: trial.oracle["right"][0],
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
                right, *known = (trial.oracle[way][step] for way in ("right", *_WAYS))
                gap = farthest(seen[step], right)
                if not close(seen[step], right):
                    only_this_rank = any(
                        not close(seen[step], other[step]) and close(seen[0], other[0])
                        for other in trial.seen.values()
                    )
                    named = (way for way, found in zip(_WAYS, known, strict=True) if close(seen[step], found))
                    return Miss(
                        f"after a step that calls {_CALLS[kind]}, the weights of rank {rank} of {trial.world_size} are "
                        f"off by up to {gap:.2g}",
                        "around_the_wrapper" if only_this_rank else next(named, None),
                    )
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Go by torch's messages; after steps that went through, one method led into the other."""
        chained = any(trial.world_size == outcome.world_size for trial in trials)
        texts = {
            "not compatible with static_graph": "graph_not_static",
            "Expected to have finished reduction": "unused_not_expected",
            "ready only once": "side_by_side" if chained else "around_the_wrapper",
            'missing the required "forward"': "no_forward",
            "gradient which is undefined": "around_the_wrapper",  # a backward that no forward of DDP announced
            "'DistributedDataParallel' object has no attribute": "no_such_method",
        }
        return recognise_by_message(outcome, texts)


def _train_alone(case: Case, world_size: int, share: float, cut: bool = False) -> list[list[float]]:
    """Return the weights at the start and after each step.

    Args:
        share: what each rank's gradient counts. cut: whether the code is detached on its way to decode.
    """
    import torch

    net = _model(case["seed"])

    def decode(code: Tensor) -> Tensor:
        return net.decode(code.detach() if cut else code)

    optimizer = torch.optim.SGD(net.parameters(), lr=_LR)
    weights = [numbers(net.parameters())]
    for step in range(len(case["calls"])):
        optimizer.zero_grad()
        for rank in range(world_size):
            (_loss(case, step, rank, net.encode, decode) * share).backward()
        optimizer.step()
        weights.append(numbers(net.parameters()))
    return weights
