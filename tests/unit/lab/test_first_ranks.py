"""Lesson 00: what is told of a log of torchrun, and what its predictions ask."""

from course_lib.lab.first_ranks import torchruns_last_words

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
