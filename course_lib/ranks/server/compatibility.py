"""What a zygote and a kernel must have in common, and what a kernel sends when it asks for a forkserver."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: The folder of the course's code.
COURSE = Path(__file__).resolve().parents[2]
_READ_WHEN_LOADED = (
    "TORCH",
    "PYTORCH",
    "OMP_",
    "MKL_",
    "KMP_",
    "GLOO_",
    "NCCL_",
    "CUDA_",
    "LD_",
    "PYTHONHASHSEED",
)
#: torch writes it itself when DDP or its compiler is imported: who has imported torch may still ask.
_WRITTEN_BY_TORCH = frozenset({"TORCHINDUCTOR_CACHE_DIR"})


@dataclass(frozen=True)
class Compatibility:
    """What must be the same in the zygote and in who asks.

    Attributes:
        python: the interpreter. course: where its code is, how many files it has, when the newest was written (ns).
        loaded_with: variables that torch reads when it is loaded.
        namespaces: of the system, in which the process is.
    """

    python: tuple[str, ...]
    course: tuple[str, ...]
    loaded_with: Mapping[str, str]
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """A kernel wants a forkserver in its environment and working folder.

    Attributes:
        compatibility: what the zygote must have in common with the kernel.
        env: the environment of the forkserver.
        cwd: its working folder.
        pid: the kernel.
        server: the Jupyter server that has started the kernel (`ranks.process.identity`), if one has.
    """

    compatibility: Compatibility
    env: Mapping[str, str]
    cwd: str
    pid: int
    server: str = ""


def compatibility_of(environment: Mapping[str, str]) -> Compatibility:
    """What a process of this interpreter, with this course and this environment, needs from a zygote."""
    written = [path.stat().st_mtime_ns for path in COURSE.rglob("*.py")]
    return Compatibility(
        python=(sys.prefix, sys.version),
        course=(str(COURSE), str(len(written)), str(max(written))),
        loaded_with={
            key: environment[key]
            for key in sorted(environment)
            if key.startswith(_READ_WHEN_LOADED) and key not in _WRITTEN_BY_TORCH
        },
        namespaces=tuple(_namespaces()),
    )


def _namespaces() -> Iterator[str]:
    """In which network this process is, with which processes and files (Linux).

    Containers may share a temporary folder. A rank that is forked in another network would look for its store there.
    """
    for name in ("ipc", "mnt", "net", "pid", "user"):
        with contextlib.suppress(OSError):
            yield os.readlink(f"/proc/self/ns/{name}")


def server_environment() -> dict[str, str]:
    """The environment of a process that forks: it finds this course, and macOS lets it fork."""
    paths = (str(COURSE.parent), os.environ.get("PYTHONPATH", ""))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
    }


def working_folder() -> str:
    """The working folder, or the root where it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep
