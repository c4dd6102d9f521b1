"""Lesson 11's recipes, copied from its source word for word, on the bench of `course_lib/failing_memory.py`.

Ranks of a cell call `trained_with`; under torchrun this is a plain script (tests/integration/test_recipes.py).
"""

import ast
import ctypes
import json
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from course_lib.failing_memory import STEPS, Loop, compared, every_step, inputs, loss_of, new, trained

ROOT = Path(__file__).parents[2]
LESSON = ROOT / "course_lib/lessons/out_of_memory/lesson.py"
SOLUTIONS = ROOT / "course_lib/lessons/out_of_memory/exercises.py"
#: Of the lesson, and of the exercises' solutions.
RECIPES = {
    LESSON: {
        "out_of_memory",
        "agree",
        "zeros",
        "by_hand",
        "noting",
        "catch_up",
        "in_pieces",
        "connection_lost",
        "reset_in_place",
    },
    SOLUTIONS: {"detection_loop"},
}


def recipes(**given: Any) -> dict[str, Any]:
    """The functions at the top of both sources, word for word; `given`: other names that they use."""
    names = {
        "torch": torch,
        "dist": dist,
        "timedelta": timedelta,
        "DistributedDataParallel": DistributedDataParallel,
        "loss_of": loss_of,
        "world": dist.get_world_size(),
        **given,
    }
    for source, wanted in RECIPES.items():
        body = [
            node
            for node in ast.parse(source.read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.name in wanted
        ]
        assert {node.name for node in body} == wanted
        exec(compile(ast.Module(body=[*body], type_ignores=[]), str(source), "exec"), names)
    return names


class HearsLate:
    """`torch.distributed`, in which this rank's second all-reduce of its own breaks when the others have its result."""

    def __init__(self) -> None:
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(dist, name)

    def all_reduce(self, *arguments: Any, **options: Any) -> None:
        """Raises what gloo raises when a connection breaks."""
        dist.all_reduce(*arguments, **options)
        self.calls += 1
        if self.calls == 2:
            raise RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer")


def too_large(net: nn.Module, x: Tensor) -> Tensor:
    """`loss_of`, for which rank 1's first batch does not fit, nor does any piece of it."""
    loss = loss_of(net, x)
    if (inputs(0, 1) == x[0]).all(1).any():
        raise RuntimeError("can't allocate memory")
    return loss


def loop_of(
    recipe: str, late: int | None = None, ordinary: bool = False, nothing_fits: bool = False, **options: Any
) -> Loop:
    """A training with this recipe.

    Args:
        late: the rank that hears of a failure one step before the others.
        ordinary: the first step is one of DDP's own (`detection_loop`).
        nothing_fits: not even a single sample of rank 1's first batch. options: of DDP.
    """
    given: dict[str, Any] = {"loss_of": too_large} if nothing_fits else {}
    found = recipes(**given, **({"dist": HearsLate()} if dist.get_rank() == late else {}))
    if recipe == "in_pieces":
        loop: Loop = partial(found["by_hand"], backward=found["in_pieces"])
        return loop
    if recipe == "detection_loop":
        return partial(_detection, found[recipe], ordinary)
    if recipe == "by_hand":
        return found[recipe]  # type: ignore[no-any-return]
    if recipe == "reset_in_place":  # the others notice when this timeout has passed
        options["process_group"] = dist.new_group(timeout=timedelta(seconds=3))
    return every_step(found[recipe], **options)


def _detection(
    answer: Any, ordinary: bool, net: nn.Module, optimizer: Optimizer, batches: Iterable[Tensor]
) -> None:
    ddp = DistributedDataParallel(net, find_unused_parameters=True, broadcast_buffers=False)
    batches = iter(batches)
    if ordinary:
        optimizer.zero_grad()
        loss_of(ddp, next(batches)).backward()
        optimizer.step()
    answer(ddp, optimizer, batches, loss_of)


def trained_with(
    recipe: str, place: str, norm: bool = True, heads: bool = True, **options: Any
) -> dict[str, Any]:
    """Train with this recipe on all ranks; what one rank finds in the end."""
    return trained(loop_of(recipe, **options), place, norm=norm, heads=heads)


def struck_anywhere(
    recipe: str, seed: int, norm: bool = True, heads: bool = True, **options: Any
) -> dict[str, Any]:
    """The same, where the allocator itself refuses, somewhere before the optimizer's step of some rank and step."""
    chance, shim, model = Random(seed), ctypes.CDLL(None), {"norm": norm, "heads": heads}
    bad, failing, where = chance.randrange(dist.get_world_size()), chance.randrange(STEPS), chance.random()
    failing = failing or int("ordinary" in options)
    loop, counts, struck = loop_of(recipe, **options), list[int](), False

    def batches(fails: int) -> Iterator[Tensor]:
        nonlocal struck
        for step in range(STEPS):
            shim.begin_step(fails if step == failing else 0)
            yield inputs(step, dist.get_rank())
            struck = bool(shim.end_step()) or struck

    net, optimizer = new(**model)
    before = optimizer.register_step_pre_hook(lambda *_: counts.append(shim.allocations()))
    loop(net, optimizer, batches(0))
    before.remove()
    net, optimizer = new(**model)
    fails = 1 + int(where * counts[failing]) if dist.get_rank() == bad else 0
    loop_of(recipe, **options)(net, optimizer, batches(fails))
    return {**compared(net, failing, bad, **model), "struck": struck, "bad": bad}


def main(folder: str, *trainings: str) -> None:
    """As a script of torchrun: these trainings one after the other, each given as JSON: name, arguments, options."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for number, training in enumerate(trainings):
        name, arguments, options = json.loads(training)
        found = globals()[name](*arguments, **options)
        Path(folder, f"{number}-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # several of these groups have been left without a goodbye


if __name__ == "__main__":
    main(*sys.argv[1:])
