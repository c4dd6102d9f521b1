"""`ddp-course check --watch`: the current exercise on the screen, again after each save, and the keys that move on.

Without a terminal there are no keys: each report is printed below the last one, and a pass leads to the next exercise.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from course_lib.grading.plain_text import plain
from course_lib.grading.terminal import shown, shown_hint
from course_lib.grading.verdict import Verdict
from course_lib.grading.watched import Exercise, Watched
from realranks.cli.progress_display import spinner

#: How often files are looked at.
SECONDS = 0.5
_KEYS = (("h", "hint"), ("n", "next"), ("l", "list"), ("r", "run again"), ("q", "quit"))
END = "\x04"  # Ctrl-D
#: What arrows and function keys send: nothing is meant by them here.
_ARROWS = re.compile(r"\x1b(?:[\[O][0-9;]*[A-Za-z~])?")


class Keyboard:
    """The keys of a terminal, one by one and unseen, while the context is open.

    Attributes:
        there: whether there is a terminal to read from and to write to; Windows' console is not read.
    """

    def __init__(self) -> None:
        self.there = sys.stdin.isatty() and sys.stdout.isatty() and os.name == "posix"
        self._before: list[Any] = []
        self._never = threading.Event()

    def __enter__(self) -> Keyboard:
        if self.there:
            import termios
            import tty

            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)  # Ctrl-C stays what it is
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            import termios

            with contextlib.suppress(termios.error, OSError):  # the terminal is gone
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def typed(self, seconds: float) -> str:
        """Wait at most this long for keys, and return those pressed; `END` if the terminal is gone."""
        if not self.there:
            self._never.wait(seconds)
            return ""
        try:
            if not select.select([sys.stdin], [], [], seconds)[0]:
                return ""
            keys = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
        except OSError:
            return END
        return _ARROWS.sub("", keys) if keys else END


class Screen:
    """The display of the exercises, with the action of each key."""

    def __init__(
        self, watched: Watched, console: Console, suspect: str, problems: list[str], *, keys: bool
    ) -> None:
        """Show these exercises.

        Args:
            suspect: of a script, what its report is to be about. problems: of files; said and taken from the list.
            keys: whether there is a terminal whose keys are read.
        """
        self._watched = watched
        self._console = console
        self._suspect = suspect
        self._keys = keys
        self._listed: list[Exercise] = []
        self._typed = ""
        self._problems = problems

    def grade(self) -> None:
        """Grade the current exercise and show it; without keys also the next ones, while they pass."""
        while (exercise := self._watched.current) is not None:
            if self._keys:
                self._console.clear()
            with spinner(f"checking {exercise.cell.task}", self._console):
                verdict = self._watched.grade()
            self._show(shown(verdict, exercise.place, self._suspect), *self._after(verdict))
            if self._keys or not verdict.passed or not self._watched.go_on():
                return

    def tell_problems(self) -> None:
        """Say what is wrong with files that have just been read."""
        for problem in self._problems:
            self._console.print(Text(plain(problem), "yellow"))
        self._problems.clear()

    def press(self, key: str) -> bool:
        """Do what a key is for; False where it ends the watching."""
        if key in ("q", END):
            return False
        if self._listed and (key.isdecimal() or key in "\r\n\x7f"):
            self._choose(key)
            return True
        self._listed, self._typed = [], ""
        if key == "h" and (given := self._watched.hint()) is not None:
            self._show(shown_hint(given))
        elif key == "n":
            if self._watched.go_on():
                self.grade()
            else:
                self._show(Text("There is no other exercise that is open."))
        elif key == "l":
            self._listed = self._watched.exercises
            self._show(self._list(), Text("A number and Enter go to an exercise.", "dim"))
        elif key == "r":
            self.grade()
        return True

    def _choose(self, key: str) -> None:
        """Take one more key of the number of an exercise in the list."""
        if key == "\x7f":
            self._typed = self._typed[:-1]
        elif key.isdecimal():
            self._typed += key
            self._console.print(key, end="")
        else:
            number, self._typed = int(self._typed or 0), ""
            if 1 <= number <= len(self._listed) and self._watched.go_to(self._listed[number - 1]):
                self._listed = []
                self.grade()
            else:
                self._console.print(Text(f"  There is no other exercise {number}.", "yellow"))

    def _after(self, verdict: Verdict) -> Iterator[RenderableType]:
        if not verdict.passed:
            return
        if self._watched.open_ones():
            if self._keys:
                yield Text("Passed. Press n for the next exercise.", "bold green")
        else:
            yield Text("Every exercise is passed.", "bold green")

    def _show(self, *parts: RenderableType) -> None:
        self._console.print(*parts, sep="\n\n")
        self._console.print()
        self._console.print(self._how_far())
        if (exercise := self._watched.current) is not None:
            place = Text(plain(exercise.place), f"link {exercise.path.absolute().as_uri()}")
            self._console.print(Text.assemble(("Edit and save: ", "dim"), place))
        if self._keys:
            self._console.print(Text.assemble(*_key_words()))
        self._console.print()

    def _how_far(self) -> RenderableType:
        tasks = {exercise.cell.task for exercise in self._watched.exercises}
        done, total = len(tasks & self._watched.passed()), len(tasks)
        words = Text(f"{done} of {total} passed", "bold")
        if not self._console.is_terminal:
            return words
        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(total=total or 1, completed=done, width=40), words)
        return line

    def _list(self) -> RenderableType:
        passed, current = self._watched.passed(), self._watched.current
        table = Table.grid(padding=(0, 2))
        for number, exercise in enumerate(self._watched.exercises, start=1):
            done = exercise.cell.task in passed
            here = current is not None and exercise.key == current.key
            table.add_row(
                Text(f"{'>' if here else ' '}{number:>3}"),
                Text("✓ passed" if done else "· open", "green" if done else ""),
                Text(exercise.cell.task, "bold" if here else ""),
                Text(plain(exercise.place), "dim"),
            )
        return table


def _key_words() -> Iterator[tuple[str, str]]:
    for number, (key, word) in enumerate(_KEYS):
        yield " / " if number else "", "dim"
        yield key, "bold"
        yield f" {word}", "dim"


def keep_watching(watched: Watched, screen: Screen, keyboard: Keyboard) -> None:
    """Grade the current exercise whenever it is saved, and do what keys ask for, until one ends it."""
    while True:
        changed = watched.look()
        if changed:
            screen.grade()
        screen.tell_problems()
        if not all(screen.press(key) for key in keyboard.typed(SECONDS)):
            return
