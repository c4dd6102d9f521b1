"""Lesson 11's recipes, copied from its source word for word, on the bench of `course_lib/failing_memory.py`.

Ranks of a cell call `trained_with`; under torchrun this is a plain script (tests/integration/test_recipes.py).
"""

import ast
import gc
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn  # before any process group, as the lesson says
from torch.nn.parallel import DistributedDataParallel

from course_lib.failing_memory import every_step, loss_of, trained


def recipes(source: str | Path, **given: Any) -> dict[str, Any]:
    """The recipes at the top of a lesson's source, word for word; `given`: other names that they use."""
    wanted = {
        "out_of_memory",
        "agree",
        "zeros",
        "by_hand",
        "noting",
        "catch_up",
        "in_pieces",
        "connection_lost",
        "reset_in_place",
        "rebuilding",
    }
    body = [
        node
        for node in ast.parse(Path(source).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name in wanted
    ]
    assert {node.name for node in body} == wanted
    names = {
        "torch": torch,
        "dist": dist,
        "gc": gc,
        "timedelta": timedelta,
        "DistributedDataParallel": DistributedDataParallel,
        "loss_of": loss_of,
        "world": dist.get_world_size(),
        **given,
    }
    exec(compile(ast.Module(body=[*body], type_ignores=[]), str(source), "exec"), names)
    return names


#: Recipes that are a whole training.
LOOPS = {"rebuilding"}


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


def trained_with(
    source: str | Path, recipe: str, place: str, late: int | None = None, **options: Any
) -> dict[str, Any]:
    """Train with this recipe on all ranks; what one rank finds in the end.

    Args:
        late: the rank that hears of a failure one step before the others.
    """
    norm = options.pop("norm", True)
    found = recipes(source, **({"dist": HearsLate()} if dist.get_rank() == late else {}))[recipe]
    if recipe == "reset_in_place":  # the others notice when this timeout has passed
        options["process_group"] = dist.new_group(timeout=timedelta(seconds=3))
    return trained(found if recipe in LOOPS else every_step(found, **options), place, norm=norm)


def main(source: str, folder: str, recipe: str, place: str) -> None:
    """As a script of torchrun."""
    dist.init_process_group("gloo")
    found = trained_with(source, recipe, place)
    Path(folder, f"rank{dist.get_rank()}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
