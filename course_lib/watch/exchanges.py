"""What the flight recorder does not tell of gloo: messages between two ranks, and who is named as the root.

Also calls for a group to which the rank does not belong: torch warns, and does nothing. Used inside a rank, within
`watching`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from course_lib.outcome.probe_notes import RootedCall
from course_lib.watch.guard import Replace
from course_lib.watch.lines import learners_line

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Collective = Callable[Concatenate["ProcessGroup", _P], _R]

_MOST_ROOTED, _MOST_STRANGE = 200, 20
_MESSAGES = ("send", "recv", "recv_anysource")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


class Exchanges:
    """Those of this rank."""

    def __init__(self) -> None:
        self.messages = 0
        self._rooted: dict[str, deque[RootedCall]] = {}
        self._counts: dict[str, int] = {}
        self._strange: list[str] = []

    def rooted(self) -> dict[str, tuple[RootedCall, ...]]:
        """By group, the newest collectives with a root."""
        return {name: tuple(made) for name, made in list(self._rooted.items())}

    def strange(self) -> tuple[str, ...]:
        """The lines of calls for a group the rank is not in."""
        return tuple(self._strange)

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
        """A message to or from one rank."""
        self.messages += 1

    def with_root(
        self, name: str, group: ProcessGroup, arguments: Iterable[object], options: Mapping[str, object]
    ) -> None:
        """A collective in which one rank has a part of its own."""
        told = (getattr(value, "rootRank", None) for value in (*arguments, *options.values()))
        root = next((value for value in told if value is not None), None)
        if root is None:
            return
        key = str(group.group_name)
        number = self._counts.get(key, 0)
        self._counts[key] = number + 1
        made = self._rooted.setdefault(key, deque(maxlen=_MOST_ROOTED))
        made.append(RootedCall(number, name, int(root), learners_line()))

    def stranger(self, name: str) -> None:
        """Torch has found that this rank is not in the group that a collective, or a question, was given."""
        if not name.startswith(("get_", "is_", "_")) and len(self._strange) < _MOST_STRANGE:
            self._strange.append(f"{name}() at {learners_line()}")
