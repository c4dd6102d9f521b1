"""The gangs of one answer, one for each world size: each is started while the one before it still runs.

Starting ranks takes as long as what they then do, and much of it is waiting; two gangs side by side fill the waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import TracebackType

from realranks.ranks.kernel.gang import Gang, GangError, LaunchError


class Gangs:
    """A context; within it, `each` gives ready gangs. At its end every rank of them is gone."""

    def __init__(
        self, world_sizes: Sequence[int], backend: str, folder: str, *, launchers: bool = False
    ) -> None:
        """Plan the gangs; with `launchers`, each is one process without a group, which starts the ranks itself."""
        self.world_sizes = tuple(world_sizes)
        self.launchers = launchers
        self.backend = backend
        self.folder = folder
        self._begun: list[Gang] = []

    def __enter__(self) -> Gangs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what still runs, all at once, then wait for the end of all."""
        for gang in self._begun:
            gang.stop(gently=False)
        for gang in self._begun:
            gang.reap()

    def each(self) -> Iterator[tuple[int, Gang, str]]:
        """Yield world sizes in order, with the gang and its working folder; the one before is stopped.

        Raises:
            GangError, LaunchError: the ranks could not be started. KeyboardInterrupt: the stop button was pressed.
        """
        coming = self._begin(self.world_sizes[0])
        for world_size, following in zip(self.world_sizes, [*self.world_sizes[1:], None], strict=True):
            gang = self._ready(coming, world_size)
            coming = self._begin(following) if following is not None else None
            yield world_size, gang, self._place(world_size)
            gang.stop(gently=False)

    def _place(self, world_size: int) -> str:
        return os.path.join(self.folder, f"{world_size}")

    def _begin(self, world_size: int) -> Gang | None:
        """Begin to start a gang; None where that failed: then it is tried again when the gang is needed."""
        try:
            return self._started(world_size)
        except (GangError, LaunchError):
            return None

    def _ready(self, gang: Gang | None, world_size: int) -> Gang:
        """Return the gang, ready; a new one if need be: an answer may have killed the process that starts ranks."""
        if gang is not None:
            try:
                gang.wait_ready()
                return gang
            except (GangError, LaunchError):
                gang.stop(gently=False)
        gang = self._started(world_size)
        gang.wait_ready()
        return gang

    def _started(self, world_size: int) -> Gang:
        place = self._place(world_size)
        os.makedirs(place, exist_ok=True)
        # Nothing is protected by this; it keeps accidents away from the learner's own files.
        environment = {"DDP_COURSE_HOME": place, "HOME": place}
        if self.backend == "gloo":
            # An answer that takes a GPU where there is one gets the verdict that it gets on every other machine. CUDA
            # would also need more addresses than the limit on memory leaves (`confine`).
            environment["CUDA_VISIBLE_DEVICES"] = ""
        gang = Gang(
            1 if self.launchers else world_size,
            backend=self.backend,
            init=not self.launchers,
            environment=environment,
            isolated=True,
        )
        self._begun.append(gang)
        return gang
