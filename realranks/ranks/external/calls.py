"""The call a frame of another process is in the middle of, from its source and from py-spy's output."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType, SimpleNamespace
from typing import cast

from realranks.outcome.outcome import PauseKind
from realranks.outcome.partners import Partners
from realranks.outcome.places import Frame, is_learners, package_of
from realranks.outcome.syntax import parsed
from realranks.ranks.external.pyspy import SeenFrame
from realranks.ranks.inside.blocking_calls import WAITING_CALLS, is_soon
from realranks.ranks.inside.calls import named, number_given, number_of
from realranks.ranks.inside.pauses import CHILDREN, LOCKS

#: The default group's name. torch numbers groups as they are made, and begins with it.
DEFAULT_GROUP = "0"
#: Objects of torch's that are waited for, as py-spy prints them: newer ones with the module.
_TORCHS = re.compile(r"<(?:torch\._C\.(?:_distributed_c10d\.)?)?(?:Work|Future|\w*Store) at")
_A_STORE = re.compile(r"<\S*Store at")
#: Calls that return what is waited for: of messages between two ranks, and of collectives.
MESSAGES = {"isend", "irecv", "batch_isend_irecv", "_wait_batch_p2p"}
_COLLECTIVES = {"all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter",
                "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier"}  # fmt: skip
_GROUP_WORDS = ("group", "process_group", "pg")
#: Calls that are given timeouts.
_TIMED = {
    "init_process_group",
    "new_group",
    "init_device_mesh",
    "monitored_barrier",
    "barrier",
    "wait",
    "TCPStore",
}
#: Functions of Linux in which a thread sleeps, by what for.
_SLEEPS = ("nanosleep",)
_CHILD_WAIT = "do_wait"
_READS = ("n_tty_read", "wait_woken", "pipe_read")


#: Parts of torch that have collectives of their own, by a folder of theirs.
_PARTS = (
    ("torch/distributed/fsdp/", "FSDP"),
    ("torch/distributed/checkpoint/", "torch.distributed.checkpoint"),
    ("torch/distributed/tensor/", "DTensor"),
)


def entered(stack: Sequence[Frame]) -> str:
    """Format as `accelerate's gather(), called at train.py, line 30`; '' outside of libraries."""
    last = max((n for n, frame in enumerate(stack) if is_learners(frame.file)), default=len(stack))
    for frame in stack[last + 1 :]:
        package, path = package_of(frame.file), frame.file.replace("\\", "/")
        whose = next((name for part, name in _PARTS if part in path), None) if package == "torch" else package
        if whose not in (None, "Python") and frame.function not in ("wrapper", "inner_func"):
            return f"{whose}'s {frame.function}(), called at {stack[last].where()}"
    return ""


def path_of(frame: SeenFrame) -> str:
    """Return the frame's file, with forward slashes."""
    return frame.spot.file.replace("\\", "/")


def calls_at(frame: SeenFrame) -> list[ast.Call]:
    """List the calls on the frame's line, the outermost first; calls that begin on other lines come last."""
    if not is_learners(frame.spot.file):
        return []
    line = frame.spot.line
    found = [
        node
        for node in _calls("".join(linecache.getlines(frame.spot.file)))
        if node.lineno <= line <= (node.end_lineno or 0)
    ]
    return sorted(found, key=lambda node: node.lineno != line)


@functools.lru_cache(maxsize=64)
def _calls(source: str) -> tuple[ast.Call, ...]:
    try:
        return tuple(node for node in ast.walk(parsed(source)) if isinstance(node, ast.Call))
    except (SyntaxError, ValueError):
        return ()


def spins(frame: SeenFrame) -> bool:
    """Check whether the frame's line is in a loop that calls nothing: `while not flag: pass`."""
    if not is_learners(frame.spot.file):
        return False
    try:
        tree = parsed("".join(linecache.getlines(frame.spot.file)))
    except (SyntaxError, ValueError):
        return False
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.While) and node.lineno <= frame.spot.line <= (node.end_lineno or 0)
    ]
    return bool(around) and not any(isinstance(node, ast.Call | ast.For) for node in ast.walk(around[-1]))


def sets_a_timeout(frame: SeenFrame) -> bool:
    """Check whether the frame's file sets a timeout under a minute, or of unknown length, for torch.distributed."""
    for call in _calls("".join(linecache.getlines(frame.spot.file))):
        if named(call.func) in _TIMED:
            given = [*call.args, *(word.value for word in call.keywords if word.arg == "timeout")]
            if any(is_soon(value, as_frame(frame)) for value in given):
                return True
    return False


