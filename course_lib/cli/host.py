"""`ddp-course host`: hold ranks of this machine for a notebook elsewhere."""

from __future__ import annotations

import typer

from course_lib.ranks.hosts.agent import main


def host() -> None:
    """Hold ranks of this machine for a notebook on another one, which starts this by ssh, srun, kubectl or docker.

    It speaks with the notebook over standard input and output, listens to nobody else, and ends with it. You never
    start it by hand: '%ranks hosts NAME ...' in a notebook does.
    """
    raise typer.Exit(main())
