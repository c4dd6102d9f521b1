"""Task 3: a mixture of experts that trains under plain DDP, with a balance term over all ranks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, NotRequired, TypedDict

from course_lib.outcome.outcome import Kind, Outcome, RankState
from course_lib.tasks import toys
from course_lib.tasks.compared import at_most, compared
from course_lib.tasks.task import (
    Miss,
    Recognised,
    Task,
    Trial,
    WrongKind,
    check,
    gate,
    recognise_by_name,
)
from course_lib.tasks.unused.models import first_line, gradients
from course_lib.tasks.weights import ROUNDING, added, close, drawn, fill, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn

    Mix = Callable[[Tensor, Tensor, nn.ModuleList], tuple[Tensor, Tensor]]

_EXPERTS, _TOKENS = 4, 6


class Case(TypedDict):
    """By rank and token, the expert it is for."""

    kind: str
    seed: int
    wanted: list[list[int]]


class Seen(TypedDict):
    """Outputs, rows that went through experts, averaged gradients, the balance term; DDP's complaint, if it has one."""

    outputs: list[float]
    rows: int
    gradients: list[float]
    balance: float
    unfinished: NotRequired[str]


class Oracle(TypedDict):
    """By rank, outputs with gates and without; the balance term; gradients, right and by misconception."""

    outputs: list[list[float]]
    ungated: list[list[float]]
    balance: float
    gradients: dict[str, list[float]]


ThisTrial = Trial[Case, Seen, Oracle]


def _ungated_everywhere(trial: ThisTrial, _rank: int) -> str | None:
    ungated = all(close(seen["outputs"], trial.oracle["ungated"][rank]) for rank, seen in trial.seen.items())
    return "gate_forgotten" if ungated else None


