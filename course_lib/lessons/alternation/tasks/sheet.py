"""Task 1: what two ranks that make some calls have in `.grad`, or that one of them waits for ever.

Answers are compared with what the ranks have that make these calls themselves, after the answer has returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import NotRequired, TypedDict

from course_lib.lab.reducer import make_calls
from course_lib.lessons.alternation.tasks.orders import ending, possible
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.marks import send_marks
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import WrongKind, gate

#: What both ranks have in `.grad`, or "hang".
Found = list[float] | str
_HANG = "hang"
#: What some orders must have. A forward that does not arm does not disarm either; two forwards arm once; an armed
#: backward averages what a local one has left, and whichever forward's loss it takes; a backward of all losses disarms
#: as any other. The first ones tell most mistakes from each other: a likeness is sought in a dozen cases.
_ORDERS = (
    "^[NGM]+[BS][^F]*$",
    *(f"^[NGM]*F[NGM]*[BS][NGM]*{forward}[NGM]*[BS][^F]*$" for forward in "NGM"),
    "FFB[NGM]*[BS][^F]*$",
    "(^|[BS])[NGM]+[BS][NGM]*F[NGM]*[BS]",
    *("FN[BS]", "FG[BS]", "FM[BS]", "^[NM]FB", "FS[NM][BS]"),
)


class Case(TypedDict):
    """The calls of rank 0 and those of rank 1."""

    orders: list[str]


class Right(TypedDict):
    """Whether a rank waits for ever, and what both have where none does: numbers in place of a hang are all alike."""

    hangs: bool
    given: NotRequired[Found]


class Seen(TypedDict):
    """The answer's return value, whether it is "hang", and what the ranks had that made the calls."""

    hangs: bool
    given: Found
    real: Found


class TallySheet(Compared[Case, Seen, Right]):
    """Fill in `.grad` of two ranks that make some calls."""

    name = "alternation.sheet"
    world_sizes = (2,)
    tolerance = Tolerance(1e-4, 1e-5)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield orders that have what is easily overlooked, equal ones and others; and unequal ones that hang."""
        wanted = [(pattern, equal, None) for pattern in _ORDERS for equal in (True, False)]
        for each in (*wanted[:8], *(("", False, rank) for rank in (0, 1, 0, 1)), *wanted[8:]):
            yield {"orders": _draw_orders(chance, *each)}

    def describe(self, case: Case) -> str:
        return " and ".join(case["orders"])

    def trial(self, answer: Callable[[str, str], object], case: Case) -> Seen:
        """Call the answer, then let the ranks make the calls of the case."""
        result = answer(*case["orders"])
        real = _real(case["orders"])
        given = _read(result)
        return {"hangs": given == _HANG, "given": given, "real": real}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Right]]:
        end = ending(case["orders"])
        right: Right = {"hangs": end.waits is not None}
        if not right["hangs"]:
            right["given"] = list(end.grads)
        return {"right": [right] * world_size}

    gives_numbers = gate(
        'Every rank returns two numbers, or "hang".', "with {case}, rank {rank} returned {given}"
    )
    as_real_ranks = compared(
        "It is what two real ranks have that make these calls.",
        "with {case}, rank {rank} returned {seen}; two real ranks: {right}",
        of="given",
        right=lambda trial, rank: trial.seen[rank]["real"],
    )


def _draw_orders(chance: Random, pattern: str, equal: bool, waits: int | None) -> list[str]:
    """Draw the orders of two ranks, equal or not, each of up to six calls, until they are as wanted."""
    while True:
        first = _order(chance)
        orders = [first, first if equal else _order(chance)]
        if re.search(pattern, first) and (orders[0] == orders[1]) == equal and ending(orders).waits == waits:
            return orders


def _order(chance: Random) -> str:
    order = ""
    for _ in range(chance.randint(2, 6)):
        order += chance.choice(possible(order))
    return order


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
