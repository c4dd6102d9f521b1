"""The task of lesson 00: a half converted script, made to run under torchrun on any number of processes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TypedDict

from course_lib.data import load_digits
from course_lib.outcome.fold import rank_list
from course_lib.tasks import toys
from course_lib.tasks.first_ranks import taught
from course_lib.tasks.first_ranks.process import Note, run_script
from course_lib.tasks.launching import launch
from course_lib.tasks.task import Misconception, Miss, Task, Trial, check

#: Images in a batch: as many for each of one or two processes.
_BATCH, _BATCHES, _TESTS = 48, 4, 50
_LEARNING_RATE = 0.2
#: The digits of the course.
_DIGITS = 1797
#: Seconds until a launch is given up; it takes one.
_SECONDS = 20.0


class Case(TypedDict):
    """The images as numbers of digits, first those to train on; and the seed of the first weights."""

    digits: list[int]
    seed: int


class Seen(TypedDict):
    """What a launch has left: by rank what each process did; the weights in the file, or its problem."""

    ok: bool
    late: bool
    notes: dict[str, Note]
    weights: list[float]
    problem: str


ThisTrial = Trial[Case, Seen, list[float]]


class Train(Task[Case, Seen, list[float]]):
    """A script for torchrun."""

    name = "first_ranks.train"
    title = "A script for torchrun"
    signature = "train()"
    script = "first_ranks/train.py"
    lesson = taught.LESSON
    place = 1
    world_sizes = (1, 2)
    seconds = 30.0
    hints = (
        "Go through the lines of main and ask of each: who does this, one process or all of them? And who should?",
        (
            "Two things make training distributed: a share of each batch, batch[rank::world_size], and the wrapper "
            "DistributedDataParallel. The seed need not be the same everywhere: the wrapper copies rank 0's weights."
        ),
        (
            "What only rank 0 does must not be a collective: all call all_reduce, then one of them prints "
            "and saves. Save ddp.module.state_dict(): the names in it are those of the bare model."
        ),
    )
    misconceptions = (
        Misconception(
            "rank_0_alone",
            "Rank 0 calls a collective that the others never call: they come to their end, and rank 0 with an error.",
            taught.SAYS,
        ),
        Misconception(
            "not_averaged",
            "Each process trains a model of its own: nobody averages the gradients.",
            taught.TRAIN,
        ),
        Misconception(
            "whole_batch",
            "Every process computes the whole batch: more processes do more work, and the training is not faster.",
            taught.TRAIN,
        ),
        Misconception(
            "all_write",
            "Every process does what one should do: all write the same file, or print the same line.",
            taught.SCRIPT,
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """One launch for each number of processes."""
        drawn = chance.sample(range(_DIGITS), _BATCH * _BATCHES + _TESTS)
        yield {"digits": drawn, "seed": chance.randrange(1000)}

    def describe(self, case: Case) -> str:
        """The seed."""
        return f"--seed {case['seed']}"

    def trial(self, answer: Callable[[], str], case: Case) -> Seen:
        """Launch the script that lies where `answer` says; this process is the agent's."""
        script = answer()
        folder = Path(script).parent / "launch"
        out = folder / "out"
        out.mkdir(parents=True)
        _write_images(case, folder / "digits.npz")
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
        weights, problem = _weights(out / "weights.pt")
        if others := sorted(set(os.listdir(out)) - {"weights.pt"}):
            problem = problem or f"there is a file {others[0]} beside weights.pt"
        return {"ok": ended.ok, "late": ended.late, "notes": notes, "weights": weights, "problem": problem}

    def oracle(self, case: Case, world_size: int) -> list[float]:
        """The weights of one process that trains on whole batches."""
        import torch

        images, labels = load_digits()
        train = case["digits"][:-_TESTS]
        pixels = torch.from_numpy(images[train]).float().flatten(1) / 16
        targets = torch.from_numpy(labels[train]).long()
        torch.manual_seed(case["seed"])
        model = torch.nn.Linear(64, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE)
        for batch in torch.arange(len(train)).split(_BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(pixels[batch]), targets[batch]).backward()
            optimizer.step()
        vector = torch.nn.utils.parameters_to_vector(model.parameters())
        return [float(number) for number in vector.tolist()]

    @check("All processes end by themselves, with exit code 0.")
    def ends_well(self, trial: ThisTrial) -> Miss | None:
        """No exception, nobody left waiting."""
        seen = trial.seen[0]
        if seen["ok"]:
            return None
        for rank, note in seen["notes"].items():
            if note["error"]:
                alone = "closed by peer" in note["error"] or "reset by peer" in note["error"]
                return Miss(
                    f"on {toys.ranks_text(trial.world_size)}, rank {rank} raised {note['error']}",
                    "rank_0_alone" if alone else None,
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
                return Miss(
                    f"of {_BATCHES} batches, rank {rank} of {trial.world_size} computed {len(note['shares'])} losses"
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
        """Up to rounding."""
        seen, right = trial.seen[0], trial.oracle
        if seen["problem"]:
            # Two processes that write one file at the same time can leave one that nobody can read.
            why = "all_write" if len(_writers(trial)) > 1 else None
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
        notes, writers = trial.seen[0]["notes"], _writers(trial)
        if len(writers) > 1:
            return Miss(f"{rank_list(writers)} wrote weights.pt", "all_write")
        printed = {int(rank): note["printed"] for rank, note in notes.items() if note["printed"]}
        if len(printed) > 1:
            return Miss(f"{rank_list(list(printed))} printed", "all_write")
        lines = [line for said in printed.values() for line in said if "accuracy" in line]
        if len(lines) != 1:
            return Miss(f"no rank of {trial.world_size} printed one line with the accuracy, but {len(lines)}")
        return None


def _writers(trial: ThisTrial) -> list[int]:
    """The ranks that have called torch.save."""
    return [int(rank) for rank, note in trial.seen[0]["notes"].items() if note["saved"]]


def _write_images(case: Case, path: Path) -> None:
    import numpy as np

    images, labels = load_digits()
    train, tests = case["digits"][:-_TESTS], case["digits"][-_TESTS:]
    np.savez(
        path,
        images=images[train],
        labels=labels[train],
        test_images=images[tests],
        test_labels=labels[tests],
    )


def _weights(path: Path) -> tuple[list[float], str]:
    """The numbers in the file, or what is wrong with it."""
    import torch

    if not path.is_file():
        return [], "no rank has written weights.pt"
    try:
        model = torch.nn.Linear(64, 10)
        model.load_state_dict(torch.load(path, weights_only=True))
    except Exception as error:  # whatever a file may hold
        lines = str(error).strip().splitlines()
        return (
            [],
            f"weights.pt, which rank 0 should write, cannot be loaded: {lines[-1].strip() if lines else error!r}",
        )
    vector = torch.nn.utils.parameters_to_vector(model.parameters())
    return [float(number) for number in vector.tolist()], ""
