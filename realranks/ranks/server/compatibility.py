"""The properties that a zygote and a kernel must share, and the request for a forkserver."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from realranks import own_code

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
    """The properties that a zygote and its client must have in common.

    Attributes:
        python: the interpreter. code: by folder, how many files of ours it has, when the newest was written (ns).
        loaded_with: variables that torch reads when it is loaded.
        namespaces: of the system, in which the process is.
    """

    python: tuple[str, ...]
    code: Mapping[str, tuple[int, int]]
    loaded_with: Mapping[str, str]
    namespaces: tuple[str, ...] = ()

    def fits(self, other: Compatibility) -> bool:
        """Check that all is equal, apart from code that only one of them has: the other has not loaded it."""
        both = self.code.keys() & other.code.keys()
        return replace(self, code={}) == replace(other, code={}) and all(
            self.code[folder] == other.code[folder] for folder in both
        )


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
    """Describe what a process with this interpreter, code and environment requires of a zygote."""
    return Compatibility(
        python=(sys.prefix, sys.version),
        code={str(folder): _written(folder) for folder in own_code.folders().values()},
        loaded_with={
            key: environment[key]
            for key in sorted(environment)
            if key.startswith(_READ_WHEN_LOADED) and key not in _WRITTEN_BY_TORCH
        },
        namespaces=namespaces_of(os.getpid()),
    )


def _written(folder: Path) -> tuple[int, int]:
    times = [path.stat().st_mtime_ns for path in folder.rglob("*.py")]
    return len(times), max(times)


def namespaces_of(process: int) -> tuple[str, ...]:
    """Return the namespaces that decide which network, processes and files a process sees (Linux).

    Containers may share a temporary folder. A rank that is forked in another network would look for its store there.
    """
    found = []
    for name in ("ipc", "mnt", "net", "pid", "user"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/{process}/ns/{name}"))
    return tuple(found)


def server_environment() -> dict[str, str]:
    """Return the environment of a process that forks: it finds this course, and macOS lets it fork."""
    paths = (*own_code.search_path(), os.environ.get("PYTHONPATH", ""))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
    }


def working_folder() -> str:
    """Return the working folder, or the root if the folder has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep
