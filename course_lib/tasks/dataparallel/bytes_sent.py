"""Task 2: how many bytes each device sends in a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random

from course_lib.tasks import toys
from course_lib.tasks.dataparallel.traffic import Case, predictions
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate, recognise_by_name
from course_lib.tasks.toys import short

#: For `right` and for each misconception, the bytes of each device.
Oracle = dict[str, list[float]]
ThisTrial = Trial[Case, list[float], Oracle]


class BytesSent(Task[Case, list[float], Oracle]):
    """How many bytes each device sends in a step."""

    name = "dataparallel.bytes_sent"
    world_sizes = (1,)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Both schemes: batches that divide, that do not, and too few samples for all devices."""
        for scheme in ("dp", "ddp"):
            for samples, devices in (
                (4 * chance.randint(5, 30), 4),
                (8 * chance.randint(5, 30) + 3, 8),
                (chance.choice((9, 10)), 8),
                (chance.randint(40, 90), 2),
                (chance.randint(5, 9), 1),
            ):
                yield {
                    "scheme": scheme,
                    "devices": devices,
                    "samples": samples,
                    "weights": 4 * devices * chance.randint(500, 5000),
                    "sample_in": 4 * chance.randint(10, 60),
                    "sample_out": 4 * chance.randint(2, 90),
                }

    def trial(self, answer: Callable[[str, int, int, int, int, int], object], case: Case) -> list[float]:
        """The list of bytes."""
        sizes = (case["weights"], case["sample_in"], case["sample_out"])
        found = toys.numbers(answer(case["scheme"], case["devices"], case["samples"], *sizes))
        if len(found) != case["devices"]:
            raise WrongKind(f"{len(found)} numbers")
        return found

    def oracle(self, case: Case, world_size: int) -> Oracle:
        """Counted while the copies are made; and what each misconception gives."""
        return predictions(case)

    gives_numbers = gate("A list with a number for each device.", "with {case}, the answer returned {given}")

    @check("DataParallel: each device sends as many bytes as are copied from it in a step.")
    def data_parallel(self, trial: ThisTrial) -> Miss | None:
        return self._miss(trial) if trial.case["scheme"] == "dp" else None

    @check("DDP: each rank sends as many bytes as a ring all-reduce of the gradients does.")
    def ddp(self, trial: ThisTrial) -> Miss | None:
        return self._miss(trial) if trial.case["scheme"] == "ddp" else None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Which misconception gives exactly these numbers?"""
        names = sorted({name for trial in trials for name in trial.oracle})
        both = [name for name in names if " + " in name]
        return recognise_by_name(
            trials,
            [*self.gravest_first(names), *both],
            # What is about the other scheme gives what is right.
            lambda trial, name: [trial.oracle.get(name, trial.oracle["right"])],
            _equal,
        )

    def _miss(self, trial: ThisTrial) -> Miss | None:
        seen, right = trial.seen[0], trial.oracle["right"]
        if _equal(seen, right):
            return None
        device = next(d for d in range(len(right)) if not _equal([seen[d]], [right[d]]))
        return Miss(
            f"with {self.describe(trial.case)}, device {device} is said to send {seen[device]:.0f} bytes; counted were "
            f"{right[device]:.0f} (in all {short([round(count) for count in right])})"
        )


def _equal(some: Sequence[float], others: Sequence[float]) -> bool:
    return len(some) == len(others) and all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=0.5) for a, b in zip(some, others, strict=True)
    )
