"""Loading the engine into a notebook, by itself or as a part of what is built on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from realranks.cells import commands, magics, show
from realranks.cells.machine import machine
from realranks.cells.run import run
from realranks.ranks.kernel.gpus import find_gpus_early
from realranks.ranks.kernel.launcher import LaunchError, warm_up

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load(shell: InteractiveShell) -> None:
    """Register `%%ranks`, and bring `run` and `machine` into the notebook."""
    os.environ.setdefault("PYTHON_COLORS", "0")  # a kernel wants colours; `log = !torchrun ...` wants a text
    magics.register(shell)
    show.register()
    commands.register()
    shell.push({"run": run, "machine": machine}, interactive=False)


def load_torch() -> None:
    """Start loading torch, and trying the GPUs, while the user reads; returns at once."""
    try:
        find_gpus_early(warm_up())
    except LaunchError as error:
        print(error)
