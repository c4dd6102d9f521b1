"""`ddp-course` itself: every command is registered here and nowhere else."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from course_lib.cli import check, doctor, grade, lab, new_task, notebooks, progress, reset, selfcheck, slides


def application() -> typer.Typer:
    """Return the application with all its commands."""
    app = typer.Typer(
        name="ddp-course",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_course)
    app.command("lab", context_settings=lab.CONTEXT)(lab.lab)
    app.command("reset")(reset.reset)
    app.command("notebooks")(notebooks.notebooks)
    app.command("check")(check.check)
    app.command("grade")(grade.grade)
    app.command("slides")(slides.slides)
    app.add_typer(progress.app, name="progress")
    app.command("selfcheck")(selfcheck.selfcheck)
    app.command("new-task")(new_task.new_task)
    app.command("doctor", context_settings=doctor.CONTEXT)(doctor.doctor)
    return app


def command_line() -> TyperGroup:
    """Return `ddp-course` as a command with those below it, for the page of the public API."""
    return typer.main.get_group(application())


def _say_version(wanted: bool) -> None:
    if wanted:
        from course_lib.versions import versions_line

        typer.echo(versions_line())
        raise typer.Exit(0)


def _course(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Say which course, torch and machine this is.",
            callback=_say_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Learn PyTorch DistributedDataParallel by experiment on real ranks."""
