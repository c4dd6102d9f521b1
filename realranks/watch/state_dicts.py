"""State dicts of which `load_state_dict(strict=False)` has loaded nothing. Used inside a rank, within `watching`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any

from realranks.outcome.probe_notes import NothingLoaded, ProbeNotes
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line

#: Calls that are noted, the first.
_MAX_CALLS = 8


class StateDicts:
    """Those that one rank has loaded."""

    def __init__(self, notes: ProbeNotes) -> None:
        self._notes = notes.nothing_loaded

    def wrap(self, stack: ExitStack, replace: Replace, noting: StateDicts) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        from torch.nn import Module

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def load_state_dict(module: Module, state_dict: Any, *arguments: Any, **options: Any) -> Any:
                found = original(module, state_dict, *arguments, **options)
                noting.loaded(state_dict, found)
                return found

            return load_state_dict

        replace(stack, Module, "load_state_dict", make)

    def loaded(self, state_dict: Any, found: Any) -> None:
        """Record a state dict of which nothing was loaded, if only a prefix keeps its names from fitting."""
        missing, unexpected = found
        if not unexpected or len(unexpected) < len(state_dict) or len(self._notes) >= _MAX_CALLS:
            return
        for given, wanted, of_model in ((unexpected, missing, False), (missing, unexpected, True)):
            prefix = _prefix(given, wanted)
            if prefix is not None:
                name = min(given).removeprefix(prefix)
                self._notes.append(NothingLoaded(learners_line(), prefix, name, of_model))
                return


def _prefix(longer: Collection[str], shorter: Collection[str]) -> str | None:
    """Return what all the longer names begin with, if most of them are among the shorter ones without it."""
    for wanted in shorter:
        ends = {name.removesuffix(wanted) for name in longer if name.endswith(f".{wanted}")}
        for prefix in ends:
            fitting = [name for name in longer if name.startswith(prefix)]
            rest = {name.removeprefix(prefix) for name in fitting} & {*shorter}
            if len(fitting) == len(longer) and 2 * len(rest) >= min(len(longer), len(shorter)):
                return prefix
    return None
