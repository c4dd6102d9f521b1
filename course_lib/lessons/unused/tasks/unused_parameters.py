"""Task 1: name the parameters that a loss does not reach, before DDP stumbles over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, NotRequired, TypedDict

from course_lib.lessons.unused.tasks.models import first_line, gradients, heads, mean
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Recognised, Trial, check, gate
from course_lib.tasks.weights import ROUNDING, added, close, drawn

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


class Seen(TypedDict):
    """The names returned; whether gradients were left alone; what a backward gives or raises that follows."""

    names: list[str]
    kept: bool
    error: NotRequired[str]
    gradients: NotRequired[list[float]]


class Decided(TypedDict):
    """The names; of what is right also the mean gradients, and those of the rank alone."""

    names: list[str]
    gradients: NotRequired[list[float]]
    local: NotRequired[list[float]]


ThisTrial = Trial[Case, Seen, dict[str, list[Decided]]]


class UnusedParameters(Compared[Case, Seen, Decided]):
    """Name the parameters that a loss does not reach."""

    name = "unused.unused_parameters"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

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
        seen: Seen = {"names": names, "kept": kept}
        if kept and case["kind"] in _BACKWARD_FOLLOWS:
            try:
                loss.backward()
            except RuntimeError as error:
                seen["error"] = first_line(error)
            else:
                seen["gradients"] = gradients(net)
        return seen

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Decided]]:
        import torch

        own: list[list[str]] = []
        zeros: set[str] = set()
        local: list[list[float]] = []
        for rank in range(world_size):
            net = _net(case)
            asked = {name: p for name, p in net.named_parameters() if p.requires_grad}
            found = torch.autograd.grad(
                _loss(net, case, rank, world_size), list(asked.values()), retain_graph=True, allow_unused=True
            )
            given = dict(zip(asked, found, strict=True))
            own.append(sorted(name for name, gradient in given.items() if gradient is None))
            zeros |= {name for name, gradient in given.items() if gradient is not None and not gradient.any()}
            _loss(net, case, rank, world_size).backward()
            local.append(gradients(net))
        net = _net(case)
        everything = sorted(name for name, p in net.named_parameters() if p.requires_grad)
        frozen = {name for name, p in net.named_parameters() if not p.requires_grad}
        right = sorted(set().union(*own))
        by_attribute = set() if case["kind"] == "stale" else set(everything)
        returned = {
            "grad_attribute": by_attribute,
            "frozen_named": {*right, *frozen},
            "zero_is_unused": {*right, *zeros},
            "unused_by_all": set(own[0]).intersection(*own),
            "grad_attribute + frozen_named": by_attribute | frozen,
        }
        average = mean(local)
        return {
            "right": [{"names": right, "gradients": average, "local": each} for each in local],
            **{name: [{"names": sorted(names)}] * world_size for name, names in returned.items()},
            "own_view": [{"names": names} for names in own],
        }

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
        for rank, seen in trial.seen.items():
            mine, right = seen["names"], trial.oracle["right"][rank]["names"]
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
            right = trial.oracle["right"][rank]
            if "gradients" in seen and not close(seen["gradients"], right["gradients"]):
                own = close(seen["gradients"], right["local"])
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size} gets gradients from "
                    f"loss.backward() that are {'its own, ' if own else ''}not the mean over the ranks",
                    "gradients_changed" if own else None,  # an earlier backward has disarmed DDP
                )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Go by the lists; one that names what only some ranks leave out is not about what all of them leave out."""
        if any(not seen["kept"] for trial in trials for seen in trial.seen.values()):
            return "gradients_changed"
        found = super().recognise(trials)
        unlike = any(t.case["kind"] == "branch" and t.world_size > 1 and not self.right(t) for t in trials)
        return None if unlike and found in ("unused_by_all", ("unused_by_all",)) else found


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
