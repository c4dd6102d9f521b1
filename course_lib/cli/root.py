"""Where the course's own folder is."""

from __future__ import annotations

from pathlib import Path

import typer

from course_lib.learner.course import course_folder, is_checkout

#: In a checkout: answers to the tasks, right and wrong.
ANSWERS = Path("tests/answers")


def course_root() -> Path:
    """Return the folder of the course: the nearest checkout above the current folder, else what came with this code.

    Exits with one line where neither holds the lessons.
    """
    found = find_course()
    if found is None:
        typer.echo(
            "The lessons are not here: change into the folder of the course (the one with notebooks/).",
            err=True,
        )
        raise typer.Exit(2)
    return found


def checkout_root() -> Path:
    """Return the folder of the course for a command that works on the course itself.

    Exits with one line where that is not a checkout: what a package has installed is nobody's to write into.
    """
    root = course_root()
    if not is_checkout(root):
        typer.echo(
            "This command works on the course itself and needs a checkout of it (git clone): change into one.",
            err=True,
        )
        raise typer.Exit(2)
    return root


def find_course() -> Path | None:
    """See `course_root`; None where it would exit."""
    checkouts = (folder for folder in (Path.cwd(), *Path.cwd().parents) if is_checkout(folder))
    return next(checkouts, None) or course_folder()