def as_frame(frame: SeenFrame) -> FrameType:
    """Build the part of a frame that `ranks/inside/calls.py` reads: numbers and names."""
    values = {name: value for name, text in frame.values.items() if (value := _number(text)) is not None}
    code = SimpleNamespace(co_filename=frame.spot.file, co_firstlineno=1)
    return cast(
        FrameType,
        SimpleNamespace(f_locals=values, f_globals={}, f_code=cast(CodeType, code), f_lineno=frame.spot.line),
    )


def _number(text: str) -> int | float | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole_numbers(frame: SeenFrame) -> dict[str, int]:
    """Return the local variables of a frame that are integers."""
    return {name: value for name, text in frame.values.items() if isinstance(value := _number(text), int)}


def waits_for_torch(frame: SeenFrame) -> ast.Call | None:
    """Return the call `work.wait()` of a learner's innermost frame, if its variables show that it is torch's."""
    for call in calls_at(frame):
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in WAITING_CALLS:
            continue
        receiver = call.func.value
        if isinstance(receiver, ast.Name) and _TORCHS.match(frame.values.get(receiver.id, "")):
            return call
        if not (MESSAGES | _COLLECTIVES).isdisjoint(map(_function, _makers(receiver, frame))):
            return call
    return None


def may_wait_for_torch(frame: SeenFrame) -> ast.Call | None:
    """Return the `wait()` of a frame whose variables do not show what it is; frames of C++ will."""
    named_so = (
        call
        for call in calls_at(frame)
        if isinstance(call.func, ast.Attribute) and call.func.attr in WAITING_CALLS
    )
    return next(named_so, None)


# -- a communication call: with whom -----------------------------------------------------------------------------------


def partners_of(frames: Sequence[SeenFrame], call: str, world: int) -> Partners | None:
    """Find with whom the call that these frames (innermost first) are in communicates; None if it waits for a store.

    A group has the name it has in the learner's line, because an external look sees no other names; its members are not
    known. Ranks of a send or receive are global if the caller wrote `src` or `dst`.
    """
    group, to, source, tag = DEFAULT_GROUP, None, None, None
    learners = next((frame for frame in frames if is_learners(frame.spot.file)), None)
    known: Mapping[str, int] = {}
    if learners is not None:
        made = _awaited(learners) if learners is frames[0] else []
        if made is None:
            return None
        messages = [maker for maker in made if _function(maker) in MESSAGES]
        if messages:
            call = _function(messages[0])
            known = _numbers_given(messages[0], learners) if len(messages) == 1 else {}
        for node in (*made, *calls_at(learners)):
            given = next((word.value for word in node.keywords if word.arg in _GROUP_WORDS), None)
            if given is not None and not (isinstance(given, ast.Constant) and given.value is None):
                group = ast.unparse(given)
    for frame in frames:
        one = frame.spot.function
        if path_of(frame).endswith("distributed/distributed_c10d.py") and one in (call, "send", "recv"):
            known, call = whole_numbers(frame), one if one in ("send", "recv") else call
    if call in ("send", "isend"):
        to = known.get("dst", known.get("group_dst"))
    elif call in ("recv", "irecv"):
        source = known.get("src", known.get("group_src"))
    tag = known.get("tag")
    members = tuple(range(world)) if group == DEFAULT_GROUP and call not in MESSAGES else ()
    return Partners(
        call, "" if to is not None or source is not None else group, members, None, to, source, tag
    )


def _awaited(frame: SeenFrame) -> list[ast.Call] | None:
    """List the calls that may have returned what a learner's `wait()` waits for; None for a store."""
    waiting = waits_for_torch(frame) or may_wait_for_torch(frame)
    if waiting is None or not isinstance(waiting.func, ast.Attribute):
        return []
    receiver = waiting.func.value
    if _A_STORE.match(frame.values.get(receiver.id, "") if isinstance(receiver, ast.Name) else ""):
        return None
    return _makers(receiver, frame)


def _function(call: ast.Call) -> str:
    return named(call.func)


def _makers(thing: ast.expr, frame: SeenFrame, known: frozenset[str] = frozenset()) -> list[ast.Call]:
    """List the calls that an object, or those in a list, may come from, according to the code above."""
    match thing:
        case ast.Call(func=ast.Attribute(value=inside, attr="pop" | "popleft")) | ast.Subscript(value=inside):
            return _makers(inside, frame, known)
        case ast.ListComp(elt=inside) | ast.GeneratorExp(elt=inside):
            return _makers(inside, frame, known)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [maker for part in parts for maker in _makers(part, frame, known)]
        case ast.Call():
            return [thing]
        case ast.Name(id=name) if name not in known:
            given = _given(name, frame)
            return [maker for value in given for maker in _makers(value, frame, known | {name})]
    return []


