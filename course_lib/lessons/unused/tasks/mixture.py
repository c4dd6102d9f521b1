"""Task 3: a mixture of experts that trains under plain DDP, though ranks have different numbers of tokens."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, NotRequired, TypedDict

from course_lib.lessons.unused.tasks.models import first_line, gradients
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import (
    Miss,
    Recognised,
    Task,
    Trial,
    WrongKind,
    check,
    gate,
    recognise_by_message,
)
from course_lib.tasks.weights import ROUNDING, drawn, fill, numbers
from realranks.outcome.outcome import Kind, Outcome, RankState

if TYPE_CHECKING:
    from torch import Tensor, nn

    Mix = Callable[[Tensor, Tensor, Tensor, nn.ModuleList], tuple[Tensor, Tensor]]

_EXPERTS, _EACH = 4, 2


class Case(TypedDict):
    """The two experts of each token, by rank."""

    kind: str
    seed: int
    wanted: list[list[list[int]]]


class Seen(TypedDict):
    """Outputs, rows that went through experts, averaged gradients, this rank's loss; DDP's complaint, if it has one."""

    outputs: list[float]
    rows: int
    gradients: list[float]
    loss: float
    unfinished: NotRequired[str]


class Oracle(TypedDict):
    """Outputs by rank; the gradients and the loss of one process."""

    outputs: list[list[float]]
    gradients: list[float]
    loss: float


ThisTrial = Trial[Case, Seen, Oracle]


class Mixture(Task[Case, Seen, Oracle]):
    """A mixture of experts that trains under plain DDP."""

    name = "unused.mixture"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield ranks with other experts each, one rank that uses all of them, and one that has no tokens."""
        for kind in ("others", "one_has_all", *(("none",) if world_size > 1 else ())):
            some = chance.sample(range(_EXPERTS), _EXPERTS)
            chosen = chance.randrange(world_size)
            wanted = []
            for rank, size in enumerate(chance.sample(range(2, 8), world_size)):
                mine = [some[(rank + number) % _EXPERTS] for number in range(3)]
                tokens = [chance.sample(mine, _EACH) for _ in range(size)]
                if rank == chosen and kind != "others":
                    tokens = [] if kind == "none" else [*tokens, some[:_EACH], some[_EACH:], *tokens]
                wanted.append(tokens)
            yield {"kind": kind, "seed": chance.randint(1, 10**6), "wanted": wanted}

    def describe(self, case: Case) -> str:
        shown = (
            f"{len(tokens)} tokens for experts {sorted({one for token in tokens for one in token})}"
            if tokens
            else "no tokens"
            for tokens in case["wanted"]
        )
        return ", ".join(f"{text} on rank {rank}" for rank, text in enumerate(shown))

    def trial(self, answer: Mix, case: Case) -> Seen:
        import torch

        rank = int(os.environ["RANK"])
        layer = _layer(case["seed"], answer)
        rows: list[int] = []
        for expert in _experts(layer):
            expert.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0].shape[:-1].numel()))
        ddp = torch.nn.parallel.DistributedDataParallel(layer)
        x, y = _tokens(case, rank)
        given = ddp(x, y)
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise toys.wrong_kind(given)
        outputs, loss = given
        if (
            not all(isinstance(one, torch.Tensor) for one in given)
            or outputs.shape != x.shape
            or loss.numel() != 1
        ):
            raise WrongKind("something else than a tensor shaped like x and a tensor with one number")
        loss.sum().backward()
        seen: Seen = {
            "outputs": numbers([outputs]),
            "rows": sum(rows),
            "gradients": gradients(layer),
            "loss": loss.item(),
        }
        try:
            ddp._check_reducer_finalized()
        except RuntimeError as error:
            idle = [name for name, p in layer.named_parameters() if p.grad is None]
            seen["unfinished"] = f"{first_line(error)}; no gradient: {', '.join(idle) or 'unknown'}"
        return seen

    def oracle(self, case: Case, world_size: int) -> Oracle:
        import torch

        tokens = [_tokens(case, rank) for rank in range(world_size)]
        layer = _layer(case["seed"], _mix)
        _, loss = layer(*map(torch.cat, zip(*tokens, strict=True)))
        loss.backward()
        return {
            "outputs": [numbers([layer(*each)[0]]) for each in tokens],
            "gradients": gradients(layer),
            "loss": loss.item(),
        }

    gives_pair = gate("Every rank returns the outputs, shaped like x, and its loss.")

    outputs_right = compared(
        "Every token is put through its two experts, and each result is multiplied by its gate.",
        "with {case}, the outputs of rank {rank} are off by up to {gap:.2g}",
        of="outputs",
        right=lambda trial, rank: trial.oracle["outputs"][rank],
    )

    @check("Every parameter gets a gradient on every rank, so that plain DDP can average.")
    def finished(self, trial: ThisTrial) -> Miss | None:
        """DDP's own check, right after the backward."""
        for rank, seen in trial.seen.items():
            if "unfinished" in seen:
                left_out = set(re.findall(r"experts\.(\d+)", seen["unfinished"]))
                busy = {str(expert) for token in trial.case["wanted"][rank] for expert in token}
                return Miss(
                    f"on rank {rank} of {trial.world_size}, DDP says: {seen['unfinished']}",
                    "idle_skipped" if left_out and not left_out & busy else None,
                )
        return None

    @check("Every token goes through two experts only.")
    def work_saved(self, trial: ThisTrial) -> Miss | None:
        """Counted in rows that go into experts."""
        for rank, seen in sorted(trial.seen.items()):
            tokens, rows = len(trial.case["wanted"][rank]), seen["rows"]
            if rows > _EACH * tokens:
                said = (
                    f"with {self.describe(trial.case)}, {rows} rows went through the experts of rank {rank}"
                )
                return Miss(said, "everyone_computes" if rows >= _EXPERTS * tokens else None)
        return None

    gradients_right = compared(
        "The averaged gradients are those of one process with the tokens of all ranks.",
        "with {case}, the gradients on rank {rank} are off by up to {gap:.2g}",
        of="gradients",
        right=lambda trial, _: trial.oracle["gradients"],
    )

    @check("The mean of the ranks' losses is the loss of that process.")
    def loss_right(self, trial: ThisTrial) -> Miss | None:
        """A rank's own depends on how the answer divides what all ranks know."""
        mean = sum(seen["loss"] for seen in trial.seen.values()) / trial.world_size
        if not math.isclose(mean, trial.oracle["loss"], rel_tol=1e-4):
            return Miss(
                f"with {self.describe(trial.case)}, the ranks' losses are {mean:.4g} on average; one process alone has "
                f"{trial.oracle['loss']:.4g}"
            )
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise ranks that wait for what another one has not sent: gradients in backward, or a collective."""
        blocked = [w for w in outcome.waiting.values() if w.state == RankState.BLOCKED]
        if outcome.kind is Kind.HANG and any(w.call == "backward" for w in blocked):
            return "idle_skipped"
        # The case in which a rank has no tokens is the last one of each number of ranks.
        before = [trial.case["kind"] for trial in trials if trial.world_size == outcome.world_size]
        no_loss = recognise_by_message(outcome, {"does not require grad": "left_early"})
        if "one_has_all" in before and (outcome.kind is Kind.HANG or no_loss):
            return "left_early"
        return None


def _layer(seed: int, mix: Mix) -> nn.Module:
    import torch

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = torch.nn.Linear(_EXPERTS, _EXPERTS, bias=False)
            self.experts = torch.nn.ModuleList(torch.nn.Linear(_EXPERTS, _EXPERTS) for _ in range(_EXPERTS))

        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return mix(x, y, self.router(x).softmax(1), self.experts)

    layer = fill(Layer(), seed)
    with torch.no_grad():
        layer.get_parameter("router.weight").mul_(0.2).add_(1.5 * torch.eye(_EXPERTS))
    return layer


def _experts(layer: nn.Module) -> list[nn.Module]:
    return list(layer.get_submodule("experts").children())


def _tokens(case: Case, rank: int) -> tuple[Tensor, Tensor]:
    """Return tokens of a rank, each pointing to its two experts with some noise; and targets."""
    import torch

    wanted, seed = case["wanted"][rank], case["seed"] + 11 * rank
    size, corners = (len(wanted), _EXPERTS), torch.eye(_EXPERTS)
    x = 0.1 * drawn(seed, *size).clamp(-2, 2)
    for number, (first, second) in enumerate(wanted):
        x[number] += 2 * corners[first] + 1.2 * corners[second]
    return x, drawn(seed + 1, *size)


def _mix(x: Tensor, y: Tensor, gates: Tensor, experts: nn.ModuleList) -> tuple[Tensor, Tensor]:
    """Let every expert compute every token and mask what is not wanted: slow, but unlike the answers' code."""
    import torch

    chosen = gates.topk(_EACH, 1).indices
    weights = torch.nn.functional.one_hot(chosen, _EXPERTS).sum(1).to(x.dtype)
    results = torch.stack([expert(x) for expert in experts], dim=1)
    outputs = ((weights * gates).unsqueeze(2) * results).sum(1)
    return outputs, (outputs - y).square().mean()
