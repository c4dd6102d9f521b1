"""Task 2: the list of buckets, predicted before DDP makes it. The oracle is DDP itself, in a group of one rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Task, Trial, check, gate

if TYPE_CHECKING:
    from torch import Tensor

_MIB = 1 << 20


class Case(TypedDict):
    """The arguments of the answer."""

    sizes: list[int]
    ready: list[int]
    bucket_cap_mb: float | None
    find_unused_parameters: bool
    iteration: int


#: The parameters of each bucket, by number.
Buckets = list[list[int]]


ThisTrial = Trial[Case, Buckets, Buckets]


class BucketList(Task[Case, Buckets, Buckets]):
    """The list of buckets, predicted before DDP makes it."""

    name = "buckets.bucket_list"
    world_sizes = (2,)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield small parameters under a small cap and large ones under the default, with and without unused ones."""
        for find_unused in (False, True):
            for cap in (chance.choice((0.5, 0.75)), 1.5, None):
                # The default cap of 25 MiB is reached by two large ones; a few bytes more or less tell limits apart.
                small = [chance.randint(20_000, 90_000) for _ in range(6)]
                large = [chance.randint(3_300_000, 3_600_000) for _ in range(3)] if cap is None else []
                sizes = [4 * size for size in small + large]
                chance.shuffle(sizes)
                ready = list(range(len(sizes)))[::-1]
                while ready == list(range(len(sizes)))[::-1]:
                    swap = chance.randrange(len(sizes) - 3)
                    ready[swap], ready[swap + 3] = ready[swap + 3], ready[swap]
                if cap is not None:
                    # The first two fill a bucket exactly, or more than a first one of a MiB; two more fill it nearly.
                    first, second, third, fourth = range(4) if find_unused else ready[:4]
                    sizes[second] = int(min(cap, 1.2) * _MIB) // 4 * 4 - sizes[first]
                    sizes[fourth] = int(0.97 * cap * _MIB) // 4 * 4 - sizes[third]
                # Each takes a run of DDP: with find_unused_parameters all iterations are alike.
                later = 1 if cap is None else chance.randint(2, 9)
                for iteration in (later if cap is None else 0,) if find_unused else (0, later):
                    yield {
                        "sizes": sizes,
                        "ready": ready,
                        "bucket_cap_mb": cap,
                        "find_unused_parameters": find_unused,
                        "iteration": iteration,
                    }

    def describe(self, case: Case) -> str:
        sizes = toys.short([f"{size / _MIB:.2f}" for size in case["sizes"]], most=12)
        return (
            f"sizes of {sizes} MiB, ready={case['ready']}, bucket_cap_mb={case['bucket_cap_mb']}, "
            f"find_unused_parameters={case['find_unused_parameters']}, iteration={case['iteration']}"
        )

    def trial(
        self, answer: Callable[[list[int], list[int], float | None, bool, int], object], case: Case
    ) -> Buckets:
        found = answer(
            list(case["sizes"]),
            list(case["ready"]),
            case["bucket_cap_mb"],
            case["find_unused_parameters"],
            case["iteration"],
        )
        return [toys.whole_numbers(bucket) for bucket in toys.items(found)]

    def oracle(self, case: Case, world_size: int) -> Buckets:
        return _sent_by_ddp(case)

    gives_lists = gate(
        "Every rank gets a list of lists of parameter numbers.", "rank {rank} of {ranks} got {given}"
    )

    @check("The buckets are those of DDP, in the order in which it sends them.")
    def same_as_ddp(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if seen != trial.oracle:
                return Miss(
                    f"with {self.describe(trial.case)}: rank {rank} got {seen}; DDP has {trial.oracle}"
                )
        return None


def _sent_by_ddp(case: Case) -> Buckets:
    """Train a model whose gradients become ready in this order, on this rank alone, and look what is sent."""
    import torch
    import torch.distributed as dist
    from torch.futures import Future
    from torch.nn.parallel import DistributedDataParallel

    class Chain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.ParameterList(torch.zeros(size // 4) for size in case["sizes"])

        def forward(self, x: Tensor) -> Tensor:
            for number in reversed(case["ready"]):  # what is used last becomes ready first
                x = (x + self.weights[number].sum()) * 1.0
            return x

    def note(bucket: dist.GradBucket) -> Future[Tensor]:
        sent[-1].append([number[id(parameter)] for parameter in bucket.parameters()])
        done: Future[Tensor] = Future()
        done.set_result(bucket.buffer())
        return done

    group = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    model = Chain()
    number = {id(parameter): place for place, parameter in enumerate(model.weights)}
    ddp = DistributedDataParallel(
        model,
        bucket_cap_mb=case["bucket_cap_mb"],
        find_unused_parameters=case["find_unused_parameters"],
        process_group=group,
    )
    ddp.register_comm_hook(
        None, lambda state, bucket: note(bucket)
    )  # DDP refuses other annotations than its own
    sent: list[Buckets] = []
    for _ in range(min(case["iteration"], 1) + 1):  # nothing changes after the second
        sent.append([])
        ddp(torch.zeros(())).backward()
    return sent[-1]
