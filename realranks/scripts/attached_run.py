"""The settings that the first rank of a launcher's run sends to its watcher (`observe` -> `watcher`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AttachedRun:
    """A run that a launcher has started.

    Attributes:
        fd: the listening socket, inherited.
        address: the file of that socket, which is removed when all ranks have come.
        report: the file for the report.
        script: what is run.
        world_size: how many ranks there are.
        attempt: from 0; a launcher may start the ranks again.
        ranks: those of this machine, where there are others. folder: where each machine writes what it sees; empty
            where there is one. name: what the machines call the run.
        tests: the ranks run tests, each of which gets a verdict of its own; there is no report then.
    """

    fd: int
    address: str
    report: str
    script: str
    world_size: int
    attempt: int = 0
    ranks: tuple[int, ...] = ()
    folder: str = ""
    name: str = ""
    tests: bool = False
