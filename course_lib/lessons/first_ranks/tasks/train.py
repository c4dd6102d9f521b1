"""The task of lesson 00: a half converted script, made to run under torchrun on any number of processes."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.data import load_digits
from course_lib.lessons.first_ranks.tasks import accuracy
from course_lib.lessons.first_ranks.tasks.process import Note, run_script, writers
from course_lib.tasks import toys
from course_lib.tasks.launching import launch
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check
from realranks.outcome.fold import rank_list

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Images in a batch: as many for each of one or two processes.
_BATCH, _BATCHES = 48, 4
_LEARNING_RATE = 0.2
#: The digits of the course.
_DIGITS = 1797
#: Seconds until a launch is given up; it takes one.
_SECONDS = 20.0
#: How far the best two scores of a test image are apart, at least: rounding must not decide what a model reads.
_MARGIN = 0.05


class Case(TypedDict):
    """The images to train on, as numbers of digits; the seed of the first weights; which test images are read right."""

    digits: list[int]
    seed: int
    right: list[bool]


class Seen(TypedDict):
    """The remains of a launch.

    Attributes:
        ok, late: whether it ended well, and whether it was killed because the time was up.
        notes: by rank, what each process did that has come to an end. writers: the ranks that called torch.save.
        weights: those in the file. right: which test images they read right. problem: why there are none.
    """

    ok: bool
    late: bool
    notes: dict[str, Note]
    writers: list[int]
    weights: list[float]
    right: list[bool]
    problem: str


ThisTrial = Trial[Case, Seen, list[float]]


class Train(Task[Case, Seen, list[float]]):
    """A script for torchrun."""

    name = "first_ranks.train"
    script = "first_ranks/train.py"
    world_sizes = (1, 2)
    seconds = 30.0
    not_handed_out = ("batch_times_ranks", "added_up", "own_share_told", "made_up")

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        yield {
            "digits": chance.sample(range(_DIGITS), _BATCH * _BATCHES),
            "seed": chance.randrange(1000),
            "right": accuracy.right_ones(world_size, chance),
        }

    def describe(self, case: Case) -> str:
        return f"--seed {case['seed']}"

    def trial(self, answer: Callable[[], str], case: Case) -> Seen:
        script = answer()
        folder = Path(script).parent / "launch"
        out = folder / "out"
        out.mkdir(parents=True)
        tests = _tests(case)
        _write_images(case["digits"], tests, folder / "digits.npz")
        ranks = int(Path(script).parent.name)
        options = {"--data": folder / "digits.npz", "--out": out, "--seed": case["seed"]}
        arguments = [str(word) for option in options.items() for word in option]
        ended = launch(
            run_script, script, arguments, str(folder), ranks=ranks, folder=folder, seconds=_SECONDS
        )
        notes: dict[str, Note] = {
            str(rank): json.loads(path.read_text())
            for rank in range(ranks)
            if (path := folder / f"note-{rank}.json").is_file()
        }
        weights, right, problem = _weights(out / "weights.pt", tests)
        if others := sorted(set(os.listdir(out)) - {"weights.pt"}):
            problem = problem or f"there is a file {others[0]} beside weights.pt"
        return {
            "ok": ended.ok,
            "late": ended.late,
            "notes": notes,
            "writers": writers(folder),
            "weights": weights,
            "right": right,
            "problem": problem,
        }

    def oracle(self, case: Case, world_size: int) -> list[float]:
        return _vector(_train(case))

    @check("All processes end by themselves, with exit code 0.")
    def ends_well(self, trial: ThisTrial) -> Miss | None:
        seen = trial.seen[0]
        if seen["ok"]:
            return None
        for rank, note in seen["notes"].items():
            if note["error"]:
                return Miss(
                    f"on {toys.ranks_text(trial.world_size)}, rank {rank} raised {note['error']}",
                    _behind(note["error"], seen["writers"]),
                )
        waiting = [rank for rank in range(trial.world_size) if str(rank) not in seen["notes"]]
        if seen["late"]:
            return Miss(
                f"on {toys.ranks_text(trial.world_size)}, {rank_list(waiting)} had not come to an end after "
                f"{_SECONDS:g} s"
            )
        codes = ", ".join(
            f"rank {rank} with {note['code']}" for rank, note in seen["notes"].items() if note["code"]
        )
        ended = codes or f"{rank_list(waiting)} without a word"
        return Miss(f"on {toys.ranks_text(trial.world_size)}, {ended} ended")

    @check("Each image of a batch is in the share of one process.")
    def shares(self, trial: ThisTrial) -> Miss | None:
        """As many losses as batches; together they are of as many images as a batch has."""
        notes = trial.seen[0]["notes"]
        for rank, note in notes.items():
            if len(note["shares"]) != _BATCHES:
                fewer = len(note["shares"]) * trial.world_size == _BATCHES and set(note["shares"]) == {_BATCH}
                return Miss(
                    f"of {_BATCHES} batches, rank {rank} of {trial.world_size} computed {len(note['shares'])} losses"
                    + f", each of {_BATCH} images" * fewer,
                    "batch_times_ranks" if fewer else None,
                )
        complete = len(notes) == trial.world_size
        for number in range(_BATCHES if notes else 0):
            sizes = [note["shares"][number] for note in notes.values()]
            if sum(sizes) > _BATCH or (complete and sum(sizes) < _BATCH):
                return Miss(
                    f"of a batch of {_BATCH} images, rank 0 of {trial.world_size} took {sizes[0]}, and all ranks "
                    f"together {sum(sizes)}",
                    "whole_batch" if set(sizes) == {_BATCH} else None,
                )
        return None

    @check("In each step, all processes have the same gradient.")
    def averages(self, trial: ThisTrial) -> Miss | None:
        """Its norm, when the optimizer steps."""
        notes = trial.seen[0]["notes"]
        for number, norms in enumerate(zip(*(note["gradients"] for note in notes.values()), strict=False)):
            for rank, norm in zip(notes, norms, strict=True):
                if not math.isclose(norm, norms[0], rel_tol=1e-4):
                    return Miss(
                        f"in step {number + 1} the gradient's norm is {norms[0]:.4g} on rank {next(iter(notes))} and "
                        f"{norm:.4g} on rank {rank}",
                        "not_averaged",
                    )
        return None

    @check("weights.pt holds the weights of one process that trains on whole batches.")
    def right_weights(self, trial: ThisTrial) -> Miss | None:
        seen, right = trial.seen[0], trial.oracle
        if seen["problem"]:
            # Two processes that write one file at the same time can leave one that nobody can read.
            why = "all_write" if len(seen["writers"]) > 1 else None
            return Miss(f"on {toys.ranks_text(trial.world_size)}, {seen['problem']}", why)
        off = max(abs(a - b) for a, b in zip(seen["weights"], right, strict=True))
        if off > 1e-4:
            return Miss(
                f"on {toys.ranks_text(trial.world_size)}, a weight that rank 0 should write is off by {off:.2g}"
            )
        return None

    @check("One process writes the file and prints the accuracy.")
    def one_writes(self, trial: ThisTrial) -> Miss | None:
        """Calls of torch.save, and lines on standard output."""
        seen, printed = trial.seen[0], _printed(trial)
        if len(seen["writers"]) > 1:
            return Miss(f"{rank_list(seen['writers'])} wrote weights.pt", "all_write")
        if len(printed) > 1:
            return Miss(f"{rank_list(list(printed))} printed", "all_write")
        lines = _accuracy_lines(trial)
        if len(lines) != 1:
            return Miss(f"no rank of {trial.world_size} printed one line with the accuracy, but {len(lines)}")
        return None

    @check("The accuracy that is printed is that of the saved weights on the test images.")
    def right_accuracy(self, trial: ThisTrial) -> Miss | None:
        right, lines = trial.seen[0]["right"], _accuracy_lines(trial)
        if not right or len(lines) != 1 or accuracy.tells(lines[0], accuracy.of(right)):
            return None
        return Miss(
            f"on {toys.ranks_text(trial.world_size)}, {lines[0].strip()[:80]!r} was printed; the saved weights read "
            f"{sum(right)} of {len(right)} test images right",
            _way_of_counting(lines[0], right, trial.world_size)
            if self.right_weights(trial) is None
            else None,
        )

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise a made-up line: right weights give another accuracy in each launch."""
        said = {tuple(_accuracy_lines(trial)) for trial in trials}
        if len(said) > 1 or len(trials) == 1 or any(map(self.right_weights, trials)):
            return None
        return "made_up" if any(map(self.right_accuracy, trials)) else None


