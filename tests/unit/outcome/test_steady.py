"""What differs from run to run is taken out of a text, and nothing else."""

import pytest

from realranks.outcome.steady import carry_out_returns, steady, steady_log, steady_message


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("loss 0.25 at step 3", "loss 0.25 at step 3"),
        ("<function f at 0x7f2e7b851da0>, <g at 0x5581e0aa>", "<function f at 0x…>, <g at 0x…>"),
        ("at 0x12", "at 0x12"),
        ("[W1121 08:47:00.123456789 socket.cpp:12] text", "[W socket.cpp] text"),
        ("[rank0]:[E1121 08:47:00.123 4711 a/b.cpp] text", "[rank0]:[E a/b.cpp] text"),
        ("5/5 [00:03<00:01,  1.20it/s, loss=0.3]", "5/5"),
        ("5/5 [1:00:03<00:01, 1.20it/s] end", "5/5 end"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x\x1b]0;t\x1b\\y\x07", "red xy"),
        ('File "/home/me/lib/python3/loader.py", line 7', 'File "loader.py", line 7'),
        ("[enforce fail at /build/x/inline_container.cc:672] no", "[enforce fail at inline_container.cc] no"),
        (
            'INTERNAL ASSERT FAILED at "/x/d/reducer.cpp":1732, no',
            'INTERNAL ASSERT FAILED at "reducer.cpp", no',
        ),
        ("Timed out waiting 1799ms for recv", "Timed out waiting for recv"),
        (
            "failed to listen on any local network address. port: 1, x",
            "failed to listen on any local network address. port: …, x",
        ),
        ("from [127.0.0.1]:4711, localhost:29500 and [::1]:3", "from [127.0.0.1], localhost and [::1]"),
        ("10.0.0.1:4711", "10.0.0.1:4711"),
        ("USDT:1 on\nERROR:2026 10:00 1:2 DeviceProperties.cpp:9] gpuGetDeviceCount failed x\nkept", "kept"),
    ],
)
def test_times_ports_and_addresses_are_taken_out(text, stays):
    assert steady(text) == stays


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("a\nb", "a\nb"),
        ("0%\r50%\r100%  \nnext", "100%\nnext"),
        ("windows\r\nends\r\n", "windows\nends\n"),
        ("10%\r   ", "10%"),
        ("\r \r", ""),
    ],
)
def test_a_carriage_return_begins_the_line_again(written, seen):
    assert carry_out_returns(written) == seen


def test_a_message_is_freed_of_build_paths_hints_and_the_backtrace_below_it():
    message = (
        "[/build/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer [127.0.0.1]:99. "
        "This is typically caused by a remote worker crashing.\nSee the log.\n"
        "Exception raised from wait at /build/x.cpp:1\nframe #0: y"
    )
    assert steady_message(message) == "Connection closed by peer [127.0.0.1]."
    assert steady_message("  two\nlines ") == "two\nlines"


def test_a_log_is_freed_of_backtraces_places_sockets_and_retries():
    log = (
        "[W1121 08:47:00.1 socket.cpp:12] SocketImpl(fd=7, addr=[localhost]:5) closed"
        " (try=2, timeout=300ms, delay=9ms)\n"
        "Exception raised from recv at /build/x.cpp:1 (most recent call first):\n"
        "frame #0: a + 0x5\n<omitting python frames>\nframe #12: b\n"
        "/opt/env/lib/python3.11/site-packages/torch/nn/modules/loss.py:535: UserWarning: sizes\n"
    )
    assert steady_log(log) == "[W socket.cpp] a socket closed\nloss.py: UserWarning: sizes\n"


def test_equal_warnings_of_several_ranks_are_one_text():
    """torch puts the rank before them; a rank's number inside of a message stays."""
    written = {f"[rank{rank}]:[W1121 08:47:00.123 4711 reducer.cpp:17] Warning: slow\n" for rank in range(3)}
    assert {steady_log(text) for text in written} == {"[W reducer.cpp] Warning: slow\n"}
    assert steady_log("[rank0]: ValueError: no\n") == "[rank0]: ValueError: no\n"
