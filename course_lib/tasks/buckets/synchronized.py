"""What the tasks on hand-made DDP have in common: their observations compared with one process that trains alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.tasks.buckets.training import alone, close
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Task, Trial
from course_lib.tasks.toys import is_odd, ranks_text

Gradients = Sequence[Any]

_KINDS = {
    "plain": "a small model",
    "frozen": "a model with frozen parameters",
    "tied": "a model that uses one weight in two layers",
    "spare": "a model with a layer that is never used",
    "branches": "a model whose layers are used on some ranks only",
    "buffers": "a model with buffers",
    "many": "twelve layers of 1 KiB each",
}


class Synchronized(Task):
    """Base of tasks whose answer wraps a model; observations are those of `training.train`."""

    tolerance = Tolerance(1e-6, 1e-4)

    def oracle(self, case: Mapping[str, Any], world_size: int) -> Any:
        """The same training in one process."""
        return alone(case, world_size)

    def describe(self, case: Mapping[str, Any]) -> str:
        """Which model it was."""
        return _KINDS[case["kind"]] + (", rank 1 being late" if case["late"] else "")

    def odd(self, trial: Trial) -> Miss | None:
        """It is no such module."""
        for rank, seen in trial.seen.items():
            if is_odd(seen):
                return Miss(f"on rank {rank} of {trial.world_size}, the wrapper is {seen['odd']}")
        return None

    def start_differs(self, trial: Trial) -> Miss | None:
        """After construction a rank does not have rank 0's parameters."""
        for rank, name in self._unequal_starts(trial, "parameters"):
            frozen = trial.case["kind"] == "frozen" and trial.oracle["steps"][0]["means"][name] is None
            named = trial.oracle["names"][name]
            return Miss(
                f"with {self.describe(trial.case)} on {ranks_text(trial.world_size)}, {named} of rank {rank} is not "
                "that of rank 0",
                "frozen_not_broadcast" if frozen else "not_broadcast",
            )
        return None

    def _unequal_starts(self, trial: Trial, what: str) -> list[tuple[int, int]]:
        right = trial.oracle["start"][what]
        return [
            (rank, number)
            for rank, seen in sorted(trial.seen.items())
            for number, (mine, wanted) in enumerate(zip(seen["start"][what], right, strict=True))
            if not close(mine, wanted)
        ]

    def gradients_differ(self, trial: Trial, known: Callable[[Trial, int], str | None]) -> Miss | None:
        """After some step a rank's gradient is not the mean; `known` names the misconception, given the step."""
        for step, wanted in enumerate(trial.oracle["steps"]):
            for rank, seen in sorted(trial.seen.items()):
                mine = seen["steps"][step]["gradients"]
                for number, (found, right) in enumerate(zip(mine, wanted["means"], strict=True)):
                    if not close(found, right):
                        name = trial.oracle["names"][number]
                        # With other weights gradients are others, too: what is wrong was said before.
                        named = None if self._spoilt(trial) else known(trial, step)
                        return Miss(
                            f"with {self.describe(trial.case)} on {ranks_text(trial.world_size)}, step {step + 1}: "
                            f"the gradient of {name} is {_first(found)} on rank {rank}, the mean {_first(right)}",
                            named,
                        )
        return None

    def _spoilt(self, trial: Trial) -> bool:
        return bool(self._unequal_starts(trial, "parameters") or self._unequal_starts(trial, "buffers"))

    def end_differs(self, trial: Trial) -> Miss | None:
        """At the end a rank's weights are not those of one process."""
        for rank, seen in sorted(trial.seen.items()):
            for name, mine, right in zip(
                trial.oracle["names"],
                seen["end"]["parameters"],
                trial.oracle["end"]["parameters"],
                strict=True,
            ):
                if not close(mine, right):
                    return Miss(
                        f"with {self.describe(trial.case)} on {ranks_text(trial.world_size)}, {name} of rank {rank} "
                        f"is {_first(mine)} after {len(seen['steps'])} steps; one process alone has {_first(right)}"
                    )
        return None

    def fits(
        self, trial: Trial, model: Callable[[int], Gradients], step: int = 0, only: int | None = None
    ) -> bool:
        """Whether these are the gradients that were seen: `model` gives those of a rank."""
        return all(
            close(mine, predicted)
            for rank, seen in trial.seen.items()
            if only in (None, rank)
            for mine, predicted in zip(seen["steps"][step]["gradients"], model(rank), strict=True)
        )

    def scaled(self, trial: Trial, factor: float, step: int = 0) -> Gradients:
        """The means, multiplied."""
        means = trial.oracle["steps"][step]["means"]
        return [one and [factor * x for x in one] for one in means]


def _first(gradient: Any) -> str:
    if gradient is None:
        return "None"
    return f"[{gradient[0]:.4f}, …]" if len(gradient) > 1 else f"[{gradient[0]:.4f}]"