def _behind(error: str, writing: Sequence[int]) -> str | None:
    """Return the misconception that makes a process raise this."""
    if "closed by peer" in error or "reset by peer" in error:
        return "rank_0_alone"
    # The file has been renamed or removed by another process.
    return "all_write" if len(writing) > 1 and re.match(r"File\w+Error ", error) else None


def _printed(trial: ThisTrial) -> dict[int, list[str]]:
    """Return, by rank, the lines on standard output, where there are any."""
    return {int(rank): note["printed"] for rank, note in trial.seen[0]["notes"].items() if note["printed"]}


def _accuracy_lines(trial: ThisTrial) -> list[str]:
    return [line for said in _printed(trial).values() for line in said if "accuracy" in line.lower()]


def _way_of_counting(line: str, right: Sequence[bool], world_size: int) -> str | None:
    """Return the way of counting that gives this accuracy on several ranks."""
    if world_size == 1:
        return None
    if accuracy.tells(line, accuracy.of(right) * world_size):
        return "added_up"
    half = -(-len(right) // world_size)
    shares = [right[rank::world_size] for rank in range(world_size)]
    shares += [right[start : start + half] for start in range(0, len(right), half)]
    return "own_share_told" if any(accuracy.tells(line, accuracy.of(share)) for share in shares) else None


def _pixels(digits: Sequence[int]) -> Tensor:
    """Return these digits as the script reads them."""
    import torch

    images, _ = load_digits()
    return torch.from_numpy(images[list(digits)]).float().flatten(1) / 16


def _labels(digits: Sequence[int]) -> Tensor:
    import torch

    _, labels = load_digits()
    return torch.from_numpy(labels[list(digits)]).long()


def _train(case: Case) -> nn.Module:
    """Train one process on whole batches and return its model."""
    import torch

    pixels, labels = _pixels(case["digits"]), _labels(case["digits"])
    torch.manual_seed(case["seed"])
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE)
    for batch in torch.arange(len(pixels)).split(_BATCH):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pixels[batch]), labels[batch]).backward()
        optimizer.step()
    return model


