"""Results of grading: one line of JSON per verdict, written at once, so that a crash loses nothing.

A verdict belongs to an answer's text, not to a learner: its key is made of the task's name, the task's definition (its
source, that of the grader, and torch's version) and the answer. Whatever of these changes, the answer is graded again;
two learners with the same text share one verdict.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
import json
import os
from pathlib import Path
from types import TracebackType

from course_lib.grading.cells import handed_out
from course_lib.grading.classroom.submissions import Answer
from course_lib.grading.verdict import Verdict, as_data, from_data
from course_lib.tasks import Task, find_task

FILE_NAME = "ddp-course-results.jsonl"
_FORM = 1
#: What a file of results begins with, also one that was torn.
_BEGINNING = b'{"form"'
_GRADER = (
    "attempt",
    "confine",
    "grader",
    "harness",
    "judge",
    "known_answers",
    "likeness",
    "process_limits",
    "verdict",
)


class ResultsError(Exception):
    """The results cannot be kept; the message is one line."""


@functools.cache
def task_version(task: Task) -> str:
    """Return hexadecimal digits that change whenever the task's definition or the grader changes."""
    grading = Path(__file__).resolve().parents[1]
    files = {grading / f"{name}.py" for name in _GRADER}
    for kind in type(task).__mro__[:-1]:
        folder = Path(inspect.getfile(kind)).parent
        files |= {*folder.glob("*.py"), *folder.parent.glob(f"answers/{task.function}/*.py")}
    digest = hashlib.sha256(importlib.metadata.version("torch").encode())
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    digest.update((handed_out(task) or "").encode())  # it is "not attempted"
    return digest.hexdigest()[:16]


def key_of(answer: Answer) -> str:
    """Return the key under which a verdict on this answer is kept."""
    parts = [
        answer.task,
        task_version(find_task(answer.task)),
        str(answer.first_line),  # verdicts name lines
        answer.source,
    ]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


class Results:
    """The results file. A context: within it, the file belongs to this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self._verdicts: dict[str, Verdict] = {}

    def __enter__(self) -> Results:
        """Open the file and read it.

        Raises:
            ResultsError: it cannot be written, or another process grades into it.
        """
        try:
            self._file = open(self.path, "a+b")
        except OSError as error:
            raise ResultsError(
                f"Results cannot be kept in {self.path} ({error.strerror}); --results names another file."
            ) from None
        try:
            self._lock()
            self._file.seek(0)
            content = self._file.read()
        except BaseException:
            self._file.close()
            raise
        if content.strip() and not content.lstrip().startswith(_BEGINNING):
            self._file.close()
            raise ResultsError(
                f"{self.path} holds something else than results: --results names another file."
            )
        for line in content.splitlines():
            self._take(line)
        if content and not content.endswith(b"\n"):  # the last run ended in the middle of a line
            self._write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()

    def _lock(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ResultsError(f"{self.path} is in use: another 'ddp-course grade' is running.") from None
        except OSError:
            return  # a file system without locks

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            if entry["form"] != _FORM:
                raise ValueError("of another version")
            self._verdicts[str(entry["key"])] = from_data(entry["verdict"])
        except (ValueError, LookupError, TypeError, RecursionError):
            self.damaged += bool(line.strip())

    def get(self, key: str) -> Verdict | None:
        """Return the verdict kept under a key."""
        return self._verdicts.get(key)

    def add(self, key: str, verdict: Verdict) -> None:
        """Keep a verdict; it is on the disk when this returns.

        Raises:
            ResultsError: the disk is full, or gone.
        """
        self._verdicts[key] = verdict
        entry = {"form": _FORM, "key": key, "verdict": as_data(verdict)}
        self._write(json.dumps(entry).encode("ascii") + b"\n")

    def _write(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ResultsError(f"Results cannot be written to {self.path}: {error.strerror}.") from None
