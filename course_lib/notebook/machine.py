"""What the course found on this machine, and which backend it therefore uses."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from html import escape

import psutil

from course_lib.ranks.kernel.backend import MB_PER_RANK, BackendChoice, choose_backend
from course_lib.ranks.kernel.launcher import default_method, warm_up


@dataclass(frozen=True)
class MachineReport:
    """Cores, memory and GPUs of this machine, and what they mean for a gang.

    Attributes:
        cores: CPU cores this process may use.
        memory_gb: total memory in GB.
        free_gb: available memory in GB.
        gpus: number of GPUs that torch can use.
        choice: the backend for four ranks, and why.
        method: how ranks are started (`forkserver` or `spawn`).
        most_ranks: how many ranks fit into the free memory.
    """

    cores: int
    memory_gb: float
    free_gb: float
    gpus: int
    torch_version: str
    python_version: str
    choice: BackendChoice
    method: str
    most_ranks: int

    def rows(self) -> list[tuple[str, str]]:
        """What is shown, line by line."""
        return [
            ("cores", str(self.cores)),
            (
                "memory",
                f"{self.memory_gb:.1f} GB, {self.free_gb:.1f} GB free: room for about {self.most_ranks} ranks",
            ),
            ("GPUs", str(self.gpus) if self.gpus else "none that torch can use"),
            ("backend for 4 ranks", f"{self.choice.name} - {self.choice.reason}"),
            ("ranks start by", self.method),
            ("versions", f"torch {self.torch_version}, Python {self.python_version}"),
        ]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows())

    def _repr_html_(self) -> str:
        from course_lib.outcome.html import panel, table

        return panel(table((name, escape(text)) for name, text in self.rows()))


def machine() -> MachineReport:
    """Look at this machine; waits until torch is loaded in the background if it is not yet."""
    found = warm_up().machine
    memory = psutil.virtual_memory()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return MachineReport(
        cores=cores,
        memory_gb=memory.total / 1e9,
        free_gb=memory.available / 1e9,
        gpus=found.gpus,
        torch_version=found.torch,
        python_version=platform.python_version(),
        choice=choose_backend(4, "auto", found.gpus, found.nccl),
        method=default_method(),
        most_ranks=max(1, int(memory.available / (MB_PER_RANK * 1e6))),
    )