def _tests(case: Case) -> list[int]:
    """Test images that the trained model reads right or wrong as the case wants it."""
    others = sorted(set(range(_DIGITS)) - set(case["digits"]))
    scores = _train(case)(_pixels(others)).topk(2)
    clear = (scores.values[:, 0] - scores.values[:, 1] > _MARGIN).tolist()
    read = (scores.indices[:, 0] == _labels(others)).tolist()
    chance = Random(case["seed"])
    drawn = {
        kind: chance.sample(
            [d for d, c, r in zip(others, clear, read, strict=True) if c and r == kind], accuracy.TESTS
        )
        for kind in (True, False)
    }
    return [drawn[right].pop() for right in case["right"]]


def _write_images(train: Sequence[int], tests: Sequence[int], path: Path) -> None:
    import numpy as np

    images, labels = load_digits()
    np.savez(
        path,
        images=images[list(train)],
        labels=labels[list(train)],
        test_images=images[list(tests)],
        test_labels=labels[list(tests)],
    )


def _weights(path: Path, tests: Sequence[int]) -> tuple[list[float], list[bool], str]:
    """Return the numbers in the file, and which test images they read right; or what is wrong with it."""
    import torch

    if not path.is_file():
        return [], [], "no rank has written weights.pt"
    model = torch.nn.Linear(64, 10)
    try:
        model.load_state_dict(torch.load(path, weights_only=True))
    except Exception as error:  # whatever a file may hold
        lines = str(error).strip().splitlines()
        why = lines[-1].strip() if lines else repr(error)
        return [], [], f"weights.pt, which rank 0 should write, cannot be loaded: {why}"
    right = (model(_pixels(tests)).argmax(1) == _labels(tests)).tolist()
    return _vector(model), right, ""


def _vector(model: nn.Module) -> list[float]:
    import torch

    vector = torch.nn.utils.parameters_to_vector(model.parameters())
    return [float(number) for number in vector.tolist()]