class Mixture(Task[Case, Seen, Oracle]):
    """A mixture of experts that trains under plain DDP."""

    name = "unused.mixture"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Other experts on each rank; one rank that uses all; and the same few on all ranks."""
        some = chance.sample(range(_EXPERTS), _EXPERTS)
        for kind in ("others", "one_has_all", "same"):
            wanted = []
            for rank in range(world_size):
                mine = some[:2] if kind == "same" else [some[rank % _EXPERTS], some[(rank + 1) % _EXPERTS]]
                if kind == "one_has_all" and rank == world_size - 1:
                    mine = some
                tokens = [mine[number % len(mine)] for number in range(_TOKENS)]
                chance.shuffle(tokens)
                wanted.append(tokens)
            yield {"kind": kind, "seed": chance.randint(1, 10**6), "wanted": wanted}

    def describe(self, case: Case) -> str:
        """Who goes where."""
        used = [sorted(set(tokens)) for tokens in case["wanted"]]
        return ", ".join(f"rank {rank}'s tokens for experts {experts}" for rank, experts in enumerate(used))

    def trial(self, answer: Mix, case: Case) -> Seen:
        """Outputs, gradients after DDP's average, and how many rows went through the experts."""
        import torch

        rank = int(os.environ["RANK"])
        layer = _layer(case["seed"], answer)
        rows: list[int] = []
        for expert in _experts(layer):
            expert.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0].shape[:-1].numel()))
        ddp = torch.nn.parallel.DistributedDataParallel(layer)
        x = _tokens(case, rank)
        given = ddp(x)
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise toys.wrong_kind(given)
        y, balance = given
        if (
            not all(isinstance(one, torch.Tensor) for one in given)
            or y.shape != x.shape
            or balance.numel() != 1
        ):
            raise WrongKind("something else than a tensor shaped like x and a tensor with one number")
        _loss(y, balance).backward()
        seen: Seen = {
            "outputs": numbers([y]),
            "rows": sum(rows),
            "gradients": gradients(layer),
            "balance": float(balance),
        }
        try:
            ddp._check_reducer_finalized()
        except RuntimeError as error:
            idle = [name for name, p in layer.named_parameters() if p.grad is None]
            seen["unfinished"] = f"{first_line(error)}; no gradient: {', '.join(idle) or 'unknown'}"
        return seen

    def oracle(self, case: Case, world_size: int) -> Oracle:
        """One process that has all tokens; and the mean of the ranks' gradients, with shares of three kinds."""
        import torch

        parts = [_tokens(case, rank) for rank in range(world_size)]
        alone = _layer(case["seed"], _reference)
        y, balance = alone(torch.cat(parts))
        _loss(y, balance).backward()
        shares = [_share(alone, part) for part in parts]
        mean_share = added(shares) / world_size
        return {
            "outputs": [numbers([part]) for part in y.chunk(world_size)],
            "balance": balance.item(),
            "ungated": [numbers([_layer(case["seed"], _ungated)(part)[0]]) for part in parts],
            "gradients": {
                "right": gradients(alone),
                "own_shares": _mean_of_ranks(case, parts, shares),
                "shares_summed": _mean_of_ranks(case, parts, [mean_share * world_size] * world_size),
            },
        }

    def reference(self, oracle: Oracle) -> object:
        """What answers are compared with."""
        return [oracle["outputs"], oracle["balance"], oracle["gradients"]["right"]]

    gives_pair = gate("Every rank returns the outputs, shaped like x, and the balance term.")

    outputs_right = compared(
        "Every token is put through the expert with its largest gate, times that gate.",
        "with {case}, the outputs of rank {rank} are off by up to {gap:.2g}",
        of="outputs",
        right=lambda trial, rank: trial.oracle["outputs"][rank],
        known=_ungated_everywhere,
    )

    @check("Every parameter gets a gradient on every rank, so that plain DDP can average.")
    def finished(self, trial: ThisTrial) -> Miss | None:
        """DDP's own check, right after the backward."""
        for rank, seen in trial.seen.items():
            if "unfinished" in seen:
                return Miss(
                    f"on rank {rank} of {trial.world_size}, DDP says: {seen['unfinished']}", "idle_skipped"
                )
        return None

    #: Counted in rows that go into experts.
    work_saved = at_most(
        "Every token goes through one expert only.",
        f"rank {{rank}} has {_TOKENS} tokens, and {{seen}} rows went through its experts",
        "everyone_computes",
        of="rows",
        limit=lambda case, rank: _TOKENS,
    )
    #: Of the mean squared outputs plus the balance term.
    gradients_right = compared(
        "The averaged gradients are those of one process with the tokens of all ranks.",
        "with {case}, the gradients on rank {rank} are off by up to {gap:.2g}",
        of="gradients",
        right=lambda trial, _: trial.oracle["gradients"]["right"],
    )

    @check("The mean of all ranks' balance terms is the balance term of one process.")
    def balance_right(self, trial: ThisTrial) -> Miss | None:
        """Each rank's own may be that of its own mean gates, or of all ranks'."""
        mean = sum(seen["balance"] for seen in trial.seen.values()) / trial.world_size
        if not math.isclose(mean, trial.oracle["balance"], rel_tol=1e-4):
            return Miss(
                f"with {self.describe(trial.case)}, the ranks' balance terms are {mean:.4g} on average; one process "
                f"alone has {trial.oracle['balance']:.4g}"
            )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Which shares give these gradients?"""
        seen = [
            t.with_seen({rank: s["gradients"] for rank, s in t.seen.items()})
            for t in trials
            if not any("unfinished" in s for s in t.seen.values())
        ]
        return recognise_by_name(
            seen,
            ("own_shares", "shares_summed"),
            lambda t, name: t.on_all_ranks(t.oracle["gradients"][name]),
            close,
        )

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """One rank sends its gradients and waits, the others have not all of theirs."""
        if outcome.kind is Kind.HANG:
            blocked = [w for w in outcome.waiting.values() if w.state == RankState.BLOCKED]
            in_backward = any(w.call == "backward" for w in blocked)
            return "idle_skipped" if in_backward else self.recognise(trials)
        return self.recognise(trials)


def _layer(seed: int, mix: Mix) -> nn.Module:
    import torch

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = torch.nn.Linear(_EXPERTS, _EXPERTS, bias=False)
            self.experts = torch.nn.ModuleList(torch.nn.Linear(_EXPERTS, _EXPERTS) for _ in range(_EXPERTS))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return mix(x, self.router(x).softmax(1), self.experts)

    layer = fill(Layer(), seed)
    with torch.no_grad():
        layer.get_parameter("router.weight").add_(1.5 * torch.eye(_EXPERTS))
    return layer


def _experts(layer: nn.Module) -> list[nn.Module]:
    return list(layer.get_submodule("experts").children())


def _tokens(case: Case, rank: int) -> Tensor:
    """Tokens that go to the experts drawn: each points to its own, with some noise."""
    import torch

    noise = drawn(case["seed"] + 11 * rank, _TOKENS, _EXPERTS).clamp(-2, 2)
    return 2 * torch.eye(_EXPERTS)[case["wanted"][rank]] + 0.1 * noise


def _loss(y: Tensor, balance: Tensor) -> Tensor:
    return (y - 1).square().mean() + balance.sum()


def _mix(
    x: Tensor, gates: Tensor, experts: nn.ModuleList, gated: bool, share: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Every expert computes every token, and a mask takes what is wanted: slow, and another way than answers take."""
    import torch

    choice = gates.argmax(1)
    mask = torch.nn.functional.one_hot(choice, _EXPERTS).to(x.dtype)
    outputs = torch.stack([expert(x) for expert in experts], dim=1)
    weights = mask * gates if gated else mask
    y = (weights.unsqueeze(2) * outputs).sum(1)
    return y, _EXPERTS * ((mask.mean(0) if share is None else share) * gates.mean(0)).sum()


def _reference(x: Tensor, gates: Tensor, experts: nn.ModuleList) -> tuple[Tensor, Tensor]:
    return _mix(x, gates, experts, gated=True, share=None)


def _ungated(x: Tensor, gates: Tensor, experts: nn.ModuleList) -> tuple[Tensor, Tensor]:
    return _mix(x, gates, experts, gated=False, share=None)


def _share(layer: nn.Module, x: Tensor) -> Tensor:
    import torch

    return torch.bincount(layer.get_submodule("router")(x).argmax(1), minlength=_EXPERTS) / len(x)


def _mean_of_ranks(case: Case, parts: Sequence[Tensor], shares: Sequence[Tensor]) -> list[float]:
    """What DDP makes of the ranks' gradients, given the shares that each of them works with."""
    layer = _layer(case["seed"], lambda x, gates, experts: _mix(x, gates, experts, True, share))
    for part, share in zip(parts, shares, strict=True):  # noqa: B007 - the layer above reads it
        y, balance = layer(part)
        (_loss(y, balance) / len(parts)).backward()
    return gradients(layer)
