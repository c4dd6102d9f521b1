"""Task 1: a wrapper module, repaired, and for any number of inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import (
    Recognised,
    Trial,
    WrongKind,
    gate,
    recognise_by_message,
)
from course_lib.tasks.weights import ROUNDING, drawn, network, numbers
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn

_LR = 0.05
#: What an answer gives that uses so many of its inputs only.
_FEWER = re.compile(r"\d embeddings for \d inputs?")


class Case(TypedDict):
    """The number of inputs, by step and rank."""

    seed: int
    batch: int
    inputs: list[list[int]]


class Seen(TypedDict):
    """The weights of the given parts before and after the training, and the outputs of the first step."""

    start: list[float]
    first: list[float]
    weights: list[float]


class Found(TypedDict):
    """The outputs of the first step, and the weights in the end."""

    first: list[float]
    weights: list[float]


ThisTrial = Trial[Case, Seen, dict[str, list[Found]]]


def _parts(seed: int) -> tuple[nn.Module, nn.Module]:
    """Return the encoder, and a head that takes any number of embeddings, each as an argument."""
    import torch

    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = network(seed + 1, 3, 2)

        def forward(self, *embeddings: Tensor) -> Tensor:
            if not embeddings or not all(isinstance(each, torch.Tensor) for each in embeddings):
                raise TypeError("the head takes each embedding as an argument of its own: head(a, b, ...)")
            scores: Tensor = self.out(sum((place + 1) * each for place, each in enumerate(embeddings)))
            return scores

    return network(seed, 4, 5, 3), Head()


def _inputs(case: Case, step: int, rank: int) -> list[Tensor]:
    seed = case["seed"] + 1000 * step + 100 * rank
    return [drawn(seed + place, case["batch"], 4) for place in range(case["inputs"][step][rank])]


def _loss(scores: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
    terms = ((each - 0.5).square().mean() for each in embeddings)
    return (scores - 1).square().mean() + sum(terms)


def _copied(trial: ThisTrial, rank: int) -> str | None:
    return "copied" if trial.seen[rank]["weights"] == trial.seen[rank]["start"] else None


class Together(Compared[Case, Seen, Found]):
    """A wrapper module for any number of inputs."""

    name = "wrappers.Together"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield two inputs in all steps, another number in each step, and another one on each rank."""
        each = chance.sample((1, 2, 3, 4), 3)
        for inputs in (
            [[2] * world_size] * 3,
            [[count] * world_size for count in each],
            [chance.sample((1, 2, 3, 4), world_size) for _ in each],
        ):
            yield {"seed": chance.randint(1, 10**6), "batch": chance.choice((3, 4, 5)), "inputs": inputs}

    def describe(self, case: Case) -> str:
        steps = [some[0] if len(set(some)) == 1 else toys.short(some) for some in case["inputs"]]
        return f"{', then '.join(map(str, steps))} inputs"

    def trial(self, answer: Callable[[nn.Module, nn.Module], object], case: Case) -> Seen:
        import torch

        rank = int(os.environ["RANK"])
        parts = _parts(case["seed"] + 17 * rank)
        module = answer(*parts)
        if not isinstance(module, torch.nn.Module):
            raise toys.wrong_kind(module)
        ddp = torch.nn.parallel.DistributedDataParallel(module)
        parameters = [parameter for part in parts for parameter in part.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=_LR)
        first: list[float] = []
        start = numbers(parameters)
        for step, counts in enumerate(case["inputs"]):
            output = ddp(*_inputs(case, step, rank))
            wrong: WrongKind | None = None
            try:
                scores, embeddings = _read(output, counts[rank])
            except WrongKind as error:
                wrong = error  # the other ranks do not know it
            wrong_somewhere = torch.tensor(wrong is not None)
            torch.distributed.all_reduce(wrong_somewhere, torch.distributed.ReduceOp.MAX)
            if wrong is not None:
                raise wrong
            if wrong_somewhere:
                break
            first = first or numbers([scores, *embeddings])
            optimizer.zero_grad()
            _loss(scores, embeddings).backward()
            optimizer.step()
        return {"start": start, "first": first, "weights": numbers(parameters)}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Found]]:
        return {"right": _train_alone(case, world_size)}

    #: A dictionary with a tensor, and a tuple or list of as many tensors as there are inputs.
    has_form = gate(
        'Together(...) is a module; its output has "scores" and "embeddings".',
        "with {case}, rank {rank} gave {given}",
        lambda trial: "fixed_number" if all(map(_FEWER.fullmatch, trial.wrong_kinds.values())) else None,
    )

    right_outputs = compared(
        "Scores and embeddings are those of the given encoder and head, in the order of the inputs.",
        "with {case}, the outputs on rank {rank} of {ranks} are others",
        of="first",
        known=_copied,
    )
    right_weights = compared(
        "The given parts end with the weights of one process that trains on the samples of all ranks.",
        "with {case} on {gang}, the weights of rank {rank} are off by up to {gap:.2g}",
        of="weights",
        known=_copied,
    )

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        texts = {
            "before Module.__init__() call": "init_comes_late",
            "DistributedDataParallel is not needed": "hidden",
            "an argument of its own": "one_tuple",
            "does not require grad": "detached",
            "Expected to have finished reduction": "detached",
            "positional argument": "fixed_number",
        }
        return recognise_by_message(outcome, texts)


def _read(output: object, count: int) -> tuple[Tensor, list[Tensor]]:
    """Return the two entries of an output."""
    import torch

    if not isinstance(output, Mapping) or not {"scores", "embeddings"} <= set(output):
        raise toys.wrong_kind(output)
    scores, embeddings = output["scores"], output["embeddings"]
    if not isinstance(scores, torch.Tensor):
        raise toys.wrong_kind(scores)
    if not isinstance(embeddings, tuple | list):
        raise toys.wrong_kind(embeddings)
    if len(embeddings) != count:
        raise WrongKind(f"{len(embeddings)} embeddings for {count} {'input' if count == 1 else 'inputs'}")
    for each in embeddings:
        if not isinstance(each, torch.Tensor):
            raise toys.wrong_kind(each)
    return scores, list(embeddings)


def _train_alone(case: Case, world_size: int) -> list[Found]:
    """Train one process on the samples of all ranks."""
    import torch

    encoder, head = _parts(case["seed"])
    parameters = [parameter for part in (encoder, head) for parameter in part.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=_LR)
    first: list[list[float]] = []
    for step in range(len(case["inputs"])):
        optimizer.zero_grad()
        for rank in range(world_size):
            embeddings = [encoder(each) for each in _inputs(case, step, rank)]
            scores = head(*embeddings)
            if step == 0:
                first.append(numbers([scores, *embeddings]))
            (_loss(scores, embeddings) / world_size).backward()
        optimizer.step()
    return [{"first": outputs, "weights": numbers(parameters)} for outputs in first]
