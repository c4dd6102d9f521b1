"""What a rank wrote: bounded, as a terminal would leave it, and the same on every run."""

import contextlib
import os

import pytest

from realranks.outcome.steady import carry_out_returns, steady, steady_log, steady_message
from realranks.ranks.kernel.output import OutputBuffer


@pytest.fixture
def pipe():
    read, write = os.pipe()
    buffer = OutputBuffer(read)
    yield buffer, write
    os.close(read)
    with contextlib.suppress(OSError):
        os.close(write)


def test_what_is_written_is_read_without_blocking(pipe):
    buffer, write = pipe
    assert buffer.read()
    os.write(write, "håns\n".encode())
    assert buffer.read()
    assert buffer.text() == "håns\n"
    os.close(write)
    assert not buffer.read()


def test_the_middle_of_long_output_is_dropped_and_counted(pipe):
    buffer, write = pipe
    os.write(write, b"the beginning\n")
    for _ in range(100):
        os.write(write, b"x" * 50_000)
        buffer.read()
    os.write(write, b"\nthe end\n")
    buffer.read()
    text = buffer.text()
    assert text.startswith("the beginning\n")
    assert text.endswith("\nthe end\n")
    assert "MB not shown" in text
    assert len(text) < 300_000
    assert buffer.size == 100 * 50_000 + len("the beginning\n\nthe end\n")


def test_a_new_cell_begins_with_nothing(pipe):
    buffer, write = pipe
    os.write(write, b"old\n")
    buffer.drain()
    buffer.clear()
    assert buffer.text() == ""
    assert buffer.size == 0


def test_bytes_that_are_no_text_are_shown_all_the_same(pipe):
    buffer, write = pipe
    os.write(write, b"caf\xc3\xa9 \xff\n")
    buffer.drain()
    assert buffer.text() == "café \N{REPLACEMENT CHARACTER}\n"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain\n", "plain\n"),
        (" 0%\r 50%\r100%\n", "100%\n"),
        ("windows\r\nline\r\n", "windows\nline\n"),
        ("bar\r", "bar"),
        ("a\r\r\rb\nnext", "b\nnext"),
        ("old\r   \n", "old\n"),
        ("", ""),
    ],
)
def test_a_carriage_return_starts_the_line_again(written, shown):
    assert carry_out_returns(written) == shown


@pytest.mark.parametrize(
    ("text", "stable"),
    [
        ("[W1121 08:47:00.123456789 socket.cpp:12] no", "[W socket.cpp] no"),
        ("[E1121 08:47:00.123456789 4711 Group.cpp:12] no", "[E Group.cpp] no"),
        ("100%|██| 3/3 [00:03<00:00,  1.20it/s, loss=0.3]", "100%|██| 3/3"),
        ("connect to 127.0.0.1:43817 failed", "connect to 127.0.0.1 failed"),
        ("[::1]:4444", "[::1]"),
        ("<object object at 0x7f2e7b851da0>", "<object object at 0x…>"),
        ("\x1b[31mred\x1b[0m\x1b[A", "red"),
        ("\x1b]0;a title\x07a\x07b\x1b]2;another\x1b\\c", "abc"),
        ("ratio 10:20, [1, 2], 0x7f", "ratio 10:20, [1, 2], 0x7f"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(text, stable):
    assert steady(text) == stable


def test_an_error_message_loses_build_paths_and_torchs_backtrace():
    message = (
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1234. "
        "This is typically caused by a remote worker crashing. Check the logs."
    )
    assert steady_message(message) == "Connection closed by peer [127.0.0.1]."
    assert steady_message("no\nException raised from f at x.cpp:1\nframe 0") == "no"


def test_stderr_is_freed_of_backtraces_build_paths_and_sockets():
    log = (
        "before\n[W1121 15:02:03.123456789 TCPStore.cpp:106] [c10d] failed on SocketImpl(fd=5, addr=[::1]:99) - "
        "retrying (try=3, timeout=1800000ms, delay=8414ms): no\n"
        "Exception raised from recvBytes at /build/Utils.hpp:787 (most recent call first):\n"
        "frame #0: c10::Error::Error(x) + 0x9d (0x7f98 in /lib/libc10.so)\n<omitting python frames>\n"
        "frame #45: _start + 0x21 (0x55d1 in /bin/python)\n\n"
        "  what():  [enforce fail at /build/gloo/pair.cc:456] a <= b. 88 vs 44.\n"
        "/home/me/site-packages/torch/distributed/c10d.py:18: UserWarning: hm\nafter\n"
    )
    assert steady_log(log) == (
        "before\n[W TCPStore.cpp] [c10d] failed on a socket - retrying: no\n"
        "  what():  [enforce fail at pair.cc] a <= b. 88 vs 44.\nc10d.py: UserWarning: hm\nafter\n"
    )
