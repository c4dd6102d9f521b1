"""The files that a rank writes with `torch.save` and reads with `torch.load`. Used inside a rank, within `watching`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from realranks.outcome.probe_notes import ProbeNotes
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line

_Function = Callable[..., Any]

#: Files that are noted, the first.
_MAX_FILES = 20


class Files:
    """Those of one rank."""

    def __init__(self, notes: ProbeNotes) -> None:
        self._notes = notes.files

    def wrap(self, stack: ExitStack, replace: Replace, noting: Files) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        import torch

        def make(original: _Function, place: int, note: Callable[[object], None]) -> _Function:
            def call(*arguments: Any, **options: Any) -> Any:
                note(arguments[place] if len(arguments) > place else options.get("f"))
                return original(*arguments, **options)

            return call

        replace(stack, torch, "save", partial(make, place=1, note=noting.saved))
        replace(stack, torch, "load", partial(make, place=0, note=noting.loaded))

    def saved(self, file: object) -> None:
        """Record a file that is about to be written."""
        _note(self._notes.saved, file)

    def loaded(self, file: object) -> None:
        """Record a file that is about to be read."""
        _note(self._notes.loaded, file)


def _note(found: dict[str, str], file: object) -> None:
    if isinstance(file, str | os.PathLike) and len(found) < _MAX_FILES:
        found.setdefault(os.path.realpath(os.fsdecode(file)), learners_line())
