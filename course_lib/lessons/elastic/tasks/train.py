"""Task 2: a training that is killed three times, and does not show it."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.elastic.tasks.agent import Case, Note, read_log, run_job
from course_lib.lessons.elastic.tasks.toy import BATCH, batch, curve, make
from course_lib.lessons.process_groups.tasks.bare import without_group
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Task, Trial, check
from realranks.outcome.fold import rank_list

if TYPE_CHECKING:
    from course_lib.lessons.elastic.tasks.agent import Answer

_EVERY = 4
#: The life in which a worker is killed while it saves for the second time, and the last life.
_SAVING, _LAST = 1, 3


class Oracle(TypedDict):
    """The losses of all steps and at the end.

    Attributes:
        forgetful: of runs that forget their momentum at restarts. of_means: with the mean of the shares' means.
    """

    right: list[float]
    forgetful: list[list[float]]
    of_means: list[list[float]]


ThisTrial = Trial[Case, list[Note], Oracle]


class Train(Task[Case, list[Note], Oracle]):
    """A training that is killed three times, and does not show it."""

    name = "elastic.train"
    world_sizes = (1,)
    seconds = 60.0  # agents have a patience of their own; an answer that works needs a second or two
    tolerance = Tolerance(1e-5, 1e-3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield a job that is killed before its first save, in the middle of one and after one."""
        yield {
            "seed": chance.randrange(10_000),
            "steps": chance.randint(17, 19),
            "every": _EVERY,
            "workers": [2, 3],
            "save_life": _SAVING,
            "kills": [
                [0, chance.randrange(2), chance.randint(1, _EVERY - 1)],
                [_SAVING, 0, 2 * _EVERY + 1],  # for those who do not save with torch.save
                [2, chance.randrange(3), chance.randint(3 * _EVERY + 1, 4 * _EVERY - 1)],
            ],
        }

    def describe(self, case: Case) -> str:
        return f"steps={case['steps']}, every={case['every']}"

    def trial(self, answer: Answer, case: Case) -> list[Note]:
        without_group()  # workers are forked from this rank, and make their own
        before, after = case["workers"]
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
            came_through = run_job(answer, case, range(2), before, folder)
            if came_through and not any(note["event"] in ("stub", "end") for note in read_log(folder)):
                came_through = run_job(answer, case, range(2, _LAST + 1), after, folder)
            log = read_log(folder)
        if any(note["event"] == "stub" for note in log):
            answer(partial(make, 0), partial(batch, 0), 0, 1, "")  # says so here, where it is heard
        return log if came_through else [*log, {"event": "stuck", "rank": 0, "life": _last_life(log)}]

    def oracle(self, case: Case, world_size: int) -> Oracle:
        forgets = sorted(set(map(_due, _planned(case))))
        world, since = case["workers"][1], {_due(2 * _EVERY - 1), _due(2 * _EVERY + 1)}
        return {
            "right": curve(case["seed"], case["steps"]),
            "forgetful": [
                curve(case["seed"], case["steps"], forgets[:n]) for n in range(1, len(forgets) + 1)
            ],
            "of_means": [
                curve(case["seed"], case["steps"], shares=shares, since=step)
                for step in since
                for shares in (_strided(world), _chunked(world))
            ],
        }

    @check("All ranks go on from the same step.", gate=True)
    def together(self, trial: ThisTrial) -> Miss | None:
        for life in range(_LAST + 1):
            first = _first_steps(trial, life)
            if len(set(first.values())) > 1:
                starts = ", ".join(f"rank {rank} with step {step}" for rank, step in sorted(first.items()))
                return Miss(f"{_life(life)}, {starts} began", "not_everywhere")
        return None

    @check("It runs in every life, until it is killed or done.", gate=True)
    def lives(self, trial: ThisTrial) -> Miss | None:
        """No error but those that a killed peer causes."""
        killed = {note["life"] for note in _notes(trial, "kill")}
        for note in _notes(trial, "error"):
            if note["life"] not in killed:
                known = "half_written" if note["life"] > _SAVING and "step" not in note else None
                if note["text"].startswith("FileNotFoundError") and _together(trial):
                    known = "all_write"
                where = f"in step {note['step']}" if "step" in note else "before its first step"
                return Miss(
                    f"{_life(note['life'])}, rank {note['rank']} raised {where}: {note['text']}", known
                )
        for note in _notes(trial, "stuck"):
            return Miss(f"{_life(note['life'])}, the workers neither went on nor ended, and were stopped")
        for life in range(_LAST):
            if life not in killed:
                return Miss(f"{_life(life)}, it never came to the step in which a worker is killed")
        if not any(note["life"] == _LAST for note in _notes(trial, "batch")):
            return Miss(f"{_life(_LAST)}, it did no step")
        return None

    @check("It goes on from the last checkpoint that was due.")
    def resumes(self, trial: ThisTrial) -> Miss | None:
        began = [min(_first_steps(trial, life).values(), default=0) for life in range(_LAST + 1)]
        kills = {note["life"]: note.get("step", 0) for note in reversed(_notes(trial, "kill"))}
        for life in range(_LAST):
            due = _due(kills[life])
            if began[life + 1] < due:
                known = "starts_over" if not any(began) and self._learns(trial) else None
                if began[life + 1] == due - 1 > 0:
                    known = "step_done_again"
                where = f"killed in step {kills[life]}"
                return Miss(
                    f"{where}, it went on with step {began[life + 1]}; it had to save after {due} steps",
                    known,
                )
        return None

    @check("The loss of every step, and at the end, is that of a run that is never killed.")
    def equal(self, trial: ThisTrial) -> Miss | None:
        """Of what every rank's network says of the whole batch, when the step begins."""
        right = trial.oracle["right"]
        for note in [*_notes(trial, "batch"), *_notes(trial, "end")]:
            step = note.get("step", trial.case["steps"])
            if not 0 <= step < len(right) or not _close(note["loss"], right[step]):
                wanted = f"; without kills it is {right[step]:.4f}" if 0 <= step < len(right) else ""
                known = "not_everywhere" if self._drift_apart(trial) else None
                if self._like(trial, trial.oracle["forgetful"]):
                    known = "optimizer_forgotten"
                if any(self._like(trial, [one]) for one in trial.oracle["of_means"]):
                    known = "mean_of_means"
                at = f"in step {step}" if "step" in note else "at the end"
                return Miss(f"{_life(note['life'])}, the loss {at} was {note['loss']:.4f}{wanted}", known)
        return None

    @check("It does all steps.")
    def finishes(self, trial: ThisTrial) -> Miss | None:
        if not _notes(trial, "end"):
            return Miss(f"{_life(_LAST)}, train did not return on any rank")
        last = max(note["step"] for note in _notes(trial, "batch") if note["life"] == _LAST)
        return None if last == trial.case["steps"] - 1 else Miss(f"the last step was {last}")

    @check("All files lie at `path`, or have names that begin with it.")
    def tidy(self, trial: ThisTrial) -> Miss | None:
        """As far as they are written with torch.save; also those that are renamed in the end."""
        for note in _notes(trial, "save"):
            if note["stray"]:
                return Miss(
                    f"`path` ends with 'checkpoint', and the worker of rank {note['rank']} wrote {note['name']!r}"
                )
        return None

    @check("No two ranks write one file at the same time.")
    def one_writes(self, trial: ThisTrial) -> Miss | None:
        """Whether they get into each other's way is chance."""
        return Miss(_together(trial), "all_write") if _together(trial) else None

    @check("Every rank asks for the batch of a step once.")
    def asks_once(self, trial: ThisTrial) -> Miss | None:
        asked: set[tuple[int, int, int]] = set()
        for note in _notes(trial, "batch"):
            call = note["life"], note["rank"], note["step"]
            if call in asked:
                return Miss(f"{_life(call[0])}, rank {call[1]} called batch_of({call[2]}) more than once")
            asked.add(call)
        return None

    def _learns(self, trial: ThisTrial) -> bool:
        """Return whether the training is right as long as nothing is killed."""
        first = [note for note in _notes(trial, "batch") if note["life"] == 0]
        return all(_close(note["loss"], trial.oracle["right"][note["step"]]) for note in first)

    def _drift_apart(self, trial: ThisTrial) -> bool:
        """Return whether ranks that agreed before the first kill have different weights in a later life."""
        losses: dict[tuple[int, int], list[float]] = {}
        for note in _notes(trial, "batch"):
            losses.setdefault((note["life"], note["step"]), []).append(note["loss"])
        unequal_lives = {
            life for (life, _), seen in losses.items() if not all(_close(one, seen[0]) for one in seen)
        }
        return bool(unequal_lives) and 0 not in unequal_lives

    def _like(self, trial: ThisTrial, others: Sequence[Sequence[float]]) -> bool:
        """Return whether every loss is right or one of these, and not every one is right."""
        curves = [trial.oracle["right"], *others]
        notes = [note for note in _notes(trial, "batch") if note["step"] < len(curves[0])]
        differs = any(not _close(note["loss"], curves[0][note["step"]]) for note in notes)
        return differs and all(
            any(_close(note["loss"], one[note["step"]]) for one in curves) for note in notes
        )


