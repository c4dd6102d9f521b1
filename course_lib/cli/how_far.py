"""How far a long command is, and about how long it will still take: on a terminal, and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextlib.contextmanager
def how_far(what: str, console: Console | None = None) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error while the context is open; call what it gives with the numbers done and in all.

    What is printed meanwhile stands above the bar. In a pipe or a file nothing is shown.
    """
    console = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("still about"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
