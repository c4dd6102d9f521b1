"""Task 1: name the parameters that a loss does not reach, before DDP stumbles over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from course_lib.tasks import toys
from course_lib.tasks.task import (
    Misconception,
    Miss,
    Recognised,
    Task,
    Trial,
    check,
    models,
    recognise_by_models,
)
from course_lib.tasks.toys import is_odd, without_wrapper
from course_lib.tasks.unused import taught
from course_lib.tasks.unused.models import first_line, gradients, heads, mean
from course_lib.tasks.weights import ROUNDING, close, drawn

#: What the model does, in the order of the cases; in the first two nothing is unused, so that backward can follow.
_KINDS = {
    "used": "a loss that uses everything",
    "muted": "a head whose output is multiplied by zero",
    "spare": "a head that is never called",
    "ignored": "a head whose output is not in the loss",
    "stale": "a head that was used in the step before, and not in this one",
    "frozen": "a frozen head, and one that is never called",
    "branch": "another head on every rank",
}
_BACKWARD_FOLLOWS = ("used", "muted")
_HEADS = 3


class UnusedParameters(Task):
    """Name the parameters that a loss does not reach."""

    name = "unused.unused_parameters"
    title = "Name the unused ones"
    signature = "unused_parameters(model, loss)"
    lesson = taught.LESSON
    place = 1
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING
    hints = (
        (
            "The loss knows what it was computed from: its graph. torch.autograd.grad goes through it without touching "
            "any .grad, and without calling DDP's hooks (lesson 06)."
        ),
        (
            "torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) gives None for a parameter "
            "that the loss does not reach. None is not a gradient of zeros."
        ),
        (
            "Parameters that were frozen before wrapping are not asked for: DDP does not wait for them. Then bring the "
            "ranks' lists together, with all_gather_object for example, and take everything that is in at least one "
            "of them."
        ),
    )
    misconceptions = (
        Misconception(
            "gradients_changed",
            "The check changes what it checks: it calls backward(), so gradients are there that were not there before, "
            "and DDP's average of this step is spent.",
            taught.GRAPH,
        ),
        Misconception(
            "graph_freed",
            "After the check, loss.backward() is not possible any more: the graph was not kept (retain_graph=True).",
            taught.GRAPH,
        ),
        Misconception(
            "grad_attribute",
            "p.grad tells what earlier backwards have left. This loss has not been through a backward yet.",
            taught.LATE,
        ),
        Misconception(
            "frozen_named",
            "Parameters that were frozen before wrapping are named, but DDP does not wait for a gradient of theirs.",
            taught.ERROR,
        ),
        Misconception(
            "zero_is_unused",
            "A gradient of zeros is a gradient: DDP counts it. Only a parameter that the loss does not reach at all is "
            "unused.",
            taught.ZEROS,
        ),
        Misconception(
            "own_view",
            "Every rank returns its own list, but one rank that leaves out a parameter is enough to stop the others.",
            taught.RANKS,
        ),
        Misconception(
            "unused_by_all",
            "Named is what no rank uses. One rank that leaves out a parameter is enough to stop the others.",
            taught.RANKS,
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
        """Every kind of graph; which head it is about is drawn."""
        for kind in _KINDS:
            odd, frozen = chance.sample(range(_HEADS), 2)
            yield {"kind": kind, "seed": chance.randint(1, 10**6), "odd": odd, "frozen": frozen}

    def describe(self, case: Mapping[str, Any]) -> str:
        """What the graph is."""
        return _KINDS[case["kind"]]

    def trial(self, answer: Callable[..., Any], case: Mapping[str, Any]) -> Any:
        """What was returned, whether gradients were left alone, and the gradients of a backward that follows."""
        import torch

        rank = int(os.environ["RANK"])
        net = _net(case)
        model = torch.nn.parallel.DistributedDataParallel(net)
        if case["kind"] == "stale":
            _loss(model, {**case, "kind": "used"}, rank).backward()
            model.zero_grad(set_to_none=False)
        loss = _loss(model, case, rank)
        before = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
        names = toys.names(answer(model, loss))
        kept = all(
            old is p.grad if old is None or p.grad is None else torch.equal(old, p.grad)
            for old, p in zip(before, net.parameters(), strict=True)
        )
        seen: dict[str, Any] = {"names": names, "kept": kept}
        if kept and not is_odd(names) and case["kind"] in _BACKWARD_FOLLOWS:
            try:
                loss.backward()
            except RuntimeError as error:
                seen["error"] = first_line(error)
            else:
                seen["gradients"] = gradients(net)
        return seen

    def oracle(self, case: Mapping[str, Any], world_size: int) -> Any:
        """What autograd itself says on each rank, and the mean gradients."""
        import torch

        own, zeros, local = [], set(), []
        for rank in range(world_size):
            net = _net(case)
            asked = {name: p for name, p in net.named_parameters() if p.requires_grad}
            found = torch.autograd.grad(
                _loss(net, case, rank), list(asked.values()), retain_graph=True, allow_unused=True
            )
            given = dict(zip(asked, found, strict=True))
            own.append(sorted(name for name, gradient in given.items() if gradient is None))
            zeros |= {name for name, gradient in given.items() if gradient is not None and not gradient.any()}
            _loss(net, case, rank).backward()
            local.append(gradients(net))
        net = _net(case)
        everything = sorted(name for name, p in net.named_parameters() if p.requires_grad)
        frozen = {name for name, p in net.named_parameters() if not p.requires_grad}
        right = sorted(set().union(*own))
        return {
            "names": [name for name, _ in net.named_parameters()],
            "right": right,
            "mean": mean(local),
            "local": local,
            "frozen_named": [sorted({*right, *frozen})] * world_size,
            "zero_is_unused": [sorted({*right, *zeros})] * world_size,
            "grad_attribute": [[] if case["kind"] == "stale" else everything] * world_size,
            "grad_attribute + frozen_named": [
                sorted(frozen) if case["kind"] == "stale" else sorted({*everything, *frozen})
            ]
            * world_size,
            "unused_by_all": [sorted(set(own[0]).intersection(*own))] * world_size,
            "own_view": own,
        }

    def reference(self, oracle: Any) -> Any:
        """What answers are compared with."""
        return oracle["mean"]

    @check("Every rank returns a list of names.", gate=True)
    def gives_names(self, trial: Trial) -> Miss | None:
        """Of parameters; with module. before them they are understood, too."""
        for rank, seen in trial.seen.items():
            if is_odd(seen["names"]):
                return Miss(f"rank {rank} of {trial.world_size} returned {seen['names']['odd']}")
            unknown = [name for name in without_wrapper(seen["names"]) if name not in trial.oracle["names"]]
            if unknown:
                return Miss(f"rank {rank} returned {unknown[0]!r}, which is no parameter of the model")
        return None

    @check("No gradient has changed.", gate=True)
    def unchanged(self, trial: Trial) -> Miss | None:
        """Bit by bit, None included."""
        for rank, seen in trial.seen.items():
            if not seen["kept"]:
                return Miss(
                    f"with {self.describe(trial.case)}, gradients on rank {rank} of {trial.world_size} are not what "
                    "they were",
                    "gradients_changed",
                )
        return None

    @check(
        "Every rank returns the names of the parameters that the loss of at least one rank does not reach."
    )
    def right(self, trial: Trial) -> Miss | None:
        """The same names on all ranks."""
        for rank, seen in trial.seen.items():
            mine = without_wrapper(seen["names"])
            if mine != trial.oracle["right"]:
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size} returned {mine}; it should "
                    f"be {trial.oracle['right']}"
                )
        return None

    @check("loss.backward() can still follow, and gives the averaged gradients.")
    def backward_follows(self, trial: Trial) -> Miss | None:
        """Where all parameters are used."""
        for rank, seen in trial.seen.items():
            if "error" in seen:
                return Miss(f"loss.backward() after it raises on rank {rank}: {seen['error']}", "graph_freed")
            if "gradients" in seen and not close(seen["gradients"], trial.oracle["mean"]):
                own = close(seen["gradients"], trial.oracle["local"][rank])
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size} gets gradients from "
                    f"loss.backward() that are {'its own, ' if own else ''}not the mean over the ranks",
                    "gradients_changed" if own else None,  # an earlier backward has spent DDP's average
                )
        return None

    def recognise(self, trials: Sequence[Trial]) -> Recognised:
        """By the lists."""
        if any(not seen["kept"] for trial in trials for seen in trial.seen.values()):
            return "gradients_changed"
        plain = [
            Trial(
                t.world_size,
                t.case,
                t.oracle,
                {rank: without_wrapper(s["names"]) for rank, s in t.seen.items()},
            )
            for t in trials
            if not any(is_odd(s["names"]) for s in t.seen.values())
        ]
        names = ("grad_attribute", "frozen_named", "zero_is_unused", "own_view", "unused_by_all")
        known = models((*names, "grad_attribute + frozen_named"), lambda trial, name: trial.oracle[name])
        right = lambda trial: [trial.oracle["right"]] * trial.world_size  # noqa: E731
        return recognise_by_models(plain, right, known, lambda a, b: bool(a == b))


def _net(case: Mapping[str, Any]) -> Any:
    net = heads(case["seed"], _HEADS)
    if case["kind"] == "frozen":
        net.heads[case["frozen"]].requires_grad_(False)
    return net


def _loss(model: Any, case: Mapping[str, Any], rank: int) -> Any:
    kind, odd = case["kind"], case["odd"]
    use = [number for number in range(_HEADS) if kind in ("used", "muted", "ignored") or number != odd]
    if kind == "branch":
        use = [(odd + rank) % _HEADS]
    outputs = model(drawn(case["seed"] + 7 * rank, 4, 4), use)
    parts = [(output - 1).square().mean() for output in outputs]
    if kind == "muted":
        parts[odd] = 0 * parts[odd]
    if kind == "ignored":
        del parts[odd]
    return sum(parts)
