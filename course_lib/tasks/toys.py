"""Small data sets and models that answers are run on, and how to read what an answer gave back.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from course_lib.tasks.task import Odd
from course_lib.tasks.task import is_odd as is_odd

if TYPE_CHECKING:
    from torch import Tensor, nn

_Asked = TypeVar("_Asked")

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
    """The samples that torch's DistributedSampler gives a rank in an epoch, in their order."""
    import torch
    from torch.utils.data import DistributedSampler, TensorDataset

    data = TensorDataset(torch.empty(samples))
    sampler: DistributedSampler[int] = DistributedSampler(data, ranks, rank, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)


def seed_torch(seed: int) -> None:
    """What `torch.manual_seed` does, for the CPU alone.

    That one formats the whole stack each time, for an error message about a GPU that may come later: most of a
    millisecond, where a network is built in less.
    """
    import torch

    torch.default_generator.manual_seed(seed)


def counting_classifier() -> tuple[nn.Module, Callable[[], int]]:
    """A module that returns its input as scores, and a function that says how many samples went through it."""
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
    """A network with some weights: 4 -> 6 -> 2."""
    import torch

    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))


def odd(value: object) -> Odd:
    """What stands for an answer's value that is not of the kind asked for."""
    try:
        if isinstance(value, list | tuple | set | dict) and len(value) > MAX_ITEMS:
            return {"odd": f"a {type(value).__name__} of {len(value):,} items"}
        text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:120]
    except Exception:
        text = "..."
    if value is None:
        return {"odd": "None (is a return missing?)"}
    return {"odd": f"{type(value).__name__}: {text}"}


def in_place_of(kind: type[_Asked], what: Odd) -> _Asked:
    """The `Odd`, where an observation's type has a value of this kind: see `Task` on what may rely on that type."""
    return cast("_Asked", what)


def all_or_odd(parts: Iterable[_Asked]) -> list[_Asked]:
    """The parts as a list, or the first `Odd` among them in its place."""
    found: list[_Asked] = []
    for part in parts:
        if is_odd(part):
            return in_place_of(list[_Asked], part)
        found.append(part)
    return found


def whole_numbers(value: object) -> list[int]:
    """A list, tensor, array, range or generator of whole numbers as a list; else an `Odd` in its place."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return in_place_of(list[int], odd(value))
    numbers: list[int] = []
    for item in value:
        if len(numbers) >= MAX_ITEMS:
            return in_place_of(list[int], {"odd": f"more than {MAX_ITEMS} numbers"})
        try:
            number = int(item)
            if number != item:
                return in_place_of(list[int], odd(item))
        except (TypeError, ValueError, RuntimeError):
            return in_place_of(list[int], odd(item))
        numbers.append(number)
    return numbers


def flat_numbers(value: Any) -> list[int]:
    """A batch as a flat list: a tensor of any shape, or numbers in lists in lists; else an `Odd` in its place."""
    if hasattr(value, "flatten") and hasattr(value, "tolist"):
        return whole_numbers(value.flatten().tolist())
    if isinstance(value, list | tuple):
        flat: list[int] = []
        for item in value:
            part = flat_numbers(item) if isinstance(item, list | tuple) or hasattr(item, "tolist") else [item]
            if is_odd(part):
                return in_place_of(list[int], part)
            flat += part
        return whole_numbers(flat)
    return whole_numbers(value)


def names(value: object) -> list[str]:
    """A list, a set or anything else that gives strings as a list of them; else an `Odd` in its place."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return in_place_of(list[str], odd(value))
    found = list(value)[:MAX_ITEMS]
    return found if all(isinstance(item, str) for item in found) else in_place_of(list[str], odd(found))


def without_wrapper(names: Iterable[str]) -> list[str]:
    """Names of parameters as the model itself has them: sorted, each once, without DDP's `module.` in front."""
    return sorted({name.removeprefix("module.") for name in names})


def number(value: Any) -> float:
    """A float, an int or a tensor of one element as a float; else an `Odd` in its place."""
    if value is None or isinstance(value, str | bytes):
        return in_place_of(float, odd(value))
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return in_place_of(float, odd(value))


def whole_number(value: object) -> int:
    """An int, or a number that is one, as an int; else an `Odd` in its place."""
    found = number(value)
    if is_odd(found):
        return in_place_of(int, found)
    return int(found) if math.isfinite(found) and found == int(found) else in_place_of(int, odd(found))


def short(numbers: Sequence[object], most: int = 8) -> str:
    """`[5, 0, 3, …]`: a list as it fits into a sentence."""
    shown = ", ".join(map(str, numbers[:most]))
    return f"[{shown}, …]" if len(numbers) > most else f"[{shown}]"


def ranks_text(count: int) -> str:
    """`1 rank`, `4 ranks`."""
    return "1 rank" if count == 1 else f"{count} ranks"
