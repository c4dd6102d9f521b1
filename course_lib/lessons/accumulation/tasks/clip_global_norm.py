"""Task 2: clip by the norm of a model of which each rank holds another part."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys, weights
from course_lib.tasks.compared import Compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Trial, check, gate
from course_lib.tasks.toys import ranks_text

if TYPE_CHECKING:
    from torch import Tensor, nn


_SHARED = ((3, 4), (5,), (2, 2))


#: By what a gradient was multiplied, or what has become of it: `gone`, `replaced` or `mixed`.
Factor = float | str


class Case(TypedDict):
    """The number of each rank's own parameters; the rank that has an inf or a nan (`value`) in one, or -1."""

    seed: int
    own: list[int]
    max_norm: float
    broken: int
    value: str


class Seen(TypedDict):
    """The norm (-1 where it is not finite), and the factors of all gradients that there are."""

    norm: float
    shared: list[Factor]
    own: list[Factor]


ThisTrial = Trial[Case, Seen, dict[str, list[Seen]]]


def _gradients(case: Case, rank: int) -> tuple[list[Tensor | None], list[Tensor]]:
    """Return the gradients of the shared parameters, and of this rank's own; None where there is none."""
    shared: list[Tensor | None] = [weights.drawn(case["seed"] + n, *shape) for n, shape in enumerate(_SHARED)]
    shared[1] = None
    count = case["own"][rank]
    own = [weights.drawn(case["seed"] + 100 * rank + 50 + n, 4, 2) + rank for n in range(count)]
    if case["broken"] == rank:
        own[-1][1, 1] = float(case["value"])
    return shared, own


def _norm(gradients: Sequence[Tensor | None]) -> float:
    return math.sqrt(sum(float(one.double().square().sum()) for one in gradients if one is not None))


class ClipGlobalNorm(Compared[Case, Seen, Seen]):
    """Clip by the norm of a model of which each rank holds another part."""

    name = "accumulation.clip_global_norm"
    world_sizes = (1, 2, 3)
    tolerance = Tolerance(0.0, 1e-4)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield norms above and below the limit, and an inf and a nan on one rank only."""
        for what in ("long", "short", "inf", "nan"):
            own = [chance.randint(1, 3) for _ in range(world_size)]
            if what == "long" and world_size > 1:
                own[chance.randrange(world_size)] = 0
            yield {
                "seed": chance.randint(1, 10**6),
                "own": own,
                "max_norm": 1000.0 if what == "short" else round(chance.uniform(0.5, 2.0), 2),
                "broken": chance.randrange(world_size) if what in ("inf", "nan") else -1,
                "value": what,
            }

    def describe(self, case: Case) -> str:
        if case["broken"] >= 0:
            return f"with {case['value']} in a gradient of rank {case['broken']}, max_norm={case['max_norm']}"
        return f"with max_norm={case['max_norm']}"

    def trial(
        self, answer: Callable[[list[nn.Parameter], list[nn.Parameter], float], object], case: Case
    ) -> Seen:
        import torch

        before = _gradients(case, int(os.environ["RANK"]))
        shared, own = ([_parameter(gradient) for gradient in part] for part in before)
        old_gradients = [parameter.grad for parameter in (*shared, *own)]  # as DDP's buckets hold them
        returned = toys.number(answer(list(shared), list(own), case["max_norm"]))
        factors: list[Factor] = []
        for parameter, gradient, old in zip(
            [*shared, *own], [*before[0], *before[1]], old_gradients, strict=True
        ):
            if gradient is None or old is None:
                continue
            if parameter.grad is None or parameter.grad.shape != gradient.shape:
                factors.append("gone")
                continue
            if not torch.equal(parameter.grad.nan_to_num(7.0), old.nan_to_num(7.0)):
                factors.append("replaced")
                continue
            finite = gradient.isfinite()
            ratio = (parameter.grad[finite].double() / gradient[finite].double()).flatten()
            same = bool(torch.allclose(ratio, ratio[:1].expand_as(ratio), rtol=1e-4, atol=1e-6))
            factors.append(float(ratio[0]) if same and math.isfinite(float(ratio[0])) else "mixed")
        count = sum(gradient is not None for gradient in before[0])
        if isinstance(returned, float) and not math.isfinite(returned):
            returned = -1.0  # JSON knows neither inf nor nan; a norm is never negative
        return {"norm": returned, "shared": factors[:count], "own": factors[count:]}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Seen]]:
        parts = [_gradients(case, rank) for rank in range(world_size)]
        norm = math.hypot(_norm(parts[0][0]), *(_norm(own) for _, own in parts))
        factor = case["max_norm"] / norm if math.isfinite(norm) and norm > case["max_norm"] else 1.0
        count = sum(gradient is not None for gradient in parts[0][0])
        norm = norm if math.isfinite(norm) else -1.0
        return {
            "right": [Seen(norm=norm, shared=[factor] * count, own=[factor] * own) for own in case["own"]]
        }

    gives_number = gate("Every rank returns a number.")

    @check("Every rank returns the norm of all gradients of all ranks, the shared ones counted once.")
    def right_norm(self, trial: ThisTrial) -> Miss | None:
        """Before clipping; inf or nan where one of them is."""
        for rank, seen in trial.seen.items():
            right = trial.oracle["right"][rank]["norm"]
            if not math.isclose(seen["norm"], right, rel_tol=1e-4):
                return Miss(
                    f"{self.describe(trial.case)} on {ranks_text(trial.world_size)}, rank {rank} returned "
                    f"{_named(seen['norm'])}; the norm is {_named(right)}"
                )
        return None

    @check(
        "If it is larger than max_norm, all gradients are shortened in place by one factor, on all ranks the same."
    )
    def clipped(self, trial: ThisTrial) -> Miss | None:
        if trial.case["broken"] >= 0 or trial.oracle["right"][0]["shared"][0] == 1.0:
            return None
        return self._factors(trial)

    @check("If it is not larger, or not finite, all gradients are left as they are.")
    def left_alone(self, trial: ThisTrial) -> Miss | None:
        """Also on ranks whose own gradients are finite."""
        broken = trial.case["broken"] >= 0
        if not broken and trial.oracle["right"][0]["shared"][0] != 1.0:
            return None
        return self._factors(trial)

    def _factors(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            right = trial.oracle["right"][rank]
            for part, mine, wanted in (
                ("shared", seen["shared"], right["shared"]),
                ("own", seen["own"], right["own"]),
            ):
                if not self.alike(mine, wanted):
                    return Miss(
                        f"{self.describe(trial.case)} on {ranks_text(trial.world_size)}, {part} gradients of rank "
                        f"{rank} were multiplied by {', '.join(map(_named, mine))}, not by {_named(wanted[0])}"
                    )
        return None


def _parameter(gradient: Tensor | None) -> nn.Parameter:
    import torch

    parameter = torch.nn.Parameter(torch.zeros(3) if gradient is None else torch.zeros_like(gradient))
    parameter.grad = None if gradient is None else gradient.clone()
    return parameter


def _named(value: Factor) -> str:
    if isinstance(value, str):
        return {
            "gone": "nothing (it is gone)",
            "mixed": "different factors",
            "replaced": "nothing (.grad is another tensor now)",
        }[value]
    return "inf or nan" if value < 0 else f"{value:.4g}"
