"""`export`: a notebook's cells on ranks as one script for torchrun."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, NoReturn

import nbformat
import typer
from nbformat import NotebookNode

from realranks.cells.as_script import MARK, NoScript, script_of
from realranks.cells.refused import UsageError
from realranks.own_files import NotOurFileError, check_ours

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="The file to write; - for standard output. Left out: the notebook's name with .py, in this folder.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Also over a file that this command did not write.")]


def export(
    notebook: Annotated[Path, typer.Argument(metavar="NOTEBOOK", help="The notebook's file.")],
    out: Out = None,
    force: Force = False,
) -> None:
    """Write a notebook's cells on ranks as one script for torchrun, on one machine or several.

    Exit code 1: the file cannot be written. 2: there is no such notebook, or nothing in it that can be a script.
    """
    if not notebook.is_file():
        fail(f"There is no notebook {notebook}.")
    write_script(notebook, None, out, force=force)


def write_script(path: Path, given: Path | None, out: Path | None, *, force: bool) -> None:
    """Write the script of a notebook, and say where it is; exits where it cannot be written.

    Args:
        path: the notebook. given: the one it comes from, if any. out: see `Out`. force: also over another's file.
    """
    try:
        text = script_of(path.stem, _read(path), _read(given) if given is not None else None)
    except (NoScript, UsageError) as error:
        fail(f"{path.name}: {error}")
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


def _read(path: Path) -> NotebookNode:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missing cell id changes nothing here
            notebook: NotebookNode = nbformat.read(path, as_version=4)
            return notebook
    except Exception as error:  # a notebook can be wrong in more ways than nbformat has exceptions for
        fail(f"{path} is no notebook that can be read: {' '.join(str(error).split())[:120]}")


def fail(message: str) -> NoReturn:
    """Say why, and exit."""
    typer.echo(message, err=True)
    raise typer.Exit(2) from None
