"""The result of one process alone: the same images in the same order, one model, no communication.

Used in the process that starts the agent, in which no line of the learner's script has ever run. Torch is imported
where it is used: all modules of tasks are loaded in the kernel, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from course_lib.lessons.capstone.tasks.notes import Event
from course_lib.lessons.capstone.tasks.spies import FIRST_TEST

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import nn

    State = Mapping[str, torch.Tensor]

LR, MOMENTUM = 0.05, 0.9
#: Each optimizer step: the micro-batches of all processes, each as the numbers of its images.
Steps = Sequence[Sequence[Sequence[int]]]


class Images:
    """The file that the script read."""

    def __init__(self, path: Path) -> None:
        import numpy as np
        import torch

        with np.load(path) as file:
            self.train = _rows(file["train_images"]), torch.from_numpy(file["train_labels"]).long()
            self.test = _rows(file["test_images"]), torch.from_numpy(file["test_labels"]).long()


def _rows(images: NDArray[np.uint8]) -> torch.Tensor:
    import torch

    return torch.from_numpy(images).float().flatten(1) / 16


def trained(
    start: Mapping[str, State], steps: Steps, images: Images
) -> dict[Literal["classifier", "completer"], State]:
    """Return the state dicts of both models, after these steps from these initial weights."""
    import torch
    from torch.nn import functional

    classifier, completer = _classifier(), _completer()
    _fill(classifier, start["Classifier"])
    _fill(completer, start["Completer"])
    parameters = [*classifier.parameters(), *completer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=LR, momentum=MOMENTUM)
    for step in steps:
        optimizer.zero_grad()
        for micro_batch in step:
            rows, labels = images.train[0][list(micro_batch)], images.train[1][list(micro_batch)]
            moved = torch.roll(rows.view(-1, 8, 8), 1, dims=2).flatten(1)
            loss = functional.cross_entropy(classifier(rows), labels)
            loss = loss + functional.cross_entropy(classifier(moved), labels)
            loss = loss + functional.mse_loss(completer(rows[:, :32]), rows[:, 32:])
            (loss / len(step)).backward()
        optimizer.step()
    return {"classifier": classifier.state_dict(), "completer": completer.state_dict()}


def difference(found: State, right: State) -> float:
    """Return the largest difference of any weight but running statistics (which differ until they are shared).

    Raises:
        ValueError: the models do not have the same parameters.
    """
    theirs, ours = ([tensor for key, tensor in state.items() if _is_weight(key)] for state in (found, right))
    worst = 0.0
    for one, other in zip(theirs, ours, strict=True):
        if one.shape != other.shape:
            raise ValueError("other shapes")
        worst = max(worst, float((one - other).abs().max()))
    return worst


def right_answers(state: State, images: Images) -> int:
    """Count the test images that the saved Classifier reads right."""
    import torch

    classifier = _classifier().eval()
    _fill(classifier, state)
    with torch.no_grad():
        return int((classifier(images.test[0]).argmax(1) == images.test[1]).sum())


def steps_of(passes: Sequence[Sequence[Sequence[int]]], accumulate: int) -> Steps:
    """Group the micro-batches that went through the Classifier, by process, into optimizer steps."""
    number = min(map(len, passes)) // accumulate
    return [
        [micro for rank in passes for micro in rank[step * accumulate : (step + 1) * accumulate]]
        for step in range(number)
    ]


def images_of(events: Sequence[Event]) -> list[list[int]]:
    """Return the training micro-batches of a process: passes of images that are in the file."""
    learnt = (event["images"] for event in events if event.get("model") == "Classifier" and event["learns"])
    return [numbers for numbers in learnt if numbers and all(0 <= number < FIRST_TEST for number in numbers)]


def _is_weight(key: str) -> bool:
    return key.endswith((".weight", ".bias", "weight", "bias"))


def _fill(model: nn.Module, state: State) -> None:
    """Load tensors in their order: a learner may have renamed the parts of a model."""
    own = model.state_dict()
    model.load_state_dict(dict(zip(own, state.values(), strict=True)))


def _classifier() -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


def _completer() -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 32))
