"""Digests of tensors, random number generators and plain values, by which ranks are compared.

A *digest* is a checksum and a few values: the probe takes many of them while a script runs. An *entry* of a fingerprint
has statistics and more values, and is JSON-able. Two with the same checksum stand for equal bytes; the values say how
far two unequal tensors are apart. Nothing here issues a collective: of a DTensor only this rank's piece is read.

Runs inside a rank; imports torch only inside functions.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Required, TypedDict, TypeGuard

from realranks.outcome.probe_notes import Digest

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.tensor import DTensor


class _Statistics(TypedDict, total=False):
    """Of the elements that are finite; `nan` and `inf` count the others."""

    count: int
    nan: int
    inf: int
    min: float
    max: float
    mean: float
    norm: float
    samples: list[float | str]


class Entry(_Statistics, total=False):
    """One tensor, generator or value.

    Attributes:
        kind: `tensor`, `lazy`, `none`, `frozen`, `tied` (to the parameter named by `to`), `value`, `state` (of a
            generator) or `indices` (of a sampler).
        crc: checksum of the bytes; entries of equal checksums count as equal.
        count: number of elements, or of indices. nan, inf: how many of them are not finite.
        min, max, mean, norm: of the finite elements; the norm is the 2-norm.
        samples: up to 32 elements, evenly strided; `nan`, `inf` and `-inf` are words.
        text, number: what a value looks like, and its number if it is one.
        dataset: the number of samples that a sampler draws from, where it is known.
    """

    kind: Required[str]
    shape: list[int]
    dtype: str
    layout: str
    device: str
    crc: int
    text: str
    number: float
    to: str
    dataset: int | None
    indices: list[int | str]


#: Values kept of a tensor, evenly strided; all values of a tensor that has no more.
SAMPLES = 32
_SAMPLES_OF_A_DIGEST = 8
#: What a digest is where a tensor has no data, or could not be looked at.
NOTHING = Digest(None, ())
#: Elements looked at in one go, so that a large tensor costs little extra memory.
_CHUNK = 1 << 22
_LONGEST_TEXT = 200


def digest(tensor: Tensor | None) -> Digest:
    """Compute a checksum and sample values of this rank's data; `NOTHING` if there is no data.

    Raises:
        TypeError: the tensor is of a type that keeps its data in a way of its own.
    """
    import torch

    if tensor is None or tensor.is_meta:
        return NOTHING
    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
        indices, values = dense_parts(tensor.detach())
        kept = tuple(
            value if math.isfinite(value) else None for value in sampled(values, _SAMPLES_OF_A_DIGEST)
        )
        return Digest(checksum(indices, values), kept)


def local_data(tensor: Tensor) -> Tensor:
    """Return this rank's data as an ordinary tensor: operations on a DTensor could communicate."""
    import torch

    if is_distributed(tensor):
        tensor = tensor.to_local()
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(f"{type(tensor).__name__} keeps its data in a way of its own")
    # A sparse CSR tensor has no alias of another class, and needs none.
    return tensor if type(tensor) is torch.Tensor else tensor.as_subclass(torch.Tensor)


def is_distributed(tensor: Tensor) -> TypeGuard[DTensor]:
    """Check for a DTensor: of FSDP2, tensor parallelism and the like."""
    return hasattr(tensor, "to_local") and hasattr(tensor, "placements")


def tensor_entry(tensor: Tensor) -> Entry:
    """Shape, dtype, checksum of the bytes, statistics over the finite values, and up to 32 samples.

    Tensors without data (meta device, lazy parameters) have shape and dtype alone. Sparse tensors are described by
    their coalesced indices and values. Raises what `digest` raises.
    """
    import torch

    if torch.nn.parameter.is_lazy(tensor):
        return {"kind": "lazy", "dtype": _short(tensor.dtype)}
    with torch.no_grad():
        entry: Entry = {"kind": "tensor", "shape": list(tensor.shape), "dtype": _short(tensor.dtype)}
        if tensor.layout is not torch.strided:
            entry["layout"] = _short(tensor.layout)
        if tensor.device.type != "cpu":
            entry["device"] = tensor.device.type
        if tensor.is_meta:
            return entry
        indices, values = dense_parts(tensor.detach())
        entry["crc"] = checksum(indices, values)
        return {**entry, **_statistics(values)}


def _short(name: object) -> str:
    """Return `float32` for `torch.float32`."""
    return str(name).removeprefix("torch.")


