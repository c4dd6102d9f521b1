"""`ddp-course site`: the course as a web site, from the saved notebooks and the documents."""

from pathlib import Path
from typing import Annotated

import typer

from course_lib.cli.root import course_root
from tools.repository import repository as address_of_sources
from tools.site import SiteError, build_site


def site(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where the pages go; what is there is removed.")
    ] = Path("site"),
    repository: Annotated[
        str,
        typer.Option(
            "--repository",
            metavar="ADDRESS",
            help="Of the sources: for links into them, and to Binder. By default Repository in pyproject.toml.",
        ),
    ] = "",
    stills: Annotated[
        bool, typer.Option("--stills", help="Leave explorables as pictures; recording them takes minutes.")
    ] = False,
) -> None:
    """Make a web site of the course: lessons with their outputs, answers folded, search; a folder of HTML.

    Exit code 1: a page has a dead link or cannot be built, or an explorable cannot be recorded.
    """
    if out.exists() and any(out.iterdir()) and not (out / "searchindex.js").is_file():
        typer.echo(f"{out} is not empty, and no site of an earlier time: choose another folder.", err=True)
        raise typer.Exit(1)
    try:
        pages = build_site(
            course_root(), out, repository or address_of_sources(course_root()), () if stills else None
        )
    except SiteError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{out / 'index.html'}  {len(pages)} pages")
