"""No error of a hook reaches the script that is watched: it is noted, and the report says what was not looked at.

Used inside a rank. Only `Exception` is held back: an interrupt that arrives while a hook runs is meant for the script.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol, TypeVar, cast

from realranks.watch.dynamo import passed_over

_Target = TypeVar("_Target")
_Function = TypeVar("_Function", bound=Callable[..., object])


class Replace(Protocol):
    """Puts what `make` makes of a function in its place, until the stack is closed (`patches.replace`)."""

    def __call__(  # noqa: D102 - see the class
        self, stack: ExitStack, owner: object, name: str, make: Callable[[_Function], _Function]
    ) -> None: ...


_LONGEST = 200


class Unseen(dict[str, str]):
    """The things a rank's probe could not read, with the first reason for each."""

    def note(self, what: str, why: BaseException | str) -> None:
        """Record that `what` (a plural, such as `weights`) could not be read, and why."""
        if isinstance(why, BaseException):
            try:
                first = next(iter(str(why).splitlines()), "")
                why = f"{type(why).__name__}: {first}".removesuffix(": ")
            except Exception:
                why = type(why).__name__
        self.setdefault(what, why[:_LONGEST])  # from the clock's thread, too


def guarded(target: _Target, unseen: Unseen, what: str) -> _Target:
    """Wrap `target` so that its methods never raise: a failing call returns None, and `unseen` records it."""
    passed_over(_Guarded.__getattr__, inside=True)
    return cast(_Target, _Guarded(target, unseen, what))


class _Guarded:
    def __init__(self, target: object, unseen: Unseen, what: str) -> None:
        self._target, self._unseen, self._what = target, unseen, what

    def __getattr__(self, name: str) -> Callable[..., object]:
        target, unseen, what = (
            self._target,
            self._unseen,
            self._what,
        )  # and not self: it is to be freed at once

        def call(*arguments: object, **options: object) -> object:
            try:
                return getattr(target, name)(*arguments, **options)
            except Exception as error:
                unseen.note(what, error)
                return None

        found = vars(self)[name] = passed_over(call, inside=True)
        return found
