"""`ddp-course lab`: JupyterLab, with the course's index and its settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from course_lib.cli.root import course_root

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}
INDEX = "notebooks/index.ipynb"


def lab_process(root: Path, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment with which ``ddp-course lab`` becomes JupyterLab."""
    command = [
        *(sys.executable, "-m", "jupyterlab"),
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{INDEX}",
    ]
    # In containers the learner is root and JupyterLab refuses to start without being told so.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    configuration = [str(Path(__file__).parents[1] / "notebook"), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    environment = os.environ | {
        # Finds notebook/labconfig: no question about news at the first start, no look-up of updates. Finds
        # notebook/jupyter_server_config.d, also where the course runs from its folder without being installed.
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, configuration)),
        # `!torchrun` and `!python` in a lesson are the environment's own, also where it is not activated.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    return [*command, *arguments], environment


def lab(context: typer.Context) -> None:
    """Open JupyterLab at the index; further arguments go to JupyterLab (--no-browser, --port 9000 ...)."""
    command, environment = lab_process(course_root(), context.args)
    if os.name == "posix":
        os.execve(command[0], command, environment)  # one process: Ctrl-C and kill reach JupyterLab itself
    raise typer.Exit(subprocess.run(command, env=environment, check=False).returncode)
