"""Task 2: the list of buckets, predicted before DDP makes it. The oracle is DDP itself, in a group of one rank."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import (
    Miss,
    Model,
    Recognised,
    Task,
    Trial,
    check,
    gate,
    models,
    recognise_by_models,
)

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


class Oracle(TypedDict):
    """DDP's buckets, and those of each misconception."""

    right: Buckets
    models: dict[str, Buckets]


ThisTrial = Trial[Case, Buckets, Oracle]


class BucketList(Task[Case, Buckets, Oracle]):
    """The list of buckets, predicted before DDP makes it."""

    name = "buckets.bucket_list"
    world_sizes = (2,)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield small parameters under a small cap and large ones under the default, with and without unused ones."""
        for find_unused in (False, True):
            for cap in (chance.choice((0.5, 0.75)), None):
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
                    # The first two fill a bucket exactly; for two more it is a little too large.
                    first, second, third, fourth = range(4) if find_unused else ready[:4]
                    sizes[second] = int(cap * _MIB) - sizes[first]
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

    def oracle(self, case: Case, world_size: int) -> Oracle:
        answer_with = _answerer(case)
        return {
            "right": _sent_by_ddp(case),
            "models": {name: answer_with({name}) for name in self._mistakes()},
        }

    gives_lists = gate(
        "Every rank gets a list of lists of parameter numbers.", "rank {rank} of {ranks} got {given}"
    )

    @check("The buckets are those of DDP, in the order in which it sends them.")
    def same_as_ddp(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if seen != trial.oracle["right"]:
                return Miss(
                    f"with {self.describe(trial.case)}: rank {rank} got {seen}; DDP has {trial.oracle['right']}"
                )
        return None

    def _mistakes(self) -> list[str]:
        return [item.id for item in self.misconceptions]

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        known: list[Model[ThisTrial, Buckets]] = models(
            self._mistakes(),
            lambda trial, name: trial.on_all_ranks(trial.oracle["models"][name]),
        )
        return recognise_by_models(
            trials,
            lambda trial: trial.on_all_ranks(trial.oracle["right"]),
            known,
            operator.eq,
            together=self._together(trials),
        )

    def _together(self, trials: Sequence[ThisTrial]) -> list[Model[ThisTrial, Buckets]]:
        """Return models of two or three misconceptions at once: the fewest first, then the gravest."""
        found = {id(trial): _several(trial.case, self._mistakes()) for trial in trials}
        named = {" + ".join(ids): ids for ids in found[id(trials[0])]}
        return models(named, lambda trial, name: trial.on_all_ranks(found[id(trial)][named[name]]))


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


def _several(case: Case, mistakes: Sequence[str]) -> dict[tuple[str, ...], Buckets]:
    answer_with = _answerer(case)
    return {names: answer_with(set(names)) for count in (2, 3) for names in combinations(mistakes, count)}


def _answerer(case: Case) -> Callable[[set[str]], Buckets]:
    """Return a function that gives a right answer except for the mistakes passed to it."""
    sizes, ready, cap, find_unused = (
        case["sizes"],
        case["ready"],
        case["bucket_cap_mb"],
        case["find_unused_parameters"],
    )
    everything = list(range(len(sizes)))

    def answer_with(mistakes: set[str]) -> Buckets:
        mega = 10**6 if "decimal" in mistakes else _MIB
        limits = [mega, 25 * mega] if cap is None else [int(cap * mega)]
        if "first_bucket_like_the_others" in mistakes:
            limits = limits[-1:]
        if "first_bucket_always_small" in mistakes:
            limits = [mega, *limits[-1:]]
        over = "cap_never_exceeded" not in mistakes
        exactly = "closed_when_exceeded" not in mistakes
        order = everything[::-1] if "reverse_order" in mistakes else ready
        if find_unused and "unused_rebuilt" not in mistakes:
            # Who deals out from the last parameter on, there or everywhere, has nothing left to reverse.
            if mistakes & {"reverse_order", "unused_dealt_from_the_end"}:
                return _fill(sizes, everything[::-1], limits, over, exactly)
            found = _fill(sizes, everything, limits, over, exactly)
            return found if "unused_not_reversed" in mistakes else found[::-1]
        if case["iteration"] == 0 or "never_rebuilt" in mistakes:
            if "buckets_from_the_start" in mistakes:
                return _fill(sizes, order, limits, over, exactly)
            return [everything] if not find_unused else _fill(sizes, everything, limits, over, exactly)[::-1]
        return _fill(sizes, order, limits, over, exactly)

    return answer_with


def _fill(
    sizes: Sequence[int], order: Sequence[int], limits: Sequence[int], over: bool, exactly: bool
) -> Buckets:
    """Put parameters into buckets; `over`: close a bucket once it has reached its limit, else before it exceeds it.

    With `exactly`, a bucket that holds just as much as its limit has reached it.
    """
    found: Buckets = [[]]
    for number in order:
        limit = limits[min(len(found), len(limits)) - 1]
        filled = sum(sizes[one] for one in found[-1])
        if found[-1] and (
            filled + sizes[number] > limit if not over else filled >= limit if exactly else filled > limit
        ):
            found.append([])
        found[-1].append(number)
    return found
