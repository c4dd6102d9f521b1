"""A rank's reports on exceptions, stacks and values.

Tracebacks show the learner's lines with the line numbers of the notebook cell, and fold what happened inside torch into
one line.
"""

from __future__ import annotations

import linecache
import os
import pprint
import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from realranks.outcome.outcome import RankError
from realranks.outcome.places import Frame, is_learners, package_of
from realranks.outcome.steady import steady_message
from realranks.own_code import is_ours

_SHOWN_REPR = 20_000
_SHOWN_MESSAGE, _SHOWN_NAME = 10_000, 200
#: Python's own ways to what every exception and every class has: a class of the learner's may override the usual ones.
_TRACEBACK = BaseException.__dict__["__traceback__"]
_NAME, _MRO = type.__dict__["__name__"], type.__dict__["__mro__"]


def shown(value: object) -> str:
    """Return the text that a notebook would print for a value; never raises, never returns gigabytes."""
    try:
        plain = isinstance(value, list | tuple | dict | set) and type(value).__module__ == "builtins"
        text = pprint.pformat(value, width=100, sort_dicts=False) if plain else repr(value)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    text = _printable(text)
    if len(text) > _SHOWN_REPR:
        text = f"{text[:_SHOWN_REPR]} … ({len(text):,} characters)"
    return text


def report_exception(error: BaseException) -> RankError:
    """Describe an exception raised by a learner's code: short traceback, full traceback, and where it was raised.

    Never raises, whatever the exception's class does when it is asked for something.
    """
    try:
        return _report(error)
    except BaseException as broken:
        return _report_barely(error, broken)


def _report(error: BaseException) -> RankError:
    frames = [entry for entry in _walk(error.__traceback__) if not is_ours(entry.file)]
    learners = [frame for frame in frames if is_learners(frame.file)]
    last = learners[-1] if learners else None
    message = _shortened(_safely(str, error))
    name = _shortened(type(error).__name__, _SHOWN_NAME)
    if isinstance(error, SyntaxError) and error.filename:
        full = "".join(traceback.format_exception_only(type(error), error))
        short = full
    else:
        full = _safely(lambda e: "".join(traceback.format_exception(e)), error)
        short = _short_traceback(frames, f"{name}: {message}" if message else name, error)
    return RankError(
        type=name,
        bases=tuple(base.__name__ for base in type(error).__mro__),
        message=message,
        traceback=_shortened(short.rstrip("\n"), 3 * _SHOWN_MESSAGE),
        full_traceback=_shortened(full.rstrip("\n"), 20 * _SHOWN_MESSAGE),
        where=last.where() if last else "",
        line=last.line if last else None,
    )


def _report_barely(error: BaseException, broken: BaseException) -> RankError:
    """Report an exception from what Python itself knows of it, without calling methods of its class."""
    frames = [entry for entry in _walk(_TRACEBACK.__get__(error)) if not is_ours(entry.file)]
    last = next((frame for frame in reversed(frames) if is_learners(frame.file)), None)
    name = _shortened(_NAME.__get__(type(error)), _SHOWN_NAME)
    message = f"<it cannot be described: {_NAME.__get__(type(broken))}>"
    text = "\n".join([*_folded(frames), f"{name}: {message}"])
    return RankError(
        type=name,
        bases=tuple(_NAME.__get__(base) for base in _MRO.__get__(type(error))),
        message=message,
        traceback=text,
        full_traceback=text,
        where=last.where() if last else "",
        line=last.line if last else None,
    )


def _safely(describe: Callable[[BaseException], str], error: BaseException) -> str:
    try:
        return str(describe(error))
    except BaseException as broken:
        return f"<its text cannot be shown: {type(broken).__name__}>"


def _printable(text: str) -> str:
    """Escape surrogates (as in the name of a file that is not UTF-8), which the notebook cannot show."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _shortened(text: str, limit: int = _SHOWN_MESSAGE) -> str:
    """Cut the middle out of a text too long to read (an error message can quote a whole tensor)."""
    text = _printable(text)
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]} … ({len(text):,} characters) … {text[-limit // 2 :]}"


def _walk(tb: TracebackType | None) -> list[Frame]:
    frames = []
    for frame, line in traceback.walk_tb(tb):
        code = frame.f_code
        source = linecache.getline(code.co_filename, line).strip()
        frames.append(Frame(code.co_filename, line, code.co_name, source))
    return frames


def _folded(frames: list[Frame]) -> list[str]:
    """Format a traceback's lines, folding what is not the learner's into one line each."""
    lines: list[str] = []
    hidden: list[Frame] = []

    def flush() -> None:
        if hidden:
            package = package_of(hidden[-1].file)
            last = hidden[-1]
            lines.append(
                f"  … {len(hidden)} more in {package}, last: {last.function} ({os.path.basename(last.file)})"
            )
            hidden.clear()

    repeated = 0
    previous: Frame | None = None
    for frame in frames:
        if frame == previous:
            repeated += 1
            continue
        if repeated:
            lines.append(f"  … the same line {repeated} more times")
            repeated = 0
        previous = frame
        if is_learners(frame.file):
            flush()
            function = f", in {frame.function}" if frame.function != "<module>" else ""
            lines.append(f"  {frame.where()}{function}")
            if frame.source:
                lines.append(f"    {frame.source}")
        else:
            hidden.append(frame)
    if repeated:
        lines.append(f"  … the same line {repeated} more times")
    flush()
    return lines


def _short_traceback(frames: list[Frame], headline: str, error: BaseException) -> str:
    lines = _folded(frames)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and cause is not error:
        lines.append(f"  (while handling {type(cause).__name__}: {steady_message(_safely(str, cause))})")
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            headline += f"\n- {type(part).__name__}: {_shortened(_safely(str, part), 500)}"
    notes = getattr(error, "__notes__", ())
    for note in notes if isinstance(notes, list | tuple) else (notes,):
        headline += f"\n{note}"
    return "\n".join([*lines, headline])


def current_stack(thread_id: int) -> list[Frame]:
    """Return the stack of a running thread, outermost call first, without the course's own frames."""
    frame = sys._current_frames().get(thread_id)
    stack = []
    while frame is not None:
        code = frame.f_code
        if not is_ours(code.co_filename):
            source = linecache.getline(code.co_filename, frame.f_lineno).strip()
            stack.append(Frame(code.co_filename, frame.f_lineno, code.co_name, source))
        frame = frame.f_back
    stack.reverse()
    return stack
