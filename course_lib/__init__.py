"""A course on PyTorch DistributedDataParallel by experiment on real ranks.

`%load_ext course_lib` gives a notebook `%%ranks` and the other magics; `run`, `predict` and `machine` are for plain
cells, `observe` for scripts that `torchrun` starts, `device` and `like_one_process` for
cells on ranks. Most of them are the engine's (`realranks`). Importing this package does not import torch: torch
lives in ranks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from realranks import own_code

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from course_lib.notebook.predict import predict
    from realranks import Outcome, device, like_one_process, machine, observe, run, run_quietly

__all__ = [
    "Outcome",
    "device",
    "faults",
    "like_one_process",
    "load_ipython_extension",
    "machine",
    "observe",
    "predict",
    "run",
    "run_quietly",
]

own_code.add(__name__, __file__, "ddp-course")


def __getattr__(name: str) -> object:
    if name == "predict":
        return importlib.import_module("course_lib.notebook.predict").predict
    if name in __all__:
        return getattr(importlib.import_module("realranks"), name)
    raise AttributeError(f"module 'course_lib' has no attribute {name!r}")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics and start loading torch in the background, for `%load_ext course_lib`."""
    from realranks.ranks.kernel.launcher import warm_up_early

    warm_up_early()  # before anything else: it takes longest, and a second core imports the rest meanwhile
    from course_lib.notebook import extension

    extension.load(shell)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Name the extension for the Jupyter servers of an environment in which the course is installed."""
    return [{"module": "course_lib.notebook.server_extension"}]
