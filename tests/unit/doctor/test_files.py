"""Files that several ranks write, from what each rank has noted."""

import dataclasses

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.outcome.outcome import Ending
from tests.support.outcomes import error
from tests.support.watched import notes, watched

BEST = "/job/best.pt"
READ = {1: {BEST: "train.py, line 37"}}


def run(saved, read=None, failed=(), raised=("EOFError", ""), written=None):
    """Ranks with what each has saved and read, by path; those that failed raised where they read."""
    read, written = read or {}, written or {}
    errors = {rank: error(*raised, read[rank][BEST]) for rank in failed}
    told = [
        notes(
            files={"saved": saved.get(rank, {}), "read": read.get(rank, {}), "written": written.get(rank, {})}
        )
        for rank in (0, 1)
    ]
    ends = dict.fromkeys(failed, Ending.RAISED)
    return watched(*told, kind="raises" if failed else "ok", errors=errors, endings=ends)


def said(made):
    found = diagnose(made)
    return found.kind if found is not None else ""


def test_a_reader_that_fails_is_told_who_writes_the_file():
    both = {0: {BEST: "train.py, line 17"}, 1: {BEST: "train.py, line 19"}}
    found = diagnose(run(both, READ, failed=[1]))
    assert (found.kind, found.culprits) == ("file_not_whole", (1,))
    assert "rank 0 at train.py, line 17 and rank 1 at train.py, line 19" in found.summary


def test_a_reader_that_fails_is_told_which_other_rank_writes_the_file():
    found = diagnose(run({}, READ, failed=[1], written={0: {BEST: "train.py, line 17"}}))
    assert (found.kind, found.culprits) == ("file_not_whole", (1,))
    assert found.summary == (
        "Rank 1 could not read best.pt at train.py, line 37: rank 0 writes it, at train.py, line 17, and meanwhile it "
        "is not whole."
    )
    parsed_later = run({}, READ, failed=[1], written={0: {BEST: "train.py, line 17"}})
    parsed_later.errors[1] = error("EOFError", "", "train.py, line 40")
    assert said(parsed_later) == "file_not_whole", "the newest file that it has opened"


@pytest.mark.parametrize(
    "raised",
    [
        ("JSONDecodeError", "Expecting value"),
        ("RuntimeError", "PytorchStreamReader failed reading zip archive: failed finding central directory"),
        ("OSError", "[Errno 22] Invalid argument"),
        ("ValueError", "cannot reshape array of size 3 into shape (8,)"),
    ],
)
def test_what_half_of_a_file_raises(raised):
    assert said(run({0: {BEST: "train.py, line 17"}}, READ, failed=[1], raised=raised)) == "file_not_whole"


@pytest.mark.parametrize(
    "raised",
    [
        ("RuntimeError", "Error(s) in loading state_dict for Linear: size mismatch for weight"),
        (
            "UnpicklingError",
            "Weights only load failed. WeightsUnpickler error: Unsupported global: GLOBAL numpy.array",
        ),
        ("FileNotFoundError", "[Errno 2] No such file or directory"),
        ("KeyError", "'model'"),
    ],
)
def test_what_a_whole_file_raises(raised):
    assert said(run({0: {BEST: "train.py, line 17"}}, READ, failed=[1], raised=raised)) != "file_not_whole"


def test_a_file_that_no_other_rank_writes_is_no_matter():
    mine = {0: {BEST: "train.py, line 17"}, 1: {"/job/other.pt": "train.py, line 17"}}
    assert said(run(mine)) != "same_file"
    assert said(run({1: {BEST: "train.py, line 17"}}, READ, failed=[1])) != "file_not_whole"
    elsewhere = run({0: {"/job/other.pt": "train.py, line 17"}}, READ, failed=[1])
    assert said(elsewhere) != "file_not_whole"


def test_files_that_are_only_opened_by_several_ranks_are_no_matter():
    both = {rank: {BEST: "train.py, line 17"} for rank in (0, 1)}
    assert said(run({}, written=both)) != "same_file"


def test_paths_on_several_machines_are_not_compared():
    both = {rank: {BEST: "train.py, line 17"} for rank in (0, 1)}
    assert said(run(both)) == "same_file"
    assert said(dataclasses.replace(run(both), hosts={0: "a", 1: "b"})) != "same_file"
    failed = dataclasses.replace(run(both, READ, failed=[1]), hosts={0: "a", 1: "b"})
    assert said(failed) != "file_not_whole"
