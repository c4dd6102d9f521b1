"""Task 1: a DataParallel script turned into one for DDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Trial, check, gate
from realranks.outcome.fold import rank_list

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.utils.data import TensorDataset

_CLOSE = 1e-4


class Case(TypedDict):
    """The arguments of the answer, and the seed of the model and of the data."""

    samples: int
    batch_size: int
    epochs: int
    lr: float
    seed: int


#: Parameters by name.
Weights = dict[str, list[float]]


class Trained(TypedDict):
    """The weights that came back."""

    weights: Weights


class Seen(Trained):
    """The weights at the start, too, and how many samples went through the rank's model."""

    start: Weights
    samples: int


ThisTrial = Trial[Case, Seen, dict[str, list[Trained]]]


class Train(Compared[Case, Seen, Trained]):
    """A DataParallel script turned into one for DDP."""

    name = "dataparallel.train"
    world_sizes = (1, 2, 4)
    tolerance = Tolerance(_CLOSE)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield data sets with and without a smaller last batch; every batch can be split evenly."""
        for whole in (True, False):
            batch_size = 4 * chance.randint(2, 3)
            yield {
                "samples": batch_size * chance.randint(3, 4) + (0 if whole else 4),
                "batch_size": batch_size,
                "epochs": 2,
                "lr": round(chance.uniform(0.05, 0.2), 3),
                "seed": chance.randint(1, 10_000),
            }

    def describe(self, case: Case) -> str:
        return f"{case['samples']} samples, batch_size={case['batch_size']}, epochs={case['epochs']}"

    def trial(
        self, answer: Callable[[nn.Module, TensorDataset, int, int, float], object], case: Case
    ) -> Seen:
        import os

        # Another model on every rank: rank 0's is the one to start from, as DDP has it.
        model, samples_seen = _model(case["seed"] + int(os.environ["RANK"]))
        data, start = _data(case), _numbers(model.state_dict())
        state = answer(model, data, case["batch_size"], case["epochs"], case["lr"])
        return {"weights": _numbers(state), "start": start, "samples": samples_seen()}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Trained]]:
        return {"right": [{"weights": _train(case)}] * world_size}

    #: A mapping from names to tensors.
    gives_weights = gate("Every rank returns the weights by name.")

    @check("The names are those of the model itself.", gate=True)
    def names(self, trial: ThisTrial) -> Miss | None:
        right = list(trial.oracle["right"][0]["weights"])
        for rank, seen in trial.seen.items():
            names = list(seen["weights"])
            if sorted(names) != sorted(right):
                known = (
                    "wrapped_names" if sorted(names) == sorted(f"module.{name}" for name in right) else None
                )
                return Miss(
                    f"rank {rank} returned {toys.short(names)}; the model has {toys.short(right)}", known
                )
        return None

    @check("All ranks return the same weights.")
    def equal(self, trial: ThisTrial) -> Miss | None:
        odd = [
            rank for rank, seen in trial.seen.items() if not _close(seen["weights"], trial.seen[0]["weights"])
        ]
        if not odd:
            return None
        return Miss(
            f"with {self.describe(trial.case)} on {toys.ranks_text(trial.world_size)}, the weights of "
            f"{rank_list(odd)} are not those of rank 0",
            "own_start"
            if all(_moved_alike(trial.seen[rank], trial.seen[0]) for rank in odd)
            else "not_averaged",
        )

    @check("The weights are those of the old script in one process.")
    def right(self, trial: ThisTrial) -> Miss | None:
        seen, right = trial.seen[0]["weights"], trial.oracle["right"][0]["weights"]
        if _close(seen, right):
            return None
        name = next(name for name in right if not _close({name: seen[name]}, {name: right[name]}))
        return Miss(
            f"with {self.describe(trial.case)} on {toys.ranks_text(trial.world_size)}, {name} begins with "
            f"{seen[name][0]:.4f}; the old script gives {right[name][0]:.4f}"
        )

    @check("The ranks share the work: each sample goes through one rank in an epoch.")
    def shared(self, trial: ThisTrial) -> Miss | None:
        """Counted in samples that went through the rank's model."""
        share = trial.case["samples"] * trial.case["epochs"] // trial.world_size
        counts = [trial.seen[rank]["samples"] for rank in range(trial.world_size)]
        if max(counts) <= share:
            return None
        return Miss(
            f"with {self.describe(trial.case)}, {toys.short(counts)} samples went through the models of "
            f"{toys.ranks_text(trial.world_size)}; a fair share is {share}",
            "everyone_does_everything" if min(counts) >= share * trial.world_size else None,
        )


def _model(seed: int) -> tuple[nn.Module, Callable[[], int]]:
    """Return a network 4 -> 6 -> 3, and a function that counts the samples it has trained on."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(4, 6)
            self.second = torch.nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            counted.append(len(x))
            scores: Tensor = self.second(torch.tanh(self.first(x)))
            return scores

    counted: list[int] = []
    with torch.random.fork_rng(devices=[]):
        toys.seed_torch(seed)
        return Network(), lambda: sum(counted)


def _data(case: Case) -> TensorDataset:
    import torch
    from torch.utils.data import TensorDataset

    generator = torch.Generator().manual_seed(case["seed"])
    features = torch.randn(case["samples"], 4, generator=generator)
    return TensorDataset(features, torch.randint(3, (case["samples"],), generator=generator))


def _train(case: Case) -> Weights:
    """Train one process and return the weights."""
    import torch

    model, _ = _model(case["seed"])
    inputs, labels = _data(case).tensors
    optimizer = torch.optim.SGD(model.parameters(), lr=case["lr"], momentum=0.9)
    size = case["batch_size"]
    for _ in range(case["epochs"]):
        for batch in zip(inputs.split(size), labels.split(size), strict=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
            optimizer.step()
    return _numbers(model.state_dict())


def _numbers(state: object) -> Weights:
    import torch

    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise toys.wrong_kind(state)
    return {str(name): value.detach().flatten().tolist() for name, value in state.items()}


def _moved_alike(one: Seen, other: Seen) -> bool:
    """Return whether the training has added the same to the weights of two ranks."""
    moved = [
        {
            name: [end - begin for end, begin in zip(seen["weights"][name], start, strict=True)]
            for name, start in seen["start"].items()
        }
        for seen in (one, other)
    ]
    return _close(*moved)


def _close(some: Weights, others: Weights) -> bool:
    return some.keys() == others.keys() and all(
        len(some[name]) == len(others[name])
        and all(abs(a - b) < _CLOSE for a, b in zip(some[name], others[name], strict=True))
        for name in some
    )
