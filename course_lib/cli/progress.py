"""`ddp-course progress`: how far one is, and how to carry that to another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.core import TyperGroup

from course_lib.cli.root import find_course
from course_lib.grading.progress import Progress
from course_lib.grading.progress_files import ProgressFileError, export_progress, import_progress
from course_lib.learner.place import learner_folder
from course_lib.notebook.course_map import lessons, newer_versions, text_map


class _ShowsLessons(TyperGroup):
    """`progress 03` is `progress show 03`."""

    def resolve_command(self, ctx, args):  # type: ignore[no-untyped-def]  # its types are of typer's own copy of click
        return super().resolve_command(ctx, ["show", *args] if args[0][:1].isdigit() else args)


app = typer.Typer(
    cls=_ShowsLessons,
    help="Your progress: show it, carry it to another machine, begin anew.",
    invoke_without_command=True,
)


@app.callback()
def progress(context: typer.Context) -> None:
    """Show your progress (the default), export it, import it, or begin anew."""
    if context.invoked_subcommand is None:
        show()


@app.command()
def show(
    lesson: Annotated[str, typer.Argument(help="One lesson, as in 03; left out: all of them.")] = "",
) -> None:
    """Show the course map: what you have passed, how long it took, what is next."""
    log = Progress()
    shown = tuple(each for each in lessons(None, log.predictions()) if each.stem.startswith(lesson))
    if not shown:
        _fail(f"There is no lesson {lesson!r}; `ddp-course progress` shows all of them.")
    names = {task.name for each in shown for task in each.tasks}
    known = {name: progress_of for name, progress_of in log.all().items() if not lesson or name in names}
    course = find_course()
    newer = newer_versions(learner_folder(course)) if course is not None else []
    typer.echo("\n".join([text_map(shown, known), *newer]))
    lines = []
    for name, task in sorted(known.items()):
        took = f", passed after {_span(task.seconds_to_pass)}" if task.seconds_to_pass is not None else ""
        lines.append(f"  {name}: {_count(task.attempts, 'attempt')}, {_count(task.hints, 'hint')}{took}")
    if lines:
        typer.echo("\n".join(["", *lines]))
    _tell(log)


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also over a file that is no earlier export.")
    ] = False,
) -> None:
    """Write your progress to a file."""
    log = Progress()
    try:
        number = export_progress(log, file, force=force)
    except ProgressFileError as error:
        _fail(str(error))
    _tell(log)
    typer.echo(f"{_count(number, 'event')} written to {file}.")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that 'export' has written.")],
) -> None:
    """Add the progress of a file to yours; importing it twice changes nothing."""
    log = Progress()
    try:
        number = import_progress(log, file)
    except ProgressFileError as error:
        _fail(str(error))
    _tell(log)
    if not log.lasts:
        _fail("Nothing was imported.")
    typer.echo(f"{_count(number, 'new event')} added.")


@app.command("reset")
def reset(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Begin anew; the old progress is kept in a file beside the new one."""
    if not yes:
        typer.confirm("Put your progress aside and begin anew?", abort=True)
    log = Progress()
    log.start_anew()
    if not _tell(log):
        typer.echo("There was no progress to put aside.")


def _tell(log: Progress) -> bool:
    notices = log.take_notices()
    for notice in notices:
        typer.echo(notice, err=True)
    return bool(notices)


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(2) from None


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
