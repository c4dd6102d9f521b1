"""Where the course's own folder is."""

from __future__ import annotations

from pathlib import Path

import typer


def course_root() -> Path:
    """Return the folder of the course: the nearest above the current folder, else where this code lies.

    Exits with one line where neither holds the lessons.
    """
    for folder in (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parents[2]):
        if (folder / "notebooks").is_dir() and (folder / "course_lib").is_dir():
            return folder
    typer.echo(
        "The lessons are not here: change into the folder of the course (the one with notebooks/).", err=True
    )
    raise typer.Exit(2)
