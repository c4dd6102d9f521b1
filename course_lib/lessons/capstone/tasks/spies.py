"""Spies in the functions of torch that a training script calls; its source is not read.

Installed in a process before the script is loaded, so that `from ... import` finds what is noted, too. Torch is
imported where it is used: all modules of tasks are loaded in the kernel, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from course_lib.lessons.capstone.tasks.cases import Placed
from course_lib.lessons.capstone.tasks.notes import Notes

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.types import FileLike

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Test images are distinguished from training images by their numbers.
FIRST_TEST = 100_000
_COLLECTIVES = (
    "all_reduce", "broadcast", "barrier", "reduce", "all_gather", "all_gather_object", "all_gather_into_tensor",
    "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "scatter", "reduce_scatter",
)  # fmt: skip
#: Wrappers live until the process ends: gloo's destructor can block a process whose group was destroyed.
_kept: list[object] = []


class Spies:
    """The notes, and their listener: `on_pass` is called before each pass of a model."""

    def __init__(self, notes: Notes, case: Placed, on_pass: Callable[[str, bool], None]) -> None:
        self.notes = notes
        self.on_pass = on_pass
        self.numbers = _numbers_of_images(Path(case["data"]))
        self.roles = {case["classifier"]: "Classifier", case["completer"]: "Completer"}
        self.wrappers: list[DistributedDataParallel] = []
        self.models: dict[str, nn.Module] = {}
        self.start_noted = False

    def install(self) -> None:
        """Begin to note; for the rest of the process's life."""
        import torch.distributed as dist

        self._watch_models()
        self._watch_losses()
        self._watch_optimizers()
        for name in _COLLECTIVES:
            if hasattr(dist, name):
                setattr(dist, name, self._noting(getattr(dist, name), "collective", name=name))

    def _noting(self, function: Callable[_P, _R], what: str, **facts: object) -> Callable[_P, _R]:
        @functools.wraps(function)
        def noted(*arguments: _P.args, **options: _P.kwargs) -> _R:
            self.notes.put(what, **facts)
            return function(*arguments, **options)

        return noted

    # -- passes -------------------------------------------------------------------------------------------------

    def _watch_models(self) -> None:
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel

        init: Any = DistributedDataParallel.__init__
        forward: Any = DistributedDataParallel.forward
        spies = self

        def noted_init(
            wrapper: DistributedDataParallel, module: nn.Module, *arguments: Any, **options: Any
        ) -> None:
            _kept.append(wrapper)
            for part in module.modules():
                spies._meet(part)
            init(wrapper, module, *arguments, **options)

        def noted_forward(wrapper: DistributedDataParallel, *arguments: Any, **options: Any) -> Any:
            spies.wrappers.append(wrapper)
            try:
                return forward(wrapper, *arguments, **options)
            finally:
                spies.wrappers.pop()

        wrapper_class: Any = DistributedDataParallel
        wrapper_class.__init__, wrapper_class.forward = noted_init, noted_forward
        nn.modules.module.register_module_forward_pre_hook(self._before_pass)

    def _meet(self, module: nn.Module) -> None:
        if role := self.roles.get(type(module).__name__):
            self.models[role] = module

    def _before_pass(self, module: nn.Module, arguments: tuple[object, ...]) -> None:
        import torch

        name = self.roles.get(type(module).__name__)
        if name is None:
            return
        self._meet(module)
        learns = module.training and torch.is_grad_enabled()
        wrapper = self.wrappers[-1] if self.wrappers else None
        facts: dict[str, object] = {"learns": learns, "wrapped": wrapper is not None}
        if wrapper is not None:
            facts["synced"] = bool(wrapper.require_backward_grad_sync)
        if name == "Classifier":
            facts["images"] = self._images(arguments)
            if not learns:
                facts["buffers"] = [
                    float(buffer.double().sum()) for buffer in module.buffers() if buffer.is_floating_point()
                ]
        self.notes.put("pass", model=name, **facts)
        self.on_pass(name, learns)

    def _images(self, arguments: tuple[object, ...]) -> list[int]:
        """Return the numbers of these images; -1 for one that is in no file."""
        import torch

        if not arguments or not isinstance(arguments[0], torch.Tensor):
            return []
        rows = (arguments[0].detach().flatten(1) * 16).round().to(torch.uint8).numpy()
        return [self.numbers.get(row.tobytes(), -1) for row in rows]

    # -- losses and gradients -----------------------------------------------------------------------------------

    def _watch_losses(self) -> None:
        import torch
        from torch import nn

        original, backward = nn.functional.cross_entropy, torch.autograd.backward

        @functools.wraps(original)
        def cross_entropy(*arguments: Any, **options: Any) -> Any:
            loss = original(*arguments, **options)
            if loss.requires_grad:
                loss.register_hook(lambda gradient: self.notes.put("loss", scale=float(gradient.sum())))
            return loss

        nn.functional.cross_entropy = cross_entropy
        torch.autograd.backward = self._noting(backward, "backward")

    def _watch_optimizers(self) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        optimizer = torch.optim.Optimizer
        optimizer.zero_grad = self._noting(optimizer.zero_grad, "zero")  # type: ignore[method-assign]
        register_optimizer_step_pre_hook(self._before_step)

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        from torch import nn

        if not self.start_noted:
            self.start_noted = True
            states = {name: model.state_dict() for name, model in self.models.items()}
            real_save(states, self.notes.folder / f"start-{self.notes.rank}-{self.notes.attempt}.pt")
        every = [p for group in optimizer.param_groups for p in group["params"]]
        classifier = {id(p) for p in self.models.get("Classifier", nn.Module()).parameters()}
        gradients = {
            "Classifier": _marks([_gradient(p) for p in every if id(p) in classifier]),
            "Completer": _marks([_gradient(p) for p in every if id(p) not in classifier]),
        }
        weights = _marks([p.detach() for p in every])
        self.notes.put("step", gradients=gradients, weights=weights, remembers=len(optimizer.state) > 0)


def real_save(state: object, place: FileLike, *arguments: Any, **options: Any) -> None:
    """Call the original `torch.save`, whatever has replaced it."""
    from torch.serialization import save

    save(state, place, *arguments, **options)


def _gradient(parameter: torch.Tensor) -> torch.Tensor:
    import torch

    return parameter.grad.detach() if parameter.grad is not None else torch.zeros_like(parameter)


def _marks(tensors: list[torch.Tensor]) -> list[float]:
    """Return three numbers that identify gradients or weights."""
    import torch

    parts = [tensor.flatten() for tensor in tensors]
    whole = torch.cat(parts).double() if parts else torch.zeros(1, dtype=torch.double)
    weights = torch.linspace(-1, 1, whole.numel(), dtype=torch.double)
    return [float(whole.norm()), float(whole @ weights), float(whole @ weights.cos())]


def _numbers_of_images(data: Path) -> Mapping[bytes, int]:
    import numpy as np

    with np.load(data) as file:
        found = {image.astype(np.uint8).tobytes(): i for i, image in enumerate(file["train_images"])}
        found |= {
            image.astype(np.uint8).tobytes(): FIRST_TEST + i for i, image in enumerate(file["test_images"])
        }
    return found