def _given(name: str, frame: SeenFrame) -> list[ast.expr]:
    """List what was last assigned to a name, or added to that, in the frame's function above its line."""
    found: list[ast.expr] = []
    for node in _bindings("".join(linecache.getlines(frame.spot.file)), frame.spot.line):
        match node:
            case ast.Assign(targets=[ast.Name(id=to)], value=value) if to == name:
                found = [value]
            case (
                ast.For(target=ast.Name(id=to), iter=value)
                | ast.comprehension(target=ast.Name(id=to), iter=value)
            ) if to == name:
                found = [value]
            case ast.AugAssign(target=ast.Name(id=to), value=value) if to == name:
                found.append(value)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=to), attr="append" | "extend"), args=[value]
            ) if to == name:
                found.append(value)
    return found


@functools.lru_cache(maxsize=64)
def _bindings(source: str, line: int) -> tuple[ast.AST, ...]:
    """List the nodes of the innermost function around a line, up to that line, in source order."""
    try:
        scope: ast.AST = parsed(source)
    except (SyntaxError, ValueError):
        return ()
    for node in ast.walk(scope):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.lineno <= line <= (node.end_lineno or 0):  # type: ignore[attr-defined]
            scope = node

    def at(node: ast.AST) -> int:
        return getattr(node.target if isinstance(node, ast.comprehension) else node, "lineno", line + 1)

    return tuple(sorted((node for node in ast.walk(scope) if at(node) <= line), key=at))


def _numbers_given(call: ast.Call, frame: SeenFrame) -> dict[str, int]:
    """Read the rank (by `src` or `dst`) and the tag from a call such as `irecv(x, 1, tag=3)`."""
    word = "src" if _function(call) == "irecv" else "dst"
    found = {}
    for name, position in ((word, 1), ("tag", 3)):
        number = number_given(call, name, position, as_frame(frame))
        if number is not None:
            found[name] = number
    return found


# -- no communication call: what a sleeping thread sleeps in -----------------------------------------------------------


def pause_of(frames: Sequence[SeenFrame], channel: str) -> tuple[str, PauseKind] | None:
    """Return what a thread outside communication calls sleeps in, and of what kind that is.

    Args:
        frames: innermost first.
        channel: the function of Linux in which it sleeps (`processes.wait_channel`).
    """
    number = next((n for n, frame in enumerate(frames) if is_learners(frame.spot.file)), None)
    if number is None:
        return None
    learners, leaf = frames[number], frames[0]
    callee = frames[number - 1].spot.function if number else ""
    calls = calls_at(learners)
    call = next((node for node in calls if named(node.func) == callee), None)
    if call is None:
        call = next((node for node in calls if _fits(named(node.func), channel)), calls[0] if calls else None)
    if callee == "__next__":
        call = None
        callee = "next"
    name = f"{ast.unparse(call.func)}()" if call is not None else f"{callee}()" if callee else _with(learners)
    path = path_of(leaf)
    if any(word in channel for word in _SLEEPS):
        kind = PauseKind.SLEEP
    elif path.endswith(CHILDREN) or channel == _CHILD_WAIT:
        kind = PauseKind.CHILD
    elif (path.endswith(LOCKS) and not _has_a_timeout(frames)) or (
        leaf is learners and (name.endswith(".acquire()") or name.startswith("with ")) and "futex" in channel
    ):
        kind = PauseKind.LOCK
    else:
        kind = PauseKind.OTHER
    return (name, kind) if name else None


def _fits(name: str, channel: str) -> bool:
    return ("sleep" in name and "nanosleep" in channel) or (name == "input" and reads(channel))


def reads(channel: str) -> bool:
    """Recognise a read from a terminal or a pipe."""
    return any(word in channel for word in _READS)


def _with(frame: SeenFrame) -> str:
    line = linecache.getline(frame.spot.file, frame.spot.line).strip()
    return line.rstrip(":") if line.startswith("with ") else ""


def _has_a_timeout(frames: Sequence[SeenFrame]) -> bool:
    for frame in frames:
        if not path_of(frame).endswith(LOCKS):
            break
        if any(_number(frame.values.get(word, "")) is not None for word in ("timeout", "interval")):
            return True
    return False


def ends_in(frames: Sequence[SeenFrame]) -> float | None:
    """Return the length of the innermost frame's `time.sleep` in seconds, if it can be computed."""
    for call in calls_at(frames[0]) if frames else ():
        if "sleep" in named(call.func) and call.args:
            try:
                return float(number_of(call.args[0], as_frame(frames[0])))
            except ValueError:
                return None
    return None
