"""Lesson 00: what is told of a log of torchrun, and what its predictions ask."""

import pytest

from course_lib.lessons.first_ranks import lab
from course_lib.lessons.first_ranks.lab import torchruns_last_words
from tests.support.outcomes import died, error

LOG = """
[rank1]: RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:7
[rank0]: Traceback (most recent call last):
[rank0]:   File "/tmp/x/fails.py", line 10, in <module>
[rank0]: ValueError: sample 17 is broken
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
fails.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-02_03:04:06
  rank      : 1 (local_rank: 1)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  host      : a.machine
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 4711)
  error_file: <N/A>
============================================================
"""


def test_the_rank_that_torchrun_names_is_told_with_its_own_error_and_nothing_of_the_run():
    assert torchruns_last_words(LOG.splitlines()).splitlines() == [
        "[rank0]: ValueError: sample 17 is broken",
        "Root Cause (first observed failure):",
        "  rank      : 0 (local_rank: 0)",
    ]


def test_a_lost_connection_is_told_in_the_same_words_whichever_of_its_two_gloo_has_chosen():
    log = LOG.replace("rank      : 0 (local_rank: 0)", "rank      : 1 (local_rank: 1)")
    reset = log.replace(
        "Connection closed by peer [127.0.0.1]:7", "Read error [127.0.0.1]:7: Connection reset by peer. It"
    )
    assert reset != log
    for one in (log, reset):
        told = torchruns_last_words(one.splitlines())
        assert told.startswith("[rank1]: RuntimeError: Connection closed (or reset) by peer\n")


def test_a_run_in_which_nobody_failed_leaves_nothing_to_tell():
    assert torchruns_last_words(["4 processes, accuracy 0.84"]) == ""


def test_the_picture_above_the_first_cell_does_not_say_what_it_shows():
    drawing = lab.four_processes()
    assert drawing.svg().count(">x = ?</text>") == 4
    assert "6" not in drawing.alt


def test_what_has_changed_against_one_device_is_all_that_is_distributed(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(lab.ONE_DEVICE)
    assert lab.changes_to_one_device(script) == ""
    script.write_text(lab.ONE_DEVICE.replace("import torch\n", "import torch\nimport os\n", 1))
    assert lab.changes_to_one_device(script) == "+ import os"


@pytest.mark.parametrize(
    ("difference", "fits"), [(0.0, lab.bit_equal), (1e-7, lab.same_model), (0.1, lab.differs)]
)
def test_exactly_one_answer_fits_how_far_two_trainings_are_apart(difference, fits):
    answers = (lab.bit_equal, lab.same_model, lab.differs)
    assert [answer for answer in answers if answer({"difference": {0: difference}})] == [fits]


def test_whether_the_others_notice_a_death_is_seen_by_their_errors():
    noticed = died({3: 1}, errors={rank: error() for rank in range(3)})
    alone = died({3: 1})
    assert (lab.others_raise(noticed), lab.others_pass(noticed)) == (True, False)
    assert (lab.others_raise(alone), lab.others_pass(alone)) == (False, True)
