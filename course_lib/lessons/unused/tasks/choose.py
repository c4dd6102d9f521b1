"""Task 2: which way to train is right, given what the ranks will use of a model in each step.

Ranks that train so, after the answer has returned, say whether it was.
"""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TypedDict

from course_lib.lessons.unused.tasks.schedules import MISTAKES, ORDER, Schedule, best, is_plain, trained
from course_lib.tasks import toys
from course_lib.tasks.task import (
    Miss,
    Model,
    Recognised,
    Task,
    Trial,
    check,
    gate,
    recognise_by_models,
    said_of,
)
from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Outcome

_ENDS = {"hangs": "waits for ever", "raises": "raises an error", "wrong": "has wrong weights, and no error"}
_DECAY = 0.1
#: In place of a mistake.
_RIGHT = ""


class Case(TypedDict):
    """The heads that the ranks will use, and the weight decay of the optimizer."""

    seed: int
    steps: Schedule
    weight_decay: float


class Seen(TypedDict):
    """The way that was returned; and how each step ended in this way and in those before it."""

    given: str
    ends: dict[str, list[str]]


ThisTrial = Trial[Case, Seen, None]


class Choose(Task[Case, Seen, None]):
    """Choose the way to train that is right for what the ranks will do."""

    name = "unused.choose"
    world_sizes = (2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield schedules that separate each mistake from the right way and from each other mistake."""
        wanted: list[Callable[[Case], bool]] = [_is_fixed, *(partial(_is_best, way) for way in ORDER)]
        wanted += [
            partial(_separates, one, other)
            for one, other in itertools.combinations((_RIGHT, *MISTAKES), 2)
            if one.partition("/")[0] != other.partition("/")[0]
        ]
        while wanted:
            case = _draw_case(world_size, chance)
            if wanted[0](case) and (_best(case) == ORDER[0] or is_plain(case["steps"])):
                wanted = [fits for fits in wanted if not fits(case)]
                yield case

    def describe(self, case: Case) -> str:
        shown: dict[str, list[int]] = {}
        for rank, steps in enumerate(case["steps"]):
            shown.setdefault(", ".join("+".join(step) for step in steps), []).append(rank)
        used = "; ".join(f"{text} on {rank_list(ranks)}" for text, ranks in shown.items())
        return f"{used} (weight decay {case['weight_decay']:g})"

    def trial(self, answer: Callable[[Schedule, float], object], case: Case) -> Seen:
        """Call the answer, then train in the way that it chose and in those before it."""
        import torch.distributed as dist

        given = answer(copy.deepcopy(case["steps"]), case["weight_decay"])
        is_way = isinstance(given, str) and given in ORDER
        everyones: list[int] = [0] * dist.get_world_size()
        dist.all_gather_object(everyones, ORDER.index(str(given)) if is_way else -1)
        ways = ORDER[: max(everyones) + 1]
        ends = {way: trained(way, case["steps"], case["weight_decay"], case["seed"]) for way in ways}
        if not is_way:
            raise toys.wrong_kind(given)
        return {"given": str(given), "ends": ends}

    gives_way = gate("Every rank returns one of the four ways.", "with {case}, rank {rank} returned {given}")

    @check("Real ranks that train in that way have the weights of one process after each step.")
    def is_right(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            trouble = _trouble(trial, seen["given"])
            if trouble:
                return Miss(
                    said_of(self, trial, rank, "with {case}, rank {rank} returned {given!r}", **seen)
                    + f": {trouble}"
                )
        return None

    @check("It is the first one of which this is true.")
    def is_first(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            for way in ORDER[: ORDER.index(seen["given"])]:
                if not _trouble(trial, way):
                    said = "with {case}, rank {rank} returned {given!r}, and {way!r} is right, too"
                    return Miss(said_of(self, trial, rank, said, way=way, **seen))
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Find the mistake, or the pair of mistakes, that gives these ways."""

        def model(*wrong: str) -> Model[Trial[Case, str, None], str]:
            ids = tuple(dict.fromkeys(name.partition("/")[0] for name in wrong))
            return Model(ids, lambda trial: trial.on_all_ranks(_best(trial.case, *wrong)))

        known = recognise_by_models(
            [trial.with_seen({rank: seen["given"] for rank, seen in trial.seen.items()}) for trial in trials],
            lambda trial: trial.on_all_ranks(_best(trial.case)),
            [],
            operator.eq,
            together=[*map(model, MISTAKES), *itertools.starmap(model, itertools.combinations(MISTAKES, 2))],
        )
        ends = [_trouble(trial, seen["given"]) for trial in trials for seen in trial.seen.values()]
        return known or ("not_the_first" if ends and not any(ends) else None)

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        # A few ways say little, and an answer that raises has another fault first.
        return None


def _is_fixed(case: Case) -> bool:
    """Return whether all ranks use one head in all steps, never the other: `static_graph` whatever the mistake."""
    steps = case["steps"]
    return (
        case["weight_decay"] > 0
        and steps[0][0] in (["left"], ["right"])
        and all(step == steps[0][0] for rank in steps for step in rank)
    )


def _is_best(way: str, case: Case) -> bool:
    return _best(case) == way


def _separates(one: str, other: str, case: Case) -> bool:
    return _best(case, one) != _best(case, other)


def _best(case: Case, *wrong: str) -> str:
    return best(case["steps"], case["weight_decay"], wrong)


def _draw_case(world_size: int, chance: Random) -> Case:
    """Draw the heads of micro-batches: all of a rank's, the last ones of its steps, or none are alike, or nearly."""
    lengths = [chance.choice((1, 1, 2)) for _ in range(chance.randint(2, 3))]
    if chance.random() < 0.4:
        lengths = [1] * len(lengths)
    heads, alike = ("left", "right", "both"), chance.choice(("all", "last", "none"))
    schedule = [[chance.choices(heads, k=length) for length in lengths] for _ in range(world_size)]
    everyones = chance.choice((None, *heads))
    for steps in schedule:
        mine = everyones or chance.choice(heads)
        for step in steps:
            if alike == "all":
                step[:] = [mine] * len(step)
            elif alike == "last":
                step[-1] = mine
    if chance.random() < 0.3:
        chance.choice(schedule)[-1][-1] = chance.choice(heads)
    return {"seed": chance.randint(1, 10**6), "steps": schedule, "weight_decay": chance.choice((0.0, _DECAY))}


def _trouble(trial: ThisTrial, way: str) -> str:
    """Return the first step that did not end right, and how; '' where all did."""
    for number, ends in enumerate(
        itertools.zip_longest(*(seen["ends"][way] for seen in trial.seen.values()))
    ):
        for end, said in _ENDS.items():
            if end in ends:
                return f"in step {number}, rank {ends.index(end)} {said}"
    return ""
