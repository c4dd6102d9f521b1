"""Grade many answers at once, in processes of their own, and survive whatever happens to these.

Each worker (`worker`) has its own forkserver and temporary folder. A worker that dies, or says nothing for far longer
than an answer may take, is replaced; its answer is graded once more, and given up if it takes another worker along.
"""

from __future__ import annotations

import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from course_lib.grading.attempt import CALLS_IN_ALL
from course_lib.grading.classroom import messages
from course_lib.grading.classroom.submissions import Answer
from course_lib.grading.verdict import Verdict
from course_lib.tasks import find_task
from realranks import own_code
from realranks.ranks.codec import MalformedError
from realranks.ranks.messages import decode_message, encode_message
from realranks.ranks.protocol import BufferedChannel, Message
from realranks.ranks.server.zygote import VARIABLE as ZYGOTE

#: Starting a worker (torch is loaded) and the ranks of all world sizes, on a machine that does much else.
START_SECONDS = 120.0
TRIES = 2
_SECRET = re.compile(
    r"TOKEN|SECRET|PASS(WORD|WD|PHRASE)|CREDENTIAL|(^|_)(API_?)?KEY(_|$)|(^|_)PAT$", re.IGNORECASE
)


@dataclass(frozen=True)
class Graded:
    """An answer's verdict; or why there is none, as a sentence."""

    answer: Answer
    verdict: Verdict | None = None
    problem: str = ""


@dataclass
class _Job:
    answer: Answer
    killed: list[int] = field(default_factory=list)  # exit codes of the workers it was the end of


class _Worker:
    """A process that grades one answer at a time."""

    def __init__(self, folder: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "course_lib.grading.classroom.worker"),
                    *(str(theirs.fileno()), folder),
                ],
                pass_fds=[theirs.fileno()],
                env={
                    **without_secrets(os.environ),
                    "TMPDIR": folder,
                    ZYGOTE: "",  # answers of strangers: their ranks descend from this worker alone
                    "PYTHONPATH": os.pathsep.join(
                        filter(None, [*own_code.search_path(), os.environ.get("PYTHONPATH")])
                    ),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal is for us: we end the workers
            )
        self.channel = BufferedChannel(ours)
        self.job: _Job | None = None
        self.deadline = 0.0

    def begin(self, job: _Job) -> None:
        self.job = job
        answer = job.answer
        patience = find_task(answer.task).seconds * (CALLS_IN_ALL + 1)
        self.deadline = time.monotonic() + START_SECONDS + patience
        self.channel.send(encode_message(messages.Grade(answer.task, answer.source, answer.first_line)))

    def graded(self) -> Iterator[Graded]:
        """Yield what the worker has said of its answer since it was last asked; it is free then."""
        for message in self.channel.receive():
            if self.job is not None and (graded := _decode_graded(self.job.answer, message)):
                self.job = None
                yield graded

    def end(self) -> int:
        """Make sure that the process is gone, and all it started; returns how it ended."""
        self.channel.close()  # a worker that lives sees this, and takes its ranks along
        try:
            return self.process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove what CI and shells keep in the environment for the instructor: an answer may print it all."""
    return {name: value for name, value in environment.items() if not _SECRET.search(name)}


def grade_all(answers: Iterable[Answer], jobs: int) -> Generator[Graded, None, None]:
    """Grade answers on `jobs` workers; yields each as soon as it is done, in no particular order.

    When the caller stops (an exception, Ctrl-C), the workers and all that they started end.
    """
    waiting = deque(_Job(answer) for answer in answers)
    workers: list[_Worker] = []
    with (
        tempfile.TemporaryDirectory(prefix="ddp-course-grade-", ignore_cleanup_errors=True) as folder,
        selectors.DefaultSelector() as selector,
    ):
        try:
            while waiting or any(worker.job for worker in workers):
                while waiting and (worker := _free_worker(workers, jobs, selector, folder)) is not None:
                    worker.begin(waiting.popleft())
                for worker in _ready(workers, selector):
                    yield from worker.graded()
                    if worker.channel.closed or time.monotonic() > worker.deadline:
                        workers.remove(worker)
                        selector.unregister(worker.channel.sock)
                        code = worker.end()
                        if worker.job is not None and (given_up := _retry(worker.job, code, waiting)):
                            yield given_up
        finally:
            for worker in workers:
                worker.channel.close()  # all at once: they end side by side
            for worker in workers:
                worker.end()


def _free_worker(
    workers: list[_Worker], most: int, selector: selectors.BaseSelector, folder: str
) -> _Worker | None:
    """Return a worker without a job, started if there may be one more."""
    for worker in workers:
        if worker.job is None:
            return worker
    if len(workers) >= most:
        return None
    worker = _Worker(tempfile.mkdtemp(dir=folder))
    selector.register(worker.channel.sock, selectors.EVENT_READ, worker)
    workers.append(worker)
    return worker


def _ready(workers: list[_Worker], selector: selectors.BaseSelector) -> list[_Worker]:
    """Wait for workers that have said something, have died or are late."""
    for worker in workers:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.channel.wants_write else 0)
        selector.modify(worker.channel.sock, events, worker)
    nearest = min((worker.deadline for worker in workers if worker.job is not None), default=0.0)
    found = []
    for key, events in selector.select(max(0.0, nearest - time.monotonic())):
        if events & selectors.EVENT_WRITE:
            key.data.channel.flush()
        if events & selectors.EVENT_READ:
            found.append(key.data)
    now = time.monotonic()
    late = [w for w in workers if w.job is not None and now > w.deadline and w not in found]
    return [*found, *late]


def _decode_graded(answer: Answer, message: Message) -> Graded | None:
    try:
        if message.kind == messages.Failed.kind:
            return Graded(answer, problem=decode_message(messages.Failed, message).why)
        if message.kind == messages.Graded.kind:
            return Graded(answer, decode_message(messages.Graded, message).verdict)
    except MalformedError:
        return Graded(answer, problem="The grader's own reply cannot be read.")
    return None


def _retry(job: _Job, code: int, waiting: deque[_Job]) -> Graded | None:
    """Put an answer whose worker has ended back into the queue; or give it up."""
    job.killed.append(code)
    if len(job.killed) < TRIES:
        waiting.appendleft(job)
        return None
    return Graded(job.answer, problem=_describe_give_up(job))


def _describe_give_up(job: _Job) -> str:
    signals = {code for code in job.killed if code < 0}
    how = "was killed" if signals else "ended"
    return f"The process that graded this answer {how} {len(job.killed)} times, with this answer each time."
