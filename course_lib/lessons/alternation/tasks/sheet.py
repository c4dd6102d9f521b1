"""Task 1: what two ranks that make some calls have in `.grad`, or that one of them waits for ever.

Answers are compared with what the ranks have that make these calls themselves, after the answer has returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TypedDict

from course_lib.lab.reducer import make_calls
from course_lib.lessons.alternation.tasks.orders import Ending, Rules, ending, possible
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.marks import send_marks
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Recognised, Trial, WrongKind, gate, models, recognise_by_models

#: What both ranks have in `.grad`, or "hang".
Found = list[float] | str
_HANG = "hang"
#: By misconception; a slash and a variant may follow.
_RULES = {
    "purse": Rules(purse=True),
    "all_forwards_arm/no_grad": Rules(arm="FG"),
    "all_forwards_arm/module": Rules(arm="FM"),
    "all_forwards_arm/no_sync": Rules(arm="FN"),
    "all_forwards_arm/no_grad and module": Rules(arm="FGM"),
    "all_forwards_arm": Rules(arm="FNGM"),
    "only_new": Rules(only_new=True),
    "summed": Rules(summed=True),
}
#: In place of two numbers: any two.
_NUMBERS = "numbers"
#: What some order must have, besides. A call that does not arm does not disarm either; a backward of all losses disarms
#: as any other; an armed backward averages, whichever forward's loss it takes.
_ORDERS = ("FN[BS]", "FG[BS]", "FM[BS]", "FS[NM][BS]", "^[NM]FB")


class Case(TypedDict):
    """The calls of rank 0 and those of rank 1."""

    orders: list[str]


class Given(TypedDict):
    """The answer's return value."""

    given: Found


class Seen(Given):
    """The answer's return value, and what the ranks had that made the calls."""

    real: Found


class TallySheet(Compared[Case, Seen, Given]):
    """Fill in `.grad` of two ranks that make some calls."""

    name = "alternation.sheet"
    world_sizes = (2,)
    tolerance = Tolerance(1e-4, 1e-5)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield orders that expose each misconception, easily overlooked ones, and unequal ones that hang."""
        for rules in _RULES.values():
            for equal in (True, False):
                yield {"orders": _draw_orders(chance, equal, partial(_exposes, rules=rules))}
        for pattern in _ORDERS:
            yield {"orders": _draw_orders(chance, True, partial(_matches, pattern=pattern))}
        for rank in (0, 1):
            yield {"orders": _draw_orders(chance, False, partial(_leaves_waiting, rank=rank))}

    def describe(self, case: Case) -> str:
        return " and ".join(case["orders"])

    def trial(self, answer: Callable[[str, str], object], case: Case) -> Seen:
        """Call the answer, then let the ranks make the calls of the case."""
        result = answer(*case["orders"])
        real = _real(case["orders"])
        return {"given": _read(result), "real": real}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Given]]:
        orders = case["orders"]
        ways = {name: _said(ending(orders, rules)) for name, rules in {"right": Rules(), **_RULES}.items()}
        for name, found in tuple(ways.items()):
            one, _, variant = name.partition("/")
            both = f"{one} + hang_not_seen/{variant}" if one != "right" else "hang_not_seen"
            ways[both] = _NUMBERS if found == _HANG else found
        ways["unequal_hangs"] = ways["right"] if orders[0] == orders[1] else _HANG
        return {name: [{"given": found}] * world_size for name, found in ways.items()}

    gives_numbers = gate(
        'Every rank returns two numbers, or "hang".', "with {case}, rank {rank} returned {given}"
    )
    as_real_ranks = compared(
        "It is what two real ranks have that make these calls.",
        "with {case}, rank {rank} returned {seen}; two real ranks: {right}",
        of="given",
        right=lambda trial, rank: trial.seen[rank]["real"],
    )

    def recognise(self, trials: Sequence[Trial[Case, Seen, dict[str, list[Given]]]]) -> Recognised:
        """Accept only rules that explain everything: many wrong ones agree with some of the sheets."""

        def predicts(trial: Trial[Case, Seen, dict[str, list[Given]]], name: str) -> list[Given]:
            return trial.oracle[name]

        known = trials[0].oracle
        names = [*self.by_severity(known), *(name for name in known if " + " in name)]
        together = models(names, predicts)
        return recognise_by_models(
            trials, lambda trial: trial.oracle["right"], [], self.alike, together=together
        )

    def alike(self, seen: object, predicted: object) -> bool:
        """Compare two answers; where nothing more is predicted, any two numbers are alike."""
        if predicted == {"given": _NUMBERS}:
            return isinstance(seen, dict) and seen["given"] != _HANG
        return super().alike(seen, predicted)


def _draw_orders(chance: Random, equal: bool, wanted: Callable[[list[str]], bool]) -> list[str]:
    """Draw the orders of two ranks, equal or not, each of up to six calls, until they are as wanted."""
    while True:
        first = _order(chance)
        orders = [first, first if equal else _order(chance)]
        if wanted(orders) and (orders[0] == orders[1]) == equal:
            return orders


def _exposes(orders: list[str], rules: Rules) -> bool:
    """Return whether no rank waits, and these rules get something wrong."""
    right = ending(orders)
    return right.waits is None and _said(ending(orders, rules)) != _said(right)


def _matches(orders: list[str], pattern: str) -> bool:
    return re.search(pattern, orders[0]) is not None


def _leaves_waiting(orders: list[str], rank: int) -> bool:
    return ending(orders).waits == rank


def _order(chance: Random) -> str:
    order = ""
    for _ in range(chance.randint(2, 6)):
        order += chance.choice(possible(order))
    return order


def _said(end: Ending) -> Found:
    return _HANG if end.waits is not None else list(end.grads)


def _real(orders: list[str]) -> Found:
    """Make the calls on this gang's ranks and return their `.grad`, without a hang (see `marks`).

    Where more than one mark was sent, the other rank would have waited for ever.
    """
    import torch
    import torch.distributed as dist

    (grad,), marks = make_calls(orders), send_marks()
    grads = torch.zeros(3)
    grads[dist.get_rank()], grads[2] = grad or 0.0, marks
    dist.all_reduce(grads)
    return _HANG if grads[2] > 2 else grads[:2].tolist()


def _read(result: object) -> Found:
    if isinstance(result, str) and result.strip().lower() == _HANG:
        return _HANG
    found = toys.numbers(result)
    if len(found) != 2:
        raise WrongKind(f"{len(found)} numbers: {toys.short(found)}")
    return found
