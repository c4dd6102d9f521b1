"""What processes tell of each other."""

import os
import subprocess
import sys

import pytest

from course_lib.ranks.process import EndWatch


@pytest.mark.skipif(sys.platform != "linux", reason="ends are seen coming in /proc")
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


@pytest.mark.skipif(sys.platform != "linux", reason="ends are seen coming in /proc")
def test_any_signal_that_ends_a_process_is_seen_and_one_that_does_not_is_not():
    with subprocess.Popen(["sleep", "100"]) as process:
        watch = EndWatch(process.pid)
        for number in (0, 18, 28):  # nothing, SIGCONT, SIGWINCH
            os.kill(process.pid, number)
            assert not watch.is_ending()
        process.terminate()
        assert watch.is_ending()
    watch.close()


@pytest.mark.skipif(sys.platform != "linux", reason="ends are seen coming in /proc")
def test_a_process_that_is_stopped_and_goes_on_is_not_ending_until_it_is_killed():
    with subprocess.Popen(["sleep", "100"]) as process:
        watch = EndWatch(process.pid)
        for number in (19, 18):  # SIGSTOP, SIGCONT
            os.kill(process.pid, number)
            assert not any(watch.is_ending() for _ in range(200))
        process.kill()
        assert all(watch.is_ending() for _ in range(200))
    watch.close()


def test_a_process_that_is_not_there_is_not_watched():
    watch = EndWatch(2**22 + 1)
    assert not watch.is_ending()
    watch.close()
