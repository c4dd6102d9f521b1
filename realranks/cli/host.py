"""`host`: hold ranks of this machine for a notebook elsewhere."""

from __future__ import annotations

import typer

from realranks.ranks.hosts.agent import main


def host() -> None:
    """Hold ranks of this machine for a notebook on another one, which starts this by ssh, srun, kubectl or docker.

    It speaks with the notebook over standard input and output, listens to nobody else, and ends with it: '%ranks hosts
    NAME ...' in a notebook starts it so.
    """
    raise typer.Exit(main())
