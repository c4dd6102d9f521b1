"""What `%load_ext course_lib` does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from course_lib.notebook import board, magics, show, task_magics
from course_lib.notebook.machine import machine
from course_lib.notebook.predict import predict
from course_lib.notebook.run import run
from course_lib.ranks.kernel.gpus import find_gpus_early
from course_lib.ranks.kernel.launcher import LaunchError, warm_up
from course_lib.versions import version

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

#: Before this release DDP and torch.distributed lack what some cells show (docs/platforms.md).
_CHECKED = (2, 13)


def load(shell: InteractiveShell) -> None:
    """Register the magics, bring `run`, `predict` and `machine` into the notebook, start loading torch."""
    os.environ.setdefault("PYTHON_COLORS", "0")  # a kernel wants colours; `log = !torchrun ...` wants a text
    magics.register(shell)
    show.register()
    board.register(shell)
    task_magics.register(shell)
    shell.push({"run": run, "predict": predict, "machine": machine}, interactive=False)
    here = version("torch")
    if show.is_attended() and here[0].isdigit() and tuple(map(int, here.split(".")[:2])) < _CHECKED:
        print(
            f"This is torch {here}. The lessons were checked with 2.13: a few cells of lessons 06, 07, 09, 13 and "
            "of the capstone show what is new in it, and end with an error here."
        )
    try:
        # Both return at once: torch is loaded, and GPUs are tried, while the learner reads.
        find_gpus_early(warm_up())
    except LaunchError as error:
        print(error)
