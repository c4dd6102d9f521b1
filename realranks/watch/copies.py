"""Second copies of a DDP model's weights on this rank: an average of them, a teacher. Used inside a rank."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from realranks.watch.alive import alive
from realranks.watch.digest import digest

if TYPE_CHECKING:
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

#: Parameters of a model of which a copy is looked for, at most.
_MAX_PARAMETERS = 400


def copies_of(wrapper: DistributedDataParallel, trained: Collection[int]) -> list[nn.Module]:
    """Return each live module that has parameters of the same shapes, and is not trained itself.

    Args:
        trained: the ids of the parameters of DDP models, and of those that an optimizer steps.
    """
    from torch import nn

    shapes = [parameter.shape for parameter in wrapper.module.parameters()]
    if not 0 < len(shapes) <= _MAX_PARAMETERS:
        return []
    found: dict[int, nn.Module] = {}
    for each in alive(nn.Module):
        theirs = list(each.parameters())
        if [p.shape for p in theirs] == shapes and is_copy(each, trained):
            found[id(theirs[0])] = each  # what wraps a copy has the same parameters
    return list(found.values())


def is_copy(module: nn.Module, trained: Collection[int]) -> bool:
    """Check that a module is not trained itself."""
    return not any(id(parameter) in trained for parameter in module.parameters())


def checksum(module: nn.Module) -> int:
    """Compute a checksum of a module's parameters."""
    crc = 0
    for parameter in module.parameters():
        crc = zlib.crc32(str(digest(parameter).crc).encode(), crc)
    return crc
