"""Task 2: a model that FSDP2 shards, and its training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.sharding.tasks.measures import WhichAreWhole, bytes_of, is_sharded, part, state_of
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Recognised, Trial, check, gate, recognise_by_message
from course_lib.tasks.weights import ROUNDING, drawn, fill
from realranks.outcome.outcome import Outcome

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
        right = _train(case, world_size, "right")
        return {"right": right} | {name: _train(case, world_size, name) for name in _NUMERIC}

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

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Go by torch's messages where some parameters are DTensors and some are not."""
        texts = {
            "got mixed torch.Tensor and DTensor": "head_forgotten",
            "must be DTensor": "head_forgotten",
        }
        return recognise_by_message(outcome, texts) or self.recognise(trials)


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


#: The misconceptions that the numbers show, in no order; the order of gravity is that of tasks.toml.
_NUMERIC = (
    "optimizer_first",
    "pieces",
    "head_forgotten",
    "averaged_twice",
    "averaged_twice/losses",
    "clipped_apart",
    "not_clipped",
    "own_loss",
    "nothing_averaged",
)


def _train(case: Case, ranks: int, way: str) -> list[Trained]:
    """Return, by rank, the result of a training in which one process has a model for each rank."""
    import torch

    models = [_model(case, rank if way == "pieces" else 0) for rank in range(ranks)]
    if way == "pieces":
        _put_together(models)
    of = [list(model.parameters()) for model in models]
    head = {id(parameter) for model in models for parameter in model.get_submodule("head").parameters()}
    optimizers = [torch.optim.SGD(parameters, lr=_RATE, momentum=_MOMENTUM) for parameters in of]
    losses: list[list[float]] = [[] for _ in models]
    for step in range(_STEPS):
        own = []
        for rank, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            optimizer.zero_grad()
            inputs, targets = _batch(case, step, rank)
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            own.append(loss.item())
        for same in zip(*of, strict=True):
            if way == "nothing_averaged" or (way == "head_forgotten" and id(same[0]) in head):
                continue
            mean = torch.stack([p.grad for p in same if p.grad is not None]).mean(0)
            for p in same:
                p.grad = mean / ranks if way == "averaged_twice" else mean.clone()
        for parameters in of:
            if way == "clipped_apart":
                _clip_own_rows(parameters, ranks, case["max_norm"])
            elif way != "not_clipped":
                torch.nn.utils.clip_grad_norm_(parameters, case["max_norm"])
        for optimizer in optimizers:
            if way != "optimizer_first":
                optimizer.step()
        mean_loss = sum(own) / ranks
        for rank, found in enumerate(losses):
            divided = mean_loss / ranks if way == "averaged_twice/losses" else mean_loss
            found.append(own[rank] if way == "own_loss" else divided)
    return [
        Trained(losses=found, weights=_digests(parameters))
        for found, parameters in zip(losses, of, strict=True)
    ]


def _put_together(models: Sequence[nn.Module]) -> None:
    """Give all models the rows of the first from the first, those of the second from the second, and so on."""
    import torch

    with torch.no_grad():
        for same in zip(*(model.parameters() for model in models), strict=True):
            parts = [p.chunk(len(models)) for p in same]
            whole = torch.cat([parts[rank][rank] for rank in range(len(models)) if rank < len(parts[rank])])
            for p in same:
                p.copy_(whole)


def _clip_own_rows(parameters: Sequence[Tensor], ranks: int, max_norm: float) -> None:
    """Clip each rank's own rows by their norm alone."""
    import torch

    pieces = [p.grad.chunk(ranks) for p in parameters if p.grad is not None]
    for rank in range(ranks):
        own = [piece[rank] for piece in pieces if rank < len(piece)]
        norm = torch.cat([piece.flatten() for piece in own] or [torch.zeros(1)]).norm()
        for piece in own:
            piece.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
