"""`ddp-course export`: a lesson's cells on ranks as one script for torchrun."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from course_lib.cli.root import course_root
from course_lib.learner.course import paths_meant
from course_lib.learner.place import learner_folder
from course_lib.notebook.as_script import MARK, NoScript, script_of
from course_lib.notebook.refused import Refused
from course_lib.own_files import NotOurFileError, check_ours

if TYPE_CHECKING:
    from nbformat import NotebookNode


def export(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="For example 06 or 06_alternation; or a notebook's file.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The file to write; - for standard output. Left out: the notebook's name with .py, in this folder.",
            show_default=False,
        ),
    ] = None,
    shipped: Annotated[
        bool, typer.Option("--shipped", help="The lesson as the course gives it, not your copy of it.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also over a file that this command did not write.")
    ] = False,
) -> None:
    """Write a lesson's cells on ranks as one script for torchrun, on one machine or several.

    The lesson is that of your copy, if there is one. Exit code 1: the file cannot be written. 2: there is no such
    lesson, or nothing in it that can be a script.
    """
    path, given = _notebook(name, shipped)
    try:
        text = script_of(path.stem, _read(path), _read(given) if given is not None else None)
    except (NoScript, Refused) as error:
        _fail(f"{path.name}: {error}")
    if out == Path("-"):
        sys.stdout.write(text)
        return
    target = out or Path(f"{path.stem}.py")
    try:
        if not force:
            check_ours(target, MARK)
        target.write_text(text, encoding="utf-8", newline="\n")
    except (NotOurFileError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{target}: how to start it stands in its first lines.")


def _notebook(name: str, shipped: bool) -> tuple[Path, Path | None]:
    """The notebook that is meant, and the one of the course that it comes from, if any. Exits where there is none."""
    if name.endswith(".ipynb") and Path(name).is_file():
        return Path(name), None
    course = course_root()
    lessons = [path.relative_to(course).as_posix() for path in (course / "notebooks").glob("[0-9]*.ipynb")]
    meant = paths_meant(name, lessons)
    if len(meant) != 1:
        _fail(
            f"There is no lesson {name!r}: say 06 or 06_alternation, for example, or name a notebook's file."
        )
    given, own = course / meant[0], learner_folder(course) / meant[0]
    return (own if own.is_file() and not shipped else given), given


def _read(path: Path) -> NotebookNode:
    import nbformat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missing cell id changes nothing here
            notebook: NotebookNode = nbformat.read(path, as_version=4)
            return notebook
    except Exception as error:  # a notebook can be wrong in more ways than nbformat has exceptions for
        _fail(f"{path} is no notebook that can be read: {' '.join(str(error).split())[:120]}")


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(2) from None
