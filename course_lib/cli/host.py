"""`ddp-course host`: hold ranks of this machine for a notebook elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from course_lib.ranks.hosts.agent import main
from course_lib.ranks.hosts.dial import dial
from course_lib.ranks.hosts.join_file import VARIABLE


def host(
    join: Annotated[
        Path | None,
        typer.Option(help="Dial in: the file that %ranks listen has written.", envvar=VARIABLE),
    ] = None,
) -> None:
    """Hold ranks of this machine for a notebook on another one, which starts this by ssh, srun, kubectl or docker.

    It speaks with the notebook over standard input and output, listens to nobody else, and ends with it: '%ranks hosts
    NAME ...' in a notebook starts it so. With --join (a queued job) it dials a notebook that waits: '%ranks listen'.
    """
    raise typer.Exit(main() if join is None else dial(join))
