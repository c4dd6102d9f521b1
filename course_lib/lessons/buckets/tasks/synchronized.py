"""Shared parts of the tasks on hand-made DDP: observations compared with one process that trains alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from course_lib.lessons.buckets.tasks.training import Alone, Case, Flat, Seen, alone, close
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Task, Trial, gate
from course_lib.tasks.toys import ranks_text

ThisTrial = Trial[Case, Seen, Alone]
Gradients = Sequence[Flat]

_KINDS = {
    "plain": "a small model",
    "frozen": "a model with frozen parameters",
    "tied": "a model that uses one weight in two layers",
    "spare": "a model with a layer that is never used",
    "branches": "a model whose layers are used on some ranks only",
    "buffers": "a model with buffers",
    "many": "twelve layers of 1 KiB each",
}


class Synchronized(Task[Case, Seen, Alone]):
    """Base of tasks whose answer wraps a model; observations are those of `training.train`."""

    tolerance = Tolerance(1e-6, 1e-4)

    def oracle(self, case: Case, world_size: int) -> Alone:
        return alone(case, world_size)

    def describe(self, case: Case) -> str:
        return _KINDS[case["kind"]] + (", rank 1 being late" if case["late"] else "")

    is_a_module = gate(
        "The wrapper is a module with finish_gradient_synchronization().",
        "on rank {rank} of {ranks}, the wrapper is {given}",
    )

    def start_differs(self, trial: ThisTrial) -> Miss | None:
        """Find a rank that does not have rank 0's parameters after construction."""
        for rank, name in self._unequal_starts(trial, "parameters"):
            frozen = trial.case["kind"] == "frozen" and trial.oracle["steps"][0]["means"][name] is None
            named = trial.oracle["names"][name]
            known = "frozen_not_broadcast" if frozen else "not_broadcast"
            return Miss(
                f"with {self.describe(trial.case)} on {ranks_text(trial.world_size)}, {named} of rank {rank} is not "
                "what it was on rank 0",
                known if rank else None,  # else rank 0's own have been changed
            )
        return None

    def _unequal_starts(
        self, trial: ThisTrial, what: Literal["parameters", "buffers"]
    ) -> list[tuple[int, int]]:
        right = trial.oracle["start"][what]
        return [
            (rank, number)
            for rank, seen in sorted(trial.seen.items())
            for number, (mine, wanted) in enumerate(zip(seen["start"][what], right, strict=True))
            if not close(mine, wanted)
        ]

    def gradients_differ(self, trial: ThisTrial, known: Callable[[Trial, int], str | None]) -> Miss | None:
        """Find a step after which a rank's gradient is not the mean; `known` names the misconception of a step."""
        for step, wanted in enumerate(trial.oracle["steps"]):
            for rank, seen in sorted(trial.seen.items()):
                mine = seen["steps"][step]["gradients"]
                for number, (found, right) in enumerate(zip(mine, wanted["means"], strict=True)):
                    if not close(found, right):
                        name = trial.oracle["names"][number]
                        # With other weights gradients are others, too: what is wrong was said before.
                        named = None if self._spoilt(trial) else known(trial, step)
                        mine_there, mean_there = _apart(found, right)
                        return Miss(
                            f"with {self.describe(trial.case)} on {ranks_text(trial.world_size)}, step {step + 1}: "
                            f"the gradient of {name} is {mine_there} on rank {rank}, the mean {mean_there}",
                            named,
                        )
        return None

    def _spoilt(self, trial: ThisTrial) -> bool:
        return bool(self._unequal_starts(trial, "parameters") or self._unequal_starts(trial, "buffers"))

    def end_differs(self, trial: ThisTrial) -> Miss | None:
        """Find a rank whose final weights are not those of one process."""
        for rank, seen in sorted(trial.seen.items()):
            for name, mine, right in zip(
                trial.oracle["names"],
                seen["end"]["parameters"],
                trial.oracle["end"]["parameters"],
                strict=True,
            ):
                if not close(mine, right):
                    found, wanted = _apart(mine, right)
                    return Miss(
                        f"with {self.describe(trial.case)} on {ranks_text(trial.world_size)}, {name} of rank {rank} "
                        f"is {found} after {len(seen['steps'])} steps; one process alone has {wanted}"
                    )
        return None

    def fits(
        self, trial: ThisTrial, model: Callable[[int], Gradients], step: int = 0, only: int | None = None
    ) -> bool:
        """Return whether these gradients were seen; `model` gives those of a rank."""
        return all(
            close(mine, predicted)
            for rank, seen in trial.seen.items()
            if only in (None, rank)
            for mine, predicted in zip(seen["steps"][step]["gradients"], model(rank), strict=True)
        )

    def scaled(self, trial: ThisTrial, factor: float, step: int = 0) -> Gradients:
        """Return the mean gradients, multiplied by a factor."""
        means = trial.oracle["steps"][step]["means"]
        return [one and [factor * x for x in one] for one in means]


def _first(gradient: Flat) -> str:
    if gradient is None:
        return "None"
    return f"[{gradient[0]:.4f}, …]" if len(gradient) > 1 else f"[{gradient[0]:.4f}]"


def _apart(found: Flat, right: Flat) -> tuple[str, str]:
    """Return the number in which two gradients or weights differ most, in a few characters each."""
    if found is None or right is None or len(found) != len(right):
        return _first(found), _first(right)
    place = max(range(len(right)), key=lambda number: _gap(found[number], right[number]))
    texts = [f"{values[place]:.4g}" for values in (found, right)]
    if texts[0] == texts[1]:
        texts = [f"{values[place]:.8g}" for values in (found, right)]
    return f"{texts[0]} (element {place})", texts[1]


def _gap(one: float, other: float) -> float:
    gap = abs(one - other)
    return gap if gap == gap else float("inf")
