"""The process groups of this rank as torch has them: their names, their ranks, how much each has been asked to do.

Used inside a rank, also by its control thread. Nothing here imports torch: as long as the main thread has not loaded it
there is no group, and no caller has to wait for torch to learn that.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def world() -> Any:
    """torch's own book of the groups; None until torch has one."""
    return getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)


def names() -> list[tuple[Any, str]]:
    """The groups of this rank, each with its name."""
    book = world()
    return [] if book is None else [(group, str(name)) for group, name in list(book.pg_names.items())]


def uses_cuda() -> bool:
    """True once this rank has used CUDA; where torch has not been loaded yet, it has not."""
    asks = getattr(sys.modules.get("torch.cuda"), "is_initialized", None)
    return asks is not None and bool(asks())


def sequence_numbers() -> dict[str, int]:
    """How many operations this rank has issued on each backend of each of its groups; cheap enough for every cell.

    gloo's number stands under the group's name; another backend's under `name/backend`. Asked of the group, torch gives
    its default backend's, which is NCCL's for `cpu:gloo,cuda:nccl`: always 0 for what is done with CPU tensors.
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
    """The backends of a process group, each once, though one may serve several kinds of devices."""
    return list({id(one): one for one in map(group._get_backend, group._device_types)}.values())


def only_through_sockets() -> bool:
    """True when all groups of this rank move their data over TCP; NCCL's ways between GPUs are not seen."""
    book = world()
    if book is None or not uses_cuda():
        return True
    return all(str(backend) in ("gloo", "cpu:gloo") for backend, _ in list(book.pg_map.values()))


def groups_named(wanted: set[str]) -> list[Any]:
    """The process groups of this rank with these names."""
    return [group for group, name in names() if name in wanted]


def name_and_members(group: object) -> tuple[str, list[int]]:
    """A process group's name and its global ranks in the group's order (None: the default group)."""
    book = world()
    if book is None:
        return "", []
    asked = group if group is not None else book.default_pg
    ranks = book.pg_group_ranks.get(asked, {})
    name = book.pg_names.get(asked, "")
    return str(name), [int(rank) for rank, _ in sorted(ranks.items(), key=lambda entry: entry[1])]


def group_members() -> dict[str, list[int]]:
    """The global ranks of each group this rank belongs to, by the group's name."""
    book = world()
    members = {}
    for group, ranks in [] if book is None else list(book.pg_group_ranks.items()):
        name = book.pg_names.get(group)
        if name is not None:
            members[str(name)] = sorted(int(rank) for rank in ranks)
    return members
