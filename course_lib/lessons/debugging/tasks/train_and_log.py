"""Mystery 5: it hangs since the loss is logged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.debugging.tasks.mystery import Mystery, Seen, Solution
from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Trial, check
from course_lib.tasks.weights import close

if TYPE_CHECKING:
    from torch import Tensor


class Case(TypedDict):
    """Batches by rank and step."""

    batches: list[list[list[int]]]


class Run(TypedDict):
    """The weight that came back, and what was logged."""

    weight: float | str
    logged: list[float | str]


class Descent(TypedDict):
    """The weight in the end; and after every second step the mean of the losses, and rank 0's own."""

    weight: float
    means: list[float]
    own: list[float]


#: With steps along the `sum` of the gradients, or along their `mean`.
Oracle = dict[str, Descent]
ThisTrial = Trial[Case, Seen[Run], Oracle]


class TrainAndLog(Mystery[Case, Run, Oracle]):
    """It hangs since the loss is logged."""

    name = "debugging.train_and_log"
    still_hangs = "still_one_rank"
    solution = Solution(
        culprit=0,
        cause="one_rank",
        seen_doing={
            1: "it is waiting in the all_reduce of the third step, like rank 2",
            2: "it is waiting in the all_reduce of the third step, like rank 1",
        },
        refuted={
            "late": "it does not move: it waits in a collective of its own",
            "order": "nobody but one rank ever comes to that call, in whatever order",
            "fewer_batches": "all ranks have four batches",
            "died": "all three ranks have a stack",
            "types": "the operations differ, not the tensors",
        },
        tempting={"late": "only_late"},
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for steps in (4, 6):
            batches = [
                [[chance.randint(-9, 9) for _ in range(3)] for _ in range(steps)] for _ in range(world_size)
            ]
            yield {"batches": batches}

    def describe(self, case: Case) -> str:
        return f"{len(case['batches'][0])} steps"

    def run_repaired(
        self, answer: Callable[[Tensor, Tensor, Callable[[object], None]], object], case: Case
    ) -> Run:
        """Return the weight that the answer returned, and what was logged."""
        import torch

        logged: list[float | str] = []
        batches = torch.tensor(case["batches"][int(os.environ["RANK"])], dtype=torch.float32)
        weight = answer(torch.zeros(1), batches, lambda value: logged.append(toys.number_or_text(value)))
        return {"weight": toys.number_or_text(weight), "logged": logged}

    def oracle(self, case: Case, world_size: int) -> Oracle:
        """Descend in one process that has all batches, by their sum as the script does it, and by their mean."""
        return {"sum": _descent(case, 1), "mean": _descent(case, world_size)}

    @check("Every rank returns the weight that the descent comes to.")
    def descends(self, trial: ThisTrial) -> Miss | None:
        """With or without a log; whether steps are as long as the script's or are taken by the mean is no matter."""
        right = _meant(trial)["weight"]
        for rank, seen in trial.seen.items():
            weight = seen["run"]["weight"]
            if isinstance(weight, str):
                return Miss(f"rank {rank} returned {weight}")
            if abs(weight - right) > 1e-4:
                return Miss(
                    f"rank {rank} returned {weight:.4f}; by gradients added over the ranks, as in the script, it is "
                    f"{trial.oracle['sum']['weight']:.4f}"
                )
        return None

    @check("Only rank 0 logs.")
    def one_logs(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if rank and seen["run"]["logged"]:
                return Miss(f"rank {rank} logged {len(seen['run']['logged'])} lines", "logged_everywhere")
        return None

    @check("What rank 0 logs, after every second step, is the mean of all ranks' losses.")
    def logs_means(self, trial: ThisTrial) -> Miss | None:
        everything, means = trial.seen[0]["run"]["logged"], _meant(trial)["means"]
        logged = [value for value in everything if not isinstance(value, str)]
        if len(logged) < len(everything):
            return Miss("rank 0 logged something that is not a number")
        relative = [value / (1 + abs(mean)) for value, mean in zip(logged, means, strict=False)]
        if len(logged) == len(means) and close(relative, [mean / (1 + abs(mean)) for mean in means]):
            return None
        own = len(logged) == len(means) and all(
            abs(value - mine) <= 1e-4 * (1 + abs(mine))
            for value, mine in zip(logged, _meant(trial)["own"], strict=True)
        )
        return Miss(
            f"with {self.describe(trial.case)}, rank 0 logged {toys.short([f'{value:.3g}' for value in logged])}; the "
            f"means are {toys.short([f'{mean:.3g}' for mean in means])}",
            "own_loss" if own else None,
        )


def _descent(case: Case, divisor: int) -> Descent:
    """Return the final weight; and after every second step the mean loss, and rank 0's own."""
    weight = 0.0
    means: list[float] = []
    own: list[float] = []
    for step in range(len(case["batches"][0])):
        gradients = [weight - sum(part[step]) / len(part[step]) for part in case["batches"]]
        if step % 2 == 1:
            means.append(sum(gradient**2 for gradient in gradients) / len(gradients))
            own.append(gradients[0] ** 2)
        weight -= 0.1 * sum(gradients) / divisor
    return {"weight": weight, "means": means, "own": own}


def _meant(trial: ThisTrial) -> Descent:
    """Return the descent with which all ranks ended; else the script's."""
    weights = [seen["run"]["weight"] for seen in trial.seen.values()]
    by_mean = trial.oracle["mean"]
    alike = all(not isinstance(one, str) and abs(one - by_mean["weight"]) <= 1e-4 for one in weights)
    return by_mean if alike else trial.oracle["sum"]
