"""The six launches: how many processes, on which images, and what befalls them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NotRequired, TypedDict

from course_lib.data import load_digits
from course_lib.tasks import toys

TESTS = 25
#: The digits of the course; drawn from without repetition.
_DIGITS = 1797


class Fault(TypedDict):
    """A rank's misfortune before a training pass of the Classifier, by number; a slow rank waits so many seconds."""

    rank: int
    before_pass: int
    seconds: float


class Case(TypedDict):
    """A launch.

    Attributes:
        classifier, completer: what the script calls the two models; in a checkpoint, in small letters.
        digits, tests: the images, as numbers of digits. options: the script's options, as on a command line.
        doctor: whether the doctor watches. restarts: how many there may be. machines: how many are played.
        killed: the number of the pass before which rank 0 is killed. blanks: how many images are blank.
    """

    launch: str
    ranks: int
    classifier: str
    completer: str
    digits: list[int]
    tests: list[int]
    epochs: int
    micro_batch: int
    accumulate: int
    seed: int
    options: list[str]
    doctor: bool
    restarts: NotRequired[int]
    machines: NotRequired[int]
    killed: NotRequired[int]
    hungry: NotRequired[Fault]
    slow: NotRequired[Fault]
    blanks: NotRequired[int]


class Placed(Case):
    """A case on this machine: the command line, and the places of the images and the checkpoint."""

    arguments: list[str]
    data: str
    checkpoint: str


def cases(world_size: int, chance: Random, models: tuple[str, str]) -> Iterator[Case]:
    """Yield the launches for this number of processes; digits and seed are drawn.

    `models` are the classes of the classifier and of the completer.
    """
    _case = functools.partial(_launch_of, models, chance=chance)
    if world_size == 1:
        # Seven micro-batches an epoch, three to a step: one is left over.
        yield {**_case("alone", 1, images=56, epochs=2, accumulate=3), "doctor": False}
    if world_size == 2:
        yield _case("plain", 2, images=96, epochs=2)
        # The first step of the second epoch is done: a rank has eight passes per epoch, four per step.
        killed = _case("killed", 2, images=64, epochs=2)
        yield {**killed, "restarts": 2, "killed": 12, "doctor": False}
        hungry = _case("hungry", 2, images=64)
        yield {**hungry, "hungry": {"rank": 1, "before_pass": 2, "seconds": 0.0}}
    if world_size == 3:
        # Blank where DistributedSampler, in its first epoch, gives all of these images to one process.
        yield {**_case("blanks", 3, images=48, micro_batch=4, accumulate=1), "blanks": 4}
    if world_size == 4:
        slow = _case("slow", 4, images=64)
        yield {**slow, "doctor": False, "machines": 2, "slow": {"rank": 1, "before_pass": 2, "seconds": 4.0}}


def _launch_of(
    models: tuple[str, str],
    launch: str,
    ranks: int,
    *,
    chance: Random,
    images: int,
    epochs: int = 1,
    micro_batch: int = 8,
    accumulate: int = 2,
) -> Case:
    drawn = chance.sample(range(_DIGITS), images + TESTS)
    seed = chance.randrange(1000)
    options = {"epochs": epochs, "micro-batch": micro_batch, "accumulate": accumulate, "seed": seed}
    return {
        "launch": launch,
        "ranks": ranks,
        "classifier": models[0],
        "completer": models[1],
        "digits": drawn[:images],
        "tests": drawn[images:],
        "epochs": epochs,
        "micro_batch": micro_batch,
        "accumulate": accumulate,
        "seed": seed,
        "options": [word for name, value in options.items() for word in (f"--{name}", str(value))],
        "doctor": True,
    }


def write_images(case: Case, path: Path) -> None:
    """Write the file that the script reads."""
    import numpy as np

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


def blank_images(case: Case) -> list[int]:
    """Return the numbers of the blank training images. Needs torch, so it runs on a rank."""
    if "blanks" not in case:
        return []
    return toys.dealt(len(case["digits"]), case["ranks"], 1, seed=case["seed"])[: case["blanks"]]
