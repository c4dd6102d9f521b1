"""A worker of a class that is silent for longer than its answer may take is replaced; one that is not late goes on."""

import selectors
import socket
import subprocess
import time
from typing import ClassVar

import pytest

from course_lib.grading.attempt import CALLS_IN_ALL
from course_lib.grading.classroom import messages, workers
from course_lib.grading.classroom.submissions import Answer
from course_lib.tasks import find_task
from realranks.ranks.messages import encode_message
from realranks.ranks.protocol import BufferedChannel
from tests.support.submissions import RIGHT, TASK

ANSWER = Answer(TASK, RIGHT, 1, "ada.ipynb")
REPLY = encode_message(messages.Failed("no disk"))


class Worker(workers._Worker):
    """A process that grades nothing, and what stands at its end of the wire."""

    started: ClassVar[list[workers._Worker]] = []

    def __init__(self, folder):
        ours, self.theirs = socket.socketpair()
        self.process = subprocess.Popen(["sleep", "100"])
        self.channel, self.job, self.deadline = BufferedChannel(ours), None, 0.0
        self.started.append(self)

    def end(self):
        self.process.kill()
        self.theirs.close()
        return super().end()


class ReplyingWorker(Worker):
    def begin(self, job):
        super().begin(job)
        self.theirs.sendall(REPLY.encode())


@pytest.fixture
def in_no_time(monkeypatch):
    monkeypatch.setattr(workers, "START_SECONDS", 0.05)
    monkeypatch.setattr(workers, "CALLS_IN_ALL", -1)


@pytest.fixture(autouse=True)
def none_started(monkeypatch):
    monkeypatch.setattr(Worker, "started", [])


@pytest.fixture
def worker():
    worker = Worker("")
    yield worker
    worker.end()


def ready(worker):
    with selectors.DefaultSelector() as selector:
        selector.register(worker.channel.sock, selectors.EVENT_READ, worker)
        return workers._ready([worker], selector)


@pytest.mark.parametrize("task", [TASK, "elastic.preempted"])
def test_an_answer_has_the_time_of_all_its_calls_and_of_a_start(worker, task):
    allowed = workers.START_SECONDS + find_task(task).seconds * (CALLS_IN_ALL + 1)
    before = time.monotonic()
    worker.begin(workers._Job(Answer(task, RIGHT, 1, "ada.ipynb")))
    assert 0 <= worker.deadline - before - allowed < 5


def test_a_worker_is_late_after_its_deadline_and_only_with_an_answer(worker):
    assert ready(worker) == []
    worker.begin(workers._Job(ANSWER))
    worker.deadline = time.monotonic() + 0.2
    assert ready(worker) == [worker]
    assert time.monotonic() > worker.deadline
    worker.deadline += 1000
    worker.theirs.sendall(REPLY.encode())
    assert ready(worker) == [worker]
    assert time.monotonic() < worker.deadline


def test_an_answer_at_which_two_workers_fall_silent_is_given_up(in_no_time, monkeypatch):
    monkeypatch.setattr(workers, "_Worker", Worker)
    (graded,) = workers.grade_all([ANSWER], 1)
    assert graded.problem == (
        "The process that graded this answer was killed 2 times, with this answer each time."
    )
    assert len(Worker.started) == 2
    assert all(each.process.poll() is not None for each in Worker.started)


def test_a_worker_that_has_replied_takes_the_next_answer(monkeypatch):
    monkeypatch.setattr(workers, "_Worker", ReplyingWorker)
    found = list(workers.grade_all([ANSWER] * 3, 1))
    assert [each.problem for each in found] == ["no disk"] * 3
    assert len(Worker.started) == 1
