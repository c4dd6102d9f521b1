"""Task 1: one step of DataParallel by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.dataparallel.tasks import telling
from course_lib.tasks import toys
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Task, Trial, WrongKind, check, gate
from course_lib.tasks.toys import short

if TYPE_CHECKING:
    from torch import Tensor, nn

_CLOSE = 1e-5


class Case(TypedDict):
    """A batch for so many devices; with `reverse`, the parts are done in the reverse order."""

    samples: int
    devices: int
    reverse: bool
    seed: int


class Seen(TypedDict):
    """The answer's results, and the calls of the model; see `trial`."""

    outputs: list[list[float]]
    gradients: list[float]
    parts: list[int]
    together: bool
    in_main: int
    copies: int


class Oracle(TypedDict):
    """The sizes of the parts, the rows of the output; and gradients, as they are and by misconception."""

    parts: list[int]
    outputs: list[list[float]]
    right: list[float]
    mean_of_means: list[float]
    sum_of_means: list[float]


ThisTrial = Trial[Case, Seen, Oracle]


class ParallelStep(Task[Case, Seen, Oracle]):
    """One step of DataParallel by hand."""

    name = "dataparallel.parallel_step"
    world_sizes = (1,)
    tolerance = Tolerance(_CLOSE)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield batches that divide, that do not, and that leave a device without a part."""
        devices = chance.randint(3, 4)
        for samples, count, reverse in (
            (devices * chance.randint(2, 4), devices, False),
            (devices * chance.randint(2, 4) + 1, devices, True),
            (6, 4, False),
            (chance.randint(2, 5), 1, False),
        ):
            yield {
                "samples": samples,
                "devices": count,
                "reverse": reverse,
                "seed": chance.randint(1, 10_000),
            }

    def describe(self, case: Case) -> str:
        return f"{case['samples']} samples, devices={case['devices']}"

    def trial(self, answer: Callable[[nn.Module, Tensor, Tensor, int], object], case: Case) -> Seen:
        import torch

        parts = len(torch.empty(case["samples"]).chunk(case["devices"]))
        notes = telling.Notes(parts, case["reverse"])
        model = telling.network(notes, case["seed"])
        inputs, labels = telling.batch(case["samples"], case["seed"])
        outputs = answer(model, inputs, labels, case["devices"])
        weights = [call.weights for call in notes.calls]
        return {
            "outputs": _rows(outputs, case["samples"]),
            "gradients": _gradients(model),
            "parts": [call.samples for call in notes.calls],
            "in_main": sum(call.main for call in notes.calls),
            "together": notes.together,
            "copies": len(set(weights)),
        }

    def oracle(self, case: Case, world_size: int) -> Oracle:
        import torch
        from torch.nn.functional import cross_entropy

        inputs, labels = telling.batch(case["samples"], case["seed"])
        cut = list(zip(inputs.chunk(case["devices"]), labels.chunk(case["devices"]), strict=True))

        def gradients(loss: Callable[[nn.Module], Tensor]) -> list[float]:
            model = telling.network(telling.Notes(1, False), case["seed"])
            loss(model).backward()
            return _gradients(model)

        def mean_loss(model: nn.Module) -> Tensor:
            return torch.stack([cross_entropy(model(x), y) for x, y in cut]).mean()

        def added_loss(model: nn.Module) -> Tensor:
            return torch.stack([cross_entropy(model(x), y) for x, y in cut]).sum()

        outputs = telling.network(telling.Notes(1, False), case["seed"])(inputs)
        return {
            "parts": [len(x) for x, _ in cut],
            "outputs": outputs.tolist(),
            "right": gradients(lambda model: cross_entropy(model(inputs), labels)),
            "mean_of_means": gradients(mean_loss),
            "sum_of_means": gradients(added_loss),
        }

    def reference(self, oracle: Oracle) -> object:
        return [oracle["outputs"], oracle["right"]]

    gives_outputs = gate(
        "The outputs of the whole batch are returned: one row for each sample.",
        "on rank 0, with {case}, {given}",
    )

    @check("The batch is cut as scatter cuts it, and each part goes through the model once.", gate=True)
    def parts(self, trial: ThisTrial) -> Miss | None:
        """Sizes of the parts, in any order."""
        seen, right = trial.seen[0]["parts"], trial.oracle["parts"]
        if sorted(seen) == sorted(right):
            return None
        return Miss(
            f"on rank 0, with {self.describe(trial.case)}, the model was called with parts of {short(seen)} "
            f"samples; scatter gives {short(right)}",
            "other_parts",
        )

    @check("The parts are computed at the same time, each in a thread of its own.", gate=True)
    def threads(self, trial: ThisTrial) -> Miss | None:
        """One part may be computed in place, as parallel_apply does."""
        seen, parts = trial.seen[0], trial.oracle["parts"]
        if len(parts) == 1 or (seen["together"] and not seen["in_main"]):
            return None
        where = "in the main thread" if seen["in_main"] else "one after the other"
        return Miss(
            f"on rank 0, with {self.describe(trial.case)}, parts were computed {where}", "one_after_the_other"
        )

    @check("Each part is computed with a copy of the weights of its own.")
    def copies(self, trial: ThisTrial) -> Miss | None:
        """Told apart by where the first weights lie in memory."""
        seen, parts = trial.seen[0], trial.oracle["parts"]
        if seen["copies"] == len(parts):
            return None
        return Miss(
            f"on rank 0, with {self.describe(trial.case)}, {len(parts)} parts were computed with "
            f"{seen['copies']} copies of the weights",
            "one_model_for_all",
        )

    @check("Each row is what the model says of its sample.")
    def outputs(self, trial: ThisTrial) -> Miss | None:
        """In the order of the batch, not in the order of their ends."""
        seen, right = trial.seen[0]["outputs"], trial.oracle["outputs"]
        wrong = [row for row in range(len(right)) if not _close(seen[row], right[row])]
        if not wrong:
            return None
        shuffled = all(any(_close(row, other) for other in right) for row in seen)
        return Miss(
            f"on rank 0, with {self.describe(trial.case)}, row {wrong[0]} is {_text(seen[wrong[0]])} and should be "
            f"{_text(right[wrong[0]])}",
            "order_of_arrival" if shuffled else None,
        )

    @check("Afterwards the model has the gradient of the loss of the whole batch.")
    def gradient(self, trial: ThisTrial) -> Miss | None:
        seen, oracle = trial.seen[0]["gradients"], trial.oracle
        if _close(seen, oracle["right"]):
            return None
        if not any(seen):
            observed, known = "the model has no gradient", "cut_off"
        else:
            first = next(
                k for k, (a, b) in enumerate(zip(seen, oracle["right"], strict=True)) if not _close([a], [b])
            )
            observed = f"an element of the gradient is {seen[first]:.4f}; one device finds {oracle['right'][first]:.4f}"
            known = next(
                (name for name in ("mean_of_means", "sum_of_means") if _close(seen, oracle[name])), ""
            )
        return Miss(f"on rank 0, with {self.describe(trial.case)}, {observed}", known or None)


def _rows(outputs: object, samples: int) -> list[list[float]]:
    import torch

    if not isinstance(outputs, torch.Tensor):
        raise WrongKind(f"the answer returned {toys.described(outputs)}")
    if outputs.shape != (samples, telling.CLASSES):
        raise WrongKind(f"a tensor of shape {tuple(outputs.shape)} was returned")
    rows: list[list[float]] = outputs.detach().tolist()
    return rows


def _gradients(model: nn.Module) -> list[float]:
    """Return all gradients in a row; a missing one counts as zeros."""
    return [
        value
        for weight in model.parameters()
        for value in (weight.detach() * 0 if weight.grad is None else weight.grad).flatten().tolist()
    ]


def _close(some: list[float], others: list[float]) -> bool:
    return all(abs(a - b) < _CLOSE for a, b in zip(some, others, strict=True))


def _text(row: list[float]) -> str:
    return short([f"{value:.3f}" for value in row])
