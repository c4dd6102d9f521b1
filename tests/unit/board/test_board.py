"""The class board on plain data: what it takes, keeps and refuses, and what waits on a learner's machine."""

import asyncio
import contextlib
import json
import secrets
import sqlite3
import stat
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest

from course_lib.board.app import Board
from course_lib.board.client import AddressError, address_of
from course_lib.board.course import BoardCourse, BoardLesson, BoardTask, Question, questions_in
from course_lib.board.events import (
    LONGEST_NAME,
    Event,
    MalformedEventError,
    clean_name,
    from_the_wire,
    on_the_wire,
    question_id,
)
from course_lib.board.outbox import ASKED, JOINED, LEFT, Membership, Outbox
from course_lib.board.room import Room
from course_lib.board.sender import Sender
from course_lib.board.store import Store, StoreError
from course_lib.cli.board import course_of
from course_lib.syllabus import LESSONS

ANSWERS = ("it hangs", "it raises")
QUESTION = question_id("What happens?", ANSWERS)
COURSE = BoardCourse(
    (
        BoardLesson(
            "03_samplers",
            "Samplers",
            (BoardTask("samplers.shard", "Shard it", {"unequal": ("Different numbers.", "lesson 03")}),),
        ),
    ),
    (Question(QUESTION, "03_samplers", "What happens?", ANSWERS),),
)


def verdict(said="wrong", number=1, misconceptions=("unequal",), at=100.0) -> Event:
    return Event(uuid.uuid4().hex, number, "verdict", "samplers.shard", said, misconceptions, at)


def vote(answer, number=1) -> Event:
    return Event(uuid.uuid4().hex, number, "vote", QUESTION, str(answer), (), 100.0)


def member(address="http://127.0.0.1:1", state=JOINED) -> Membership:
    return Membership(address, "CODE", "Ada", secrets.token_urlsafe(32), state, heard=time.time())


def test_an_event_arrives_as_it_was_sent_and_as_old_as_it_is():
    event = verdict(at=1000.0)
    arrived = from_the_wire(on_the_wire(event, now=1060.0), now=5000.0)  # the board's clock is another
    assert arrived == Event(event.id, 1, "verdict", "samplers.shard", "wrong", ("unequal",), 4940.0)


def test_nothing_travels_but_what_was_agreed():
    sent = on_the_wire(vote(1), now=101.0)
    assert sorted(sent) == ["about", "id", "kind", "misconceptions", "number", "said", "waited"]
    assert "happens" not in json.dumps(sent), "a question goes as its digest: it may be the learner's own"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "short"},
        {"id": None},
        {"number": True},
        {"number": -1},
        {"number": 2**60},
        {"kind": "code"},
        {"about": "<script>alert(1)</script>"},
        {"about": "a" * 81},
        {"said": "not attempted"},
        {"said": 3},
        {"misconceptions": "unequal"},
        {"misconceptions": ["x"] * 21},
        {"misconceptions": [{}]},
        {"waited": "long"},
        {"waited": float("nan")},
        {"kind": "vote", "about": QUESTION, "said": "-1"},
        {"kind": "vote", "about": QUESTION, "said": "٣"},
        {"kind": "vote", "about": "What happens?", "said": "1"},
    ],
)
def test_what_is_no_event_of_the_course_is_not_taken(change):
    with pytest.raises(MalformedEventError):
        from_the_wire(on_the_wire(verdict(), 100.0) | change, now=100.0)


@pytest.mark.parametrize("data", [None, [], "verdict", 7])
def test_what_is_no_object_is_no_event(data):
    with pytest.raises(MalformedEventError):
        from_the_wire(data, now=0.0)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("  Ada\n\tLovelace ", "Ada Lovelace"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("\u202egnihton\u200b\x00", "gnihton"),
        ("Zoë", "Zoë"),
        ("a" + "\u0316" * 50, "a\u0316"),
        ("x" * 500, "x" * LONGEST_NAME),
        ("\u200b\u2066", ""),
        (["Ada"], ""),
        ("李小龙", "李小龙"),
    ],
)
def test_a_name_is_one_short_line_of_what_can_be_seen(given, shown):
    assert clean_name(given) == shown


def test_two_learners_never_have_the_same_name():
    room = Room(COURSE, names={1: "Ada", 2: "ada 2"})
    assert room.free_name("ADA") == "ADA 3"
    assert room.free_name("Grace") == "Grace"
    assert room.free_name("") == "learner 1"


def test_in_whatever_order_events_come_the_room_is_the_same():
    events = [
        verdict("wrong", 1, at=50.0),
        verdict("deadlock", 2, (), at=60.0),
        verdict("pass", 3, (), at=70.0),
    ]
    seen = set()
    for order in permutations(events):
        room = Room(COURSE)
        for event in order:
            room.fold(1, event)
        seen.add(room.cells[1, "samplers.shard"])
    (cell,) = seen
    assert (cell.passed, cell.since, cell.tries, cell.said) == (True, 50.0, 2, "pass")


