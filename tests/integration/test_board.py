"""A learner's kernel and a real board: joining, a network that breaks, a thief, a hub, a class."""

import contextlib
import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import psutil
import pytest
from IPython.core.interactiveshell import InteractiveShell

from benchmarks.board import Load, measure
from course_lib.board.client import Address, RefusedError
from course_lib.board.sender import Sender
from course_lib.board.store import Store
from course_lib.notebook import board as link
from course_lib.questions import question_named
from tests.support.boards import RunningBoard, running_board

TASK = "samplers.shard_indices"
LOADED = "import sys; print(any(name.startswith('course_lib.board') for name in sys.modules))"
#: The first question of lesson 00.
FIRST = question_named("00.skips", {})
ASKED, ANSWERS = FIRST.asks, tuple(option.says for option in FIRST.options)
PREDICTED = f"p = predict({FIRST.name!r}, choice=2)"


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Iterator[RunningBoard]:
    with running_board(tmp_path_factory.mktemp("board") / "class.sqlite") as running:
        yield running


def kept(board: RunningBoard, name: str, count: int) -> list[tuple[str, str]]:
    """What the board has kept of this learner, once it is that much."""
    store = Store(board.file)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            numbers = {member.learner for member in store.members() if member.name == name}
            found = [(event.about, event.said) for learner, event in store.events() if learner in numbers]
            if len(found) >= count:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{name}: only {found} came")
    finally:
        store.close()


class BrokenNetwork:
    """A wire to the board. The first requests arrive, and their answers do not: the worst place for a cut."""

    def __init__(self, board: RunningBoard, cuts: int) -> None:
        self.cuts = cuts
        self._there = (board.address.host, board.address.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address(False, "127.0.0.1", self._listening.getsockname()[1], "")
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(here,), daemon=True).start()

    def _carry(self, here: socket.socket) -> None:
        with here, socket.create_connection(self._there) as there, contextlib.suppress(OSError):
            reads = here.makefile("rb")
            while request := _message(reads):
                there.sendall(request)
                answer = _message(there.makefile("rb", buffering=0))
                if self.cuts:
                    self.cuts -= 1
                    return
                here.sendall(answer)


def _message(stream: IO[bytes]) -> bytes:
    """One request or answer, head and body; empty where the stream has ended."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if not (line := stream.readline()):
            return b""
        head += line
    found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    body = b""
    while found is not None and len(body) < int(found[1]):
        body += stream.read(int(found[1]) - len(body))
    return head + body


def test_answers_that_never_arrive_cost_nothing_and_count_nothing_twice(board, tmp_path):
    network = BrokenNetwork(board, cuts=0)
    sender = Sender(tmp_path)
    assert sender.join(network.address, board.code, "Cut off").state == "joined"
    network.cuts = 2
    for said in ("wrong", "deadlock", "pass"):
        sender.tell("verdict", TASK, said)
    assert kept(board, "Cut off", 3) == [(TASK, "wrong"), (TASK, "deadlock"), (TASK, "pass")]
    until = time.monotonic() + 60
    while sender.outbox.count() and time.monotonic() < until:
        time.sleep(0.05)
    assert (sender.outbox.count(), network.cuts) == (0, 0)
    assert len(kept(board, "Cut off", 3)) == 3
    sender.close()
    network.close()


def answer_to(board: RunningBoard, what: str, data: object, token: str = "") -> tuple[int, str]:
    request = urllib.request.Request(f"{board.address}/{what}", data=json.dumps(data).encode())
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_board_is_on_this_machine_only_and_its_page_gives_nothing_away(board):
    listening = psutil.Process(board.process.pid).net_connections("tcp")
    assert {each.laddr.ip for each in listening if each.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
    for path in ("", "board.js", "board.css"):
        with urllib.request.urlopen(f"{board.address}/{path}", timeout=60) as answer:
            text = answer.read().decode()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert board.key not in text
        assert board.code not in text


def test_a_thief_with_the_code_cannot_speak_for_another_learner(board, tmp_path):
    sender = Sender(tmp_path)
    victim = sender.join(board.address, board.code, "Victim")
    thief = Sender(tmp_path / "thief")
    assert thief.join(board.address, board.code, "Victim").name == "Victim 2"
    with pytest.raises(RefusedError):
        thief.join(board.address, "AAAAAAAA", "Victim")
    for token in ("", "A" * 43, victim.token[:-1], board.code, board.key):
        assert answer_to(board, "events", {"events": []}, token)[0] == 401
    assert answer_to(board, "events", {"events": [{}] * 51}, victim.token)[0] == 400
    assert answer_to(board, "events", {"events": [None, 7, {"id": "x"}]}, victim.token) == (
        200,
        '{"done": ["x"]}',
    )
    status, text = answer_to(board, "join", {"code": board.code, "name": "x", "token": "short"})
    assert (status, board.key in text) == (400, False)
    for each in (sender, thief):
        each.leave()
        each.close()


def test_a_kernel_joins_votes_and_leaves(board, kernel):
    assert kernel.run(LOADED).text.strip() == "False"
    assert "have not joined" in kernel.run("%board").text
    assert "not the board's code" in kernel.run(f"%board {board.address} AAAAAAAA Ada").error
    assert "not the address of a board" in kernel.run("%board ftp://nowhere X").error
    assert "You are “Ada L.” on the board" in kernel.run(f"%board {board.address} {board.code} Ada L.").text
    kernel.run(PREDICTED)
    ((_question, answer),) = kept(board, "Ada L.", 1)
    assert answer == "1", "the second answer"
    assert "it has deleted what it had of you" in kernel.run("%board leave").text
    store = Store(board.file)
    assert "Ada L." not in [member.name for member in store.members()]
    store.close()
    kernel.run(PREDICTED)
    assert "have not joined" in kernel.run("%board").text


def test_a_hub_needs_no_line_and_who_leaves_stays_away(board, monkeypatch, tmp_path):
    for variable, value in {
        "DDP_COURSE_BOARD": str(board.address),
        "DDP_COURSE_BOARD_CODE": board.code,
        "JUPYTERHUB_USER": "grace",
        "DDP_COURSE_HOME": str(tmp_path / "home"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }.items():
        monkeypatch.setenv(variable, value)

    def kernel() -> Sender:
        monkeypatch.setattr(link, "_link", None)
        link.register(InteractiveShell())
        link.tell_vote("What happens?", ["a", "b"], "b")  # a question of hers, which the board does not know
        link.tell_vote(ASKED, ANSWERS, ANSWERS[0])
        return link._link.sender()

    first = kernel()
    assert [said for _, said in kept(board, "grace", 1)] == ["0"]
    first.close()
    again = kernel()  # the same learner, restarted
    assert len(kept(board, "grace", 2)) == 2
    assert again.leave()
    again.close()
    away = kernel()
    away.flush()
    assert away.outbox.membership().state == "left"
    assert away.outbox.count() == 0
    away.close()


def test_a_class_on_a_broken_network_with_thieves_loses_nothing(board):
    load = Load(learners=30, rate=5, seconds=1.5, cuts=0.2, thieves=2, kill=False)
    with ThreadPoolExecutor(1) as beside:  # this thread may have Playwright's event loop
        seen = beside.submit(measure, load, board).result()
    assert seen.made > 50
    assert (seen.lost, seen.twice) == (0, 0)
    assert seen.cuts > 0
    assert len(seen.steady) == seen.made, "the page was told of each"
    assert not [answer for answer in seen.thieves if answer.endswith("200")]
