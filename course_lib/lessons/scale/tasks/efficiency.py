"""Task 2: the efficiency of a job that does not exist yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from course_lib.lessons.scale.tasks.model import Bucket, Case, efficiency, ring_seconds
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import gate

_SAID = "with {case}, rank {rank} returned {seen:.4f}; it is {right:.4f}"


class Efficiency(Compared[Case, float, float]):
    """The efficiency of a job that does not exist yet."""

    name = "scale.efficiency"
    world_sizes = (1,)
    tolerance = Tolerance(0.0, 1e-4)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield communication that queues, that is hidden in part or wholly, and that one rank does without."""
        for kind in ("queue", "partly", "rounds", "hidden", "early", "alone"):
            backward = chance.uniform(0.08, 0.3)
            count = chance.randint(4, 6)
            sizes = [chance.randint(8, 30) * 10**6 for _ in range(count)]
            ready = [backward * (k + chance.uniform(0.3, 0.9)) / count for k in range(count - 1)] + [backward]
            if kind == "early":  # the first layers are frozen: backward goes on when all buckets are through
                ready = [0.6 * at for at in ready]
            ranks = 1 if kind == "alone" else chance.choice((8, 64, 256))
            load = {"queue": 2.0, "partly": 0.9, "hidden": 0.05, "early": 0.05}.get(kind, 0.5)
            bandwidth = 2 * sum(sizes) / (load * backward)
            # In `rounds` latency is most of the time, else next to nothing.
            share = 1.5 if kind == "rounds" else 0.05
            latency = share * backward / (2 * max(1, ranks - 1) * count)
            yield {
                "forward": round(chance.uniform(0.3, 0.6) * backward, 6),
                "backward": backward,
                "buckets": [Bucket(ready=at, bytes=size) for at, size in zip(ready, sizes, strict=True)],
                "ranks": ranks,
                "latency": latency,
                "bandwidth": bandwidth,
            }

    def describe(self, case: Case) -> str:
        took = sum(
            ring_seconds(bucket["bytes"], case["ranks"], case["latency"], case["bandwidth"])
            for bucket in case["buckets"]
        )
        return (
            f"{len(case['buckets'])} buckets that take {1e3 * took:.0f} ms in all on {toys.ranks_text(case['ranks'])}, "
            f"and a backward of {1e3 * case['backward']:.0f} ms"
        )

    def trial(
        self, answer: Callable[[float, float, list[tuple[float, int]], int, float, float], object], case: Case
    ) -> float:
        buckets = [(bucket["ready"], bucket["bytes"]) for bucket in case["buckets"]]
        rest = (case["ranks"], case["latency"], case["bandwidth"])
        return toys.number(answer(case["forward"], case["backward"], buckets, *rest))

    def oracle(self, case: Case, world_size: int) -> dict[str, list[float]]:
        return {"right": [efficiency(case)]}

    gives_number = gate("A number.", "with {case}, rank {rank} returned {given}")

    alone = compared(
        "One rank alone has an efficiency of 1: it sends nothing.",
        _SAID,
        when=lambda case: case["ranks"] == 1,
    )
    right = compared(
        "It is the time of a step on one rank, divided by that of a step in which buckets queue for the wire.",
        _SAID,
        when=lambda case: case["ranks"] > 1,
    )