def _notes(trial: ThisTrial, event: str) -> Sequence[Note]:
    return [note for note in trial.seen[0] if note["event"] == event]


def _first_steps(trial: ThisTrial, life: int) -> dict[int, int]:
    """Return the step with which each rank began this life."""
    first: dict[int, int] = {}
    for note in trial.seen[0]:
        if note["event"] in ("batch", "kill") and note["life"] == life and "step" in note:
            first.setdefault(note["rank"], note["step"])
    return first


def _together(trial: ThisTrial) -> str:
    """Name the ranks that saved to the same file in the same step; '' where none did."""
    writers: dict[tuple[int, int | None, str], set[int]] = {}
    for note in _notes(trial, "save"):
        ranks = writers.setdefault((note["life"], note.get("step"), note["name"]), set())
        ranks.add(note["rank"])
        if len(ranks) > 1:
            return f"{_life(note['life'])}, {rank_list(sorted(ranks))} wrote {note['name']!r}"
    return ""


def _last_life(log: Sequence[Note]) -> int:
    return max((note["life"] for note in log), default=0)


def _planned(case: Case) -> list[int]:
    """Return the steps in which an answer is killed that saves when it is asked to."""
    plan = {life: step for life, _, step in case["kills"]}
    return list((plan | {case["save_life"]: 2 * _EVERY - 1}).values())


def _due(step: int) -> int:
    """Count the steps in the last complete checkpoint when a kill comes in this one."""
    return step // _EVERY * _EVERY


def _strided(world: int) -> list[slice]:
    """Return the shares of so many ranks, as `batch[rank::world]`."""
    return [slice(rank, None, world) for rank in range(world)]


def _chunked(world: int) -> list[slice]:
    """Return the shares of so many ranks, as `batch.chunk(world)`."""
    size = -(-BATCH // world)
    return [slice(begin, begin + size) for begin in range(0, BATCH, size)]


def _life(number: int) -> str:
    return f"after {number} kill{'s' * (number != 1)}" if number else "before any kill"


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5)
