"""Real ranks of PyTorch in a notebook, a test suite or a terminal, and why they hang.

`%load_ext realranks` gives a notebook `%%ranks`; `run` and `machine` are for plain cells, `observe` for scripts that
`torchrun` starts, `device` and `like_one_process` for cells on ranks. `realranks doctor | attach | host | export` is
for terminals, and `@pytest.mark.ranks` for tests. Importing this package does not import torch: torch lives in ranks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from realranks.cells.machine import machine
    from realranks.cells.run import run, run_quietly
    from realranks.outcome.outcome import Outcome
    from realranks.ranks.inside.device import device
    from realranks.scripts.observe import observe
    from realranks.scripts.one_process import like_one_process

__all__ = [
    "Outcome",
    "device",
    "faults",
    "like_one_process",
    "load_ipython_extension",
    "machine",
    "observe",
    "run",
    "run_quietly",
]

_HOMES = {
    "Outcome": "realranks.outcome.outcome",
    "device": "realranks.ranks.inside.device",
    "like_one_process": "realranks.scripts.one_process",
    "machine": "realranks.cells.machine",
    "observe": "realranks.scripts.observe",
    "run": "realranks.cells.run",
    "run_quietly": "realranks.cells.run",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "faults":
        return importlib.import_module("realranks.faults")
    raise AttributeError(f"module 'realranks' has no attribute {name!r}")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register `%%ranks` and start loading torch in the background; `%load_ext realranks` calls this."""
    from realranks.ranks.kernel.launcher import warm_up_early

    warm_up_early()  # before anything else: it takes longest, and a second core imports the rest meanwhile
    from realranks.cells import extension

    extension.load(shell)
    extension.load_torch()
