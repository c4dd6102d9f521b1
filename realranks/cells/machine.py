"""The hardware of this machine, and the backend that is used because of it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from html import escape

import psutil

from realranks.outcome.html import panel, table
from realranks.ranks.kernel.backend import MB_PER_RANK, BackendChoice, choose_backend, most_ranks_on
from realranks.ranks.kernel.gpus import Gpus, find_gpus
from realranks.ranks.kernel.launcher import default_method, warm_up


@dataclass(frozen=True)
class MachineReport:
    """Cores, memory and GPUs of this machine, and what they mean for a gang.

    Attributes:
        cores: CPU cores this process may use.
        memory_gb: total memory in GB.
        free_gb: available memory in GB.
        gpus: number of GPUs that ranks can use.
        choice: the backend for four ranks, and why.
        method: how ranks are started (`forkserver` or `spawn`).
        most_ranks: how many ranks fit into the free memory.
        tried: the GPUs one by one, and why those cannot be used that do not work.
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
    tried: Gpus

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines of the report, each a name and a text."""
        return [
            ("cores", str(self.cores)),
            (
                "memory",
                f"{self.memory_gb:.1f} GB, {self.free_gb:.1f} GB free: room for about {self.most_ranks} ranks",
            ),
            ("GPUs", _describe(self.tried)),
            ("backend for 4 ranks", f"{self.choice.name} - {self.choice.reason}"),
            ("ranks start by", self.method),
            ("versions", f"torch {self.torch_version}, Python {self.python_version}"),
        ]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows())

    def _repr_html_(self) -> str:

        return panel(table((name, escape(text)) for name, text in self.rows()))


def _describe(gpus: Gpus) -> str:
    if not gpus.usable:
        return gpus.trouble or "none that torch can use"
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus.usable))
    room = f"{len(gpus.usable)} ({names}): memory for about {most_ranks_on(gpus)} ranks"
    return f"{room}. {gpus.trouble}" if gpus.trouble else room


def machine() -> MachineReport:
    """Look at this machine; waits until torch is loaded in the background if it is not yet."""
    launcher = warm_up()
    launcher.wait_ready()
    gpus = find_gpus(launcher, os.environ)
    memory = psutil.virtual_memory()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return MachineReport(
        cores=cores,
        memory_gb=memory.total / 1e9,
        free_gb=memory.available / 1e9,
        gpus=len(gpus.usable),
        torch_version=launcher.torch_version,
        python_version=platform.python_version(),
        choice=choose_backend(4, "auto", gpus),
        method=default_method(),
        most_ranks=max(1, int(memory.available / (MB_PER_RANK[default_method()] * 1e6))),
        tried=gpus,
    )
