"""Processes that save a checkpoint and are killed at a chosen place of it. Used inside a rank.

The places are what Python and the system tell about: a file that is opened for writing, `torch.save` to a path, and
every rename or removal. A write is cut off at a byte: beyond the size that RLIMIT_FSIZE allows, the system ends the
process. Before a rename or a removal, the process sends SIGKILL to itself. Nothing of it runs any more after that.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeGuard
from unittest import mock

if TYPE_CHECKING:
    from torch.types import FileLike

#: More places than an answer needs; the rest is not tried.
MOST_PLACES = 5
#: The place of a kill in whichever file grows first, for a save that comes by no place that is reported.
ANYWHERE = -1
_MOVES = ("os.rename", "os.remove", "os.link", "os.symlink", "os.truncate")


def places_of(first: Callable[[], None], second: Callable[[], None], folder: str) -> list[list[str]]:
    """Return the places that the second save passes, in order: `[write or move, name of the file]`."""
    reading, writing = os.pipe()

    def child() -> None:
        found: list[list[str]] = []
        first()
        with _calling_at_places(folder, lambda kind, name: found.append([kind, name])):
            second()
        os.write(writing, json.dumps(found[:MOST_PLACES]).encode())

    _run_forked(child)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return [[str(kind), str(name)] for kind, name in json.loads(pipe.read() or b"[]")]


def killed_at(
    first: Callable[[], None], second: Callable[[], None], folder: str, place: int, size: int
) -> bool:
    """Run both saves in a process that is killed at this place of the second; a write at `size` bytes.

    Returns True if the process was killed.
    """

    def child() -> None:
        count = -1

        def cut_off() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

        def come(kind: str, _: str) -> None:
            nonlocal count
            count += 1
            if count != place:
                return
            if kind == "move":
                os.kill(os.getpid(), signal.SIGKILL)
            cut_off()

        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and would raise an error instead
        first()
        if place == ANYWHERE:
            cut_off()
        with _calling_at_places(folder, come):
            second()

    return os.WIFSIGNALED(_run_forked(child))


def own_group() -> None:
    """Make a process group of this process alone, for a fresh process that has none."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def _run_forked(work: Callable[[], None]) -> int:
    """Do the work in a forked process and return its exit status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            own_group()
            work()
            code = 0
        os._exit(code)
    return os.waitpid(pid, 0)[1]


@contextlib.contextmanager
def _calling_at_places(folder: str, come: Callable[[str, str], None]) -> Iterator[None]:
    """Call `come` at each place within this block. Use it in a process that ends soon: an audit hook stays."""
    import torch

    on = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if not on:
            return
        path = arguments[0] if arguments else None
        if event == "open" and _writes(arguments) and _inside(path, folder):
            come("write", os.path.basename(os.fspath(path)))
        elif event in _MOVES and _inside(path, folder):
            come("move", os.path.basename(os.fspath(path)))

    original = torch.save

    def save(thing: object, file: FileLike, *rest: Any, **options: Any) -> None:
        # A path is opened by C++, which no audit event tells of.
        if isinstance(file, str | os.PathLike):
            come("write", os.path.basename(os.fspath(file)))
        original(thing, file, *rest, **options)

    sys.addaudithook(hook)
    try:
        with mock.patch.object(torch, "save", save):
            yield
    finally:
        on = False


def _writes(arguments: tuple[object, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _inside(path: object, folder: str) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(path, str | os.PathLike) and os.path.abspath(os.fspath(path)).startswith(folder)
