"""Text without what differs from run to run: a saved notebook says the same every time it is run."""

from __future__ import annotations

import re
import sysconfig

#: Words without which there is nothing of a kind in a text (looking for them is quick), what it looks like, and what
#: stands in its place.
_Kinds = tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]

#: What differs from run to run.
_VARIES: _Kinds = (
    # A terminal's colours and cursor movements, what sets its title (up to BEL or ST), and the bell.
    (
        ("\x1b", "\x07"),
        re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x07"),
        "",
    ),
    # The profiler announces itself on stderr with times and process ids; one built for GPUs complains where
    # there is none.
    (
        ("USDT:", "ERROR:"),
        re.compile(
            r"^(?:USDT:.*|ERROR:\S+ \S+ \d+:\d+ DeviceProperties\.cpp:\d+\] gpuGetDeviceCount failed .*)\n?",
            re.MULTILINE,
        ),
        "",
    ),
    # torch's C++ log lines carry date, time and thread: `[W1121 08:47:00.123456789 socket.cpp:12] text`.
    (
        ("[",),
        re.compile(r"\[([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ (?:\d+ )?([\w./+-]+?)(?::\d+)?\] "),
        r"[\1 \2] ",
    ),
    # A progress bar's timings: `[00:03<00:01,  1.20it/s, loss=0.3]`.
    ((" [",), re.compile(r" \[\d+:\d+(?::\d+)?<[^\]]*\]"), ""),
    # `<function <lambda> at 0x7f2e7b851da0>`: another number on every run.
    ((" at 0x",), re.compile(r" at 0x[0-9a-f]{6,}"), " at 0x…"),
    # A line of a traceback as Python writes it, such as that of a DataLoader's worker.
    (('File "/',), re.compile(r'File "/[^"\n]*/([^"/\n]+)", line'), r'File "\1", line'),
    # Where torch complains in C++: `[enforce fail at inline_container.cc:672]`, `ASSERT FAILED at "/x/reducer.cpp":17`;
    # the line moves from release to release.
    (
        ("[enforce fail", "ASSERT FAILED at"),
        re.compile(r'(\[enforce fail at |ASSERT FAILED at ")(?:[\w/.+-]*/)?([\w.]+)("?):\d+'),
        r"\1\2\3",
    ),
    # What was left of a timeout when gloo began to wait, and the port that is taken.
    (("Timed out waiting",), re.compile(r"(Timed out waiting) \d+ms"), r"\1"),
    (
        ("failed to listen",),
        re.compile(r"(failed to listen on any local network address\. port:) \d+"),
        r"\1 …",
    ),
    (
        ("127.0.0.1", "::1", "localhost"),
        re.compile(r"(\[?(?:127\.0\.0\.1|::1|localhost)\]?):\d+"),
        r"\1",
    ),
)


def carry_out_returns(text: str) -> str:
    """Apply carriage returns and backspaces as a terminal does: of a progress bar, only the last state stays."""
    if "\r" not in text:
        return text
    text = text.replace("\r\n", "\n")
    return "\n".join(_last_state(line) for line in text.split("\n"))


def _last_state(line: str) -> str:
    states = [state for state in line.split("\r") if state.strip()]
    return states[-1].rstrip() if states else ""


def _without(text: str, kinds: _Kinds) -> str:
    if not text:
        return text  # most ranks write nothing to stderr
    for words, pattern, instead in kinds:
        if any(word in text for word in words):
            text = pattern.sub(instead, text)
    return text


def steady(text: str) -> str:
    """Remove what differs from run to run: times of log lines and progress bars, ports, memory addresses."""
    return _without(text, _VARIES)


_GLOO_SOURCE = re.compile(r"\[/[\w/.+-]*?(gloo|pytorch|torch)/[\w/.+-]*/([\w.]+):\d+\] ")


_LOG_HINT = re.compile(r" ?This is typically caused by a remote worker crashing\..*", re.DOTALL)


def steady_message(message: str) -> str:
    """Remove build paths, ports and torch's C++ backtrace from an error message."""
    message = message.partition("\nException raised from ")[0]
    message = _GLOO_SOURCE.sub("", message)
    message = _LOG_HINT.sub("", message)
    return steady(message).strip()


_PACKAGES = sysconfig.get_path("purelib")
#: What torch's logs have beyond that.
_IN_LOGS: _Kinds = (
    # `[rank1]:[W1121 ...`: who wrote a line stands beside it, and equal lines of several ranks are shown once.
    (("[rank",), re.compile(r"^\[rank\d+\]:(?=\[[IWEF]\d{4} )", re.MULTILINE), ""),
    # C++ backtraces: one line a frame, with addresses.
    (
        ("Exception raised from ",),
        re.compile(
            r"^Exception raised from .*\n(?:(?:frame #\d+: .*|<omitting python frames>|)(?:\n|\Z))*",
            re.MULTILINE,
        ),
        "",
    ),
    (
        ("/site-packages/",),
        # A folder with blanks in its name can only be told where it is Python's own.
        re.compile(rf"(?:{re.escape(_PACKAGES)}|/[^\s:]*/site-packages)/(?:[^\s:/]+/)*([^\s:/]+\.py):\d+"),
        r"\1",
    ),
    (("(try=",), re.compile(r" \(try=\d+, timeout=\d+ms(?:, delay=\d+ms)?\)"), ""),
    (("SocketImpl(",), re.compile(r"SocketImpl\(fd=[^)]*\)"), "a socket"),
)


def steady_log(text: str) -> str:
    """Remove torch's C++ backtraces, build paths, and numbers of sockets and retries from stderr's text."""
    return steady(_without(text, _IN_LOGS))
