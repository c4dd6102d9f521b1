"""What the files of several machines say together, and which files are refused."""

import dataclasses
import json
from types import SimpleNamespace

import pytest

from realranks.outcome.outcome import NOT_ARRIVED, Ending, Kind
from realranks.outcome.places import Frame
from realranks.ranks.codec import encode
from realranks.ranks.messages import JobReply
from realranks.ranks.status import RankStatus
from realranks.scripts.machines import Look, Notebook, Notes, NotesError, RankNotes, outcome_of, read_folder
from realranks.versions import version
from tests.support.outcomes import collective

MARK = "what ddp-course has seen of the ranks of one machine"
LINE = Frame("/work/train.py", 2, "<module>", "dist.all_reduce(x)")


def status(rank, **fields):
    """Blocked in an all-reduce, or through."""
    through = fields.pop("through", False)
    records = () if through else (collective(),)
    call = None if through else "all_reduce"
    stack = () if through else (LINE,)
    numbers = {"0": len(records)}
    return RankStatus(rank, stack, call, 1.0, numbers, {"0": (0, 1)}, records, **fields)


def notes(rank, looks=(), **fields):
    ended = {name: fields.pop(name) for name in ("said", "exit_code", "crash") if name in fields}
    made = Notes(
        version("ddp-course"),
        "a job",
        0,
        "train.py",
        2,
        f"host{rank}",
        1,
        (RankNotes(rank, 5, **ended),),
        looks,
    )
    return dataclasses.replace(made, **fields)


def look(number, seen, one):
    return Look(number, seen, {one.rank: one})


def written(folder, *machines):
    for one in machines:
        text = json.dumps({"this is": MARK, **encode(one)})
        (folder / f"ranks-{one.machine}-{one.machine}.json").write_text(text)
    return folder


THROUGH = notes(1, (look(1, {}, status(1, through=True)),), said=JobReply())
BOTH_BLOCKED = (
    notes(0, (look(4, {1: 3}, status(0)), look(5, {1: 4}, status(0)))),
    notes(1, (look(4, {0: 3}, status(1)), look(5, {0: 4}, status(1)))),
)


def test_what_is_written_is_read_again(tmp_path):
    machines = [*BOTH_BLOCKED[:1], THROUGH]
    assert read_folder(written(tmp_path, *machines)) == machines


def test_a_rank_that_waits_for_one_of_another_machine_that_is_through_is_a_proof():
    outcome = outcome_of([BOTH_BLOCKED[0], THROUGH])
    assert outcome.kind is Kind.HANG
    assert outcome.proved
    assert outcome.waiting[0].missing == (1,)


def test_a_rank_that_is_through_is_looked_at_again_until_its_threads_rest(tmp_path):
    """gloo's thread may still take what the last collective has left; a single look would keep the proof away."""
    busy, rests = (
        status(1, through=True, loops={"12": (turns, wants)}) for turns, wants in ((300, True), (400, False))
    )
    book = Notebook(tmp_path, "a job", 0, "train.py", 2, [SimpleNamespace(rank=1)])
    asked = SimpleNamespace(get_statuses=lambda *_, **__: {1: answers.pop(0)})
    answers = [busy, busy, rests]
    for at_rest in (False, False, True):
        book.look(asked, 1.0)
        assert book.still is at_rest
        outcome = outcome_of([BOTH_BLOCKED[0], dataclasses.replace(THROUGH, looks=book.looks)])
        assert (outcome is not None and outcome.proved) is at_rest


def test_looks_in_no_known_order_prove_nothing():
    """Without a folder that both see, a machine has read nothing of the other."""
    assert outcome_of(BOTH_BLOCKED).proved
    apart = [
        dataclasses.replace(
            one, still_for=6.0, looks=tuple(dataclasses.replace(each, seen={}) for each in one.looks)
        )
        for one in BOTH_BLOCKED
    ]
    assert outcome_of([apart[0], dataclasses.replace(apart[1], still_for=4.0)]) is None
    outcome = outcome_of(apart)
    assert not outcome.proved
    assert "the machines' looks at their ranks are in no known order" in outcome.doubts


