"""`ddp-course export`: a lesson's cells on ranks as one script for torchrun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from course_lib.cli.root import course_root
from course_lib.learner.course import paths_meant
from course_lib.learner.place import learner_folder
from realranks.cli.export import Force, Out, fail, write_script


def export(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="For example 06 or 06_alternation; or a notebook's file.")
    ],
    out: Out = None,
    shipped: Annotated[
        bool, typer.Option("--shipped", help="The lesson as the course gives it, not your copy of it.")
    ] = False,
    force: Force = False,
) -> None:
    """Write a lesson's cells on ranks as one script for torchrun, on one machine or several.

    The lesson is that of your copy, if there is one. Exit code 1: the file cannot be written. 2: there is no such
    lesson, or nothing in it that can be a script.
    """
    path, given = _notebook(name, shipped)
    write_script(path, given, out, force=force)


def _notebook(name: str, shipped: bool) -> tuple[Path, Path | None]:
    """Find the named notebook, and the course's notebook it comes from, if any. Exits if there is none."""
    if name.endswith(".ipynb") and Path(name).is_file():
        return Path(name), None
    course = course_root()
    lessons = [path.relative_to(course).as_posix() for path in (course / "notebooks").glob("[0-9]*.ipynb")]
    meant = paths_meant(name, lessons)
    if len(meant) != 1:
        fail(
            f"There is no lesson {name!r}: say 06 or 06_alternation, for example, or name a notebook's file."
        )
    given, own = course / meant[0], learner_folder(course) / meant[0]
    return (own if own.is_file() and not shipped else given), given
