"""A course on PyTorch DistributedDataParallel by experiment on real ranks.

`%load_ext course_lib` gives a notebook `%%ranks` and the other magics; `run`, `predict` and `machine` are for plain
cells, `observe` for scripts that `torchrun` starts, `device` for cells on ranks. Importing this package does not import
torch: torch lives in ranks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from course_lib.notebook.machine import machine
    from course_lib.notebook.predict import predict
    from course_lib.notebook.run import run, run_quietly
    from course_lib.outcome.outcome import Outcome
    from course_lib.ranks.inside.device import device
    from course_lib.scripts.observe import observe

__all__ = [
    "Outcome",
    "device",
    "faults",
    "load_ipython_extension",
    "machine",
    "observe",
    "predict",
    "run",
    "run_quietly",
]

_HOMES = {
    "Outcome": "course_lib.outcome.outcome",
    "device": "course_lib.ranks.inside.device",
    "machine": "course_lib.notebook.machine",
    "observe": "course_lib.scripts.observe",
    "predict": "course_lib.notebook.predict",
    "run": "course_lib.notebook.run",
    "run_quietly": "course_lib.notebook.run",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "faults":
        return importlib.import_module("course_lib.faults")
    raise AttributeError(f"module 'course_lib' has no attribute {name!r}")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by `%load_ext course_lib`: register the magics, and start loading torch in the background."""
    from course_lib.ranks.kernel.launcher import warm_up_early

    warm_up_early()  # before anything else: it takes longest, and a second core imports the rest meanwhile
    from course_lib.notebook import extension

    extension.load(shell)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Called by every Jupyter server of an environment in which the course is installed."""
    return [{"module": "course_lib.notebook.server_extension"}]
