"""A progress display for long commands, with the time still needed: on a terminal, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO, cast

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


class StatusLine:
    """The last line of a terminal: what is waited for, and for how long, wherever nothing is printed for a second.

    Unlike `progress_bar` it leaves what is printed as it is, half lines and progress bars of a script included: it
    gives way before anything that goes through `above`, and comes back below complete lines only.
    """

    _SILENCE = 1.0

    def __init__(self, screen: TextIO) -> None:
        self._screen = screen
        self._lock = threading.RLock()
        self._what = ""
        self._began = self._printed = time.monotonic()
        self._complete = True
        self._width = 0

    def tell(self, what: str) -> None:
        """Say from now on that this is waited for."""
        with self._lock:
            self._what, self._began = what, time.monotonic()

    def above(self, stream: TextIO) -> TextIO:
        """Return a stream that passes on what is printed, and first takes the line away."""
        return cast(TextIO, _Above(self, stream))

    def show(self) -> None:
        """Write the line where it can stand."""
        with self._lock:
            if not self._what or not self._complete:
                return
            text = f"{self._what} … ({time.monotonic() - self._began:.0f} s)"
            text = text[: shutil.get_terminal_size().columns - 1]  # a line that wraps cannot be taken away
            self._screen.write("\r" + text.ljust(self._width))
            self._screen.flush()
            self._width = len(text)

    def remove(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._width:
                self._screen.write(f"\r{' ' * self._width}\r")
                self._screen.flush()
                self._width = 0

    def give_way(self, stream: TextIO, text: str) -> None:
        """Print something in place of the line."""
        with self._lock:
            self.remove()
            stream.write(text)
            self._complete, self._printed = text.endswith("\n"), time.monotonic()

    def keep_showing(self, over: threading.Event) -> None:
        """Show the line once a second where nothing else is printed, until the event is set."""
        while not over.wait(self._SILENCE):
            with self._lock:
                if time.monotonic() - self._printed >= self._SILENCE:
                    self.show()


class _Above(io.TextIOBase):
    def __init__(self, line: StatusLine, stream: TextIO) -> None:
        self._line, self._stream = line, stream

    def write(self, text: str) -> int:
        if text:
            self._line.give_way(self._stream, text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


@contextlib.contextmanager
def status_line(*, wanted: bool = True) -> Iterator[StatusLine]:
    """Show a `StatusLine` on standard error while the context is open; in a pipe or a file nothing is shown of it."""
    line, over = StatusLine(sys.stderr), threading.Event()
    thread = threading.Thread(target=line.keep_showing, args=(over,), daemon=True)
    if wanted and sys.stderr.isatty():
        thread.start()
    try:
        yield line
    finally:
        over.set()
        if thread.ident is not None:
            thread.join()
        line.remove()
