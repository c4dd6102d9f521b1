"""Digests of weights and gradients, taken often while a script runs: is it still the same on every rank?

Nothing here issues a collective (see `digest`). Used inside a rank; imports torch only inside functions.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from realranks.outcome.probe_notes import Digest, GradientCheck, OutsideCheck, OutsideParameter, WeightCheck
from realranks.ranks.inside.wrapped import managed
from realranks.watch.digest import NOTHING, digest, is_distributed, local_data
from realranks.watch.guard import Unseen
from realranks.watch.names import names_in_the_code

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

_Seen = TypeVar("_Seen")
_Found = TypeVar("_Found")

_MAX_TENSORS = 400


@dataclass(frozen=True)
class CheckPlan:
    """At which steps weights are compared: often at first, then every `every` steps; the same on every rank."""

    every: int = 50

    def due(self, step: int) -> bool:
        """Check whether step number `step` (from 0) is one to compare."""
        return step <= 8 or step in (16, 32) or step % max(1, self.every) == 0


def holders(tensor: Tensor) -> tuple[int, ...] | None:
    """Return the ranks that should have the same data in this tensor; None if there is no such restriction.

    A shard of a DTensor is equal on the ranks that differ from this one only in replicated dimensions of the mesh. A
    piece of a parameter that FSDP1 has flattened belongs to this rank alone.
    """
    if is_distributed(tensor):
        mesh, here = tensor.device_mesh, tensor.device_mesh.get_coordinate()
        if here is None or any(placement.is_partial() for placement in tensor.placements):
            return ()
        index = tuple(
            slice(None) if placement.is_replicate() else place
            for placement, place in zip(tensor.placements, here, strict=True)
        )
        return tuple(sorted(mesh.mesh[index].reshape(-1).tolist()))
    return () if getattr(tensor, "_fsdp_flattened", False) else None


class Sample:
    """A few values of a parameter: cheap enough to be looked at several times in every step."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = weakref.ref(parameter, self._gone)
        self._view: Tensor | None = None
        self._at = -1  # where the data lay when the view was made: `parameter.data = other` moves it

    def values(self) -> tuple[float, ...] | None:
        """Return the current values; None when the parameter no longer exists."""
        parameter = self.parameter()
        if parameter is None:
            return None
        at = (parameter.to_local() if is_distributed(parameter) else parameter).data_ptr()
        if at != self._at:
            self._view, self._at = _few(parameter), at
        assert self._view is not None
        return tuple(self._view.tolist())

    def _gone(self, _: object) -> None:
        self._view = None  # it would keep the data alive


