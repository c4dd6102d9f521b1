"""`ddp-course` itself: every command is registered here and nowhere else.

A command's module is loaded when the command is used: `ddp-course --help` needs none of them. Commands that work on the
course itself are in `tools`, which a checkout has and a wheel does not.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from course_lib.versions import versions_line

#: In a checkout, `tools` is beside this package.
CHECKOUT = Path(__file__).resolve().parents[2]
_NO_CHECKOUT = (
    "This command works on the course itself: it needs a checkout (git clone), and in it "
    "'pip install -e .[test]'."
)
#: The commands in the order of `--help`: the module of each, and the first line of its docstring. The module has a
#: function of the command's name, and perhaps `CONTEXT`, its settings; or `app`, commands below this one.
COMMANDS = {
    "lab": (
        "course_lib.cli.lab",
        (
            "Open your copy of the course in JupyterLab; "
            "further arguments go to JupyterLab (--no-browser, --port 9000 ...)."
        ),
    ),
    "reset": (
        "course_lib.cli.reset",
        "Put a lesson, or its exercises, in your copy back as the course gives it; your old one is kept.",
    ),
    "export": (
        "course_lib.cli.export",
        "Write a lesson's cells on ranks as one script for torchrun, on one machine or several.",
    ),
    "notebooks": (
        "tools.commands.notebooks",
        "Build the notebooks from their sources and execute them, or check that the saved ones match.",
    ),
    "check": (
        "course_lib.cli.check",
        "Check your answers: task cells of notebooks or scripts, on real ranks.",
    ),
    "grade": (
        "course_lib.cli.grade",
        "Grade a folder of learners, in parallel. Run again, only what is new or changed is graded.",
    ),
    "slides": (
        "tools.commands.slides",
        "Make slides of lessons: one self-contained HTML file each, with speaker notes (press S), no network needed.",
    ),
    "site": (
        "tools.commands.site",
        "Make a web site of the course: lessons with their outputs, answers folded, search; a folder of HTML.",
    ),
    "board": (
        "course_lib.cli.board",
        "Show your class live: who has passed what, who is stuck since when, what the room predicts.",
    ),
    "selfcheck": (
        "tools.commands.selfcheck",
        "Check the course itself: tasks, their catalogue of answers, exercises, solutions, stray files.",
    ),
    "doctor": (
        "course_lib.cli.doctor",
        "Run a DDP script on local ranks, watch it, and explain a hang, a crash or ranks that drift apart.",
    ),
    "host": (
        "course_lib.cli.host",
        "Hold ranks of this machine for a notebook on another one, which starts this by ssh, srun, kubectl or docker.",
    ),
    "progress": (
        "course_lib.cli.progress",
        "Your progress: show it, carry it to another machine, begin anew.",
    ),
}


class _Listed(TyperGroup):
    """The commands by name and first line; one that is to be run is loaded then."""

    def __init__(self, **settings: object) -> None:
        settings["commands"] = {name: TyperCommand(name, help=line) for name, (_, line) in COMMANDS.items()}
        super().__init__(**settings)  # type: ignore[arg-type]

    def resolve_command(self, ctx, args):  # type: ignore[no-untyped-def]  # its types are of typer's own copy of click
        name, listed, rest = super().resolve_command(ctx, args)
        return name, _load(name) if name is not None else listed, rest


def _load(name: str) -> TyperCommand | TyperGroup:
    path, _ = COMMANDS[name]
    if path.startswith("tools."):
        if not CHECKOUT.joinpath(*path.split(".")).with_suffix(".py").is_file():
            typer.echo(_NO_CHECKOUT, err=True)
            raise typer.Exit(2)
        if str(CHECKOUT) not in sys.path:
            sys.path.insert(0, str(CHECKOUT))
    module = importlib.import_module(path)
    if hasattr(module, "app"):
        return typer.main.get_group(module.app)
    alone = typer.Typer(add_completion=False)
    alone.command(name, context_settings=getattr(module, "CONTEXT", None))(
        getattr(module, path.split(".")[-1])
    )
    return typer.main.get_command(alone)  # type: ignore[return-value]


def application() -> typer.Typer:
    """Return the application with all its commands."""
    app = typer.Typer(
        name="ddp-course",
        cls=_Listed,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_course)
    return app


def command_line() -> TyperGroup:
    """Return `ddp-course` as a command with those below it, all loaded, for the page of the public API."""
    group = typer.main.get_group(application())
    group.commands = {name: _load(name) for name in COMMANDS}
    return group


def _say_version(wanted: bool) -> None:
    if wanted:
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
