"""`ddp-course reset`: put a lesson or its exercises back as the course gives them."""

from __future__ import annotations

import difflib
from pathlib import PurePosixPath
from typing import Annotated

import typer

from course_lib.cli.root import course_root
from course_lib.learner.course import CourseError, given_files, paths_meant
from course_lib.learner.place import learner_folder
from course_lib.learner.update import CopyError, put_back


def reset(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="For example 06 or 06_alternation (the lesson), exercises/06 (its exercises), or a file of your copy.",
        ),
    ],
) -> None:
    """Put a lesson, or its exercises, in your copy back as the course gives it; your old one is kept.

    Your progress stays as it is: 'ddp-course progress reset' begins that anew. Exit code 1: the copy cannot be written.
    2: there is no such lesson.
    """
    course = course_root()
    folder = learner_folder(course)
    if not (folder / "notebooks").is_dir():
        typer.echo(f"There is no copy in {folder} yet: 'ddp-course lab' makes it.", err=True)
        raise typer.Exit(2)
    try:
        files = given_files(course)
        paths = []
        for name in names:
            meant = paths_meant(name, files)
            if not meant:
                typer.echo(_no_such(name, list(files)), err=True)
                raise typer.Exit(2)
            paths += [path for path in meant if path not in paths]
        changes = {change.path: change for change in put_back(folder, course, paths)}
    except (CopyError, CourseError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    for path in paths:
        change = changes.get(path)
        if change is None:
            typer.echo(f"{path} already is as the course gives it.")
        else:
            kept = f" Your old one is {change.kept}." if change.kept else ""
            typer.echo(f"{path} is as the course gives it.{kept}")
        # Answers are work: exercises are put back only if they are named.
        beside = f"exercises/{PurePosixPath(path).name}"
        if path.startswith("notebooks/") and beside in files and beside not in paths:
            typer.echo(f"Your exercises stay as they are: ddp-course reset {beside.removesuffix('.ipynb')}")
    if changes:
        typer.echo("Where one of them is open in JupyterLab: File > Reload Notebook from Disk.")


def _no_such(name: str, files: list[str]) -> str:
    stems = {PurePosixPath(path).stem: path for path in files}
    near = difflib.get_close_matches(PurePosixPath(name).stem, list(stems), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "say 06, 06_alternation or exercises/06, for example."
    return f"The course has no {name!r}; {hint}"
