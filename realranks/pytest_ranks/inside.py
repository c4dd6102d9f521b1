"""A test's body on one rank: in the modules that pytest has loaded, and from the same random numbers in every test."""

from __future__ import annotations

import os
import pickle
import random
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from realranks.ranks.inside.worker import sequence_numbers


@dataclass(frozen=True)
class Source:
    """The origin of a module: its file, if it has one, and, for a package, the folders of its modules."""

    file: str | None
    folders: tuple[str, ...] | None


#: Restores the random numbers as they were when the module of a gang's first test had been imported; made then.
_FIRST_NUMBERS: list[Callable[[], None]] = []


def run_test(sources: Mapping[str, Source], verbosity: int, test: bytes) -> bool:
    """Call the pickled `(function, arguments)`; returns whether the rank is then as it was, and fit for another test.

    Args:
        sources: modules that pytest has loaded, by name. verbosity: of its assertions, as pytest has it.
    """
    # The process that forks ranks has loaded it; pytest's own process, which loads this file, must not.
    from realranks.pytest_ranks import rewriting

    rewriting.load_from(sources)
    rewriting.explain_assertions(verbosity)
    function, arguments = pickle.loads(test)
    _start_from_the_same_numbers()
    before = _state()
    function(**arguments)
    return bool(_state() == before)


def _start_from_the_same_numbers() -> None:
    """Reset the random generators, so that every test draws the same numbers."""
    import numpy as np
    import torch

    if not _FIRST_NUMBERS:
        of_torch, of_python, of_numpy = torch.get_rng_state(), random.getstate(), np.random.get_state()
        _FIRST_NUMBERS.append(lambda: torch.set_rng_state(of_torch))
        _FIRST_NUMBERS.append(lambda: random.setstate(of_python))
        _FIRST_NUMBERS.append(lambda: np.random.set_state(of_numpy))
    for restore in _FIRST_NUMBERS:
        restore()


def _state() -> tuple[object, ...]:
    """Return the state that a test could leave behind for the next one."""
    import torch
    import torch.distributed as dist

    return (
        dist.group.WORLD,
        set(sequence_numbers()),  # the names of the process groups
        os.stat(".").st_ino,
        dict(os.environ),
        list(sys.path),
        set(threading.enumerate()),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    )
