"""The parameters DDP took when it wrapped a model, and what has become of them.

DDP's own list (`_module_parameters`) has every parameter of the module, also those that required no gradient then and
that it does not manage. Which ones it took is noted while a model is wrapped (`remember`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from realranks.outcome.wrapped import NamedShape, WrappedModel

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.nn.parallel import DistributedDataParallel

_MAX_PARAMETERS = 400


@dataclass(frozen=True)
class Taken:
    """The parameters that DDP has taken, in its order, and what the module called them then."""

    parameters: Sequence[Parameter]
    names: Sequence[str]


_TAKEN: WeakKeyDictionary[DistributedDataParallel, Taken] = WeakKeyDictionary()


def remember(wrapper: DistributedDataParallel) -> None:
    """Record the parameters of a model that was just wrapped, or is to be watched from now on."""
    if wrapper not in _TAKEN:
        taken = managed(wrapper)
        _TAKEN[wrapper] = Taken(taken, _names(wrapper, taken))


def managed(wrapper: DistributedDataParallel, at_rest: bool = True) -> Sequence[Parameter]:
    """Return the parameters that DDP manages, in its order; if they were not recorded when it took them, infer them
    from their number.

    Args:
        at_rest: the wrapper is in no pass: it can be asked for the number, which takes a lock that a pass holds.
    """
    if wrapper in _TAKEN:
        return _TAKEN[wrapper].parameters
    every = list(wrapper._module_parameters)
    if at_rest and wrapper._get_ddp_logging_data()["num_parameter_tensors"] == len(every):
        return every
    return [parameter for parameter in every if parameter.requires_grad]


def wrapped_model(wrapper: DistributedDataParallel, at_rest: bool = True) -> WrappedModel:
    """Record what a DDP wrapper manages, and what has become of it."""
    taken = managed(wrapper, at_rest)
    known = {id(parameter) for parameter in taken}
    now = _names(wrapper, taken)
    then = _TAKEN[wrapper].names if wrapper in _TAKEN else now
    called = [name or before for name, before in zip(now, then, strict=True)][:_MAX_PARAMETERS]
    ignored = set(getattr(wrapper, "parameters_to_ignore", ()))
    return WrappedModel(
        type=type(wrapper.module).__name__,
        parameters=tuple(
            NamedShape(name, tuple(parameter.shape)) for name, parameter in zip(called, taken, strict=False)
        ),
        number=len(taken),
        without_gradient=tuple(
            name for name, parameter in zip(called, taken, strict=False) if parameter.grad is None
        ),
        added=tuple(
            name
            for name, parameter in wrapper.module.named_parameters()
            if parameter.requires_grad and id(parameter) not in known and name not in ignored
        )[:_MAX_PARAMETERS],
        gone=tuple(place for place, name in enumerate(now) if not name)[:_MAX_PARAMETERS],
        frozen=tuple(
            place
            for place, (name, parameter) in enumerate(zip(now, taken, strict=True))
            if name and not parameter.requires_grad
        )[:_MAX_PARAMETERS],
        buffers=sum(1 for _ in wrapper.module.buffers()),
        syncs_buffers=bool(wrapper.broadcast_buffers),
        find_unused_parameters=bool(wrapper.find_unused_parameters),
        static_graph=bool(wrapper.static_graph),
        no_sync=not wrapper.require_backward_grad_sync,
    )


def _names(wrapper: DistributedDataParallel, parameters: Sequence[Parameter]) -> list[str]:
    """Return the module's current names of these parameters; empty for one it no longer has."""
    names = {id(parameter): name for name, parameter in wrapper.module.named_parameters()}
    return [names.get(id(parameter), "") for parameter in parameters]
