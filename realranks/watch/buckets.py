"""DDP's buckets: which parameters are reduced together, in which order, before and after DDP rebuilds the buckets.

`buckets(ddp)` runs inside a rank and imports torch there; the `Buckets` it returns are plain data with names and
numbers, so they travel to the kernel and are drawn there without torch.

What is read: the reducer's own buckets (`Reducer._get_zeros_like_grad_buckets`), the order in which gradients became
ready (`prev_iteration_grad_ready_order_indices` of `DDP._get_ddp_logging_data()`, or before DDP has logged it the
times of `Reducer.get_backward_stats()`), and for the buckets that were rebuilt already the assignment that DDP's
constructor made, computed again by `torch.distributed._compute_bucket_assignment_by_size` and checked against the sizes
that DDP logged then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from realranks.draw import Block, Drawing, Group, blocks
from realranks.outcome.fold import beside
from realranks.outcome.html import box, panel, pre, table

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel

#: Names of a bucket that are written out in text; the object has them all.
_NAMES = 12
_UNITS = (("MiB", 1 << 20), ("KiB", 1 << 10))


@dataclass(frozen=True)
class Bucket:
    """Tensors whose gradients are reduced by one all-reduce.

    Attributes:
        index: its place in the order in which buckets are reduced.
        parameters: names, in the order of the bucket's memory.
        sizes: bytes of each parameter.
    """

    index: int
    parameters: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes that its all-reduce sends."""
        return sum(self.sizes)


@dataclass(frozen=True)
class Buckets:
    """The buckets of a DDP model on one rank.

    Attributes:
        built: the buckets of the first iteration; empty in the rare case that they cannot be told any more.
        rebuilt: the buckets since the second iteration, in the order in which rank 0's gradients became ready; None
            before that, and where DDP never rebuilds (`find_unused_parameters=True`).
        ready: names of parameters in the order in which their gradients became ready on this rank, in the last
            iteration that DDP has logged; parameters that got no gradient are not among them.
        rebuilds: False where DDP keeps the first buckets.
    """

    model: str
    built: tuple[Bucket, ...]
    rebuilt: tuple[Bucket, ...] | None
    ready: tuple[str, ...]
    rebuilds: bool

    @property
    def now(self) -> tuple[Bucket, ...]:
        """The buckets that the next backward will use."""
        return self.built if self.rebuilt is None else self.rebuilt

    def plot(self, title: str = "Which gradients travel together, and in which order") -> Drawing:
        """Draw a bar of all parameters for the first iteration, and another for those since the rebuild."""
        rows = [("first iteration", self.built)]
        if self.rebuilt is not None:
            rows.append(("since the second", self.rebuilt))
        return blocks(
            [(name, [_group(bucket) for bucket in found]) for name, found in rows],
            title=title,
            alt="; ".join(f"{name}: {', '.join(map(_line, found))}" for name, found in rows),
            axis="bytes of gradients, in the order in which they are reduced",
        )

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield each heading with the text shown beside it."""
        if self.built:
            yield "first iteration", "\n".join(map(_line, self.built))
        else:
            yield "first iteration", "not known any more"
        if self.rebuilt is not None:
            yield "since the second", "\n".join(map(_line, self.rebuilt))
        elif not self.rebuilds:
            yield "since the second", "the same: with find_unused_parameters=True buckets are not rebuilt"
        else:
            yield "since the second", "not rebuilt yet: DDP does it in the second forward"
        yield "gradients ready", _listed(self.ready) if self.ready else "no backward yet"

    @property
    def headline(self) -> str:
        """The model, and how much of it there is."""
        count = sum(len(bucket.parameters) for bucket in self.now)
        total = sum(bucket.bytes for bucket in self.now)
        return f"Buckets of {self.model}: {count:,} parameters, {size_text(total)}"

    def __repr__(self) -> str:
        rows = list(self.rows())
        width = max(len(name) for name, _ in rows)
        return "\n".join([self.headline, *(beside(name, text, width) for name, text in rows)])

    def _repr_html_(self) -> str:

        return panel(box("calm", self.headline), table((name, pre(text)) for name, text in self.rows()))


def size_text(size: int) -> str:
    """Format bytes for a reader: `1.5 MiB`."""
    for unit, factor in _UNITS:
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def _group(bucket: Bucket) -> Group:
    name = f"bucket {bucket.index}"
    parameters = zip(bucket.parameters, bucket.sizes, strict=True)
    return Group(
        (f"{name} ({size_text(bucket.bytes)})", name, str(bucket.index)),
        tuple(Block(parameter, size) for parameter, size in parameters),
    )


def _line(bucket: Bucket) -> str:
    return f"bucket {bucket.index} ({size_text(bucket.bytes)}): {_listed(bucket.parameters)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f", … and {more:,} more" if more > 0 else "")


# -- reading them off a model -------------------------------------------------------------------------------------


def buckets(ddp: DistributedDataParallel) -> Buckets:
    """Return the buckets of a `DistributedDataParallel` model. Nothing is sent, so a single rank may call it.

    It needs memory for one more set of gradients while it runs.

    Raises:
        TypeError: `ddp` is not a DDP model.
    """
    from torch.nn.parallel import DistributedDataParallel

    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(
            f"buckets() reads a DistributedDataParallel model, not a {type(ddp).__name__}: only DDP has buckets."
        )
    logged = ddp._get_ddp_logging_data()
    names = {parameter: name for name, parameter in ddp.module.named_parameters()}
    live = [list(bucket.parameters()) for bucket in ddp.reducer._get_zeros_like_grad_buckets()]
    now = _named(live, names)
    order = _reducer_order(ddp, {parameter for bucket in live for parameter in bucket})
    has_rebuilt = bool(ddp._has_rebuilt_buckets)
    built = _built(ddp, order, logged, names) if has_rebuilt else now
    return Buckets(
        model=type(ddp.module).__name__,
        built=built,
        rebuilt=now if has_rebuilt else None,
        ready=tuple(names[order[index]] for index in _ready_order(ddp, logged)),
        rebuilds=bool(ddp.static_graph) or not ddp.find_unused_parameters,
    )


def _named(live: Sequence[Sequence[Tensor]], names: dict[Tensor, str]) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(
            index,
            tuple(names[parameter] for parameter in bucket),
            tuple(parameter.numel() * parameter.element_size() for parameter in bucket),
        )
        for index, bucket in enumerate(live)
    )


def _reducer_order(ddp: DistributedDataParallel, known: set[Tensor]) -> list[Tensor]:
    """List the reducer's parameters in the order of its indices: as modules register them, each once."""
    ordered = dict.fromkeys(
        parameter
        for module in ddp.module.modules()
        for parameter in module.parameters(recurse=False)
        if parameter in known
    )
    return list(ordered)


