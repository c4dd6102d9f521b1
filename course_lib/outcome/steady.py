"""Text without what differs from run to run: a saved notebook says the same every time it is run."""

from __future__ import annotations

import re

#: torch's C++ log lines carry date, time and thread: `[W1121 08:47:00.123456789 socket.cpp:12] text`.
_TORCH_LOG = re.compile(r"\[([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ (?:\d+ )?([\w./+-]+?)(?::\d+)?\] ")


#: A progress bar's timings: `[00:03<00:01,  1.20it/s, loss=0.3]`.
_BAR_TIMES = re.compile(r" \[\d+:\d+(?::\d+)?<[^\]]*\]")


#: The profiler announces itself on stderr with times and process ids; one built for GPUs complains where there is none.
_PROFILER_LOG = re.compile(
    r"^(?:USDT:.*|ERROR:\S+ \S+ \d+:\d+ DeviceProperties\.cpp:\d+\] gpuGetDeviceCount failed .*)\n?",
    re.MULTILINE,
)


#: A terminal's colours and cursor movements, what sets its title (up to BEL or ST), and the bell.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x07")


#: `<function <lambda> at 0x7f2e7b851da0>`: another number on every run.
_MEMORY = re.compile(r" at 0x[0-9a-f]{6,}")


#: A line of a traceback as Python writes it, such as that of a DataLoader's worker.
_TRACEBACK_FILE = re.compile(r'File "/[^"\n]*/([^"/\n]+)", line')


#: Where torch complains in C++: `[enforce fail at inline_container.cc:672]`; the line moves from release to release.
_ENFORCE_SOURCE = re.compile(r"(\[enforce fail at )(?:/[\w/.+-]*/)?([\w.]+):\d+")


#: What was left of a timeout when gloo began to wait, and the port that is taken.
_GLOO_TIME = re.compile(r"(Timed out waiting) \d+ms")


_LISTENING = re.compile(r"(failed to listen on any local network address\. port:) \d+")


_ADDRESS = re.compile(r"(\[?(?:127\.0\.0\.1|::1|localhost)\]?):\d+")


def carry_out_returns(text: str) -> str:
    """What a terminal shows: a carriage return starts the line again, so only a progress bar's last state stays."""
    if "\r" not in text:
        return text
    text = text.replace("\r\n", "\n")
    return "\n".join(_last_state(line) for line in text.split("\n"))


def _last_state(line: str) -> str:
    states = [state for state in line.split("\r") if state.strip()]
    return states[-1].rstrip() if states else ""


def steady(text: str) -> str:
    """The text without what differs from run to run: times of log lines and progress bars, ports, memory addresses."""
    text = _ESCAPES.sub("", text)
    text = _PROFILER_LOG.sub("", text)
    text = _TORCH_LOG.sub(r"[\1 \2] ", text)
    text = _BAR_TIMES.sub("", text)
    text = _MEMORY.sub(" at 0x…", text)
    text = _TRACEBACK_FILE.sub(r'File "\1", line', text)
    text = _ENFORCE_SOURCE.sub(r"\1\2", text)
    text = _GLOO_TIME.sub(r"\1", text)
    text = _LISTENING.sub(r"\1 …", text)
    return _ADDRESS.sub(r"\1", text)


_GLOO_SOURCE = re.compile(r"\[/[\w/.+-]*?(gloo|pytorch|torch)/[\w/.+-]*/([\w.]+):\d+\] ")


_LOG_HINT = re.compile(r" ?This is typically caused by a remote worker crashing\..*", re.DOTALL)


def steady_message(message: str) -> str:
    """An error message without build paths, ports and torch's C++ backtrace."""
    message = message.partition("\nException raised from ")[0]
    message = _GLOO_SOURCE.sub("", message)
    message = _LOG_HINT.sub("", message)
    return steady(message).strip()


#: torch's C++ backtraces: one line a frame, with addresses.
_BACKTRACE = re.compile(
    r"^Exception raised from .*\n(?:(?:frame #\d+: .*|<omitting python frames>|)(?:\n|\Z))*", re.MULTILINE
)


_INSTALLED = re.compile(r"/[^\s:]*/site-packages/(?:[^\s:/]+/)*([^\s:/]+\.py):\d+")


_SOCKET = re.compile(r"SocketImpl\(fd=[^)]*\)")


_RETRY = re.compile(r" \(try=\d+, timeout=\d+ms(?:, delay=\d+ms)?\)")


def steady_log(text: str) -> str:
    """What was written to stderr without torch's C++ backtraces, build paths, and numbers of sockets and retries."""
    text = _BACKTRACE.sub("", text)
    text = _INSTALLED.sub(r"\1", text)
    return steady(_SOCKET.sub("a socket", _RETRY.sub("", text)))
