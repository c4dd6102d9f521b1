"""The process group of a rank: start it, see where it stands, free it when it is blocked, build it again.

Used inside a rank; needs torch. Four traps are handled here:

* A gloo group cannot be aborted from another thread. What wakes a blocked collective is shutting down the group's
  *connected* TCP sockets; its listening socket must be left alone (gloo aborts the process when that one fails).
* A second `init_process_group` through the same store finds the addresses of the first one. Each one therefore gets a
  prefix of its own, counted the same way on every rank.
* NCCL's communicators are aborted, all of them in one go, before their group is destroyed: destroying waits for what is
  on the GPUs. One that is only being made, in a first collective that some ranks have not joined, cannot be aborted:
  the cut of the store ends the wait, or the rank is killed.
* Destroying a group while one of its threads wants the GIL can hang in a destructor. Groups that were broken are kept
  until the process leaves through `os._exit`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from course_lib.ranks.host_names import is_local, without_name_server
from course_lib.ranks.inside.self_report import ddp_wrappers

# `torch.distributed.rendezvous` is a function; the module of that name is only found by import_module.
rendezvous = importlib.import_module("torch.distributed.rendezvous")
GROUP_TIMEOUT = timedelta(minutes=30)
#: How long freeing waits for NCCL's abort: less than the kernel waits for an answer (`stop_ranks.patience`).
ABORT_SECONDS = 1.0
_broken_groups: list[Any] = []


class Rendezvous:
    """Gives every `init_process_group` of this rank a fresh corner of the gang's store."""

    def __init__(self) -> None:
        self.epoch = 0
        self.count = 0
        self.since_ns = 0
        self._original = rendezvous._rendezvous_handlers["env"]

    def install(self) -> None:
        """Take the place of torch's own handler for `env://`."""
        rendezvous._rendezvous_handlers["env"] = self._handler

    def uninstall(self) -> None:
        """Let torch's own handler have its place again."""
        rendezvous._rendezvous_handlers["env"] = self._original

    def new_epoch(self, epoch: int) -> None:
        """Start counting again, in a corner that no earlier group has used."""
        self.epoch = epoch
        self.count = 0

    def _handler(self, url: str, **options: Any) -> Iterator[Any]:
        self.count += 1
        self.since_ns = time.time_ns()
        prefix = f"group/{self.epoch}/{self.count}"
        meeting = self._original(url, **options)
        local = is_local(os.environ.get("MASTER_ADDR", ""))
        with without_name_server() if local else contextlib.nullcontext():
            store, rank, world_size = next(meeting)
        yield dist.PrefixStore(prefix, store), rank, world_size
        # For whoever asks again: torch's own answer.
        yield from meeting


RENDEZVOUS = Rendezvous()


def make_thread_pool() -> None:
    """Make torch's pool of threads anew, as it must be after a fork, before two threads want to do that at once.

    Whoever computes first does it (`pthreadpool` in caffe2/utils/threadpool), and a second thread that comes in the
    middle finds none: "Invalid thread pool!".
    """
    torch.set_num_threads(torch.get_num_threads())


def take_gpu(number: int) -> None:
    """Make this GPU the current one as soon as this rank uses CUDA.

    `torch.cuda.set_device(LOCAL_RANK)`, as a script has it, would make a context at once: half a
    gigabyte of every GPU, for lessons most of which never use one.
    """
    torch.cuda._lazy_call(functools.partial(torch.cuda.set_device, number))


def start_group(backend: str, gpu: int | None = None) -> None:
    """`init_process_group` as a learner would write it.

    Args:
        gpu: NCCL connects the ranks' GPUs at once, this one of this rank (`device_id`); with None it does so in their
            first collective on CUDA tensors.
    """
    now = None if gpu is None else torch.device("cuda", gpu)
    dist.init_process_group(backend, timeout=GROUP_TIMEOUT, device_id=now)


def rebuild_group(backend: str, gpu: int | None, epoch: int) -> int:
    """Replace a broken default group; returns how many DDP wrappers were moved to the new one.

    Groups made with `new_group` are gone afterwards. Gradients and tensors that a half-done collective has touched
    hold partial sums: nobody can tell which.

    Args:
        backend, gpu: for the new group, see `start_group`. epoch: counts the groups of the gang.
    """
    gc.collect()  # wrappers hold themselves in a circle: those that nobody can reach any more are not moved
    wrappers = _wrappers_of_default_group()
    if dist.is_initialized():
        _broken_groups.extend(distributed_c10d._world.pg_map)
        abort_nccl()  # else NCCL's shutdown waits for collectives that other ranks have not joined, and never will
        dist.destroy_process_group()
    RENDEZVOUS.new_epoch(epoch)
    start_group(backend, gpu)
    for wrapper in wrappers:
        _broken_groups.append(wrapper.process_group)
        wrapper._update_process_group(dist.group.WORLD)
    return len(wrappers)


