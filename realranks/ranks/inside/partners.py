"""With whom a blocking call of torch.distributed has to do: its group, its root, the other end of a send or receive.

Read from the frames of the blocked thread, or from the learner's line; used inside a rank.
"""

from __future__ import annotations

import ast
import os
from types import FrameType

from realranks.outcome.partners import Partners
from realranks.outcome.places import is_learners
from realranks.ranks.inside.blocking_calls import waiting_call
from realranks.ranks.inside.calls import assigned, innermost, named, number_given
from realranks.ranks.inside.groups import name_and_members

_SENDING, _RECEIVING = ("send", "isend"), ("recv", "irecv")
_ROOTED = ("broadcast", "reduce", "scatter", "gather")


def partners(thread_id: int) -> Partners | None:
    """Find with whom the call that this thread is blocked in communicates; None if that is unknown."""
    frame = innermost(thread_id)
    if frame is None:
        return None
    if is_learners(frame.f_code.co_filename):
        call = waiting_call(frame)
        receiver = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
        return _partner_of_work(receiver, frame) if receiver is not None else None
    found = None
    while frame is not None and not is_learners(frame.f_code.co_filename):
        if frame.f_code.co_filename.replace(os.sep, "/").endswith("distributed/distributed_c10d.py"):
            found = _from_frame(frame) or found
        frame = frame.f_back
    return found


def _from_frame(frame: FrameType) -> Partners | None:
    name, known = frame.f_code.co_name, frame.f_locals
    if name == "wrapper" or "group" not in known:
        return None
    group_name, members = name_and_members(known["group"])
    if not members:
        return None

    def rank_of(word: str) -> int | None:
        within, overall = known.get(f"group_{word}"), known.get(word)
        if isinstance(within, int) and 0 <= within < len(members):
            return members[within]
        return overall if isinstance(overall, int) else None

    root = to = source = None
    if name in _SENDING:
        to = rank_of("dst")
    elif name in _RECEIVING:
        source = rank_of("src")
    elif name.startswith(_ROOTED):
        root = rank_of("src") if "src" in known else rank_of("dst")
    tag = known.get("tag")
    return Partners(name, group_name, tuple(members), root, to, source, tag if isinstance(tag, int) else None)


def _partner_of_work(receiver: ast.expr, frame: FrameType) -> Partners | None:
    """Read `dist.irecv(x, src=1).wait()`, or `w.wait()` after `w = dist.irecv(x, src=1)` in the same function."""
    call = receiver if isinstance(receiver, ast.Call) else assigned(receiver, frame)
    name = named(call.func) if call is not None else ""
    if call is None or name not in (*_SENDING, *_RECEIVING):
        return None
    rank = number_given(call, "dst" if name in _SENDING else "src", 1, frame)
    if rank is None:
        return None
    tag = number_given(call, "tag", 3, frame)
    return Partners(name, to=rank, tag=tag) if name in _SENDING else Partners(name, source=rank, tag=tag)
