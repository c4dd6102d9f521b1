"""`ddp-course` itself: every command is registered here and nowhere else.

A command's module is loaded when the command is used: `ddp-course --help` needs none of them. Commands that work on the
course itself are in `tools`, which a checkout has and a wheel does not.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import typer
from typer.core import TyperGroup

from realranks.cli.app import DOCTOR, HOST
from realranks.cli.listed import Commands

#: In a checkout, `tools` is beside this package.
CHECKOUT = Path(__file__).resolve().parents[2]
_NO_CHECKOUT = (
    "This command works on the course itself: it needs a checkout (git clone), and in it "
    "pip install -e '.[test]'"
)
#: What `Commands.modules` is.
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
    "doctor": DOCTOR,
    "host": HOST,
    "progress": (
        "course_lib.cli.progress",
        "Your progress: show it, carry it to another machine, begin anew.",
    ),
}


def _load(module: str) -> ModuleType:
    if module.startswith("tools."):
        if not CHECKOUT.joinpath(*module.split(".")).with_suffix(".py").is_file():
            typer.echo(_NO_CHECKOUT, err=True)
            raise typer.Exit(2)
        if str(CHECKOUT) not in sys.path:
            sys.path.insert(0, str(CHECKOUT))
    return importlib.import_module(module)


_COURSE = Commands(
    "ddp-course", "Learn PyTorch DistributedDataParallel by experiment on real ranks.", COMMANDS, _load
)


def application() -> typer.Typer:
    """Return the application with all its commands."""
    return _COURSE.typer()


def command_line() -> TyperGroup:
    """Return `ddp-course` as a command with those below it, all loaded, for the page of the public API."""
    return _COURSE.command_line()