def _built(
    ddp: DistributedDataParallel,
    order: list[Tensor],
    logged: Mapping[str, str],
    names: dict[Tensor, str],
) -> tuple[Bucket, ...]:
    """Recompute the buckets that the constructor made; empty if they cannot be confirmed."""
    import torch.distributed as dist

    if hasattr(ddp, "_bucket_config"):
        limits, _ = ddp._bucket_config.compute_bucket_size_limits(
            static_graph=ddp.static_graph, find_unused_parameters=ddp.find_unused_parameters
        )
    elif ddp.static_graph or not ddp.find_unused_parameters:  # from here on: torch before 2.13
        limits = [sys.maxsize]
    else:
        limits = [dist._DEFAULT_FIRST_BUCKET_BYTES] if ddp.bucket_bytes_cap_default else []
        limits.append(ddp.bucket_bytes_cap)
    sparse = {
        parameter
        for module in ddp.module.modules()
        if getattr(module, "sparse", False) is True
        for parameter in module.parameters(recurse=False)
    }
    indices, _ = dist._compute_bucket_assignment_by_size(order, limits, [one in sparse for one in order])
    found = _named([[order[index] for index in bucket] for bucket in reversed(indices)], names)
    confirmed = _numbers(logged.get("bucket_sizes", "")) == [bucket.bytes for bucket in found]
    return found if confirmed else ()


def _ready_order(ddp: DistributedDataParallel, logged: Mapping[str, str]) -> list[int]:
    if order := logged.get("prev_iteration_grad_ready_order_indices"):
        return _numbers(order)
    stats = ddp.reducer.get_backward_stats()
    return sorted(
        (index for index, nanoseconds in enumerate(stats) if nanoseconds > 0), key=stats.__getitem__
    )


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.replace(",", " ").split()]
