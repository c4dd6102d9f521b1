"""The Python stacks of a process, read by py-spy: a program of its own, which runs beside the process it reads.

It is asked not to stop the process (`--nonblocking`). A process whose stack changes while it is read is stopped for
the milliseconds that reading takes; so is one whose C++ frames are asked for.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from realranks.outcome.places import Spot

_SECONDS = 20.0
_NOT_ALLOWED = ("permission denied", "operation not permitted", "os error 13", "os error 1)")


class UnreadableError(Exception):
    """A process cannot be read; the message says why."""


class NotAllowedError(UnreadableError):
    """The system does not let this user read the process."""


class NoPySpyError(UnreadableError):
    """There is no program py-spy."""


@dataclass(frozen=True)
class SeenFrame:
    """A frame: where it is, and its local variables as py-spy prints them (numbers and text; else type and address)."""

    spot: Spot
    values: Mapping[str, str]


@dataclass(frozen=True)
class SeenThread:
    """A thread: its number for the system, its name for Python, its frames, innermost first."""

    number: int
    name: str
    frames: tuple[SeenFrame, ...]


def threads_of(pid: int, native: bool = False) -> list[SeenThread]:
    """Read the Python threads of a process.

    Args:
        native: also the frames of C++ (half a second to some seconds, for which the process is stopped).

    Raises:
        UnreadableError: it cannot be read, or is gone.
    """
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        raise NoPySpyError("There is no program py-spy here: pip install py-spy.")
    how = (
        [["--native"]]
        if native
        else [["--locals", "--nonblocking"], ["--locals", "--nonblocking"], ["--locals"]]
    )
    why = ""
    for options in how:
        try:
            done = subprocess.run(
                [program, "dump", "--json", *options, "--pid", str(pid)],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            why = f"py-spy has not read it within {_SECONDS:.0f} s"
            continue
        why = done.stderr.decode(errors="replace").strip()
        if done.returncode == 0:
            return [_thread(each) for each in json.loads(done.stdout.decode(errors="replace"))]
        if any(words in why.lower() for words in _NOT_ALLOWED):
            raise NotAllowedError(f"The system does not let you read process {pid} (ptrace is not allowed)")
    raise UnreadableError(why.splitlines()[0] if why else "py-spy says nothing")


def _thread(thread: Mapping[str, object]) -> SeenThread:
    frames = thread.get("frames")
    assert isinstance(frames, list)
    return SeenThread(
        int(str(thread.get("os_thread_id") or 0)),
        str(thread.get("thread_name") or ""),
        tuple(
            _frame(frame)
            for frame in frames
            if not frame.get("is_shim_entry") or frame["filename"] != "<shim>"
        ),
    )


def _frame(frame: Mapping[str, object]) -> SeenFrame:
    known = frame.get("locals") or []
    assert isinstance(known, list)
    # Python 3.11 and later tell the class, too: `Tensor.backward`.
    name = str(frame["name"]).rpartition(".")[2]
    spot = Spot(str(frame["filename"]), int(str(frame["line"])), name)
    return SeenFrame(spot, {str(each["name"]): str(each["repr"]) for each in known})
