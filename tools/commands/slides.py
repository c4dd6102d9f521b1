"""`ddp-course slides`: a lesson as slides with speaker notes, one HTML file each, from the saved notebooks."""

import difflib
import os
from pathlib import Path
from typing import Annotated

import typer

from course_lib.cli.root import course_root
from course_lib.tasks.catalogue import all_tasks
from realranks.cli.progress_display import progress_bar
from realranks.own_files import NotOurFileError, check_ours
from tools.sections import LESSON, read_lesson
from tools.slides import GENERATOR, deck_page, make_deck, shortened_deck


def slides(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="For example 06, 06_alternation or two_hours; 'all' for every lesson."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where the files go; made if it is not there.")
    ] = Path("slides"),
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="All of the lesson, also what is Deeper; else what a room needs to see."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write also over files that this command did not write.")
    ] = False,
) -> None:
    """Make slides of lessons: one self-contained HTML file each, with speaker notes (press S), no network needed.

    The outputs are those that the notebooks hold. Exit code 1: a file cannot be written. 2: there is no such lesson.
    """
    folder = course_root() / "notebooks"
    paths = _select_lessons(names, [*sorted(folder.glob(LESSON)), folder / "two_hours.ipynb"])
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file: name the folder for the slides.", param_hint="--out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with progress_bar("slides") as show:
            for number, path in enumerate(paths, start=1):
                target = out / f"{path.stem}.html"
                if not force:
                    check_ours(target, f'content="{GENERATOR}"')
                tasks = [task for task in all_tasks() if task.lesson == path.stem]
                deck = make_deck(read_lesson(path), tasks)
                deck = deck if whole else shortened_deck(deck)
                unfinished = target.with_suffix(".html.part")
                unfinished.write_text(deck_page(deck), encoding="utf-8", newline="\n")
                os.replace(unfinished, target)
                count = sum(map(len, deck.chapters))
                typer.echo(f"{target}  {count} slides, {target.stat().st_size / 1e6:.1f} MB")
                show(number, len(paths))
    except (NotOurFileError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _select_lessons(names: list[str], lessons: list[Path]) -> list[Path]:
    """Return the lessons of these names; exit with one line for an unknown name."""
    if "all" in names:
        return lessons
    found: list[Path] = []
    for name in names:
        stem = name.removeprefix("notebooks/").removesuffix(".ipynb")
        number = f"{int(stem):02}" if stem.isdecimal() else None
        meant = [path for path in lessons if path.stem == stem or path.stem[:2] == number]
        if not meant:
            near = difflib.get_close_matches(stem, [path.stem for path in lessons], n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else "say 06, 06_alternation or all, for example."
            typer.echo(f"There is no lesson {name!r}; {hint}", err=True)
            raise typer.Exit(2)
        found += [path for path in meant if path not in found]
    return found
