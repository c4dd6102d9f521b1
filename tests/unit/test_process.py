"""What processes tell of each other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.ranks.process import EndWatch


def tells_exit_codes_early() -> bool:
    """Whether this system's /proc says of a process that a signal has stopped or ended which one that was."""
    if sys.platform != "linux":
        return False
    with subprocess.Popen(["sleep", "100"]) as process:
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        code = Path(f"/proc/{process.pid}/stat").read_text().split()[-1]
        process.kill()
    return int(code) == signal.SIGSTOP


in_every_instant = pytest.mark.skipif(
    not tells_exit_codes_early(), reason="on this system there is an instant in which nothing tells"
)


@in_every_instant
def test_that_a_process_has_been_killed_is_known_before_it_has_ended():
    memory = "x = bytearray(200_000_000); print(1, flush=True); input()"  # giving it back takes milliseconds
    with subprocess.Popen(
        [sys.executable, "-c", memory], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        watch = EndWatch(process.pid)
        assert not watch.is_ending()
        process.kill()
        assert watch.is_ending()
        process.wait()
        assert watch.is_ending()
    watch.close()


@in_every_instant
def test_any_signal_that_ends_a_process_is_seen_and_one_that_does_not_is_not():
    with subprocess.Popen(["sleep", "100"]) as process:
        watch = EndWatch(process.pid)
        for number in (0, 18, 28):  # nothing, SIGCONT, SIGWINCH
            os.kill(process.pid, number)
            assert not watch.is_ending()
        process.terminate()
        assert watch.is_ending()
    watch.close()


@in_every_instant
def test_a_process_that_is_stopped_and_goes_on_is_not_ending_until_it_is_killed():
    with subprocess.Popen(["sleep", "100"]) as process:
        watch = EndWatch(process.pid)
        for number in (19, 18):  # SIGSTOP, SIGCONT
            os.kill(process.pid, number)
            assert not any(watch.is_ending() for _ in range(200))
        process.kill()
        assert all(watch.is_ending() for _ in range(200))
    watch.close()


@in_every_instant
def test_there_is_no_instant_in_which_a_process_that_was_ended_looks_alive():
    for _ in range(100):
        with subprocess.Popen(["sleep", "100"]) as process:
            watch = EndWatch(process.pid)
            process.terminate()
            assert all(watch.is_ending() for _ in range(10))
        watch.close()


def test_a_process_that_is_not_there_is_not_watched():
    watch = EndWatch(2**22 + 1)
    assert not watch.is_ending()
    watch.close()
