"""Lesson 06: its tally sheet and its reducer in 25 lines, against DDP on orders and graphs that it does not show."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from course_lib.lab.reducer import BACKWARDS, FORWARDS, HEADS, ONE, Model, Reducer, make_calls, play
from course_lib.lessons.alternation.lab import explore_orders
from course_lib.lessons.alternation.tasks.orders import ending, possible
from realranks.cells.run import run_quietly
from tests.support.ranks_and_kernels import ROOT
from tools.plan import find_targets
from tools.source import notebook_for

FLAGS = {"default": {}, "unused": {"find_unused_parameters": True}, "static": {"static_graph": True}}


def orders(longest: int, begun: str = "") -> Iterator[str]:
    """All orders of so many calls in which a backward has a loss to go back from."""
    if begun:
        yield begun
    if len(begun) < longest:
        for call in possible(begun):
            yield from orders(longest, begun + call)


#: The calls of both ranks, the model, and whether its wrapper is new.
Played = tuple[tuple[str, str], Model, bool]


def draw_played(dice: Random) -> Played:
    """Draw some calls of each rank, half the time the same ones."""
    model = dice.choice([ONE, HEADS, replace(ONE, buffers=True), replace(HEADS, buffers=True)])
    first, second = (draw_order(dice, model) for _ in range(2))
    return (first, dice.choice((first, second))), model, dice.choice((False, True))


def draw_order(dice: Random, model: Model) -> str:
    """Draw calls that can be made; an error ends them."""
    made = Reducer()
    for _ in range(dice.randint(1, 6)):
        call = dice.choice("FFNGMZ" + "BBS" * bool(made.losses))
        if call in FORWARDS and len(model.losses) > 1:
            call += dice.choice(("", "(left)", "(right)"))
        made = replace(made.after(call, model, 1.0), sends=())
        if made.error:
            break
    return "".join(made.calls)


def on_real_ranks(some: Sequence[Played]) -> list[list[float | None] | str]:
    """What this rank holds after each of these, or the error."""
    found: list[list[float | None] | str] = []
    for played in some:
        try:
            found.append(make_calls(*played))
        except RuntimeError as error:
            found.append(str(error))
    return found


def test_the_picture_says_what_real_ranks_hold_or_raise():
    dice = Random(6)
    played = [draw_played(dice) for _ in range(900)]
    ends = [play(*each)[-1].ranks for each in played]
    # A rank that waits cannot be run with others. Nor can one whose head's gradient may have filled the sheet,
    # and sent it, before the body's raised: that message meets the next case's.
    kept = [
        number
        for number, (ranks, (orders, _, _)) in enumerate(zip(ends, played, strict=True))
        if not any(rank.sends or ("ready only once" in rank.error and len({*orders}) == 2) for rank in ranks)
    ]
    outcome = run_quietly(on_real_ranks, [played[number] for number in kept], ranks=2, timeout=120)
    raised = 0
    for place, number in enumerate(kept):
        for rank, end in enumerate(ends[number]):
            found, names = outcome.values[rank][place], played[number][1].parameters
            raised += bool(end.error)
            if end.error:
                assert str(found).startswith(end.error), played[number]
            else:
                assert found == pytest.approx([end.grad.get(name) for name in names]), played[number]
    assert len(kept) > 500
    assert raised > 50


def test_a_rank_that_the_picture_leaves_waiting_waits():
    dice = Random(6)
    for _ in range(24):
        played = draw_played(dice)
        end = play(*played)[-1].ranks
        sends = {number for number, rank in enumerate(end) if rank.sends}
        if sends and not any(rank.error for rank in end):
            assert {*run_quietly(make_calls, *played, ranks=2).waiting} == sends, played


def grads_with(some: Sequence[tuple[str, str]], flags: dict[str, bool]) -> dict[tuple[str, str], float]:
    """This rank's .grad after its calls of each pair of orders."""
    import warnings

    from torch.nn.parallel import DistributedDataParallel

    warnings.simplefilter("ignore")
    wrap = partial(DistributedDataParallel, **flags)
    return {pair: make_calls(pair, wrap=wrap)[0] or 0.0 for pair in some}


@pytest.mark.parametrize("flags", FLAGS)
def test_the_sheet_of_the_task_says_what_any_order_leaves_in_grad(flags):
    dice, longer = Random(6), [*orders(6)]
    some = [(order, order) for order in ("FFBB", "FFBBFB", "NMFS", *orders(4), *dice.sample(longer, 300))]
    unequal = [(dice.choice(longer), dice.choice(longer)) for _ in range(600)]
    some += [pair for pair in unequal if ending(pair).waits is None]
    outcome = run_quietly(grads_with, some, FLAGS[flags], ranks=2, timeout=120)
    assert {pair: tuple(outcome.values[rank][pair] for rank in (0, 1)) for pair in some} == {
        pair: ending(pair).grads for pair in some
    }
    assert len(some) > 900


