"""The engine's commands: every one is registered here and nowhere else."""

from __future__ import annotations

import importlib
from types import ModuleType

import typer

from realranks.cli.listed import Commands

DOCTOR = (
    "realranks.cli.doctor",
    "Run a DDP script on local ranks, watch it, and explain a hang, a crash or ranks that drift apart.",
)
ATTACH = (
    "realranks.cli.attach",
    "Look at the ranks that run on this machine now, and explain a hang; reads only (py-spy, /proc).",
)
HOST = (
    "realranks.cli.host",
    "Hold ranks of this machine for a notebook on another one, which starts this by ssh, srun, kubectl or docker.",
)
EXPORT = (
    "realranks.cli.export",
    "Write a notebook's cells on ranks as one script for torchrun, on one machine or several.",
)

_OF_NOTEBOOKS = {"IPython", "nbformat"}


def _load(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _OF_NOTEBOOKS:
            raise
        typer.echo(f"This needs {missing}: pip install 'realranks[notebook]'", err=True)
        raise typer.Exit(2) from None


ENGINE = Commands(
    "realranks",
    "Real ranks of PyTorch: run a script on them, look at those that hang, and say why.",
    {"doctor": DOCTOR, "attach": ATTACH, "host": HOST, "export": EXPORT},
    _load,
)
