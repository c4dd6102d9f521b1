"""How a process ended that is not ours to wait for."""

import os
import signal
import sys

import pytest

from course_lib.outcome.outcome import EXIT_UNKNOWN
from course_lib.ranks.attach.meeting import _exit_code_of
from tests.unit.linux import kernel

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
        assert _exit_code_of(pid, process) == how
        os.waitpid(pid, 0)
        assert _exit_code_of(pid, process) == (how if kernel() >= (6, 15) else EXIT_UNKNOWN)
        assert _exit_code_of(pid, None) == EXIT_UNKNOWN
    finally:
        os.close(process)
