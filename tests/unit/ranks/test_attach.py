"""Who has come to be watched, and how a process ended that is not ours to wait for."""

import itertools
import os
import signal
import socket
import sys

import pytest

from realranks.outcome.outcome import EXIT_UNKNOWN
from realranks.ranks.messages import Hello, encode_message
from realranks.ranks.observed.meeting import NotAllCame, accept_ranks, exit_code_of
from tests.support.linux import kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


def ended(how):
    """A process that has ended in this way and that nobody has waited for: its id and a descriptor of it."""
    pid = os.fork()
    if not pid:
        if how < 0:
            os.kill(os.getpid(), -how)
        os._exit(how)
    process = os.pidfd_open(pid)
    os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOWAIT)
    return pid, process


@pytest.mark.parametrize("how", [0, 3, -signal.SIGKILL, -signal.SIGTERM])
def test_the_exit_code_is_told_before_and_after_its_parent_has_asked(how):
    pid, process = ended(how)
    try:
        assert exit_code_of(pid, process) == how
        os.waitpid(pid, 0)
        assert exit_code_of(pid, process) == (how if kernel() >= (6, 15) else EXIT_UNKNOWN)
        assert exit_code_of(pid, None) == EXIT_UNKNOWN
    finally:
        os.close(process)


def test_ranks_that_have_ended_before_their_watcher_looked_have_come_all_the_same(tmp_path):
    """Their wires wait at the door, already closed: a wire that closes says that nobody else will come, not before."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "door"))
        listener.listen()
        for rank, wire in itertools.product((0, 1), ("questions", "crashes")):
            end = socket.socket(socket.AF_UNIX)
            end.connect(str(tmp_path / "door"))
            end.sendall(encode_message(Hello(wire, rank, 2, os.getpid(), 0)).encode())
            end.close()
        links = accept_ranks(listener)
    assert [link.rank for link in links] == [0, 1]


def test_a_rank_that_ends_before_the_others_have_come_says_who_is_missing(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as end:
        listener.bind(str(tmp_path / "door"))
        listener.listen()
        end.connect(str(tmp_path / "door"))
        end.sendall(encode_message(Hello("questions", 1, 3, os.getpid(), 0)).encode())
        end.close()
        with pytest.raises(NotAllCame) as caught:
            accept_ranks(listener)
    assert caught.value.missing == (0, 2)
