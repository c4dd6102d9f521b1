"""Task 2: how many bytes each device sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from course_lib.lessons.dataparallel.tasks.traffic import Case, counted
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, fits
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Trial, WrongKind, check, gate
from course_lib.tasks.toys import short

#: The bytes of each device, by the case's scheme: mistakes about one have nothing to do with the other.
Sent = dict[str, list[float]]
ThisTrial = Trial[Case, Sent, dict[str, list[Sent]]]


class BytesSent(Compared[Case, Sent, Sent]):
    """Compute the bytes that each device sends in a step."""

    name = "dataparallel.bytes_sent"
    world_sizes = (1,)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield both schemes with batches that divide, that do not, and that leave devices without samples."""
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

    def trial(self, answer: Callable[[str, int, int, int, int, int], object], case: Case) -> Sent:
        sizes = (case["weights"], case["sample_in"], case["sample_out"])
        found = toys.numbers(answer(case["scheme"], case["devices"], case["samples"], *sizes))
        if len(found) != case["devices"]:
            raise WrongKind(f"{len(found)} numbers")
        return {case["scheme"]: found}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Sent]]:
        """Count the bytes while copies are really made."""
        return {"right": [{case["scheme"]: counted(case)}]}

    gives_numbers = gate("A list with a number for each device.", "with {case}, the answer returned {given}")

    @check("DataParallel: each device sends as many bytes as are copied from it in a step.")
    def data_parallel(self, trial: ThisTrial) -> Miss | None:
        return self._miss(trial) if trial.case["scheme"] == "dp" else None

    @check("DDP: each rank sends as many bytes as a ring all-reduce of the gradients does.")
    def ddp(self, trial: ThisTrial) -> Miss | None:
        return self._miss(trial) if trial.case["scheme"] == "ddp" else None

    def alike(self, seen: object, predicted: object) -> bool:
        """Compare up to half a byte; the oracle counts real tensors, which float64 would make larger."""
        return fits(seen, predicted, Tolerance(0.5, 1e-6))

    def _miss(self, trial: ThisTrial) -> Miss | None:
        seen, right = (one[trial.case["scheme"]] for one in (trial.seen[0], trial.oracle["right"][0]))
        wrong = [device for device in range(len(right)) if not self.alike(seen[device], right[device])]
        if not wrong:
            return None
        device = wrong[0]
        return Miss(
            f"with {self.describe(trial.case)}, device {device} is said to send {seen[device]:.0f} bytes; counted were "
            f"{right[device]:.0f} (in all {short([round(count) for count in right])})"
        )
