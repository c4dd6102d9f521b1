"""Catch a rank that leaves `save` too early, without timing. Used inside a rank.

Rank 0 halts where it writes or renames, until each other rank has either left `save`, or waits in a collective that
rank 0 has not come to yet. So who can leave early, has left when rank 0 goes on.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar
from unittest import mock

_P = ParamSpec("_P")
_R = TypeVar("_R")

_COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "reduce",
    "scatter_object_list",
)
#: A way out for answers that wait in another way; a right answer is not hurt by it.
_PATIENCE = 5.0
_AHEAD = 20


class Early:
    """One call of `save` on all ranks; `writes` counts how often this rank called torch.save."""

    def __init__(self, name: str) -> None:
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import _get_default_store

        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self._store = dist.PrefixStore(name, _get_default_store())
        self._begun = self._over = self.writes = 0
        self._patient = True

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the call of `save`; it begins when all ranks are here, so that none writes while another reads."""
        import torch
        import torch.distributed as dist

        with contextlib.ExitStack() as stack:
            for name in _COLLECTIVES:
                stack.enter_context(mock.patch.object(dist, name, self._counting(getattr(dist, name))))
            for place, name in ((torch, "save"), (os, "replace"), (os, "rename")):
                stack.enter_context(mock.patch.object(place, name, self._halting(getattr(place, name))))
            self._store.set(f"{self.rank}/here", "come")
            self._come([f"{rank}/here" for rank in range(self.world_size)])
            yield
        for number in range(self._begun + 1, self._begun + _AHEAD):
            self._tell(number)

    def _come(self, keys: list[str]) -> bool:
        """Wait until all of these are set. By looking: a rank that blocks in the store looks like a deadlock."""
        end = time.monotonic() + _PATIENCE
        while not self._store.check(keys):
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def _counting(self, collective: Callable[_P, _R]) -> Callable[_P, _R]:
        def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
            self._begun += 1
            self._tell(self._begun)
            result = collective(*arguments, **options)
            self._over += 1
            return result

        return call

    def _tell(self, number: int) -> None:
        if self.rank:
            self._store.set(f"{self.rank}/{number}", "come")

    def _halting(self, act: Callable[_P, _R]) -> Callable[_P, _R]:
        def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
            self.writes += act.__name__ == "save"
            if self.rank == 0 and self.world_size > 1 and self._patient:
                others = [f"{rank}/{self._over + 1}" for rank in range(1, self.world_size)]
                self._patient = self._come(others)
            return act(*arguments, **options)

        return call
