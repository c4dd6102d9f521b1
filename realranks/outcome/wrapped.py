"""A DDP wrapper as a rank says it: what it manages, and what has become of that since it was wrapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class NamedShape(NamedTuple):
    """A parameter: its name and its shape."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class WrappedModel:
    """A DDP wrapper that is alive.

    Attributes:
        type: of what is wrapped.
        parameters: those that DDP manages, in its order; the first of very many. One that is gone has the name that it
            had when it was wrapped, or none where it was not noted then.
        number: how many there are.
        without_gradient: those that have none.
        added: parameters of the module that require a gradient and that DDP does not manage.
        gone: places in DDP's order of parameters that the module has no longer.
        frozen: places in DDP's order of parameters that require no gradient any more.
        buffers: how many the module has.
        syncs_buffers: DDP synchronises them in a forward pass.
        no_sync: it is within `no_sync()`.
    """

    type: str
    parameters: tuple[NamedShape, ...]
    number: int
    without_gradient: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    gone: tuple[int, ...] = ()
    frozen: tuple[int, ...] = ()
    buffers: int = 0
    syncs_buffers: bool = True
    find_unused_parameters: bool = False
    static_graph: bool = False
    no_sync: bool = False
