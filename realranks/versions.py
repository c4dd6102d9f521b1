"""One line for reports: which course, on which torch, on which machine. Imports nothing of the course."""

from __future__ import annotations

import importlib.metadata
import os
import platform

import psutil

#: The distributions that bring this code.
_NAMES = ("ddp-course", "realranks")
_NOT = "not installed"


def versions_line() -> str:
    """Return versions of the course, torch and Python, the system, cores this process may use, and memory.

    Reads what is installed and imports none of it; says nothing that tells one machine from another of its kind.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = (
        " ".join(own()),
        f"torch {version('torch')}",
        f"Python {platform.python_version()}",
        f"{platform.system()} {platform.machine()}",
        f"{cores} {'core' if cores == 1 else 'cores'}",
        f"{psutil.virtual_memory().total / 1e9:.0f} GB",
    )
    return ", ".join(parts)


def own() -> tuple[str, str]:
    """Return the name under which this code is installed, and its version."""
    found = [(name, version(name)) for name in _NAMES]
    return next((each for each in found if each[1] != _NOT), found[0])


def version(package: str) -> str:
    """Return the installed version of a package, or `not installed`."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return _NOT