def test_orders_that_are_typed_run_on_two_real_ranks():
    explorer = explore_orders()
    assert "12 and 32" in explorer._repr_mimebundle_()["text/html"]
    explorer.first.value = "FFS"
    assert "22 and 22: right" in explorer.picture.value
    assert "two real ranks: 22 and 22" in explorer.picture.value
    explorer.second.value = "FBFB"
    assert "rank 1 waits for ever" in explorer.picture.value
    assert "two real ranks: a deadlock, proved" in explorer.picture.value
    explorer.second.value = ""
    explorer.model.value = HEADS
    explorer.first.value = "FBB"
    assert "both ranks raise" in explorer.picture.value
    assert "two real ranks: an error" in explorer.picture.value
    explorer.first.value = "FQ"
    assert "&#x27;Q&#x27; is no call" in explorer.picture.value


def tiny_ddp() -> str:
    """The cell of lesson 06 that defines it."""
    (lesson,) = find_targets(ROOT, ["notebooks/06_alternation"])
    cells = [cell.source for cell in notebook_for(lesson).cells if "class TinyDDP" in cell.source]
    assert len(cells) == 1
    return cells[0].partition("\n")[2]


#: One more cell: heads, unused parameters and reentrant checkpoints that are no row of the matrix.
MORE = """
from course_lib.lab.patterns import *

reentrantly = partial(checkpoint, use_reentrant=True)


@pattern("two heads, F F, one B", net=TwoHeads)
def _(a, b, m):
    (loss(m(a)[0]) + loss(m(b)[1])).backward()


@pattern("two heads, F F, B B", net=TwoHeads)
def _(a, b, m):
    left, right = m(a)[0], m(b)[1]
    loss(left).backward()
    loss(right).backward()


@pattern("one head of two", net=TwoHeads)
def _(a, b, m):
    loss(m(a)[0]).backward()


@pattern("a head, then both", net=TwoHeads)
def _(a, b, m):
    left, right = m(a)
    loss(left).backward(retain_graph=True)
    (loss(left) + loss(right)).backward()


@pattern("both heads, then one", net=TwoHeads)
def _(a, b, m):
    left, right = m(a)
    (loss(left) + loss(right)).backward(retain_graph=True)
    loss(right).backward()


@pattern("a head, thrown away by no_grad", net=TwoHeads)
def _(a, b, m):
    loss(m(a)[0]).backward()
    with torch.no_grad():
        m(b)


@pattern("a block is unused")
def _(a, b, m):
    loss(m(a, path="l")).backward()


@pattern("a block is unused in one of two F B")
def _(a, b, m):
    loss(m(a)).backward()
    loss(m(b, path="l")).backward()


@pattern("F F on different paths, B B")
def _(a, b, m):
    left, right = m(a, path="l"), m(b, path="r")
    loss(left).backward()
    loss(right).backward()


@pattern("F through .module on one path, F on the other, B B")
def _(a, b, m):
    left, right = getattr(m, "module", m)(a, path="l"), m(b, path="r")
    loss(left).backward()
    loss(right).backward()


@pattern("reentrant, one block twice")
def _(a, b, m):
    loss(m(a, path="llr", part=reentrantly)).backward()


@pattern("reentrant, F F, one B")
def _(a, b, m):
    (loss(m(a, part=reentrantly)) + loss(m(b, part=reentrantly))).backward()


@pattern("reentrant, whole model twice, then B of another F", net=Twice)
def _(a, b, m):
    loss(m(a.requires_grad_())).backward()
    loss(m(b.requires_grad_())).backward()
"""


def tiny_beside_ddp(cell: str, some: Sequence[str]) -> dict[str, list[Any]]:
    """What all patterns and these orders give with TinyDDP and with DDP, and whether that is the same."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from course_lib.lab import patterns
    from course_lib.lessons.alternation.lab import same

    lesson: dict[str, Any] = {"__name__": "__main__", "torch": torch, "dist": dist, "nn": nn}
    exec(cell, lesson)
    exec(MORE, lesson)

    def called(order: str, a: Any, b: Any, m: Any) -> None:
        losses, number = [], 0
        for call in order:
            if call in BACKWARDS:
                taken, losses = (losses, []) if call == "S" else (losses[:1], losses[1:])
                sum(taken).backward()
                continue
            with torch.set_grad_enabled(call != "G"):
                y = (getattr(m, "module", m) if call == "M" else m)((a, b)[number % 2])
                loss = patterns.loss(y, target=float(number))
            losses += [loss] if loss.requires_grad else []
            number += 1

    for order in some:
        patterns.pattern(order)(partial(called, order))
    found = {}
    for name in patterns.PATTERNS:
        tiny, real = (patterns.measure(name, wrap) for wrap in (lesson["TinyDDP"], DistributedDataParallel))
        found[name] = [tiny, real, type(tiny) is type(real) and same(tiny, real)]
    return found


def test_tiny_ddp_does_what_ddp_does():
    backwards = [order for order in orders(6) if {*order} & {*BACKWARDS} and "N" not in order]
    some = Random(7).sample(backwards, 60)
    outcome = run_quietly(tiny_beside_ddp, tiny_ddp(), some, ranks=2, timeout=180)
    found = outcome.values[0]
    assert found.keys() > {*some}
    assert {name: pair for name, pair in found.items() if not pair[2]} == {}
    ends = [end for end, _, _ in found.values()]
    assert sum(isinstance(end, str) for end in ends) > 5, "some raise"
    assert sum(isinstance(end, float) and end > 0.1 for end in ends) > 20, "some are silently wrong"
    assert sum(isinstance(end, float) and end < 0.1 for end in ends) > 10, "some are right"
