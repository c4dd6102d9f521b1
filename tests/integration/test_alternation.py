"""Lesson 06: its rule of thumb and its reducer in 25 lines, against DDP on orders and graphs that it does not show."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from course_lib.notebook.run import run_quietly
from tests.support.ranks_and_kernels import ROOT
from tools.plan import find_targets
from tools.source import notebook_for

#: A forward through the wrapper, under no_sync, under no_grad, through .module; a backward of the oldest loss, of all.
FORWARDS, BACKWARDS = "FNGM", "BS"
FLAGS = {"default": {}, "unused": {"find_unused_parameters": True}, "static": {"static_graph": True}}


def orders(longest: int, forwards: str = FORWARDS, begun: str = "", losses: int = 0) -> Iterator[str]:
    """All orders of so many calls in which a backward has a loss to go back from."""
    if begun:
        yield begun
    if len(begun) < longest:
        for call in forwards:
            yield from orders(longest, forwards, begun + call, losses + (call != "G"))
        if losses:
            yield from orders(longest, forwards, begun + "B", losses - 1)
            yield from orders(longest, forwards, begun + "S", 0)


def by_the_rule(order: str) -> list[float]:
    """What the rule of thumb says of both ranks' .grad; call k has the gradient 10^k on rank 0, three times it on 1."""
    armed, waiting, grads = False, [], [0.0, 0.0]
    for number, call in enumerate(order):
        if call in FORWARDS:
            armed = armed or call == "F"
            waiting += [] if call == "G" else [10.0**number]
            continue
        taken, waiting = (waiting[:1], waiting[1:]) if call == "B" else (waiting, [])
        grads = [grad + share * sum(taken) for grad, share in zip(grads, (1, 3), strict=True)]
        if armed:
            grads = [sum(grads) / 2] * 2
        armed = False
    return grads


def make_calls(order: str, forward: Callable[[str, int], Any]) -> None:
    """Forwards and backwards in this order; `forward` takes a call and its number, and returns a loss."""
    waiting: list[Any] = []
    for number, call in enumerate(order):
        if call in FORWARDS:
            loss = forward(call, number)
            waiting += [loss] if loss.requires_grad else []
        else:
            taken, waiting = (waiting[:1], waiting[1:]) if call == "B" else (waiting, [])
            sum(taken).backward()


def on_real_ranks(some: Sequence[str], flags: dict[str, bool]) -> dict[str, float]:
    """This rank's .grad after each of these orders, on a model that has made two steps."""
    import warnings

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    warnings.simplefilter("ignore")

    def after(order: str) -> float:
        net = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
        for weight in net.parameters():
            torch.nn.init.ones_(weight)  # the input is both gradients
        ddp = DistributedDataParallel(net, **flags)
        for _ in range(2):
            ddp(torch.ones(1, 1)).sum().backward()
        net.zero_grad(set_to_none=False)

        def forward(call: str, number: int) -> Any:
            x = torch.full((1, 1), 10.0**number * (1, 3)[dist.get_rank()])
            with {"N": ddp.no_sync, "G": torch.no_grad}.get(call, torch.enable_grad)():
                return (net if call == "M" else ddp)(x).sum()

        make_calls(order, forward)
        first, second = (float(weight.grad) for weight in net.parameters())
        assert first == second
        return first

    return {order: after(order) for order in some}


@pytest.mark.parametrize("flags", FLAGS)
def test_the_rule_of_thumb_says_what_any_order_leaves_in_grad(flags):
    some = ["FFBB", "FBFB", "FFBBFB", "NMFS", *orders(3), *Random(6).sample([*orders(6)], 300)]
    outcome = run_quietly(on_real_ranks, some, FLAGS[flags], ranks=2, timeout=120)
    right = {order: by_the_rule(order) for order in some}
    assert {order: [outcome.values[rank][order] for rank in (0, 1)] for order in some} == right


def lesson_cells() -> list[str]:
    """What the ranks run in lesson 06 up to TinyDDP; the last cell compares it with DDP on the rows of the matrix."""
    (lesson,) = find_targets(ROOT, ["notebooks/06_alternation"])
    cells = [cell.source for cell in notebook_for(lesson).cells if cell.source.startswith("%%ranks")]
    (last,) = [number for number, source in enumerate(cells) if "class TinyDDP" in source]
    return [source.partition("\n")[2] for source in cells[: last + 1]]


#: One more cell: heads, unused parameters and reentrant checkpoints that are no row of the matrix.
MORE = """
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


def tiny_beside_ddp(cells: Sequence[str], some: Sequence[str]) -> dict[str, list[Any]]:
    """What further patterns and orders give with TinyDDP and with DDP, and whether the lesson calls that the same."""
    lesson: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        exec(cell, lesson)
    torch, patterns = lesson["torch"], lesson["PATTERNS"]
    rows = {*patterns}
    exec(MORE, lesson)

    def called(order: str, a: Any, b: Any, m: Any) -> None:
        def forward(call: str, number: int) -> Any:
            with torch.set_grad_enabled(call != "G"):
                y = (getattr(m, "module", m) if call == "M" else m)((a, b)[number % 2])
                return lesson["loss"](y, target=float(number))

        make_calls(order, forward)

    for order in some:
        lesson["pattern"](order)(partial(called, order))
    found = {}
    for name in patterns.keys() - rows:
        pair = [
            lesson["measure"](patterns[name], wrap)
            for wrap in (lesson["TinyDDP"], lesson["DistributedDataParallel"])
        ]
        found[name] = [*pair, type(pair[0]) is type(pair[1]) and lesson["same"](*pair)]
    return found


def test_tiny_ddp_does_what_ddp_does():
    cells = lesson_cells()
    backwards = [order for order in orders(6, "FGM") if {*order} & {*BACKWARDS}]
    some = Random(7).sample(backwards, 60)
    outcome = run_quietly(tiny_beside_ddp, cells, some, ranks=2, timeout=180)
    found = outcome.values[0]
    assert found.keys() > {*some}
    assert {name: pair for name, pair in found.items() if not pair[2]} == {}
    ends = [end for end, _, _ in found.values()]
    assert sum(isinstance(end, str) for end in ends) > 5, "some raise"
    assert sum(isinstance(end, float) and end > 0.1 for end in ends) > 20, "some are silently wrong"
    assert sum(isinstance(end, float) and end < 0.1 for end in ends) > 10, "some are right"
