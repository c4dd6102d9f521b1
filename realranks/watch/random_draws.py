"""The random numbers that a rank draws between the forward passes of its models: noise, augmentation, decisions.

Of torch's and numpy's default generators the state is noted before the first passes, and how many numbers they have
given since the pass before. Generators that a script makes itself are not looked at, nor Python's `random`, with which
ranks often decide alike on purpose; what is drawn while loaders load is `worker_draws`' business. Used inside a rank,
within `watching`.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple, ParamSpec, TypeVar

from realranks.outcome.probe_notes import Draw, ProbeNotes
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line
from realranks.watch.rows import number_of_rows

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Passes that are noted: those of the first steps, of which a fault in every step shows.
_MAX_PASSES = 9
#: Numbers in a block of the Mersenne Twister, which both generators are.
_BLOCK = 624


class State(NamedTuple):
    """Where a generator stands: a checksum of its block, how much of that is used up, and the seed, if it is known."""

    block: int
    used: int
    seed: int


class RandomDraws:
    """The draws of one rank."""

    def __init__(self, notes: ProbeNotes) -> None:
        self._notes = notes.draws
        self._last: dict[str, State] = {}
        self._passes = 0

    def wrap(self, stack: ExitStack, replace: Replace, noting: RandomDraws) -> None:
        """Note where torch's generator is seeded, until the stack is closed; `noting` never raises."""
        import torch

        def make(original: Callable[_P, _R]) -> Callable[_P, _R]:
            def manual_seed(*arguments: _P.args, **options: _P.kwargs) -> _R:
                noting.seeded()
                return original(*arguments, **options)

            return manual_seed

        replace(stack, torch, "manual_seed", make)

    def seeded(self) -> None:
        """Record the learner's line that seeds torch's generator."""
        self._notes.seeded_at = learners_line()

    def before(self, arguments: object) -> None:
        """Record what was drawn since the last pass; one with these arguments is about to begin."""
        if self._passes > _MAX_PASSES:
            return
        self._passes += 1
        rows = number_of_rows(arguments)
        for name, now in states().items():
            if name in self._last:
                numbers = numbers_between(self._last[name], now)
                self._notes.draws.setdefault(name, []).append(
                    Draw(zlib.crc32(repr(now).encode()), numbers, rows)
                )

    def after(self) -> None:
        """Remember where the generators stand after a pass: what it has drawn itself (dropout) does not count."""
        if self._passes <= _MAX_PASSES:
            self._last = states()


def states() -> dict[str, State]:
    """Return where torch's and numpy's default generators stand, by name."""
    import torch

    state = torch.get_rng_state().numpy().tobytes()
    # CPUGeneratorImpl's state begins with the seed, and says how many numbers of the block are left.
    seed, left = struct.unpack_from("<Qi", state)
    found = {"torch": State(zlib.crc32(state[24:]), _BLOCK + 1 - left, seed)}
    if "numpy" in sys.modules:
        _, block, used, *_ = sys.modules["numpy"].random.get_state()
        found["numpy.random"] = State(zlib.crc32(block.tobytes()), int(used), 0)
    return found


def numbers_between(last: State, now: State, *, unless_seeded: bool = True) -> int:
    """Return how many numbers a generator has given at least; 0 where it was seeded, or may have been.

    Args:
        unless_seeded: numpy's and Python's do not say whether a new block is the next one, or that of a new seed. Where
            that does not matter, it is taken for the next one.
    """
    if last.block == now.block:
        return max(0, now.used - last.used)
    follows = last.seed == now.seed and (last.seed or not unless_seeded)
    return _BLOCK - last.used + now.used if follows else 0
