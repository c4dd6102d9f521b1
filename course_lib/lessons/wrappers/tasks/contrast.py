"""Task 4: a contrastive loss over the samples of all ranks, of which some have more than others."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NotRequired, TypedDict

from course_lib.lessons.unused.tasks.models import gradients
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Recognised, Trial, WrongKind, check, gate, recognise_by_message
from course_lib.tasks.weights import ROUNDING, added, drawn, network
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn

    Loss = Callable[[Tensor, Tensor, Tensor, list[int]], object]


class Case(TypedDict):
    """The number of samples by rank."""

    seed: int
    sizes: list[int]


class Seen(TypedDict):
    """The loss of this rank, the averaged gradients, and the parameters that have none."""

    loss: float
    gradients: list[float]
    missing: list[str]


class Found(TypedDict):
    """The averaged gradients; and, of right answers, the mean of the ranks' losses."""

    gradients: list[float]
    loss: NotRequired[float]


ThisTrial = Trial[Case, Seen, dict[str, list[Found]]]


@dataclass(frozen=True)
class Way:
    """A way to make the ranks' losses.

    Attributes:
        back: for the first views and for the second ones, whose losses send a gradient back to a rank's samples: those
            of `all` ranks, its `own`, or `none`; `all times`: as many times as there are ranks.
        rows: a rank's loss is that of its own samples among all; else that of all samples, or of its own `alone`.
        weighted: the more samples a rank has, the more its loss counts. Where all compute the same, it does not matter.
        begins: where in the rows of all samples this rank's begin: after those of the `ranks before`, as if all had as
            many as this one (`equal`), or at `zero`.
        length: of every rank's part: its `own`; that of the `longest`, filled up with zeros; or of the `shortest`.
        mixed: each rank sends both views as one batch, and the first half of what all have sent is taken for the first.
        directions: how much the two directions count.
        power: the loss is multiplied by the number of ranks, to this power.
    """

    back: tuple[str, str] = ("all", "all")
    rows: bool = False
    alone: bool = False
    weighted: bool = True
    begins: str = "ranks before"
    length: str = "own"
    mixed: bool = False
    directions: tuple[float, float] = (0.5, 0.5)
    power: int = 0

    def losses(self, ones: list[Tensor], others: list[Tensor], temperature: Tensor) -> list[Tensor]:
        """Return the loss by rank; the gradient of their sum is what the ranks' backward gives together."""
        import torch

        found = []
        for rank, own in enumerate(zip(ones, others, strict=True)):
            everyones = [
                self._gathered(parts, rank, back)
                for parts, back in zip((ones, others), self.back, strict=True)
            ]
            if self.mixed:
                sent = torch.cat([part for both in zip(ones, others, strict=True) for part in both])
                everyones = list(sent.chunk(2))
            anchors, first = (own, self._first(ones, rank)) if self.rows else (everyones, 0)
            places = (first + torch.arange(len(anchors[0]))).clamp(max=len(everyones[0]) - 1)
            pairs = (anchors[0], everyones[1]), (anchors[1], everyones[0])
            terms = (
                torch.nn.functional.cross_entropy(some @ all_.T / temperature, places) for some, all_ in pairs
            )
            loss = added(weight * term for weight, term in zip(self.directions, terms, strict=True))
            share = len(own[0]) * len(ones) / sum(map(len, ones)) if self._unequal else 1.0
            found.append(share * len(ones) ** self.power * loss)
        return found

    @property
    def _unequal(self) -> bool:
        return self.weighted and (self.rows or self.alone)

    def _first(self, parts: list[Tensor], rank: int) -> int:
        if self.length == "longest":
            return rank * max(map(len, parts))
        sizes = {"ranks before": sum(map(len, parts[:rank])), "equal": rank * len(parts[rank]), "zero": 0}
        return sizes[self.begins]

    def _gathered(self, parts: list[Tensor], rank: int, back: str) -> Tensor:
        import torch

        who, _, times = back.partition(" ")
        shown = []
        for other, part in enumerate(parts):
            if self.alone and other != rank:
                continue
            if who == "none" or (who == "own" and other != rank):
                part = part.detach()
            if times:
                part = len(parts) * part - (len(parts) - 1) * part.detach()
            lengths = {"own": len(part), "longest": max(map(len, parts)), "shortest": min(map(len, parts))}
            # pads, or cuts where the number is negative
            shown.append(torch.nn.functional.pad(part, (0, 0, 0, lengths[self.length] - len(part))))
        return torch.cat(shown)


#: By misconception; a slash and a variant may follow.
_WAYS = {
    "right": Way(),
    "own_samples": Way(alone=True),
    "own_samples/means": Way(alone=True, weighted=False),
    "cut/first views": Way(("none", "all")),
    "cut/second views": Way(("all", "none")),
    "cut/keys": Way(("none", "none"), rows=True),
    "cut/keys, means": Way(("none", "none"), rows=True, weighted=False),
    "not_from_others": Way(("own", "own"), rows=True),
    "not_from_others/means": Way(("own", "own"), rows=True, weighted=False),
    "divided": Way(("own", "own")),
    "divided/all": Way(power=-1),
    "counted_often": Way(power=1),
    "counted_often/temperature": Way(("own", "own"), power=1),
    "counted_often/embeddings": Way(("all times", "all times")),
    "wrong_positives": Way(rows=True, begins="zero"),
    "wrong_positives/means": Way(rows=True, begins="zero", weighted=False),
    "wrong_positives/equal": Way(rows=True, begins="equal"),
    "wrong_positives/equal, means": Way(rows=True, begins="equal", weighted=False),
    "one_direction/rows": Way(directions=(1.0, 0.0)),
    "one_direction/columns": Way(directions=(0.0, 1.0)),
    "wrong_positives/both views as one batch": Way(mixed=True),
    "padding_kept": Way(length="longest"),
    "padding_kept/keys": Way(rows=True, length="longest"),
    "padding_kept/keys, means": Way(rows=True, length="longest", weighted=False),
    "left_out": Way(length="shortest"),
    "mean_of_means": Way(rows=True, weighted=False),
}
# The loss of the lesson has one direction.
_WAYS |= {
    f"{name.partition('/')[0]} + one_direction/{name}": replace(way, directions=(1.0, 0.0))
    for name, way in _WAYS.items()
    if name.startswith(("own_samples", "cut", "not_from_others", "divided"))
}


