"""Our own code: its frames are hidden from users, and the processes of one run have the same version of it.

It is this package, and each that is built on it, such as a course: those add themselves when they are imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_FOLDERS: dict[str, str] = {}
#: By what users start the engine in a terminal; which one they are told is `command`.
COMMANDS: list[str] = []


def add(package: str, file: str, command: str) -> None:
    """Take the code of this package for ours.

    Args:
        package: its name. file: its `__init__.py`. command: by which its users start what the engine has for terminals.
    """
    _FOLDERS[package] = os.path.dirname(os.path.realpath(file))
    if command not in COMMANDS:
        COMMANDS.append(command)


def folders() -> Mapping[str, Path]:
    """Return the folders of our code, by the names of the packages."""
    return {package: Path(folder) for package, folder in sorted(_FOLDERS.items())}


def search_path() -> list[str]:
    """List the folders in which Python finds our packages, for processes that we start."""
    return list(dict.fromkeys(str(folder.parent) for folder in folders().values()))


def is_ours(file: str) -> bool:
    """Check whether this file of Python code is in one of our packages."""
    return any(file.startswith(folder + os.sep) for folder in _FOLDERS.values())


def command() -> str:
    """Return the word before `doctor`, `host` and `export` in a terminal: that of the package added last."""
    return COMMANDS[-1]


add("realranks", __file__, "realranks")
