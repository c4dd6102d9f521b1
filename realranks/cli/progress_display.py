"""A progress display for long commands, with the time still needed: on a terminal, and nowhere else."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextlib.contextmanager
def progress_bar(what: str, console: Console | None = None) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error while the context is open; call what it gives with the numbers done and in all.

    What is printed meanwhile stands above the bar, or goes into the file that it is meant for. In a pipe or a file
    nothing is shown of the bar.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("still about"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with _bar(columns, console) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def spinner(what: str, console: Console | None = None) -> Iterator[None]:
    """Show that something runs, and for how long, where nobody can know how long it will take."""
    with _bar((SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()), console) as bar:
        bar.add_task(what, total=None)
        yield


def _bar(columns: tuple[ProgressColumn, ...], console: Console | None) -> Progress:
    console = console or Console(stderr=True)
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=sys.stdout.isatty(),  # rich would send it where the bar is
    )
