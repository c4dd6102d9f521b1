"""Places in code as a learner would name them: in this cell, in an earlier one, in `train.py`.

Cells have file names of their own (`syntax`), by which tracebacks and stacks know them.
"""

from __future__ import annotations

import functools
import os
import re
import sysconfig
from dataclasses import dataclass
from typing import NamedTuple

from realranks.outcome.syntax import CELL_PREFIX, NUMBERED, newest_cell
from realranks.own_code import is_ours

_STDLIB = os.path.realpath(sysconfig.get_paths()["stdlib"])
#: The standard library of any Python: another process, or another machine, may run another one.
_ANY_STDLIB = re.compile(r"[/\\]lib[/\\]python3\.\d+[/\\]")


class Spot(NamedTuple):
    """A frame on the way to a call: file, line, function."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Frame:
    """One line of a Python stack, as far as a learner cares: file (or cell), line number, function, source line."""

    file: str
    line: int
    function: str
    source: str

    def spot(self) -> Spot:
        """Return the frame without the text of its line."""
        return Spot(self.file, self.line, self.function)

    def where(self) -> str:
        """Format as `line 4 of this cell` for a cell, `train.py, line 4` for a file."""
        place = place_name(self.file)
        return f"line {self.line} of {place}" if place.endswith(" cell") else f"{place}, line {self.line}"


def place_name(filename: str) -> str:
    """Return a short stable name of a file: which cell it is, the cell's label, or the file's base name."""
    if filename.startswith(CELL_PREFIX + NUMBERED):
        # Numbers of cells are not shown: they differ between front ends (nbval runs cells without numbering them).
        return "this cell" if filename == newest_cell() else "an earlier cell"
    if filename.startswith(CELL_PREFIX):
        return filename[len(CELL_PREFIX) : -1]
    if re.search(r"[/\\]ipykernel_\d+[/\\]", filename):
        return "a notebook cell"
    return os.path.basename(filename)


@functools.lru_cache(maxsize=4096)  # asked for every frame of a stack; finding out takes some 20 µs
def is_learners(filename: str) -> bool:
    """Check for the learner's code: cells, and files that belong to neither Python, packages nor the course."""
    if filename.startswith(CELL_PREFIX):
        return True
    if filename.startswith("<"):
        return False
    path = os.path.realpath(filename)
    if "site-packages" in path or "dist-packages" in path or is_ours(path):
        return False
    return not path.startswith(_STDLIB) and not _ANY_STDLIB.search(path)


@functools.lru_cache(maxsize=4096)
def is_above_torch(filename: str) -> bool:
    """Check for code of the learner's, or of a library that uses torch, such as a trainer."""
    if is_learners(filename):
        return True
    in_package = "site-packages" in filename or "dist-packages" in filename
    return in_package and not is_ours(filename) and package_of(filename) != "torch"


def package_of(filename: str) -> str:
    """Return `torch` for a file inside torch, the package's name for others, `Python` for the standard library."""
    for marker in ("site-packages", "dist-packages"):
        _, found, rest = filename.replace(os.sep, "/").partition(f"/{marker}/")
        if found:
            return rest.split("/")[0].removesuffix(".py")
    return "Python"