def test_who_has_passed_a_task_has_passed_it_whatever_is_tried_later():
    room = Room(COURSE)
    room.fold(1, verdict("pass", 1))
    room.fold(1, verdict("wrong", 2))
    assert room.cells[1, "samplers.shard"].passed


def test_the_last_vote_counts_and_no_count_leaves_the_room_before_it_is_revealed():
    room = Room(COURSE)
    for learner, votes in {1: (vote(1, 2), vote(0, 1)), 2: (vote(0, 1), vote(1, 5))}.items():
        for each in votes:
            room.fold(learner, each)
    hidden = room.question_data(QUESTION)
    assert (hidden["voted"], hidden["counts"]) == (2, None)
    room.revealed.add(QUESTION)
    assert room.question_data(QUESTION)["counts"] == [0, 2]
    room.forget(2)
    assert room.question_data(QUESTION)["counts"] == [0, 1]


def test_tasks_questions_and_misconceptions_that_the_course_does_not_have_are_not_shown():
    room = Room(COURSE)
    assert not room.knows(Event("0" * 32, 1, "verdict", "samplers.rude_words", "pass", (), 0.0))
    assert not room.knows(vote(2))
    room.fold(1, verdict(misconceptions=("rude", "unequal")))
    assert room.cells[1, "samplers.shard"].misconceptions == ("unequal",)


def test_the_store_keeps_what_was_sent_twice_once_also_after_a_restart(tmp_path):
    store = Store(tmp_path / "board.sqlite")
    ada, grace = store.join("Ada", secrets.token_urlsafe(32)), store.join("Grace", "g" * 43)
    event = verdict()
    assert store.add([(ada.learner, event), (ada.learner, event)]) == [True, False]
    secret = (store.code(), store.key())
    store.reveal(QUESTION, on=True)
    # Killed: the file is not closed, and another process opens it.
    again = Store(tmp_path / "board.sqlite")
    assert again.add([(ada.learner, event)]) == [False]
    assert again.add([(grace.learner, event)]) == [True], "an id of hers, which nobody can take from her"
    assert again.events() == [(ada.learner, event), (grace.learner, event)]
    assert again.members() == [ada, grace]
    assert ((again.code(), again.key()), list(again.revealed())) == (secret, [QUESTION])


def test_joining_again_with_the_same_token_is_the_same_learner(tmp_path):
    store = Store(tmp_path / "board.sqlite")
    assert store.join("Ada", "a" * 43) == store.join("Eve", "a" * 43)
    assert len(store.members()) == 1


def test_events_are_kept_all_or_none(tmp_path):
    store = Store(tmp_path / "board.sqlite")
    learner = store.join("Ada", "a" * 43).learner
    broken = Event("f" * 32, None, "verdict", "samplers.shard", "pass", (), 1.0)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        store.add([(learner, verdict()), (learner, broken)])
    assert store.events() == []


def test_what_a_learner_sends_who_has_just_been_removed_leaves_no_trace(tmp_path):
    store = Store(tmp_path / "board.sqlite")
    learner = store.join("Ada", "a" * 43).learner
    store.add([(learner, verdict())])
    store.forget(learner)
    assert store.add([(learner, verdict())]) == [False]
    assert store.events() == []


def test_the_file_is_its_owners_and_holds_no_token(tmp_path):
    store = Store(tmp_path / "board.sqlite")
    store.join("Ada", "a" * 43)
    files = list(tmp_path.glob("board.sqlite*"))
    assert files
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert not any(b"a" * 43 in file.read_bytes() for file in files)


