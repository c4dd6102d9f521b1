"""`ddp-course doctor train.py`: the words and exit codes of the doctor's command."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


def doctor(
    context: typer.Context,
    script: Annotated[
        Path, typer.Argument(help="The training script; what follows it are its own arguments.")
    ],
    ranks: Annotated[int, typer.Option("--ranks", "-n", min=1, help="How many ranks run it.")] = 2,
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="Compare weights every so many optimizer steps.")
    ] = 50,
    timeout: Annotated[
        float, typer.Option(help="Stop after so many seconds (a deadlock is proved without).")
    ] = math.inf,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not pass on what the ranks print.")
    ] = False,
) -> None:
    """Run a DDP script on local ranks, watch it, and explain a hang, a crash or ranks that drift apart.

    The script runs unchanged, as torchrun would run it. Exit code 0: nothing found; 1: a diagnosis is printed; 2: it
    could not be run.
    """
    from course_lib.doctor.script import error_text, examine, verdict_text, waiting_sentence
    from course_lib.doctor.terminal import show
    from course_lib.ranks.gang import GangError, LaunchError

    if not script.is_file():
        typer.echo(f"There is no file {script}.", err=True)
        raise typer.Exit(2)
    out, err = (None, None) if quiet else (sys.stdout, sys.stderr)
    try:
        found = examine(
            str(script), context.args, ranks=ranks, every=steps, timeout=timeout, out=out, err=err
        )
    except (GangError, LaunchError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    errors = error_text(found.outcome)
    if errors:
        typer.echo(errors)
    show(verdict_text(found))
    if waiting := waiting_sentence(found.outcome):
        typer.echo(f"  {waiting}")
    raise typer.Exit(0 if found.sound else 1)


def main() -> None:
    """`python -m course_lib.doctor`."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(context_settings=CONTEXT)(doctor)
    app()
