"""`ddp-course notebooks`: build the notebooks from their sources."""

import time
from typing import Annotated

import typer

from course_lib.cli.root import course_root
from course_lib.grading import HARNESS
from realranks.cli.progress_display import progress_bar
from realranks.ranks.server.preload import preload_also
from realranks.ranks.server.zygote import start_zygote
from tools.cheatsheet import check_cheat_sheet, write_cheat_sheet
from tools.check import check_notebooks
from tools.claims import check_claims, write_claims_page
from tools.execute import build_notebook, keep_outputs
from tools.instructor import check_instructor, write_instructor_pages
from tools.plan import BuildError, UnknownNotebookError, find_targets
from tools.promised import write_minutes


def notebooks(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="For example 03, 03_samplers or exercises/03_samplers; else all."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Build nothing, say what does not match.")] = False,
    prose: Annotated[
        bool,
        typer.Option("--prose", help="Only text has changed: keep the saved outputs and run no cell."),
    ] = False,
) -> None:
    """Build the notebooks from their sources and execute them, or check that the saved ones match."""
    root = course_root()
    try:
        if check:
            with progress_bar("notebooks") as show:
                problems = check_notebooks(root, names or (), show)
            if not names:
                problems += check_claims(root) + check_cheat_sheet(root)
                problems += check_instructor(root)
            for problem in problems:
                typer.echo(problem, err=True)
            if problems:
                typer.echo(
                    "Notebooks are written in their sources; 'make notebooks' rebuilds them.", err=True
                )
                raise typer.Exit(1)
            return
        if not prose:
            preload_also(HARNESS)
            start_zygote()
        make = keep_outputs if prose else build_notebook
        targets = find_targets(root, names or ())
        with progress_bar("notebooks") as show:
            for number, target in enumerate(targets, start=1):
                began = time.monotonic()
                built = make(target)
                cells = sum(cell.cell_type == "code" for cell in built.cells)
                typer.echo(f"{target.name:40} {cells:3} code cells {time.monotonic() - began:6.1f} s")
                show(number, len(targets))
        if changed := write_minutes(root, {target.notebook.stem for target in targets}):
            for target in find_targets(root, [f"notebooks/{name}" for name in changed]):
                keep_outputs(target)
        write_claims_page(root)
        write_cheat_sheet(root)
        write_instructor_pages(root)
        for problem in check_claims(root) + check_cheat_sheet(root) + check_instructor(root):
            typer.echo(problem, err=True)
    except UnknownNotebookError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except BuildError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