def test_a_file_that_is_no_board_is_refused_in_one_line_and_stays(tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("chapter one " * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        Store(path)
    assert path.read_text().startswith("chapter one")


def test_what_waits_is_there_after_a_restart_and_for_another_notebook(tmp_path):
    first = Outbox(tmp_path)
    first.join(member())
    first.add("verdict", "samplers.shard", "pass", (), 5.0)
    second = Outbox(tmp_path)
    (event,) = second.first(50)
    assert (event.about, event.said, event.at) == ("samplers.shard", "pass", 5.0)
    second.remove([event.id])
    assert first.count() == 0
    first.add("verdict", "samplers.shard", "pass", (), 5.0)
    assert first.first(1)[0].number > event.number, "numbers tell what came later; none is used twice"


def test_what_waits_for_one_board_is_never_for_another(tmp_path):
    waiting = Outbox(tmp_path)
    waiting.join(member())
    waiting.add("verdict", "samplers.shard", "wrong", (), 5.0)
    waiting.join(member())
    assert waiting.count() == 1, "the same board"
    waiting.join(member("http://10.0.0.9:1"))
    assert waiting.count() == 0


def test_who_has_left_stays_away_until_they_join_again(tmp_path):
    waiting = Outbox(tmp_path)
    joined = member()
    waiting.join(joined)
    waiting.leave()
    waiting.answered(joined.token, state=JOINED)  # an answer that was still on its way
    assert waiting.membership().state == LEFT
    assert waiting.membership().token == ""


def test_a_damaged_file_is_put_aside_and_a_full_disk_stops_nobody(tmp_path):
    (tmp_path / "board.sqlite").write_bytes(b"not a database at all" * 100)
    waiting = Outbox(tmp_path)
    waiting.join(member())
    assert waiting.lasts
    assert len(list(tmp_path.glob("board.damaged-*"))) == 1
    blocked = tmp_path / "a file, not a folder"
    blocked.write_text("")
    in_memory = Outbox(blocked)
    in_memory.join(member())
    in_memory.add("verdict", "samplers.shard", "pass", (), 5.0)
    assert (in_memory.count(), in_memory.lasts) == (1, False)


def test_what_is_said_while_the_disk_is_full_is_written_in_its_order_once_there_is_room(tmp_path):
    sender = Sender(tmp_path)
    sender.outbox.join(member())
    pages = sender.outbox._file.execute("PRAGMA page_count").fetchone()[0]
    sender.outbox._file.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(200):  # more than fits into the pages that are there
        sender.tell("verdict", f"samplers.{number}", "wrong", ())
    assert not sender.flush(0.5)
    assert sender.outbox.count() < 200
    sender.outbox._file.execute("PRAGMA max_page_count = 100000")
    assert sender.flush(20.0)
    assert [event.about for event in sender.outbox.first(300)] == [f"samplers.{each}" for each in range(200)]
    sender.close()


def test_a_board_whose_disk_is_full_says_so_to_the_instructor_and_asks_learners_to_send_again(tmp_path):
    store = Store(tmp_path / "board.sqlite")

    async def told(board: Board, does: Callable[[], Awaitable[object]]) -> str:
        with contextlib.suppress(sqlite3.OperationalError):
            await does()
        return json.loads(board.everything())["trouble"]

    async def hold() -> list[str]:
        board = Board(store, COURSE, 500)
        await board.join("Ada", "a" * 43)
        events = [verdict("wrong", number, ()) for number in range(1, 1000)]
        (pages,) = store._file.execute("PRAGMA page_count").fetchone()
        store._file.execute(f"PRAGMA max_page_count = {pages}")
        troubles = [await told(board, lambda: board.take(1, events))]
        assert not store.events(), "all or none"
        assert not board.room.cells, "the page shows what is kept"
        store._file.execute("PRAGMA max_page_count = 100000")
        troubles.append(await told(board, lambda: board.take(1, events)))
        await board.close()
        return troubles

    # In a thread of its own: Playwright's loop runs in this one, where a browser's test came before.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, hold()).result() == ["database or disk is full", ""]
    again = Store(tmp_path / "board.sqlite")
    assert len(again.events()) == 999
    again.close()


def test_a_board_that_has_been_silent_for_weeks_is_forgotten(tmp_path):
    waiting = Outbox(tmp_path)
    waiting.join(
        Membership("http://10.0.0.9:1", "CODE", "Ada", "a" * 43, ASKED, heard=time.time() - 15 * 86400)
    )
    assert waiting.membership() is None


def test_a_cell_never_waits_for_a_locked_file_or_a_board_that_is_away(tmp_path):
    sender = Sender(tmp_path)
    sender.outbox.join(member())
    lock = sqlite3.connect(tmp_path / "board.sqlite", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    before = time.monotonic()
    for _ in range(20):
        sender.tell("verdict", "samplers.shard", "wrong", ())
    assert time.monotonic() - before < 10, "as long as one wait for the lock"
    lock.execute("ROLLBACK")
    assert sender.flush(20.0)
    assert sender.outbox.count() == 20
    sender.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("board-")]


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("http://10.0.0.5:8123", "http://10.0.0.5:8123"),
        ("10.0.0.5:8123", "http://10.0.0.5:8123"),
        ("https://hub.example.org/board/", "https://hub.example.org:443/board"),
        ("http://[::1]:8123", "http://[::1]:8123"),
    ],
)
def test_an_address_is_read(typed, read):
    assert str(address_of(typed)) == read


@pytest.mark.parametrize(
    "typed", ["", "ftp://x", "http://", "http://a:b@c", "http://x:99999", "http://x y", "file:///etc/passwd"]
)
def test_what_is_no_address_is_refused(typed):
    with pytest.raises(AddressError):
        address_of(typed)


def test_the_questions_of_a_notebook_are_found_where_they_are_written_out(tmp_path):
    source = '%load_ext course_lib\np = predict("What happens?", {"it hangs": "hang", "it raises": lambda out: True})'
    cells = [{"cell_type": "code", "source": text} for text in (source, "%%ranks\nnot python(")]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    (question,) = questions_in(tmp_path / "a.ipynb")
    assert question == Question(QUESTION, "a", "What happens?", ANSWERS)
    assert questions_in(tmp_path / "none.ipynb") == []


def test_every_question_of_the_course_is_known_to_its_board():
    notebooks = Path(__file__).parents[3] / "notebooks"
    asked = sum(path.read_text().count("= predict(") for path in LESSONS.glob("*/lesson.py"))
    known = [question for path in notebooks.glob("[0-9]*.ipynb") for question in questions_in(path)]
    assert len(known) == asked > 60
    # Two hours of DDP asks some of them once more.
    shown = course_of(notebooks.parent, []).questions
    assert sorted(shown, key=str) == sorted(known, key=str)
