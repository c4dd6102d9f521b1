"""The faults that hit the script: a slow process, one that runs out of memory, one that is killed. All are real.

Used in the processes of the script.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from course_lib.lessons.capstone.tasks.cases import Placed
from course_lib.lessons.capstone.tasks.notes import Notes
from course_lib.lessons.capstone.tasks.spies import real_save

if TYPE_CHECKING:
    from torch.types import FileLike

#: Where there is no slow process, groups wait at least so long: a busy machine is not a fault of the script.
_PATIENCE = timedelta(minutes=10)
_MORE_THAN_THERE_IS = 1 << 46


class Harm:
    """The harm that the case has in store for this process.

    See `Case` for what that may be. Where rank 0 is `killed`, that happens in the first attempt. In the second one,
    who writes the first checkpoint is killed while it does: with half of the file written when it saves to
    `checkpoint` itself; else just before it renames something to that, or just after it has opened that for writing.
    What the third one does is its own.
    """

    def __init__(self, case: Placed, notes: Notes) -> None:
        self.case, self.notes = case, notes
        self.passes = 0
        self.saves = 0
        self.saved_elsewhere = False
        self.dying = False

    def install(self) -> None:
        """Lie in wait."""
        import torch
        import torch.distributed as dist

        torch.save = self._save  # type: ignore[assignment]
        init = dist.init_process_group

        @functools.wraps(init)
        def init_process_group(*arguments: Any, **options: Any) -> None:
            timeout = options.get("timeout")
            seconds = timeout.total_seconds() if timeout is not None else None
            self.notes.put("init", timeout=seconds)
            if timeout is not None and not self.case.get("slow"):
                options["timeout"] = max(timeout, _PATIENCE)
            init(*arguments, **options)

        dist.init_process_group = init_process_group

    def before_pass(self, model: str, learns: bool) -> None:
        """Do the harm that is due before a pass of a model."""
        if model != "Classifier" or not learns:
            return
        number, self.passes = self.passes, self.passes + 1
        if self._is_here("slow", number):
            self.notes.put("slow")
            time.sleep(self.case["slow"]["seconds"])
        if self._is_here("hungry", number):
            import torch

            self.notes.put("hungry")
            torch.empty(_MORE_THAN_THERE_IS, dtype=torch.uint8)
        if self.case.get("killed") == number and self.notes.rank == self.notes.attempt == 0:
            self._die()

    def _is_here(self, kind: Literal["slow", "hungry"], number: int) -> bool:
        fault = self.case.get(kind)
        return fault is not None and (fault["rank"], fault["before_pass"]) == (self.notes.rank, number)

    def _die(self) -> None:
        self.notes.put("killed")
        os.kill(os.getpid(), signal.SIGKILL)

    def _save(self, state: object, place: FileLike, *arguments: Any, **options: Any) -> None:
        if not isinstance(state, Mapping) or self.case["classifier"].lower() not in state:
            # Whoever sends a tensor as an object saves it, too.
            real_save(state, place, *arguments, **options)
            return
        path = os.fspath(place) if isinstance(place, str | os.PathLike) else str(getattr(place, "name", ""))
        self.notes.put("save", path=os.path.basename(path))
        copy = self.notes.folder / f"saved-{self.notes.rank}-{self.notes.attempt}-{self.saves}.pt"
        self.saves += 1
        real_save(state, copy)
        whole = copy.read_bytes()
        if self.case.get("killed") is not None and self.notes.attempt == 1:
            if self._is_checkpoint(path):
                _write(place, whole[: len(whole) // 2])
                self._die()
            if not self.saved_elsewhere:
                self.saved_elsewhere = True
                sys.addaudithook(self._on_audit_event)
        if isinstance(place, str | os.PathLike):
            # Two processes that write to one file at the same time leave anything: one after the other, here.
            _write_alone(Path(place), whole, self.notes.folder)
        else:
            real_save(state, place)

    def _is_checkpoint(self, path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        return os.path.realpath(os.fsdecode(path)) == os.path.realpath(self.case["checkpoint"])

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """React to an audit event: Python raises one for every file that is about to be opened or renamed."""
        if event == "os.rename" and self._is_checkpoint(arguments[1]):
            self._die()
        if event != "open" or self.dying or not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        if self._is_checkpoint(arguments[0]):
            self.dying = True
            os.close(
                os.open(arguments[0], arguments[2], 0o666)
            )  # what the script is about to do, and no more
            self._die()


def _write(place: FileLike, part: bytes) -> None:
    if isinstance(place, str | os.PathLike):
        Path(place).write_bytes(part)
    elif hasattr(place, "write"):
        place.write(part)
        place.flush()


def _write_alone(path: Path, content: bytes, folder: Path) -> None:
    import fcntl

    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path.write_bytes(content)
