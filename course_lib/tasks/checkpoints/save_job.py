"""Task 3: a run that resumes bit by bit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from course_lib.outcome.outcome import Outcome
from course_lib.tasks import toys
from course_lib.tasks.checkpoints import jobs, taught
from course_lib.tasks.task import (
    Misconception,
    Miss,
    Recognised,
    Task,
    Trial,
    check,
    models,
    recognise_by_models,
)
from course_lib.tasks.toys import is_odd, short
from course_lib.tasks.weights import ROUNDING, close, numbers


class SaveJob(Task):
    """A run that resumes bit by bit."""

    name = "checkpoints.save_job"
    title = "Resume bit by bit"
    signature = "save_job(job, path)"
    lesson = taught.LESSON
    place = 3
    world_sizes = (1, 2)
    tolerance = ROUNDING
    hints = (
        "What has a memory? The weights, the momentum, the schedule, the place in the data, three random generators.",
        (
            "Each rank has random states of its own: gather them with dist.all_gather_object, or write a file for each "
            "rank. The rest is the same on all ranks."
        ),
        (
            "torch.get_rng_state(), numpy.random.get_state() and random.getstate() have setters beside them. numpy's "
            "state holds an array, which weights_only refuses: save it as a list. Set job.epoch and job.batch, too."
        ),
    )
    misconceptions = (
        Misconception(
            "nothing_loaded",
            "The run begins from the start again: nothing of the checkpoint gets into the job.",
            taught.RESUME,
        ),
        Misconception(
            "momentum_forgotten",
            "The optimizer's state is not loaded: its momentum begins from zero.",
            taught.RESUME,
        ),
        Misconception(
            "schedule_forgotten",
            "The scheduler is not loaded: it goes through its first steps once more.",
            taught.RESUME,
        ),
        Misconception(
            "place_forgotten",
            "The epoch, or how far it had come, is not loaded: other samples come than in the uninterrupted run.",
            taught.RESUME,
        ),
        Misconception(
            "random_forgotten",
            "The random states are not loaded: the new process draws the numbers of its start once more.",
            taught.RESUME,
        ),
        Misconception(
            "rank_0s_random",
            "All ranks get the random states of rank 0: save those of every rank.",
            taught.RESUME,
        ),
        Misconception(
            "only_torch",
            "Not all generators are restored: torch, numpy.random and random each have a state of their own.",
            taught.RESUME,
        ),
        Misconception(
            "run_disturbed",
            "Saving changes the run: it goes on otherwise than a run in which nothing was saved.",
            taught.RESUME,
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
        """A stop in the middle of an epoch; on one rank also at its end."""
        for before in (jobs.EPOCH + 2, jobs.EPOCH)[: 3 - world_size]:
            yield {"seed": chance.randint(1, 10**6), "before": before, "after": 4}

    def describe(self, case: Mapping[str, Any]) -> str:
        """Where it stopped."""
        return f"a checkpoint after {case['before']} batches ({jobs.EPOCH} in an epoch)"

    def trial(self, answer: Callable[..., Any], case: Mapping[str, Any]) -> Any:
        """The losses and weights of a run without a checkpoint, of one that saves, and of one that resumes."""
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        seed, before, after = case["seed"], case["before"], case["after"]
        path = os.path.join(os.getcwd(), f"job-{seed}-{before}.pt")

        there = set(os.listdir())

        def end(job: Any) -> dict[str, Any]:
            losses = jobs.train(job, after, seed, rank, world_size)
            return {"losses": losses, "weights": numbers(job.model.parameters())}

        job = jobs.new_job(seed, rank)
        jobs.train(job, before, seed, rank, world_size)
        seen: dict[str, Any] = {"uninterrupted": end(job)}
        job = jobs.new_job(seed, rank)
        jobs.train(job, before, seed, rank, world_size)
        answer(job, path)
        load_job = sys.modules["__main__"].__dict__.get("load_job")
        if not callable(load_job):
            return {"odd": "no function load_job"}
        seen["saved"] = end(job)
        job = jobs.new_job(seed, rank)
        load_job(job, path)
        seen["resumed"] = end(job)
        # By now all ranks have saved: the training above has waited for them.
        seen["files"] = sorted(set(os.listdir()) - there)
        return seen

    def oracle(self, case: Mapping[str, Any], world_size: int) -> Any:
        """What one process finds that plays all ranks, and what misconceptions find."""
        return jobs.resumed(case["seed"], world_size, case["before"], case["after"])

    @check("There are save_job and load_job.", gate=True)
    def both(self, trial: Trial) -> Miss | None:
        """Both functions are called."""
        for rank, seen in trial.seen.items():
            if is_odd(seen):
                return Miss(f"on rank {rank} there is {seen['odd']} in the cell")
        return None

    @check("Saving leaves the run as it is.")
    def undisturbed(self, trial: Trial) -> Miss | None:
        """Bit by bit."""
        if self._right(trial, "uninterrupted"):
            return self._differs(trial, "saved", "after save_job, the run goes on with", "run_disturbed")
        return Miss(f"with {self.describe(trial.case)}, the run that was never saved is another one already")

    @check("The resumed run equals the uninterrupted one, bit by bit, on every rank.")
    def equal(self, trial: Trial) -> Miss | None:
        """Losses and final weights."""
        return self._differs(trial, "resumed", "after load_job, the run goes on with", None)

    @check("The checkpoint lies at `path`, or in files whose names begin with it.")
    def in_files(self, trial: Trial) -> Miss | None:
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

    def _right(self, trial: Trial, run: str) -> bool:
        return all(close(trial.seen[r][run]["losses"], trial.oracle["right"][r]) for r in trial.seen)

    def _differs(self, trial: Trial, run: str, said: str, known: str | None) -> Miss | None:
        for rank, seen in sorted(trial.seen.items()):
            if seen[run] != seen["uninterrupted"]:
                losses = [[f"{loss:.4f}" for loss in seen[name]["losses"]] for name in (run, "uninterrupted")]
                return Miss(
                    f"with {self.describe(trial.case)} on {toys.ranks_text(trial.world_size)}, {said} losses "
                    f"{short(losses[0])} on rank {rank}; the uninterrupted run has {short(losses[1])}",
                    known,
                )
        return None

    def recognise(self, trials: Sequence[Trial]) -> Recognised:
        """Which misconception resumes with exactly these losses?"""
        seen = [
            Trial(t.world_size, t.case, t.oracle, {r: s["resumed"]["losses"] for r, s in t.seen.items()})
            for t in trials
            if t.world_size > 1 and not any(is_odd(s) for s in t.seen.values())
        ]
        known = models(jobs.FORGOTTEN, lambda t, name: t.oracle[name])
        return recognise_by_models(seen, lambda t: t.oracle["right"], known, close) if seen else None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[Trial]) -> Recognised:
        """A call that raised shows no losses."""
        return None
