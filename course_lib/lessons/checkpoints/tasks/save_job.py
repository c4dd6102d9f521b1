"""Task 3: a run that resumes bit by bit."""

from __future__ import annotations

import os
import sys
import typing
from collections.abc import Callable, Iterator
from random import Random
from typing import Literal, TypedDict

from course_lib.lessons.checkpoints.tasks import jobs
from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Task, Trial, WrongKind, check, gate
from course_lib.tasks.toys import short
from course_lib.tasks.weights import ROUNDING, close, numbers


class Case(TypedDict):
    """So many steps before the checkpoint, and after it."""

    seed: int
    before: int
    after: int


class Losses(TypedDict):
    """The losses after the checkpoint."""

    losses: list[float]


class End(Losses):
    """The weights in the end, too."""

    weights: list[float]


class Seen(TypedDict):
    """A run without a checkpoint, one that saves, and one that resumes; and the files that have been written."""

    uninterrupted: End
    saved: End
    resumed: End
    files: list[str]


#: For each rank, the right losses of each run.
Oracle = dict[str, list[dict[str, Losses]]]
Run = Literal["uninterrupted", "saved", "resumed"]
ThisTrial = Trial[Case, Seen, Oracle]


class SaveJob(Task[Case, Seen, Oracle]):
    """A run that resumes bit by bit."""

    name = "checkpoints.save_job"
    world_sizes = (1, 2)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield a stop in the middle of an epoch; on one rank also one at its end."""
        for before in (jobs.EPOCH + 2, jobs.EPOCH)[: 3 - world_size]:
            yield {"seed": chance.randint(1, 10**6), "before": before, "after": 4}

    def describe(self, case: Case) -> str:
        return f"a checkpoint after {case['before']} batches ({jobs.EPOCH} in an epoch)"

    def trial(self, answer: Callable[[jobs.Job, str], object], case: Case) -> Seen:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        seed, before, after = case["seed"], case["before"], case["after"]
        path = os.path.join(os.getcwd(), f"job-{seed}-{before}.pt")

        files_before = set(os.listdir())

        def end(job: jobs.Job) -> End:
            losses = jobs.train(job, after, seed, rank, world_size)
            return {"losses": losses, "weights": numbers(job.model.parameters())}

        job = jobs.new_job(seed, rank)
        jobs.train(job, before, seed, rank, world_size)
        uninterrupted = end(job)
        job = jobs.new_job(seed, rank)
        jobs.train(job, before, seed, rank, world_size)
        answer(job, path)
        load_job = sys.modules["__main__"].__dict__.get("load_job")
        if not callable(load_job):
            raise WrongKind("no function load_job")
        saved = end(job)
        job = jobs.new_job(seed, rank)
        load_job(job, path)
        resumed = end(job)
        # By now all ranks have saved: the training above has waited for them.
        files = sorted(set(os.listdir()) - files_before)
        return {"uninterrupted": uninterrupted, "saved": saved, "resumed": resumed, "files": files}

    def oracle(self, case: Case, world_size: int) -> Oracle:
        by_rank = jobs.uninterrupted(case["seed"], world_size, case["before"], case["after"])
        runs = typing.get_args(Run)
        return {"right": [dict.fromkeys(runs, Losses(losses=losses)) for losses in by_rank]}

    #: Both functions are called.
    both = gate("There are save_job and load_job.", "on rank {rank} there is {given} in the cell")

    @check("Saving leaves the run as it is.")
    def undisturbed(self, trial: ThisTrial) -> Miss | None:
        if self._right(trial, "uninterrupted"):
            return self._differs(trial, "saved", "after save_job, the run continues with", "run_disturbed")
        return Miss(f"with {self.describe(trial.case)}, the run that was never saved is another one already")

    @check("The resumed run equals the uninterrupted one, bit by bit, on every rank.")
    def equal(self, trial: ThisTrial) -> Miss | None:
        return self._differs(trial, "resumed", "after load_job, the run continues with", None)

    @check("The checkpoint lies at `path`, or in files whose names begin with it.")
    def in_files(self, trial: ThisTrial) -> Miss | None:
        """Not in variables, which a new job would not have."""
        name = f"job-{trial.case['seed']}-{trial.case['before']}.pt"
        for rank, seen in sorted(trial.seen.items()):
            if not seen["files"]:
                return Miss(
                    f"after save_job on rank {rank} of {trial.world_size}, there is no file at `path`"
                )
            for file in seen["files"]:
                if not file.startswith(name):
                    return Miss(
                        f"`path` ends with {name!r}; after save_job on rank {rank} of {trial.world_size}, there is a "
                        f"file {file[:60]!r}"
                    )
        return None

    def _right(self, trial: ThisTrial, run: Run) -> bool:
        right = trial.oracle["right"]
        return all(
            close(seen[run]["losses"], right[rank][run]["losses"]) for rank, seen in trial.seen.items()
        )

    def _differs(self, trial: ThisTrial, run: Run, said: str, known: str | None) -> Miss | None:
        for rank, seen in sorted(trial.seen.items()):
            if seen[run] != seen["uninterrupted"]:
                ends = seen[run], seen["uninterrupted"]
                losses = [[f"{loss:.4f}" for loss in end["losses"]] for end in ends]
                return Miss(
                    f"with {self.describe(trial.case)} on {toys.ranks_text(trial.world_size)}, {said} losses "
                    f"{short(losses[0])} on rank {rank}; the uninterrupted run has {short(losses[1])}",
                    known,
                )
        return None
