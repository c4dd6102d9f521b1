"""The process groups of this rank as torch has them: their names, their ranks, how much each has been asked to do.

Used inside a rank, also by its control thread. Nothing here imports torch: as long as the main thread has not loaded it
there is no group, and no caller has to wait for torch to learn that.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any


def world() -> Any:
    """Return torch's own table of the groups, or None until it exists."""
    return getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)


def names() -> list[tuple[Any, str]]:
    """List the groups of this rank with their names."""
    book = world()
    return [] if book is None else [(group, str(name)) for group, name in list(book.pg_names.items())]


def uses_cuda() -> bool:
    """Check whether this rank has used CUDA, without importing torch."""
    asks = getattr(sys.modules.get("torch.cuda"), "is_initialized", None)
    return asks is not None and bool(asks())


def sequence_numbers() -> dict[str, int]:
    """Count the operations this rank has issued on each backend of its groups; cheap enough for every cell.

    gloo's number is under the group's name, another backend's under `name/backend`. Asked of the group itself, torch
    returns that of its default backend, which is NCCL for `cpu:gloo,cuda:nccl`: always 0 for CPU tensors.
    """
    numbers = {}
    for group, name in names():
        with contextlib.suppress(Exception):
            for backend in backends_of(group):
                kind = str(backend.name())
                key = name if kind == "gloo" else f"{name}/{kind}"
                with contextlib.suppress(Exception):  # the fake one counts nothing
                    numbers[key] = int(backend._get_sequence_number_for_group())
    return numbers


def backends_of(group: Any) -> list[Any]:
    """List the backends of a process group once each, though one may serve several kinds of devices."""
    return list({id(one): one for one in map(group._get_backend, group._device_types)}.values())


def only_through_sockets() -> bool:
    """Check that all groups of this rank move their data over TCP; NCCL's transports between GPUs are invisible."""
    book = world()
    if book is None or not uses_cuda():
        return True
    return all(str(backend) in ("gloo", "cpu:gloo") for backend, _ in list(book.pg_map.values()))


def groups_named(wanted: set[str]) -> list[Any]:
    """Return the process groups of this rank with these names."""
    return [group for group, name in names() if name in wanted]


def name_and_members(group: object) -> tuple[str, list[int]]:
    """Return a process group's name and its global ranks in the group's order (None: the default group)."""
    book = world()
    if book is None:
        return "", []
    asked = group if group is not None else book.default_pg
    ranks = book.pg_group_ranks.get(asked, {})
    name = book.pg_names.get(asked, "")
    return str(name), [int(rank) for rank, _ in sorted(ranks.items(), key=lambda entry: entry[1])]


def group_members() -> dict[str, list[int]]:
    """Return the global ranks of each group this rank belongs to, by the group's name."""
    book = world()
    members = {}
    for group, ranks in [] if book is None else list(book.pg_group_ranks.items()):
        name = book.pg_names.get(group)
        if name is not None:
            members[str(name)] = sorted(int(rank) for rank in ranks)
    return members


def left() -> tuple[str, ...]:
    """Return the groups that only torch's own tables still refer to: no code can use them any more."""
    book = world()
    if book is None:
        return ()
    every = list(book.pg_names)
    tables = [book.pg_map, book.pg_names, book.pg_group_ranks, book.pg_backend_config, book.pg_to_tag]
    own = {id(each) for each in (every, *tables, *book.tags_to_pg.values())}
    return tuple(
        str(book.pg_names[group])
        for group in every
        if group is not book.default_pg and {id(each) for each in gc.get_referrers(group)} <= own
    )
