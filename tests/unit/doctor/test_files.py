"""Files that several ranks write, from what each rank has noted."""

import dataclasses

from realranks.doctor.diagnose import diagnose
from realranks.outcome.outcome import Ending
from tests.support.outcomes import error
from tests.support.watched import notes, watched

BEST = "/job/best.pt"


def run(saved, loaded=None, failed=()):
    """Ranks with what each has saved and loaded, by path; those that failed raised where they loaded."""
    loaded = loaded or {}
    errors = {rank: error("EOFError", "", loaded[rank][BEST]) for rank in failed}
    told = [notes(files={"saved": saved[rank], "loaded": loaded.get(rank, {})}) for rank in (0, 1)]
    ends = dict.fromkeys(failed, Ending.RAISED)
    return watched(*told, kind="raises" if failed else "ok", errors=errors, endings=ends)


def said(made):
    found = diagnose(made)
    return found.kind if found is not None else ""


def test_a_reader_that_fails_is_told_who_writes_the_file():
    both = {0: {BEST: "train.py, line 17"}, 1: {BEST: "train.py, line 19"}}
    found = diagnose(run(both, {1: {BEST: "train.py, line 37"}}, failed=[1]))
    assert (found.kind, found.culprits) == ("file_not_whole", (1,))
    assert "rank 0 at train.py, line 17 and rank 1 at train.py, line 19" in found.summary


def test_an_error_at_another_line_has_nothing_to_do_with_the_file():
    both = {0: {BEST: "train.py, line 17"}, 1: {BEST: "train.py, line 17"}}
    made = run(both, {1: {BEST: "train.py, line 37"}}, failed=[1])
    elsewhere = dataclasses.replace(made, errors={1: error("EOFError", "", "train.py, line 40")})
    assert diagnose(elsewhere).kind != "file_not_whole"


def test_a_file_of_one_rank_is_no_matter():
    mine = {0: {BEST: "train.py, line 17"}, 1: {"/job/other.pt": "train.py, line 17"}}
    assert said(run(mine)) != "same_file"
    found = diagnose(run(mine, {1: {BEST: "train.py, line 37"}}, failed=[1]))
    assert found.kind != "file_not_whole"


def test_paths_on_several_machines_are_not_compared():
    both = {rank: {BEST: "train.py, line 17"} for rank in (0, 1)}
    assert said(run(both)) == "same_file"
    assert said(dataclasses.replace(run(both), hosts={0: "a", 1: "b"})) != "same_file"