class Contrast(Compared[Case, Seen, Found]):
    """A contrastive loss over the samples of all ranks."""

    name = "wrappers.contrast"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield equal numbers of samples, then different ones, in any order."""
        size = chance.randint(3, 5)
        for sizes in ([size] * world_size, chance.sample(range(2, 6), world_size)):
            yield {"seed": chance.randint(1, 10**6), "sizes": sizes}

    def describe(self, case: Case) -> str:
        return f"{toys.short(case['sizes'])} samples"

    def trial(self, answer: Loss, case: Case) -> Seen:
        import torch

        rank = int(os.environ["RANK"])
        net = _model(case["seed"])

        class WithLoss(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = net

            def forward(self, x: Tensor, y: Tensor) -> object:
                return answer(self.net(x), self.net(y), net.get_parameter("temperature"), list(case["sizes"]))

        ddp = torch.nn.parallel.DistributedDataParallel(WithLoss())
        loss = ddp(*_views(case, rank))
        if not isinstance(loss, torch.Tensor):
            raise toys.wrong_kind(loss)
        if loss.numel() != 1:
            raise WrongKind(f"a tensor with {loss.numel()} numbers")
        loss.sum().backward()
        return {
            "loss": loss.item(),
            "gradients": gradients(net),
            "missing": [name for name, parameter in net.named_parameters() if parameter.grad is None],
        }

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], list[Found]]]:
        return {way: partial(_average, case, world_size, way) for way in _WAYS}

    gives_loss = gate("Every rank returns a loss: a tensor with one number.")

    @check("Every parameter gets a gradient on every rank.")
    def reached(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if seen["missing"]:
                names = ", ".join(seen["missing"])
                return Miss(f"on rank {rank} of {trial.world_size}, no gradient reaches {names}", "cut")
        return None

    #: Also that of the temperature, which is used after the gathering.
    right_gradients = compared(
        "The averaged gradients are those of one process with the samples of all ranks.",
        "with {case}, the gradients on rank {rank} are off by up to {gap:.2g}",
        of="gradients",
    )

    @check("The mean of the ranks' losses is the loss of one process.")
    def right_loss(self, trial: ThisTrial) -> Miss | None:
        """Each rank's own may be that of all samples, or that of its own ones among all."""
        mean = sum(seen["loss"] for seen in trial.seen.values()) / trial.world_size
        right = trial.oracle["right"][0]["loss"]
        if not math.isclose(mean, right, rel_tol=1e-4):
            ranks = "the loss of rank 0 is" if trial.world_size == 1 else "the ranks' losses are on average"
            return Miss(f"with {self.describe(trial.case)}, {ranks} {mean:.4g}; it should be {right:.4g}")
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Explain the gradients, unless the loss is wrong on a single rank already."""
        alone = [trial for trial in trials if trial.world_size == 1]
        known = super().recognise(alone)
        if known is None and any(not self._right(trial) for trial in alone):
            return None
        return super().recognise(trials)

    def _right(self, trial: ThisTrial) -> bool:
        right = {"gradients": trial.oracle["right"][0]["gradients"]}
        return all(self.alike(seen, right) for seen in trial.seen.values())

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Go by torch's messages; gloo ends ranks that send different numbers of bytes."""
        texts = {
            "does not require grad": "cut",
            "out of bounds": "wrong_positives",
            "invalid tensor size": "equal_sizes",
            "invalid gradient": "equal_sizes",
            "must match": "equal_sizes",
            "batch_size": "wrong_positives",
        }
        unequal = any(trial.world_size == outcome.world_size for trial in trials)  # only in the second case
        ending = recognise_by_message(outcome, texts) or (
            "equal_sizes" if unequal and outcome.kind is Kind.DIED else None
        )
        known = self.recognise(trials) or ()
        found = (*((known,) if isinstance(known, str) else known), *((ending,) if ending else ()))
        return tuple(dict.fromkeys(found)) or None


def _model(seed: int) -> nn.Module:
    """Return an encoder whose embeddings have length 1, with a learned temperature."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = network(seed, 4, 5, 3)
            self.temperature = torch.nn.Parameter(torch.tensor(0.5))

        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.normalize(self.encoder(x))

    return Model()


def _views(case: Case, rank: int) -> tuple[Tensor, Tensor]:
    """Return this rank's samples, and the same with some noise."""
    seed, size = case["seed"] + 10 * rank, case["sizes"][rank]
    x = drawn(seed + 1, size, 4)
    return x, x + 0.3 * drawn(seed + 2, size, 4)


def _average(case: Case, world_size: int, way: str) -> list[Found]:
    """Return the mean of all ranks' losses and its gradient: what DDP makes of the ranks' gradients."""
    net = _model(case["seed"])
    views = [_views(case, rank) for rank in range(world_size)]
    ones, others = ([net(x) for x in some] for some in zip(*views, strict=True))
    mean = added(_WAYS[way].losses(ones, others, net.get_parameter("temperature"))) / world_size
    mean.backward()
    found: Found = {"gradients": gradients(net)}
    if way == "right":
        found["loss"] = mean.item()
    return [found] * world_size