def _wrappers_of_default_group() -> list[Any]:
    """The DDP wrappers alive on this rank that use the default group."""
    if not dist.is_initialized():
        return []
    world = dist.group.WORLD
    return [wrapper for wrapper in ddp_wrappers() if getattr(wrapper, "process_group", None) is world]


def sequence_numbers() -> dict[str, int]:
    """How many operations this rank has issued on each backend of each of its groups; cheap enough for every cell.

    gloo's number stands under the group's name; another backend's under `name/backend`. Asked of the group, torch gives
    its default backend's, which is NCCL's for `cpu:gloo,cuda:nccl`: always 0 for what is done with CPU tensors.
    """
    numbers = {}
    groups: list[tuple[Any, str]] = list(distributed_c10d._world.pg_names.items())
    for group, name in groups:
        with contextlib.suppress(Exception):
            for backend in backends_of(group):
                kind = str(backend.name())
                key = str(name) if kind == "gloo" else f"{name}/{kind}"
                with contextlib.suppress(Exception):  # the fake one counts nothing
                    numbers[key] = int(backend._get_sequence_number_for_group())
    return numbers


def backends_of(group: Any) -> list[Any]:
    """The backends of a process group, each once, though one may serve several kinds of devices."""
    return list({id(one): one for one in map(group._get_backend, group._device_types)}.values())


def only_through_sockets() -> bool:
    """True when all groups of this rank move their data over TCP; NCCL's ways between GPUs are not seen."""
    if not torch.cuda.is_initialized():
        return True
    return all(
        str(backend) in ("gloo", "cpu:gloo") for backend, _ in list(distributed_c10d._world.pg_map.values())
    )


def groups_named(names: set[str]) -> list[Any]:
    """The process groups of this rank with these names."""
    return [group for group, name in list(distributed_c10d._world.pg_names.items()) if str(name) in names]


def name_and_members(group: Any) -> tuple[str, list[int]]:
    """A process group's name and its global ranks in the group's order (None: the default group)."""
    asked: Any = group if group is not None else dist.group.WORLD
    ranks = distributed_c10d._world.pg_group_ranks.get(asked, {})
    name = distributed_c10d._world.pg_names.get(asked, "")
    return str(name), [int(rank) for rank, _ in sorted(ranks.items(), key=lambda entry: entry[1])]


def group_members() -> dict[str, list[int]]:
    """The global ranks of each group this rank belongs to, by the group's name."""
    members = {}
    for group, ranks in list(distributed_c10d._world.pg_group_ranks.items()):
        name = distributed_c10d._world.pg_names.get(group)
        if name is not None:
            members[str(name)] = sorted(int(rank) for rank in ranks)
    return members


def free_blocked(store_port: int | None) -> int:
    """Wake every collective this rank is blocked in; returns how many connections were shut down.

    The blocked call raises RuntimeError at once, on this rank and on its peers. Safe to call from another thread.
    The connection to the store at `store_port` is spared; with None it is cut as well, which ends a wait for a key. A
    new process group makes a new one.
    """
    if torch.cuda.is_initialized():
        # It may take as long as the group's timeout. The thread that answers the kernel must not be lost to it; a rank
        # that is not free in time is killed.
        aborting = threading.Thread(target=abort_nccl, name="course-aborting", daemon=True)
        aborting.start()
        aborting.join(ABORT_SECONDS)
    learners = {sock.fileno() for sock in gc.get_objects() if issubclass(type(sock), socket.socket)}
    shut = 0
    for entry in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        fd = int(entry)
        if fd not in learners and _is_socket(fd):
            shut += _shut_down_connection(fd, store_port)
    return shut


def abort_nccl() -> int:
    """Abort the NCCL communicators of all groups of this rank; returns of how many groups.

    Done as torch's `_abort_process_group` does it: the newest groups first, and all in one NCCL group call, because
    communicators that are aborted one by one can wait for each other. Unlike there the groups stay known: a rebuilt
    group needs the wrappers of the old one. The collectives end on the GPUs without an error, and what they were to
    write is garbage.
    """
    aborted = 0
    with contextlib.suppress(Exception):
        groups = dict(distributed_c10d._world.pg_names)
        newest_first = sorted(groups, key=lambda group: str(groups[group]), reverse=True)
        backends = [one for group in newest_first for one in backends_of(group) if one.name() == "nccl"]
        if not backends:
            return 0
        opener = backends[-1]
        opener._group_start()
        try:
            for backend in backends:
                with contextlib.suppress(Exception):  # one that is broken must not keep the others
                    backend.abort()
                    aborted += 1
        finally:
            opener._group_end()
    return aborted


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False


def _shut_down_connection(fd: int, store_port: int | None) -> int:
    try:
        copy = os.dup(fd)
    except OSError:
        return 0  # its owner has closed it meanwhile
    with socket.socket(fileno=copy) as sock:
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
            return 0
        try:
            if sock.getpeername()[1] == store_port:
                return 0
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return 0  # the listening socket: shutting it down would abort the process
        return 1