def test_bytes_between_machines_leave_it_unproved():
    waits = (look(4, {}, status(0, unconfirmed=7)), look(5, {}, status(0, unconfirmed=7)))
    outcome = outcome_of([notes(0, waits, still_for=6.0), THROUGH])
    assert not outcome.proved
    assert any(doubt.endswith(NOT_ARRIVED) for doubt in outcome.doubts)


@pytest.mark.parametrize(
    "looks",
    [
        (),
        (look(5, {}, status(0)),),
        (look(4, {}, status(0)), look(5, {}, status(0, asleep=False))),
        (look(4, {}, status(0)), look(5, {}, status(0, moved=9))),
        (look(4, {}, status(0)), look(5, {}, status(0, ends_by_itself=True))),
    ],
)
def test_ranks_that_may_get_on_are_no_hang(looks):
    assert outcome_of([notes(0, looks), THROUGH]) is None


def test_a_machine_whose_ranks_move_leaves_it_open_whichever_is_asked_first():
    moving = notes(1)
    assert outcome_of([BOTH_BLOCKED[0], moving]) is None
    assert outcome_of([notes(0), BOTH_BLOCKED[1]]) is None


def test_ranks_that_the_launcher_has_ended_are_not_to_blame():
    outcome = outcome_of([notes(0, exit_code=-15), notes(1, exit_code=-9)])
    assert outcome.kind is Kind.DIED
    assert outcome.exits == {1: -9}


def test_a_rank_that_was_through_is_not_taken_for_one_that_was_ended():
    outcome = outcome_of([notes(0, said=JobReply(), exit_code=-15), notes(1, exit_code=-9)])
    assert outcome.endings[0] is Ending.FINISHED
    assert outcome.exits == {1: -9}


def refused(folder):
    with pytest.raises(NotesError) as caught:
        read_folder(folder)
    return str(caught.value)


def test_files_that_are_no_such_files_are_refused_by_name(tmp_path):
    assert "holds no file of observe()" in refused(tmp_path)
    path = tmp_path / "ranks-0-0.json"
    for text, why in (
        ("{", "ranks-0-0.json is damaged: it is no JSON"),
        ("[]", "ranks-0-0.json was not written by observe()"),
        ('{"ranks": []}', "ranks-0-0.json was not written by observe()"),
        (json.dumps({"this is": MARK, "course": "0.0.0"}), "another version of the course (0.0.0)"),
        (json.dumps({"this is": MARK, "course": version("ddp-course")}), "ranks-0-0.json is damaged"),
        ('{"this is": "' + "[" * 100_000, "ranks-0-0.json is damaged"),
        ("[" * 100_000, "ranks-0-0.json is damaged"),
    ):
        path.write_text(text)
        assert why in refused(tmp_path)
    path.write_bytes(b"\xff\xfe")
    assert "ranks-0-0.json is damaged" in refused(tmp_path)
    for ranks in ((), (RankNotes(7, 0),), (RankNotes(1, 0), RankNotes(0, 0))):
        path.write_text(json.dumps({"this is": MARK, **encode(dataclasses.replace(THROUGH, ranks=ranks))}))
        assert "ranks-0-0.json is damaged: its ranks are" in refused(tmp_path)


def test_files_of_two_jobs_and_a_machine_without_a_file_are_refused(tmp_path):
    written(tmp_path, BOTH_BLOCKED[0])
    assert "no file with rank 1" in refused(tmp_path)
    written(tmp_path, dataclasses.replace(BOTH_BLOCKED[1], run="another"))
    assert "ranks-1-1.json is of another job, or another attempt, than ranks-0-0.json" in refused(tmp_path)
    written(tmp_path, dataclasses.replace(BOTH_BLOCKED[1], attempt=1))
    assert "another attempt" in refused(tmp_path)
