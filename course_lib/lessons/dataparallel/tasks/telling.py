"""A network that notes who calls it, with which part of the batch and which weights, and who is inside at once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.tasks import toys

if TYPE_CHECKING:
    from torch import Tensor, nn

FEATURES, HIDDEN, CLASSES = 5, 6, 4
#: How long a call waits for the others to come in: only answers that call one after the other wait so long.
_UNTIL_ALL_ARE_IN = 1.0
#: How long a call waits for the thread of a later part to end: only threads that are kept wait so long.
_UNTIL_OTHERS_ARE_OUT = 0.3


@dataclass(frozen=True)
class Call:
    """A call of the network: how many samples, in the main thread or not, and where its first weights lie in memory."""

    samples: int
    main: bool
    weights: int


def batch(samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return inputs and labels; the first feature of a sample grows with its place in the batch."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, FEATURES, generator=generator)
    inputs[:, 0] = torch.arange(samples) / samples
    return inputs, torch.randint(CLASSES, (samples,), generator=generator)


class Notes:
    """Notes of the calls of one network and of all its copies."""

    def __init__(self, parts: int, reverse: bool) -> None:
        self.parts, self.reverse = parts, reverse
        self.calls: list[Call] = []
        self._inside = threading.Condition()
        self._threads: dict[float, threading.Thread] = {}
        self._alone = False

    def come_in(self, x: Tensor, weight: Tensor) -> None:
        """Note the call, and wait until the calls for all parts are inside."""
        with self._inside:
            self.calls.append(
                Call(
                    samples=len(x),
                    main=threading.current_thread() is threading.main_thread(),
                    weights=weight.data_ptr(),
                )
            )
            self._threads[float(x[0, 0])] = threading.current_thread()
            self._inside.notify_all()
            patience = 0.0 if self._alone else _UNTIL_ALL_ARE_IN
            if not self._inside.wait_for(lambda: len(self.calls) >= self.parts, timeout=patience):
                self._alone = True

    def go_out(self, x: Tensor) -> None:
        """Leave; where `reverse` is set, only after the call for the next part is over."""
        mine = float(x[0, 0])
        later = [thread for place, thread in sorted(self._threads.items()) if place > mine]
        if self.reverse and not self._alone and later and later[0] is not threading.current_thread():
            later[0].join(_UNTIL_OTHERS_ARE_OUT)

    @property
    def together(self) -> bool:
        """Whether the calls for all parts were inside at the same time."""
        return not self._alone


def network(notes: Notes, seed: int) -> nn.Module:
    """Return a network 5 -> 6 -> 4 with seeded weights; copies of it note in the same place."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(FEATURES, HIDDEN)
            self.second = torch.nn.Linear(HIDDEN, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            notes.come_in(x, self.first.weight)
            scores: Tensor = self.second(torch.tanh(self.first(x)))
            notes.go_out(x)
            return scores

    with torch.random.fork_rng(devices=[]):
        toys.seed_torch(seed)
        return Network()