def dense_parts(tensor: Tensor) -> tuple[Tensor | None, Tensor]:
    """Return the indices of a sparse tensor (else None) and its values, flat and on the CPU."""
    import torch

    indices = None
    tensor = local_data(tensor)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_sparse_coo() if tensor.layout is not torch.sparse_coo else tensor
        tensor = tensor.coalesce()
        indices, tensor = tensor.indices().reshape(-1).cpu(), tensor.values()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return indices, tensor.cpu().reshape(-1)


def checksum(indices: Tensor | None, values: Tensor) -> int:
    """Compute the checksum of a tensor's `dense_parts`; without any bytes it is 0."""
    return zlib.crc32(_bytes(values), zlib.crc32(_bytes(indices)) if indices is not None else 0)


def _bytes(flat: Tensor) -> memoryview | bytes:
    import torch

    if flat.numel() == 0:
        return b""
    return flat.contiguous().view(torch.uint8).numpy().data


def _statistics(flat: Tensor) -> _Statistics:
    """Count NaN and infinity; compute minimum, maximum, mean and 2-norm of the finite values."""
    nan = infinite = count = 0
    low, high, total, squares = math.inf, -math.inf, 0.0, 0.0
    for chunk in _chunks(flat):
        finite = chunk.isfinite()
        if not bool(finite.all()):
            nan += int(chunk.isnan().sum())
            infinite += int(chunk.isinf().sum())
            chunk = chunk[finite]
        if chunk.numel():
            count += chunk.numel()
            low, high = min(low, chunk.min().item()), max(high, chunk.max().item())
            total += chunk.sum().item()
            squares += chunk.square().sum().item()
    samples = [value if math.isfinite(value) else str(value) for value in sampled(flat, SAMPLES)]
    found: _Statistics = {"count": flat.numel(), "nan": nan, "inf": infinite, "samples": samples}
    if count:
        found |= {"min": low, "max": high, "mean": total / count, "norm": math.sqrt(squares)}
    return found


def _chunks(flat: Tensor) -> Iterator[Tensor]:
    import torch

    for start in range(0, flat.numel(), _CHUNK):
        yield flat[start : start + _CHUNK].to(torch.float64)


def sampled(flat: Tensor, most: int) -> list[float]:
    """Return at most `most` elements, evenly spaced, including the first and the last."""
    import torch

    count = flat.numel()
    if count > most:
        flat = flat[[place * (count - 1) // (most - 1) for place in range(most)]]
    return [float(value) for value in flat.to(torch.float64).tolist()]


def value_entry(value: object) -> Entry:
    """Record a number, a string or anything else with a repr, as text."""
    text = repr(value)
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}… (crc {zlib.crc32(text.encode()):08x})"
    entry: Entry = {"kind": "value", "text": text}
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        entry["number"] = value
    return entry


def generator_entry(generator: object) -> Entry | None:
    """Record the state of a generator (torch's, Python's or NumPy's) as a checksum; None for anything else."""
    import random

    import torch

    if isinstance(generator, torch.Generator):
        return _state(bytes(generator.get_state().numpy()))
    if isinstance(generator, random.Random):
        return _state(repr(generator.getstate()).encode())
    if hasattr(generator, "bit_generator"):
        return _state(_numpy_text(generator.bit_generator.state))
    return None


def rng_entries() -> dict[str, Entry]:
    """Record the global generators: torch's on the CPU and this rank's GPU, Python's, and NumPy's if it is loaded."""
    import random

    import torch

    entries = {
        "torch": _state(bytes(torch.get_rng_state().numpy())),
        "python": _state(repr(random.getstate()).encode()),
    }
    if "numpy.random" in sys.modules:
        import numpy as np

        entries["numpy"] = _state(_numpy_text(np.random.get_state(legacy=False)))
    if torch.cuda.is_initialized():
        entries["cuda"] = _state(bytes(torch.cuda.get_rng_state().numpy()))
    return entries


def _numpy_text(state: object) -> bytes:
    if isinstance(state, dict):
        return b";".join(f"{key}=".encode() + _numpy_text(value) for key, value in sorted(state.items()))
    return bytes(state.tobytes()) if hasattr(state, "tobytes") else repr(state).encode()


def _state(data: bytes) -> Entry:
    return {"kind": "state", "crc": zlib.crc32(data)}
