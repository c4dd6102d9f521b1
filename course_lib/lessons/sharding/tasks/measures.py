"""Measures of a sharded model: a rank's part of it and of its optimizer, when layers are whole, and what is sent.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Torch's names for what is called, beside the lessons'; functional collectives have names of their own.
_CALLS = {"allgather": "all-gather", "reduce_scatter": "reduce-scatter", "allreduce": "all-reduce"}


def is_sharded(tensor: Tensor) -> bool:
    """Return whether this is a DTensor: this rank has a part of it, or a copy that knows of the others."""
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def part(tensor: Tensor) -> Tensor:
    """Return this rank's part of a tensor."""
    from torch.distributed.tensor import DTensor

    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def bytes_of(tensors: Iterable[Tensor | None]) -> int:
    """Return the bytes of these on this rank."""
    return sum(part(tensor).nbytes for tensor in tensors if tensor is not None)


def state_of(optimizer: Any) -> list[Tensor]:
    """Return the tensors of an optimizer's state on this rank, without its counters of steps."""
    state: Mapping[Tensor, Mapping[str, Tensor]] = getattr(optimizer, "optim", optimizer).state
    return [value for entry in state.values() for name, value in entry.items() if name != "step"]


@contextlib.contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Count this rank's collectives in the block, by name, once it is over.

    Torch's counter puts hooks around all modules, of which torch then warns.
    """
    from torch.distributed.tensor.debug import CommDebugMode

    found: Counter[str] = Counter()
    calls: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with CommDebugMode() as sent:
            yield calls
    for call, count in sent.get_comm_counts().items():
        name = str(call).rpartition(".")[2].strip("_").removesuffix("_base")
        found[_CALLS.get(name, name)] += count
    calls |= found


class WhichAreWhole:
    """Notes, at each forward and backward of a layer, which layers this rank has whole.

    In a forward it looks after FSDP2's own hook, which is put in front of all others. For backward, it must be made
    after the layers have been sharded.

    Attributes:
        moments: one for each: the direction, the layer's number, and for each layer whether it is whole.
    """

    def __init__(self, layers: Sequence[nn.Module], *, backward: bool = True) -> None:
        self.moments: list[tuple[str, int, list[bool]]] = []
        self._layers = layers
        for number, layer in enumerate(layers):
            layer.register_forward_pre_hook(lambda *_, number=number: self._note("forward", number))
            if backward:
                layer.register_full_backward_hook(lambda *_, number=number: self._note("backward", number))

    def _note(self, direction: str, number: int) -> None:
        whole = [not any(map(is_sharded, layer.parameters())) for layer in self._layers]
        self.moments.append((direction, number, whole))
