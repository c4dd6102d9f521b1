"""The course's own folder."""

from __future__ import annotations

from pathlib import Path

import typer

from course_lib.learner.course import course_folder, is_checkout


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


def find_course() -> Path | None:
    """Find the course's folder like `course_root`, but return None if there is none."""
    checkouts = (folder for folder in (Path.cwd(), *Path.cwd().parents) if is_checkout(folder))
    return next(checkouts, None) or course_folder()
