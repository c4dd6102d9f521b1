"""What `%load_ext course_lib` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.notebook import board, magics, show, task_magics
from course_lib.notebook.machine import machine
from course_lib.notebook.predict import predict
from course_lib.notebook.run import run
from course_lib.ranks.kernel.gpus import find_gpus_early
from course_lib.ranks.kernel.launcher import LaunchError, warm_up

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load(shell: InteractiveShell) -> None:
    """Register the magics, bring `run`, `predict` and `machine` into the notebook, start loading torch."""
    magics.register(shell)
    show.register()
    board.register(shell)
    task_magics.register(shell)
    shell.push({"run": run, "predict": predict, "machine": machine}, interactive=False)
    try:
        # Both return at once: torch is loaded, and GPUs are tried, while the learner reads.
        find_gpus_early(warm_up())
    except LaunchError as error:
        print(error)
