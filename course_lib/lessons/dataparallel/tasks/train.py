"""Task 3: a DataParallel script turned into one for DDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, gate, recognise_by_name
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


class Seen(TypedDict):
    """The weights that came back and those at the start; how many samples went through the rank's model."""

    weights: Weights
    start: Weights
    samples: int


#: For `right` and for each misconception, the weights.
Oracle = dict[str, Weights]
ThisTrial = Trial[Case, Seen, Oracle]


class Train(Task[Case, Seen, Oracle]):
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

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], Weights]]:
        size, epochs, lr = case["batch_size"], case["epochs"], case["lr"]
        order = list(range(case["samples"]))

        def cut(indices: Sequence[int], length: int) -> list[Sequence[int]]:
            return [indices[start : start + length] for start in range(0, len(indices), length)]

        def batches_of(epoch: int) -> list[list[int]]:
            """Return the batches of all ranks together, with a sampler that shuffles."""
            shares = [
                cut(toys.dealt(case["samples"], world_size, rank, epoch), size // world_size)
                for rank in range(world_size)
            ]
            return [[index for part in step for index in part] for step in zip(*shares, strict=True)]

        plain = cut(order, size) * epochs
        return {
            "right": partial(_train, case, plain, lr),
            "batch_not_divided": partial(_train, case, cut(order, size * world_size) * epochs, lr),
            "shuffled": partial(
                _train, case, [step for epoch in range(epochs) for step in batches_of(epoch)], lr
            ),
            "shuffled/one order": partial(_train, case, batches_of(0) * epochs, lr),
            "steps_too_large": partial(_train, case, plain, lr * world_size),
            "steps_too_small": partial(_train, case, plain, lr / world_size),
        }

    #: A mapping from names to tensors.
    gives_weights = gate("Every rank returns the weights by name.")

    @check("The names are those of the model itself.", gate=True)
    def names(self, trial: ThisTrial) -> Miss | None:
        right = list(trial.oracle["right"])
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
        seen, right = trial.seen[0]["weights"], trial.oracle["right"]
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

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        seen = [t.with_seen({r: s["weights"] for r, s in t.seen.items()}) for t in trials]
        names = trials[0].oracle if trials else ()
        return recognise_by_name(seen, names, lambda t, name: t.on_all_ranks(t.oracle[name]), _close)


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


def _train(case: Case, batches: Sequence[Sequence[int]], lr: float) -> Weights:
    """Train one process on these batches and return the weights."""
    import torch

    model, _ = _model(case["seed"])
    inputs, labels = _data(case).tensors
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for batch in batches:
        optimizer.zero_grad()
        indices = list(batch)
        torch.nn.functional.cross_entropy(model(inputs[indices]), labels[indices]).backward()
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
