"""The files that a rank reads and writes: with `open`, and with `torch.save`, which opens in C++.

Used inside a rank, within `watching`.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from realranks.outcome.probe_notes import ProbeNotes
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line

_Function = Callable[..., Any]

#: Files that are noted: the first that are written, the newest that are read.
_MAX_FILES = 20


class Files:
    """Those of one rank."""

    def __init__(self, notes: ProbeNotes) -> None:
        self._notes = notes.files

    def wrap(self, stack: ExitStack, replace: Replace, noting: Files) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        import torch

        def make(
            original: _Function, names: tuple[str, str], note: Callable[[object, object], None]
        ) -> _Function:
            def call(*arguments: Any, **options: Any) -> Any:
                note(*(arguments[n] if len(arguments) > n else options.get(names[n]) for n in (0, 1)))
                return original(*arguments, **options)

            return call

        replace(stack, torch, "save", partial(make, names=("obj", "f"), note=noting.saved))
        for module in (builtins, io):  # pathlib takes the second
            replace(stack, module, "open", partial(make, names=("file", "mode"), note=noting.opened))

    def saved(self, _: object, file: object) -> None:
        """Record a file that `torch.save` is about to write."""
        self._note_first(self._notes.saved, file)

    def opened(self, file: object, mode: object) -> None:
        """Record a file that is about to be opened."""
        if isinstance(mode, str) and not {*"wax+"}.isdisjoint(mode):
            self._note_first(self._notes.written, file)
        elif (path := _path(file)) and (line := learners_line()):
            read = self._notes.read
            read.pop(path, None)
            read[path] = line
            if len(read) > _MAX_FILES:
                del read[next(iter(read))]

    def _note_first(self, found: dict[str, str], file: object) -> None:
        path = _path(file)
        if path and len(found) < _MAX_FILES and path not in found and (line := learners_line()):
            found[path] = line


def _path(file: object) -> str:
    # Without a look at the disk: a data set may open a file for each sample.
    return os.path.abspath(os.fsdecode(file)) if isinstance(file, str | os.PathLike) else ""
