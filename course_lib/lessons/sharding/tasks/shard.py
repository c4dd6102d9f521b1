"""Task 2: a model that FSDP2 shards, and its training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.sharding.tasks.measures import WhichAreWhole, bytes_of, is_sharded, part, state_of
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Trial, check, gate
from course_lib.tasks.weights import ROUNDING, close, drawn, fill

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    MakeOptimizer = Callable[[Iterable[Tensor]], Optimizer]
    Answer = Callable[[nn.Module, MakeOptimizer, list[tuple[Tensor, Tensor]], float], object]

_BLOCKS, _STEPS, _ROWS, _OUTPUTS = 3, 4, 4, 3
_RATE, _MOMENTUM = 0.2, 0.9


class Case(TypedDict):
    """A model of this width, its weights and data by a seed, and the limit of the gradients' norm."""

    seed: int
    width: int
    max_norm: float


class Trained(TypedDict):
    """The losses of all steps, and the weights after them: one number for each parameter."""

    losses: list[float]
    weights: list[float]


class Seen(Trained):
    """Also what this rank holds in the end, and how many other blocks were whole in the forward of one, at most.

    `held` has bytes by part of the training, and `own` what one share of the weights is at most; `head` says whether
    the head was sharded, `first` whether all blocks were whole in the forward of the first.
    """

    held: dict[str, int]
    own: int
    head: bool
    first: bool
    whole: int


ThisTrial = Trial[Case, Seen, dict[str, list[Trained]]]


class Shard(Compared[Case, Seen, Trained]):
    """A model that FSDP2 shards, and its training."""

    name = "sharding.shard"
    world_sizes = (2, 3, 4)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        even = world_size * chance.randint(2, 3)
        clipped = [0.05, 100.0]
        chance.shuffle(clipped)
        for width, max_norm in zip((even, even + 1), clipped, strict=True):
            yield {"seed": chance.randint(1, 10**6), "width": width, "max_norm": max_norm}

    def describe(self, case: Case) -> str:
        return f"blocks of {case['width']} rows, max_norm={case['max_norm']:g}"

    def trial(self, answer: Answer, case: Case) -> Seen:
        import torch

        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        model, made = _model(case, rank), list[torch.optim.Optimizer]()

        def make_optimizer(parameters: Iterable[Tensor]) -> Optimizer:
            made.append(torch.optim.SGD(parameters, lr=_RATE, momentum=_MOMENTUM))
            return made[-1]

        own = bytes_of(parameter.detach().chunk(ranks)[0] for parameter in model.parameters())
        blocks = list(model.get_submodule("blocks").children())
        seen = WhichAreWhole(blocks, backward=False)
        batches = [_batch(case, step, rank) for step in range(_STEPS)]
        given = answer(model, make_optimizer, batches, case["max_norm"])
        parameters = list(model.parameters())
        whole = [_whole(parameter) for parameter in parameters]
        others = [sum(blocks) - blocks[number] for _, number, blocks in seen.moments]
        return Seen(
            losses=toys.numbers(given),
            weights=_digests(whole),
            held={
                "weights": bytes_of(parameters),
                "gradients": bytes_of(parameter.grad for parameter in parameters),
                "the optimizer": sum(bytes_of(state_of(optimizer)) for optimizer in made),
            },
            own=own,
            head=all(map(is_sharded, model.get_submodule("head").parameters())),
            first=bool(seen.moments) and all(seen.moments[0][2]),
            whole=max(others, default=0),
        )

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Trained]]:
        return {"right": [_train(case, world_size)] * world_size}

    gives_numbers = gate("Every rank returns a list of numbers.")
    right_losses = compared(
        "The losses are those of one process that trains on the batches of all ranks, from rank 0's weights.",
        "with {case} on {gang}, rank {rank} returned {seen} for step {number}; it should be {right}",
        of="losses",
        each=True,
    )
    right_weights = compared(
        "In the end the weights are those of that process.",
        "with {case} on {gang}, the weights on rank {rank} are others",
        of="weights",
        known=lambda trial, _: _nothing_averaged(trial),
    )

    @check("A rank holds its own part of weights, gradients and optimizer.")
    def part_only(self, trial: ThisTrial) -> Miss | None:
        """A part of the rows of each parameter; gradients may be gone."""
        for rank, seen in sorted(trial.seen.items()):
            for name, size in seen["held"].items():
                if size > seen["own"]:
                    return Miss(
                        f"with {self.describe(trial.case)} on {trial.world_size} ranks, rank {rank} holds {size} bytes "
                        f"of {name}; its part is {seen['own']} at most",
                        _why_too_much(seen),
                    )
        return None

    @check("While a block computes its forward, no other block is whole.")
    def one_at_a_time(self, trial: ThisTrial) -> Miss | None:
        """As it is where each block is sharded by itself, and given up after its forward."""
        for rank, seen in sorted(trial.seen.items()):
            if seen["whole"]:
                return Miss(
                    f"with {self.describe(trial.case)} on {trial.world_size} ranks, rank {rank} had {seen['whole']} "
                    f"other blocks whole while one of the {_BLOCKS} computed its forward",
                    _why_too_much(seen) or _why_whole(seen),
                )
        return None


