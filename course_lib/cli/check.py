"""`ddp-course check`: grade one's own answers in a terminal, as the notebook does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from course_lib.cli.root import course_root
from course_lib.cli.watch import Keyboard, Screen, keep_watching
from course_lib.grading.check import Checker, CheckError, files_of
from course_lib.grading.hints import next_hint
from course_lib.grading.plain_text import plain
from course_lib.grading.progress import Progress
from course_lib.grading.terminal import console, shown, shown_hint
from course_lib.grading.verdict import Verdict
from course_lib.grading.watched import Watched
from course_lib.learner.news import news
from course_lib.learner.place import learner_folder
from course_lib.tasks import UnknownTaskError, find_task
from realranks.cli.progress_display import progress_bar
from realranks.ranks.kernel.gang import GangError, LaunchError


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[NOTEBOOK|FILE|FOLDER]...",
            help="Notebooks, or scripts with '# %%task name' cells. By default the exercises of your copy.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Stay with one exercise, and check it again whenever its file is saved."
        ),
    ] = False,
    suspect: Annotated[
        str,
        typer.Option(
            "--suspect", metavar="WORD", help="Of a script: a word of it that the report is to be about."
        ),
    ] = "",
    hint: Annotated[
        str | None,
        typer.Option("--hint", metavar="TASK", help="Check nothing: show the next hint for this task."),
    ] = None,
    no_record: Annotated[
        bool, typer.Option("--no-record", help="Do not count these attempts in your progress.")
    ] = False,
) -> None:
    """Check your answers: task cells of notebooks or scripts, on real ranks.

    Exit code 0: every answer passed. 1: something did not. 2: there is nothing to check.
    """
    if hint is not None:
        _show_hint(hint)
        return

    unseen: set[Path] = set()
    if not paths:
        folder, unseen = exercises()
        paths = [folder]
    screen = console()
    try:
        files = [file for file in files_of(paths) if file not in unseen]
    except CheckError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    try:
        if watch:
            _watch(files, screen, suspect, record=not no_record)
            raise typer.Exit(0)
        good = _check(files, screen, suspect, None if no_record else Progress())
    except (GangError, LaunchError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(0 if watch else 130) from None
    raise typer.Exit(0 if good else 1)


def _check(files: list[Path], screen: Console, suspect: str, progress: Progress | None) -> bool:
    def show(verdict: Verdict, place: str) -> None:
        screen.print(shown(verdict, place, suspect))
        screen.print()
        _tell(progress)

    checker = Checker(files, progress, show, lambda problem: typer.echo(plain(problem), err=True))
    # On the screen of the verdicts, which then stand above the bar.
    with progress_bar("answers", screen if screen.is_terminal else None) as checker.tell:
        return checker.check()


def _watch(files: list[Path], console: Console, suspect: str, *, record: bool) -> None:
    progress = Progress()
    problems: list[str] = []
    watched = Watched(files, progress, problems.append, record=record)
    with Keyboard() as keyboard:
        if not keyboard.there:
            typer.echo("Watching; Ctrl-C ends it.", err=True)
        try:
            keep_watching(watched, Screen(watched, console, suspect, problems, keys=keyboard.there), keyboard)
        finally:
            _tell(progress)


def _tell(progress: Progress | None) -> None:
    for notice in progress.take_notices() if progress is not None else ():
        typer.echo(notice, err=True)


def exercises() -> tuple[Path, set[Path]]:
    """Return the folder of the learner's answers, and the new versions there that are not filled in yet."""
    root = course_root()
    copy = learner_folder(root)
    if not (copy / "exercises").is_dir():
        return root / "exercises", set()
    return copy / "exercises", {copy / path for path in news(copy).values()}


def _show_hint(name: str) -> None:
    log = Progress()
    try:
        console().print(shown_hint(next_hint(find_task(name), log)))
    except UnknownTaskError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    _tell(log)
