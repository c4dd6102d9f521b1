"""A sign of life below a cell whose shell command (`!torchrun ...`, `log = !torchrun ...`) takes a while."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import PurePath

from realranks.cells.show import OutputSlot, is_attended
from realranks.outcome.html import note, panel

#: Seconds until it is shown, and between two updates.
_EVERY = 1.0


def register() -> None:
    """Have IPython show, where a learner sits at the notebook, how long a shell command of a cell has been running.

    IPython's two functions that start commands are wrapped where they receive the command in its final form:
    `shell.system` and `shell.getoutput` fill in the variables of the frame that calls them.
    """
    for path, name in (("ipykernel.zmqshell", "system"), ("IPython.core.interactiveshell", "getoutput")):
        module = sys.modules.get(path)  # an IPython in a terminal has no ipykernel
        start = getattr(module, name, None)
        if start is not None and not hasattr(start, "__wrapped__"):
            setattr(module, name, _with_sign(start))


def _with_sign(start: Callable[[str], object]) -> Callable[[str], object]:
    @functools.wraps(start)
    def start_with_sign(command: str) -> object:
        with running(program_of(command)):
            return start(command)

    return start_with_sign


def program_of(command: str) -> str:
    """Return the name of the program that a command line starts, without folder and variables set for it."""
    words = [word for word in command.split() if "=" not in word.split("/")[0]]
    return PurePath(words[0]).name if words else "a command"


@contextlib.contextmanager
def running(what: str) -> Iterator[None]:
    """Show in the cell's output, after a second, that this runs, and for how long; take it away afterwards."""
    if not is_attended():
        yield
        return
    slot, over, began = OutputSlot(), threading.Event(), time.monotonic()

    def show() -> None:
        while not over.wait(_EVERY):
            text = f"running {what} … ({time.monotonic() - began:.0f} s)"
            slot.progress(text, panel(note(text)))

    # In the cell's context, by which ipykernel knows to which cell an output belongs.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(show,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        slot.remove()
