"""Task 1: name the parameters that a loss does not reach, before DDP stumbles over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from course_lib.lessons.unused.tasks.models import first_line, gradients, heads, mean
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Miss, Task, Trial, check, gate
from course_lib.tasks.weights import added, close, drawn

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel

#: What the model does, in the order of the cases; in the first two nothing is unused, so that backward can follow.
_KINDS = {
    "used": "a loss that uses everything",
    "muted": "a head whose output is multiplied by zero",
    "spare": "a head that is never called",
    "ignored": "a head whose output is not in the loss",
    "stale": "a head that was used in the step before, and not in this one",
    "frozen": "a frozen head, and one that is never called",
    "branch": "another head on every rank",
    "one": "a head that only the last rank leaves out",
}
_BACKWARD_FOLLOWS = ("used", "muted")
_HEADS = 3


class Case(TypedDict):
    """A kind of graph (see `_KINDS`); which head it is about, and which one is frozen."""

    kind: str
    seed: int
    odd: int
    frozen: int


class Names(TypedDict, total=False):
    """Names of parameters, by the part of the task that the case belongs to: each can be wrong independently."""

    frozen: list[str]
    muted: list[str]
    others: list[str]


class Seen(Names):
    """The names returned; whether gradients were left alone; what a backward gives or raises that follows."""

    kept: bool
    error: NotRequired[str]
    gradients: NotRequired[list[float]]


class Oracle(TypedDict):
    """What is right, and the gradients of each rank alone."""

    right: list[Names]
    local: list[list[float]]


ThisTrial = Trial[Case, Seen, Oracle]


def _part_of(case: Case) -> Literal["frozen", "muted", "others"]:
    kind = case["kind"]
    return kind if kind in ("frozen", "muted") else "others"  # type: ignore[return-value]


class UnusedParameters(Task[Case, Seen, Oracle]):
    """Name the parameters that a loss does not reach."""

    name = "unused.unused_parameters"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for kind in _KINDS:
            odd, frozen = chance.sample(range(_HEADS), 2)
            yield {"kind": kind, "seed": chance.randint(1, 10**6), "odd": odd, "frozen": frozen}

    def describe(self, case: Case) -> str:
        return _KINDS[case["kind"]]

    def trial(self, answer: Callable[[DistributedDataParallel, Tensor], object], case: Case) -> Seen:
        import torch

        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        net = _net(case)
        model = torch.nn.parallel.DistributedDataParallel(net)
        if case["kind"] == "stale":
            _loss(model, {**case, "kind": "used"}, rank, world_size).backward()
            model.zero_grad(set_to_none=False)
        loss = _loss(model, case, rank, world_size)
        before = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
        names = toys.parameter_names(answer(model, loss), (name for name, _ in net.named_parameters()))
        kept = all(
            old is p.grad if old is None or p.grad is None else torch.equal(old, p.grad)
            for old, p in zip(before, net.parameters(), strict=True)
        )
        seen: Seen = {"kept": kept}
        seen[_part_of(case)] = names
        if kept and case["kind"] in _BACKWARD_FOLLOWS:
            try:
                loss.backward()
            except RuntimeError as error:
                seen["error"] = first_line(error)
            else:
                seen["gradients"] = gradients(net)
        return seen

    def oracle(self, case: Case, world_size: int) -> Oracle:
        import torch

        unused: set[str] = set()
        local: list[list[float]] = []
        for rank in range(world_size):
            net = _net(case)
            asked = {name: p for name, p in net.named_parameters() if p.requires_grad}
            loss = _loss(net, case, rank, world_size)
            found = torch.autograd.grad(loss, list(asked.values()), retain_graph=True, allow_unused=True)
            unused |= {name for name, gradient in zip(asked, found, strict=True) if gradient is None}
            loss.backward()
            local.append(gradients(net))
        right: Names = {}
        right[_part_of(case)] = sorted(unused)
        return {"right": [right] * world_size, "local": local}

    gives_names = gate("Every rank returns a list of names.")

    unchanged = compared(
        "No gradient has changed.",
        "with {case}, gradients on rank {rank} of {ranks} are not what they were",
        of="kept",
        right=lambda *_: True,
        known="gradients_changed",
        gate=True,
    )

    @check(
        "Every rank returns the names of the parameters that the loss of at least one rank does not reach."
    )
    def right(self, trial: ThisTrial) -> Miss | None:
        """The same names on all ranks."""
        part = _part_of(trial.case)
        for rank, seen in trial.seen.items():
            mine, right = seen[part], trial.oracle["right"][rank][part]
            if mine != right:
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size} returned {mine}; it should "
                    f"be {right}"
                )
        return None

    @check("loss.backward() can still follow, and gives the averaged gradients.")
    def backward_follows(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if "error" in seen:
                return Miss(f"loss.backward() after it raises on rank {rank}: {seen['error']}", "graph_freed")
            local = trial.oracle["local"]
            if "gradients" in seen and not close(seen["gradients"], mean(local)):
                own = close(seen["gradients"], local[rank])
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size} gets gradients from "
                    f"loss.backward() that are {'its own, ' if own else ''}not the mean over the ranks",
                    "gradients_changed" if own else None,  # an earlier backward has disarmed DDP
                )
        return None


def _net(case: Case) -> nn.Module:
    net = heads(case["seed"], _HEADS)
    if case["kind"] == "frozen":
        net.get_submodule(f"heads.{case['frozen']}").requires_grad_(False)
    return net


def _loss(model: nn.Module, case: Case, rank: int, world_size: int) -> Tensor:
    kind, odd = case["kind"], case["odd"]
    all_used = kind in ("used", "muted", "ignored") or (kind == "one" and rank < world_size - 1)
    use = [number for number in range(_HEADS) if all_used or number != odd]
    if kind == "branch":
        use = [(odd + rank) % _HEADS]
    outputs: list[Tensor] = model(drawn(case["seed"] + 7 * rank, 4, 4), use)
    parts = [(output - 1).square().mean() for output in outputs]
    if kind == "muted":
        parts[odd] = 0 * parts[odd]
    if kind == "ignored":
        del parts[odd]
    return added(parts)
