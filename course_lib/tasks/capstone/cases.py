"""The six launches: how many processes, on which images, and what befalls them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

TESTS = 25
#: The digits of the course; drawn from without repetition.
_DIGITS = 1797


def cases(world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
    """The launches on so many processes; digits and seed are drawn."""
    for case in _cases(world_size, chance):
        yield {**case, "ranks": world_size}


def _cases(world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
    if world_size == 1:
        # Seven micro-batches an epoch, three to a step: one is left over.
        yield {**_case("alone", chance, images=56, epochs=2, accumulate=3), "doctor": False}
    if world_size == 2:
        yield _case("plain", chance, images=96, epochs=2)
        # The first step of the second epoch is done: a rank has eight passes an epoch, four a step.
        killed = _case("killed", chance, images=64, epochs=2)
        yield {**killed, "restarts": 2, "killed": 12, "doctor": False}
        hungry = _case("hungry", chance, images=64)
        yield {**hungry, "hungry": {"rank": 1, "pass": 2}}
    if world_size == 3:
        # Blank where DistributedSampler, in its first epoch, gives all of these images to one process.
        yield {**_case("blanks", chance, images=48, micro_batch=4, accumulate=1), "blanks": 4}
    if world_size == 4:
        slow = _case("slow", chance, images=64)
        yield {**slow, "doctor": False, "machines": 2, "slow": {"rank": 1, "pass": 2, "seconds": 4.0}}


def _case(
    launch: str, chance: Random, *, images: int, epochs: int = 1, micro_batch: int = 8, accumulate: int = 2
) -> dict[str, Any]:
    drawn = chance.sample(range(_DIGITS), images + TESTS)
    seed = chance.randrange(1000)
    options = {"epochs": epochs, "micro-batch": micro_batch, "accumulate": accumulate, "seed": seed}
    return {
        "launch": launch,
        "digits": drawn[:images],
        "tests": drawn[images:],
        **{name.replace("-", "_"): value for name, value in options.items()},
        "options": [word for name, value in options.items() for word in (f"--{name}", str(value))],
        "doctor": True,
    }


def write_images(case: Mapping[str, Any], path: Path) -> None:
    """The file that the script reads."""
    import numpy as np

    from course_lib.data import load_digits

    images, labels = load_digits()
    train = images[case["digits"]].copy()
    for number in blank_images(case):
        train[number] = 0
    np.savez(
        path,
        train_images=train,
        train_labels=labels[case["digits"]],
        test_images=images[case["tests"]],
        test_labels=labels[case["tests"]],
    )


def blank_images(case: Mapping[str, Any]) -> list[int]:
    """The numbers of the training images that are blank."""
    if not case.get("blanks"):
        return []
    from torch.utils.data.distributed import DistributedSampler

    every: Any = range(len(case["digits"]))
    order: Any = DistributedSampler(every, case["ranks"], 1, seed=case["seed"])
    return list(order)[: case["blanks"]]
