"""Small data sets and models that answers are run on, and how to read what an answer gave back.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from course_lib.tasks.task import WrongKind
from course_lib.tasks.task import ranks_text as ranks_text

if TYPE_CHECKING:
    from torch import Tensor, nn

#: An answer that gives more than this gives without end.
MAX_ITEMS = 10_000


class Numbers:
    """A data set of `size` samples; sample i is the number i, so that one sees who got which."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        if not 0 <= int(index) < self.size:
            raise IndexError(f"this data set has no sample {int(index)}: it has {self.size}")
        return int(index)


class Labelled:
    """A data set of (features, label): features of shape (classes,), as float32; the label an int."""

    def __init__(self, features: Sequence[Sequence[float]], labels: Sequence[int]) -> None:
        import torch

        self.features = torch.tensor(features, dtype=torch.float32)
        self.labels = list(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not 0 <= int(index) < len(self.labels):
            raise IndexError(f"this data set has no sample {int(index)}: it has {len(self.labels)}")
        return self.features[int(index)], self.labels[int(index)]


def dealt(
    samples: int, ranks: int, rank: int, epoch: int = 0, *, seed: int = 0, drop_last: bool = False
) -> list[int]:
    """Return the samples that torch's DistributedSampler gives a rank in an epoch, in their order."""
    import torch
    from torch.utils.data import DistributedSampler, TensorDataset

    data = TensorDataset(torch.empty(samples))
    sampler: DistributedSampler[int] = DistributedSampler(data, ranks, rank, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)


def seed_torch(seed: int) -> None:
    """Do what `torch.manual_seed` does, for the CPU alone.

    That one formats the whole stack each time, for an error message about a GPU that may come later: most of a
    millisecond, where a network is built in less.
    """
    import torch

    torch.default_generator.manual_seed(seed)


def counting_classifier() -> tuple[nn.Module, Callable[[], int]]:
    """Return a module that returns its input as scores, and a function that counts the samples through it."""
    import torch

    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(4))

        def forward(self, features: Tensor) -> Tensor:
            seen.append(features.numel() // features.shape[-1])
            return features @ self.weight

    seen: list[int] = []
    return Classifier().eval(), lambda: sum(seen)


def small_network() -> nn.Module:
    """Return a network with seeded weights: 4 -> 6 -> 2."""
    import torch

    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))


def described(value: object) -> str:
    """Describe a value that is not of the kind asked for."""
    try:
        if isinstance(value, list | tuple | set | dict) and len(value) > MAX_ITEMS:
            return f"a {type(value).__name__} of {len(value):,} items"
        if shape := getattr(value, "shape", ()):
            return f"a {type(value).__name__} of shape {tuple(shape)}"
        if isinstance(value, list | tuple) and any(getattr(item, "shape", ()) for item in value):
            return f"a {type(value).__name__} of {', '.join(map(described, value[:4]))}{', …' * (len(value) > 4)}"
        text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:120]
    except Exception:
        text = "..."
    return "None (is a return missing?)" if value is None else f"{type(value).__name__}: {text}"


def wrong_kind(value: object) -> WrongKind:
    """Return the exception for a value that is not of the kind asked for."""
    return WrongKind(described(value))


def items(value: object) -> Iterable[Any]:
    """Return the items of a list, tensor, range or generator, but not a text's letters or a dictionary's keys.

    Raises:
        WrongKind: there is nothing to go through. So do all functions below that convert an answer's value.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong_kind(value)
    return value


def numbers(value: object) -> list[float]:
    """Convert a list, tensor, array, range or generator of numbers to a list."""
    return [number(item) for item in itertools.islice(items(value), MAX_ITEMS)]


def whole_numbers(value: object) -> list[int]:
    """Convert a list, tensor, array, range or generator of whole numbers to a list."""
    found: list[int] = []
    for item in items(value):
        if len(found) >= MAX_ITEMS:
            raise WrongKind(f"more than {MAX_ITEMS} numbers")
        try:
            one = int(item)
            if one != item:
                raise wrong_kind(item)
        except (TypeError, ValueError, RuntimeError):
            raise wrong_kind(item) from None
        found.append(one)
    return found


def flat_numbers(value: Any) -> list[int]:
    """Flatten a batch: a tensor of any shape, or numbers in lists in lists."""
    if hasattr(value, "flatten") and hasattr(value, "tolist"):
        return whole_numbers(value.flatten().tolist())
    if isinstance(value, list | tuple):
        nested = (
            flat_numbers(item) if isinstance(item, list | tuple) or hasattr(item, "tolist") else [item]
            for item in value
        )
        return whole_numbers(itertools.chain.from_iterable(nested))
    return whole_numbers(value)


def names(value: object) -> list[str]:
    """Convert a list, a set or anything else that yields strings to a list."""
    found = list(items(value))[:MAX_ITEMS]
    if not all(isinstance(item, str) for item in found):
        raise wrong_kind(found)
    return found


def parameter_names(value: object, known: Iterable[str]) -> list[str]:
    """Convert names of parameters to a list, as a model with the `known` ones has them (see `without_wrapper`)."""
    found, own_names = without_wrapper(names(value)), set(known)
    for name in found:
        if name not in own_names:
            raise WrongKind(f"{name!r}, which is no parameter of the model")
    return found


def without_wrapper(names: Iterable[str]) -> list[str]:
    """Return names of parameters as the model itself has them: sorted, unique, without DDP's `module.` in front."""
    return sorted({name.removeprefix("module.") for name in names})


def number(value: Any) -> float:
    """Convert a float, an int or a tensor of one element to a float."""
    if value is None or isinstance(value, str | bytes):
        raise wrong_kind(value)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise wrong_kind(value) from None


def number_or_text(value: object) -> float | str:
    """Convert a number to a float; return a description of anything else."""
    try:
        return number(value)
    except WrongKind as wrong:
        return str(wrong)


def whole_number(value: object) -> int:
    """Convert an int, or a number that is one, to an int."""
    found = number(value)
    if not math.isfinite(found) or found != int(found):
        raise wrong_kind(found)
    return int(found)


def short(numbers: Sequence[object], most: int = 8) -> str:
    """Shorten a list to fit into a sentence: `[5, 0, 3, …]`."""
    shown = ", ".join(map(str, numbers[:most]))
    return f"[{shown}, …]" if len(numbers) > most else f"[{shown}]"
