"""Messages between two ranks, and roots of collectives, which the flight recorder does not record for gloo.

Also calls for a group to which the rank does not belong: torch warns, and does nothing. Used inside a rank, within
`watching`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from realranks.outcome.probe_notes import ProbeNotes, RootedCall
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Collective = Callable[Concatenate["ProcessGroup", _P], _R]

_MAX_ROOTED, _MAX_STRANGE = 200, 20
_MESSAGES = ("send", "recv", "recv_anysource")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


class Exchanges:
    """Those of this rank."""

    def __init__(self, notes: ProbeNotes) -> None:
        self._notes = notes
        self._counts: Counter[str] = Counter()

    def wrap(self, stack: ExitStack, replace: Replace, noting: Exchanges) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        from torch.distributed import ProcessGroup, distributed_c10d

        def message(original: Callable[_P, _R]) -> Callable[_P, _R]:
            def exchange(*arguments: _P.args, **options: _P.kwargs) -> _R:
                noting.message()
                return original(*arguments, **options)

            return exchange

        def rooted(name: str) -> Callable[[_Collective[_P, _R]], _Collective[_P, _R]]:
            def make(original: _Collective[_P, _R]) -> _Collective[_P, _R]:
                def collective(group: ProcessGroup, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
                    noting.with_root(name, group, arguments, options)
                    return original(group, *arguments, **options)

                return collective

            return make

        def asked(original: Callable[[ProcessGroup], bool]) -> Callable[[ProcessGroup], bool]:
            # Not the warning itself is wrapped: it names the file of its caller.
            def not_in_group(group: ProcessGroup) -> bool:
                answer = original(group)
                if answer:
                    noting.stranger(sys._getframe(1).f_code.co_name)
                return answer

            return not_in_group

        for name in _MESSAGES:
            replace(stack, ProcessGroup, name, message)
        for name in _ROOTED:
            replace(stack, ProcessGroup, name, rooted(name))
        replace(stack, distributed_c10d, "_rank_not_in_group", asked)

    def message(self) -> None:
        """Count a message sent to or received from one rank."""
        self._notes.messages += 1

    def with_root(
        self, name: str, group: ProcessGroup, arguments: Iterable[object], options: Mapping[str, object]
    ) -> None:
        """Record the root of a collective that has one."""
        roots = (getattr(value, "rootRank", None) for value in (*arguments, *options.values()))
        root = next((value for value in roots if value is not None), None)
        if root is None:
            return
        key = str(group.group_name)
        made = self._notes.rooted.setdefault(key, [])
        made.append(RootedCall(self._counts[key], name, int(root), learners_line()))
        self._counts[key] += 1
        del made[:-_MAX_ROOTED]

    def stranger(self, name: str) -> None:
        """Record that torch was given a group that this rank does not belong to."""
        if not name.startswith(("get_", "is_", "_")) and len(self._notes.strange) < _MAX_STRANGE:
            self._notes.strange.append(f"{name}() at {learners_line()}")
