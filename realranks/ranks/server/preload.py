"""Modules that every rank would import anyway, imported once in the forkserver.

A rank forked from a process that has torch loaded starts in milliseconds and shares its memory. DDP imports
`torch._dynamo` (and sympy with it) in its constructor, the optimizers and the profiler import more: what is named here
is what a first DDP training step was seen to import on torch 2.13 (tests/integration/test_preload.py measures it).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Iterator

ENVIRONMENT = {
    # The flight recorder sizes its ring when torch is imported.
    "TORCH_FR_BUFFER_SIZE": "2000",
    # Ranks share the cores of one machine: one thread each, as torchrun sets it.
    "OMP_NUM_THREADS": "1",
}

# Ranks are not forked before torch._dynamo is loaded: the first cell would gain a second, but each rank of a gang that
# lives on would import it for itself in its first DDP cell (3 s), and keep a copy in memory.
MODULES = (
    "numpy",
    "cloudpickle",
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.nn.parallel",
    "torch.nn.functional",
    "torch.optim",
    "torch.utils.data",
    "torch.utils.data.distributed",
    "torch.distributed.algorithms.join",
    "torch.profiler",
    "torch.profiler._cupti_monitor",
    "torch.amp",
    "torch.utils.checkpoint",
    "realranks.ranks.inside.worker",
)
#: What a first step does not need, and a later one may (ZeroRedundancyOptimizer): see `preload_rest`.
LATER = ("torch.distributed.optim",)
_ALSO = "DDP_COURSE_PRELOAD"


def preload_also(module: str) -> None:
    """Have forkservers that are started from now on by this process, and by those it starts, import this one too.

    For rooms above this one: what ten ranks import for each answer that is graded took half of the time.
    """
    names = os.environ.get(_ALSO, "").split()
    if module not in names:
        os.environ[_ALSO] = " ".join([*names, module])


def preload(keep_going: object = None) -> None:
    """Import `MODULES` and what `preload_also` has named, and set the thread count.

    Stops early when `keep_going()` turns false. Where all is loaded already, in a forkserver that a zygote has forked,
    it does nothing: whatever it touched would be copied.

    Modules that this torch does not have are passed over: a missing one costs time later, never correctness.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    missing = [name for name in (*MODULES, *os.environ.get(_ALSO, "").split()) if name not in sys.modules]
    if not missing:
        return
    with _no_garbage_collected(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in missing:
            if callable(keep_going) and not keep_going():
                return
            try:
                importlib.import_module(name)
            except ImportError:
                if name == "torch":
                    raise
    import torch

    torch.set_num_threads(1)
    _forget_what_ranks_forget()
    _freeze()


def preload_rest() -> Iterator[None]:
    """Import `LATER`, a module at a time. It has to be run to its end before ranks are to find them."""
    for name in LATER:
        if name not in sys.modules:
            with _no_garbage_collected(), warnings.catch_warnings(), contextlib.suppress(ImportError):
                warnings.simplefilter("ignore")
                importlib.import_module(name)
            _freeze()
        yield


def _freeze() -> None:
    # Frozen objects are not walked by the collector, so ranks do not copy the pages that hold them. Collecting before
    # would take a quarter of a second, which a first cell waits for, and free hardly anything.
    gc.freeze()


@contextlib.contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Pause the garbage collector.

    Imports create objects that stay; scanning them again and again takes a tenth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _forget_what_ranks_forget() -> None:
    """Empty caches that `init_process_group` empties in every rank (`torch/distributed/distributed_c10d.py`).

    Each rank would first copy the pages that hold them: a third of all that it copies until its group is up.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from torch._dynamo import trace_rules

        trace_rules.clear_lru_cache()