def _few(parameter: Parameter) -> Tensor:
    """Return a view of four of the parameter's values."""
    import torch

    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
        piece = local_data(parameter.detach())
        while not piece.is_contiguous():
            piece = piece[0]  # reshape would copy all of it
        flat = piece.reshape(-1)
        return flat[:: max(1, flat.numel() // 4)][:4]


def weight_check(
    wrapper: DistributedDataParallel,
    number: int,
    step: int,
    frozen: Iterable[Callable[[], Parameter | None]],
    unseen: Unseen,
) -> WeightCheck:
    """Record the parameters and floating-point buffers of a DDP model before step number `step` (-1: at the end).

    `frozen` are the parameters that required no gradient when it was wrapped (weak references).
    """
    module = wrapper.module
    known = {id(parameter) for parameter in managed(wrapper)}
    before = {id(parameter()) for parameter in frozen}
    ignored = set(getattr(wrapper, "parameters_to_ignore", ()))
    named = list(module.named_parameters())
    buffers = [
        (name, b) for name, b in module.named_buffers() if b.is_floating_point() and name not in ignored
    ]
    late = [(n, p) for n, p in named if p.requires_grad and id(p) not in known and n not in ignored]
    return WeightCheck(
        model=number,
        step=step,
        parameters=_digests([(n, p) for n, p in named if n not in ignored], "weights", unseen),
        buffers=_digests(buffers, "buffers", unseen),
        managed=wrapper.broadcast_buffers,
        late=tuple(name for name, _ in late[:_MAX_TENSORS]),
        thawed=tuple(name for name, p in late[:_MAX_TENSORS] if id(p) in before),
    )


def gradient_check(
    optimizer: Optimizer,
    wrappers: Iterable[DistributedDataParallel | None],
    step: int,
    reduced: Mapping[str, Digest],
    unseen: Unseen,
) -> GradientCheck:
    """Record the gradients an optimizer is about to use for parameters of DDP models, and its options.

    `reduced` holds the gradients as DDP left them, as far as they are known.
    """
    names = names_in_models(wrappers)
    gradients = [
        (names[id(parameter)], parameter.grad)
        for group in optimizer.param_groups
        for parameter in group["params"]
        if id(parameter) in names
    ]
    found = _digests(gradients, "gradients", unseen)
    return GradientCheck(
        step=step,
        gradients=found,
        reduced={name: reduced[name] for name in found if name in reduced},
        settings=settings(optimizer),
    )


def outside_check(
    optimizer: Optimizer,
    wrappers: Iterable[DistributedDataParallel | None],
    number: int,
    step: int,
    unseen: Unseen,
) -> OutsideCheck:
    """Record what an optimizer steps outside of DDP models, before its step number `step` (-1: at the end).

    Each parameter's `among` comes from `holders`.
    """
    names = names_in_models(wrappers)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    others = [p for p in parameters if id(p) not in names][:_MAX_TENSORS]
    called = names_in_the_code() if others and step == 0 else {}
    rows: list[OutsideParameter] = []
    for parameter in others:
        data = _digest_or_note(parameter, "weights", unseen)
        gradient = _digest_or_note(parameter.grad, "gradients", unseen)
        no_ranks: tuple[int, ...] | None = ()
        among = _looked_at(holders, parameter, no_ranks, "weights", unseen)
        name = called.get(id(parameter), "")
        rows.append(OutsideParameter(name, tuple(parameter.shape), data, gradient, among))
    return OutsideCheck(
        optimizer=number,
        step=step,
        beside_ddp=len(others) < len(parameters),
        parameters=tuple(rows),
        settings=settings(optimizer),
    )


def names_in_models(wrappers: Iterable[DistributedDataParallel | None]) -> dict[int, str]:
    """Name the parameters of DDP models as `0:weight`, by the parameter's id."""
    return {
        id(parameter): f"{number}:{name}"
        for number, wrapper in enumerate(wrappers)
        if wrapper is not None
        for name, parameter in wrapper.module.named_parameters()
    }


def settings(optimizer: Optimizer) -> tuple[dict[str, float | bool], ...]:
    """Return the numbers among an optimizer's options, group by group."""
    return tuple(
        {key: value for key, value in group.items() if isinstance(value, int | float)}
        for group in optimizer.param_groups
    )


def reduced_gradients(wrapper: DistributedDataParallel, number: int, unseen: Unseen) -> dict[str, Digest]:
    """Record the gradients of a DDP model as a backward pass left them."""
    named = [(f"{number}:{name}", parameter.grad) for name, parameter in wrapper.module.named_parameters()]
    return _digests(named, "gradients", unseen)


def _digests(tensors: Sequence[tuple[str, Tensor | None]], what: str, unseen: Unseen) -> dict[str, Digest]:
    return {name: _digest_or_note(tensor, what, unseen) for name, tensor in tensors[:_MAX_TENSORS]}


def _digest_or_note(tensor: Tensor | None, what: str, unseen: Unseen) -> Digest:
    return _looked_at(digest, tensor, NOTHING, what, unseen)


def _looked_at(
    look: Callable[[_Seen], _Found], thing: _Seen, otherwise: _Found, what: str, unseen: Unseen
) -> _Found:
    """Call `look` on a thing; if it raises, note why and return `otherwise`."""
    try:
        return look(thing)
    except Exception as error:
        unseen.note(what, error)
        return otherwise


def input_digest(arguments: object) -> int | None:
    """Compute a checksum of the tensors a model is called with, nested ones included; None without any."""
    import torch
    from torch.utils import _pytree

    crc = None
    for each in _pytree.tree_leaves(arguments):
        if isinstance(each, torch.Tensor) and not each.is_meta and each.layout is torch.strided:
            crc = zlib.crc32(str(digest(each).crc).encode(), crc or 0)
    return crc