def _nothing_averaged(trial: ThisTrial) -> str | None:
    """Name the cause of other weights on each rank where training began with the right ones."""
    right = trial.oracle["right"][0]["losses"][:1]
    began_well = all(close(seen["losses"][:1], right) for seen in trial.seen.values())
    differ = len({seen["weights"][0] for seen in trial.seen.values()}) > 1
    return "nothing_averaged" if began_well and differ else None


def _why_too_much(seen: Seen) -> str | None:
    """Name the cause of parameters that are whole."""
    if seen["held"]["weights"] <= seen["own"]:
        return None
    return (
        "not_sharded"
        if not seen["head"] and seen["first"]
        else "head_forgotten"
        if not seen["head"]
        else None
    )


def _why_whole(seen: Seen) -> str | None:
    """Name the cause of blocks that are whole at the wrong time."""
    if seen["first"]:
        return "root_only"
    return "kept_whole" if seen["whole"] == _BLOCKS - 1 else None


def _model(case: Case, rank: int) -> nn.Module:
    import torch

    class Stack(torch.nn.Module):
        """Blocks, and a head after them."""

        def __init__(self) -> None:
            super().__init__()
            width = case["width"]
            self.blocks = torch.nn.ModuleList(
                torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh()) for _ in range(_BLOCKS)
            )
            self.head = torch.nn.Linear(width, _OUTPUTS)

        def forward(self, rows: Tensor) -> Tensor:
            """Pass the rows through all blocks."""
            for block in self.blocks:
                rows = block(rows)
            scores: Tensor = self.head(rows)
            return scores

    return fill(Stack(), case["seed"] + rank)


def _batch(case: Case, step: int, rank: int) -> tuple[Tensor, Tensor]:
    both = drawn(case["seed"] + 100 * (step + 1) + rank, _ROWS, case["width"] + _OUTPUTS)
    return both[:, : case["width"]], both[:, case["width"] :]


def _whole(parameter: Tensor) -> Tensor:
    return parameter.full_tensor() if is_sharded(parameter) else part(parameter)  # type: ignore[attr-defined]


def _digests(parameters: Iterable[Tensor]) -> list[float]:
    """Return a mean of each parameter in which each element has its own weight: all would be too many to send."""
    import torch

    flat = [parameter.detach().flatten() for parameter in parameters]
    return [float((each * torch.arange(len(each)).mul(0.7).cos()).mean()) for each in flat]


def _train(case: Case, ranks: int) -> Trained:
    """Return the result of one process that trains on the batches of all ranks."""
    import torch

    model = _model(case, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE, momentum=_MOMENTUM)
    losses = []
    for step in range(_STEPS):
        optimizer.zero_grad()
        batches = [_batch(case, step, rank) for rank in range(ranks)]
        inputs, targets = map(torch.cat, zip(*batches, strict=True))
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), case["max_norm"])
        optimizer.step()
        losses.append(loss.item())
    return Trained(losses=losses, weights=_digests(model.parameters()))
