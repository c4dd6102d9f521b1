"""The process group of a rank: start it, and build it again once it is broken.

Used inside a rank; torch is imported where it is used, because a rank that is not forked from a process with torch
begins to answer its kernel before it loads it. `groups` tells which groups there are, `freeing` wakes who is blocked in
one. Three traps are handled here:

* A second `init_process_group` through the same store finds the addresses of the first one. Each one therefore gets a
  prefix of its own, counted the same way on every rank.
* NCCL's communicators are aborted before their group is destroyed: destroying waits for what is on the GPUs.
* Destroying a group while one of its threads wants the GIL can hang in a destructor. Groups that were broken are kept
  until the process leaves through `os._exit`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from realranks.ranks.host_names import is_local, without_name_server
from realranks.ranks.inside import groups
from realranks.ranks.inside.freeing import abort_nccl
from realranks.ranks.inside.self_report import ddp_wrappers

GROUP_TIMEOUT = timedelta(minutes=30)
_broken_groups: list[Any] = []
#: What makes a process group's store, rank and world size of an address.
_Handler = Callable[..., Iterator[Any]]


class Rendezvous:
    """Gives every `init_process_group` of this rank a fresh corner of the gang's store."""

    def __init__(self) -> None:
        self.epoch = 0
        self.count = 0
        self.since_ns = 0
        self._original: _Handler | None = None

    def install(self) -> None:
        """Take the place of torch's own handler for `env://`."""
        handlers = _handlers()
        if self._original is None:
            self._original = handlers["env"]
        handlers["env"] = self._handler

    def uninstall(self) -> None:
        """Let torch's own handler have its place again."""
        if self._original is not None:
            _handlers()["env"] = self._original

    def new_epoch(self, epoch: int) -> None:
        """Start counting again, in a corner that no earlier group has used."""
        self.epoch = epoch
        self.count = 0

    def _handler(self, url: str, **options: Any) -> Iterator[Any]:
        from torch.distributed import PrefixStore

        assert self._original is not None, "installed before it is called"
        self.count += 1
        self.since_ns = time.time_ns()
        prefix = f"group/{self.epoch}/{self.count}"
        meeting = self._original(url, **options)
        local = is_local(os.environ.get("MASTER_ADDR", ""))
        with without_name_server() if local else contextlib.nullcontext():
            store, rank, world_size = next(meeting)
        yield PrefixStore(prefix, store), rank, world_size
        # For a second call: torch's own answer.
        yield from meeting


def _handlers() -> dict[str, _Handler]:
    # `torch.distributed.rendezvous` is a function; the module of that name is only found by import_module.
    module = importlib.import_module("torch.distributed.rendezvous")
    found: dict[str, _Handler] = module._rendezvous_handlers
    return found


RENDEZVOUS = Rendezvous()


def make_thread_pool() -> None:
    """Make torch's pool of threads anew, as it must be after a fork, before two threads want to do that at once.

    The thread that computes first does it (`pthreadpool` in caffe2/utils/threadpool), and a second thread that comes in
    the middle finds none: "Invalid thread pool!".
    """
    import torch

    torch.set_num_threads(torch.get_num_threads())


def take_gpu(number: int) -> None:
    """Make this GPU the current one as soon as this rank uses CUDA.

    `torch.cuda.set_device(LOCAL_RANK)`, as a script has it, would make a context at once: half a
    gigabyte of every GPU, for lessons most of which never use one.
    """
    import torch

    torch.cuda._lazy_call(functools.partial(torch.cuda.set_device, number))


def start_group(backend: str, gpu: int | None = None) -> None:
    """Call `init_process_group` as a learner would.

    Args:
        gpu: NCCL connects the ranks' GPUs at once, this one of this rank (`device_id`); with None it does so in their
            first collective on CUDA tensors.
    """
    import torch
    import torch.distributed as dist

    # Not at once by default: it costs a context (half a gigabyte) on every GPU, and `barrier()` then uses NCCL.
    now = None if gpu is None else torch.device("cuda", gpu)
    dist.init_process_group(backend, timeout=GROUP_TIMEOUT, device_id=now)


def rebuild_group(backend: str, gpu: int | None, epoch: int) -> int:
    """Replace a broken default group; returns how many DDP wrappers were moved to the new one.

    Groups made with `new_group` are gone afterwards. Gradients and tensors that a half-done collective has touched
    hold partial sums: which ones is not known.

    Args:
        backend, gpu: for the new group, see `start_group`. epoch: counts the groups of the gang.
    """
    import torch.distributed as dist

    gc.collect()  # wrappers hold themselves in a circle: those that no variable reaches any more are not moved
    wrappers = _wrappers_of_default_group()
    if dist.is_initialized():
        _broken_groups.extend(groups.world().pg_map)
        abort_nccl()  # else NCCL's shutdown waits for collectives that other ranks have not joined, and never will
        dist.destroy_process_group()
    RENDEZVOUS.new_epoch(epoch)
    start_group(backend, gpu)
    for wrapper in wrappers:
        _broken_groups.append(wrapper.process_group)
        wrapper._update_process_group(dist.group.WORLD)
    return len(wrappers)


def _wrappers_of_default_group() -> list[Any]:
    """List the DDP wrappers alive on this rank that use the default group."""
    import torch.distributed as dist

    if not dist.is_initialized():
        return []
    world = dist.group.WORLD
    return [wrapper for wrapper in ddp_wrappers() if getattr(wrapper, "process_group", None) is world]
