"""A rank that C++ code ends (gloo throws on its own thread) tells the kernel first which collectives it has issued.

`std::terminate` runs a handler before it aborts the process; here that handler is a Python function. Unlike one of a
signal it may do what any code may, and after it the process ends as it would have. Used inside a rank, around code that
is watched; where the C++ library has no such handler, nothing happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from typing import cast

from realranks.ranks.inside import control_thread
from realranks.ranks.messages import TerminateReport, encode_message
from realranks.ranks.protocol import BlockingChannel

_HANDLER = ctypes.CFUNCTYPE(None)
_LIBRARIES = ("libstdc++.so.6", "libc++abi.dylib", "libc++.1.dylib")


@contextlib.contextmanager
def report_on_terminate(channel: BlockingChannel) -> Iterator[None]:
    """Send the kernel this rank's status (entered on its main thread) when C++ ends the process within the block."""
    set_handler = _set_terminate()
    if set_handler is None:
        yield
        return
    main_thread, process = threading.get_ident(), os.getpid()
    before: int | None = None

    @_HANDLER  # type: ignore[untyped-decorator]
    def terminating() -> None:
        if os.getpid() == process:
            with contextlib.suppress(BaseException):
                channel.send(
                    encode_message(TerminateReport(control_thread.get_status(main_thread, detail=True)))
                )
        if before:
            _HANDLER(before)()

    before = set_handler(ctypes.cast(terminating, ctypes.c_void_p))
    try:
        yield
    finally:
        set_handler(before)


def _set_terminate() -> Callable[[ctypes.c_void_p | int | None], int | None] | None:
    """Find `std::set_terminate` of the C++ library that torch uses, or return None."""
    for name in _LIBRARIES:
        with contextlib.suppress(OSError, AttributeError):
            found = ctypes.CDLL(name)._ZSt13set_terminatePFvvE
            found.argtypes, found.restype = [ctypes.c_void_p], ctypes.c_void_p
            return cast(Callable[[ctypes.c_void_p | int | None], int | None], found)
    return None
