"""The doctor's words for ranks, calls and places: one way to say a thing, whatever the rule."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from realranks.outcome.fold import Folded, fold, rank_label, rank_list
from realranks.outcome.outcome import Collective, DDPStage, Ending, Outcome, RankState, Waiting, exit_text
from realranks.outcome.places import Frame, is_learners, package_of

#: What a rank does whose `Waiting.state` is `locked`.
LOCKED = "waiting inside of its own process, with Python's lock (the GIL) held"
#: What is put behind the lines of the ranks that did something else.
ODD = "  ◀ odd one out"
ODDS = "  ◀ odd ones out"
_CALLS = {
    "backward": "backward() (DDP's gradient all-reduce)",
    "wait": "wait()",
    "send": "send()",
    "recv": "recv()",
}
#: The flight recorder's names for dtypes, where torch's are others.
_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
}
_FORWARD = {
    DDPStage.BUFFERS: "forward() (DDP's broadcast of the buffers)",
    DDPStage.REBUILD: "forward() (DDP's broadcast after it has rebuilt its buckets)",
}
_STAGES = {
    DDPStage.GRADIENTS: "backward()'s all-reduce of gradients",
    DDPStage.BUFFERS: "forward()'s broadcast of the buffers",
    DDPStage.REBUILD: "forward()'s broadcast when DDP rebuilds its buckets",
    DDPStage.CONSTRUCTION: "the DDP constructor's collectives",
    DDPStage.JOIN: "Join's bookkeeping",
}


def call_of(waiting: Waiting) -> str:
    """Name the call that a rank waits in, as the reader knows it."""
    call = waiting.call or ""
    if call == "forward":
        return _FORWARD.get(_stage_of(waiting), "forward()")
    if call == "wait_tensor" and waiting.collective is not None:
        return f"{waiting.collective.op}() (a functional collective)"
    return _CALLS.get(call, call if call.endswith(")") else f"{call}()")


def _stage_of(waiting: Waiting) -> DDPStage:
    """Determine which of DDP's steps the rank waits in, from its record or, failing that, its stack."""
    if waiting.collective is not None and waiting.collective.stage:
        return waiting.collective.stage
    functions = {frame.function for frame in waiting.stack}
    if functions & {"_sync_buffers", "_sync_module_buffers"}:
        return DDPStage.BUFFERS
    return DDPStage.REBUILD if "_pre_forward" in functions else DDPStage.NONE


def waits_in(waiting: Waiting) -> str:
    """Format as `barrier() at train.py, line 3`, or without a line if none is known."""
    return call_of(waiting) + at_line(waiting.where)


def at_line(where: str) -> str:
    """Format as ` at train.py, line 3`; '' if no line is known."""
    return f" at {where}" if where else ""


def collective_text(record: Collective) -> str:
    """Describe a collective: by its purpose if DDP issued it, else by its call, with the shapes."""
    shapes = ", ".join("x".join(map(str, size)) or "scalar" for size in record.sizes)
    kinds = "/".join(sorted({_DTYPES.get(dtype, dtype.lower()) for dtype in record.dtypes}))
    size = f" ({shapes} {kinds})" if shapes else ""
    name = _STAGES.get(record.stage) or f"{record.call or record.op}()"
    return f"{name}{size}" if record.call in ("", record.op) else name


def located(record: Collective) -> str:
    """Describe a collective with the line that issued it."""
    return f"{collective_text(record)} at {record.where or 'an unknown line'}"


def within_library(record: Collective) -> str:
    """Locate a call within the library that the learner's line calls: `, in evaluate() > gather_all() of trainer`."""
    frames = [frame for frame in record.up_to_origin() if not is_learners(frame.file)]
    if not frames:
        return ""
    package = package_of(frames[-1].file)
    inner = next((i for i, frame in enumerate(frames) if package_of(frame.file) == package), 0)
    names = " > ".join(f"{frame.function}()" for frame in reversed(frames[inner : inner + 2]))
    return f", in {names} of {package}"


def capital(text: str) -> str:
    """Capitalize the first letter and leave the rest as it is."""
    return text[:1].upper() + text[1:]


def verb(ranks: Iterable[int], one: str, many: str) -> str:
    """Choose the form of the verb that fits the number of ranks."""
    return one if len(list(ranks)) == 1 else many


def fewer(one: Collection[int], other: Collection[int]) -> tuple[int, ...]:
    """Return the ranks of the smaller side, or none if both are equal."""
    return () if len(one) == len(other) else tuple(one if len(one) < len(other) else other)


def steps(number: int, word: str) -> str:
    """Format as `1 backward pass`, `3 backward passes`."""
    many = word + ("es" if word.endswith(("s", "ch")) else "s")
    return f"{number} {word if number == 1 else many}"


def names_in_a_row(names: Sequence[str], most: int = 4) -> str:
    """Join names as `a.weight`, `a.weight and a.bias`, `a, b, c, d and 3 more`."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def shaped(shape: Sequence[int]) -> str:
    """Describe a parameter without a known name as `one of shape 3x4`."""
    return f"one of shape {'x'.join(map(str, shape)) or 'scalar'}"


def who_differs(alike: Sequence[Sequence[int]]) -> str:
    """Format who has other values than whom, as `rank 1 from ranks 0, 2 and 3`; '' if every rank has its own."""
    if len(alike) < 2 or all(len(group) == 1 for group in alike):
        return ""
    first, *others = alike
    whom = rank_list(sorted(rank for group in others for rank in group))
    if len(others) == 1:
        return f"{rank_list(first)} from {whom}"
    return f"{', '.join(map(rank_list, alike))}, each from the others"


def lines_of(texts: Mapping[int, str], odd: Iterable[int] = ()) -> tuple[str, ...]:
    """Format one line per group of ranks with equal text, marking the odd ones."""
    marked = set(odd)
    everyone = marked >= set(texts)
    rows = fold(
        {rank: text + (ODD if rank in marked and not everyone else "") for rank, text in texts.items()}
    )
    width = max((len(rank_label(row.ranks)) for row in rows), default=0)
    return tuple(f"{rank_label(row.ranks):<{width}}  {_in_number(row)}" for row in rows)


def _in_number(row: Folded) -> str:
    return row.text.removesuffix(ODD) + ODDS if row.text.endswith(ODD) and len(row.ranks) > 1 else row.text


def positions(outcome: Outcome, odd: Iterable[int] = ()) -> tuple[str, ...]:
    """Describe what each rank is doing, or how it ended, in one line per group of ranks."""
    texts = {rank: _position(outcome, rank) for rank in outcome.ranks}
    texts.update(
        {rank: f"not in this {outcome.what}" for rank in range(outcome.world_size) if rank not in texts}
    )
    return lines_of(texts, odd)


def _position(outcome: Outcome, rank: int) -> str:
    waiting = outcome.waiting.get(rank)
    if waiting is None:
        return ending(outcome, rank)
    place = at_line(waiting.where)
    match waiting.state:
        case RankState.STOPPED:
            return "stopped by a signal (SIGSTOP): it cannot do anything until somebody continues it"
        case RankState.LOCKED:
            return f"{LOCKED}{place}: {waiting.source}".rstrip(": ")
        case RankState.SILENT:
            return f"not answering{place}: it runs code that lets no other thread run, or it gets no core"
        case RankState.UNHEARD:
            return "not known: its machine does not answer"
        case RankState.ASLEEP:
            what = f"asleep in {waiting.pause[0]}" if waiting.pause else "asleep, not in a collective"
            started = f"; it has started {', '.join(waiting.children)}" if waiting.children else ""
            return f"{what}{place}: {waiting.source}".rstrip(": ") + _called_from(outcome, waiting) + started
        case RankState.GPU:
            what = f" in {waiting.pause[0]}" if waiting.pause else ""
            return f"waiting for its GPU{what}{place}: {waiting.source}".rstrip(": ")
        case RankState.COMPUTING:
            return f"computing{place}: {waiting.source}".rstrip(": ") + _called_from(outcome, waiting)
        case _:
            inside = within_library(waiting.collective) if waiting.collective is not None else ""
            return f"waiting in {waits_in(waiting)}: {waiting.source}".rstrip(": ") + inside


def _called_from(outcome: Outcome, waiting: Waiting) -> str:
    """Name the line by which a rank has left the function in which another one is, or its caller elsewhere."""
    own = _own_frames(waiting)
    elsewhere = [_own_frames(other)[:1] for other in outcome.waiting.values() if other.where != waiting.where]
    functions = {(frame.file, frame.function) for innermost in elsewhere for frame in innermost}
    common = (frame for frame in own if (frame.file, frame.function) in functions)
    caller = next(common, next((frame for frame in own[1:2] if frame.function != "<module>"), None))
    return f", called from {caller.where()}" if caller is not None and caller is not own[0] else ""


def _own_frames(waiting: Waiting) -> list[Frame]:
    return [frame for frame in reversed(waiting.stack) if is_learners(frame.file)]


def ending(outcome: Outcome, rank: int) -> str:
    """Describe how a rank's part ended."""
    error = outcome.errors.get(rank)
    match outcome.endings.get(rank):
        case Ending.DIED:
            stack = outcome.last_places.get(rank)
            place = f" at {stack[-1].where()}: {stack[-1].source}".rstrip(": ") if stack else ""
            return f"died ({exit_text(outcome.exits.get(rank, 0))}){place}"
        case Ending.RAISED if error is not None:
            return f"raised {error.type}{at_line(error.where)}"
        case Ending.FREED if error is not None:
            return f"lost the connection{at_line(error.where)}"
        case Ending.KILLED:
            return "could not be freed, and was ended"
        case Ending.ENDED:
            return "ended by the launcher, because another rank had failed"
        case _:
            return f"finished the {outcome.what}"


def standing(blocked: Mapping[int, Waiting], for_whom: bool = False) -> list[str]:
    """Describe who waits (and for whom), a clause per place: `rank 1 waits in barrier() at train.py, line 3`."""
    ranks: dict[str, list[int]] = {}
    for rank, waiting in blocked.items():
        whom = f" for {rank_list(waiting.missing)}" if for_whom and waiting.missing else ""
        if for_whom and waiting.partners is not None and waiting.partners.tag:
            whom += f" (tag {waiting.partners.tag})"
        ranks.setdefault(f"in {waits_in(waiting)}{whom}", []).append(rank)
    return [f"{rank_list(each)} {verb(each, 'waits', 'wait')} {place}" for place, each in ranks.items()]


def blocked_in(outcome: Outcome) -> dict[int, Waiting]:
    """Return the ranks that wait, leaving out those that compute or were stopped."""
    return {rank: waiting for rank, waiting in outcome.waiting.items() if waiting.state == RankState.BLOCKED}


__all__ = [
    "ODD",
    "at_line",
    "blocked_in",
    "call_of",
    "capital",
    "collective_text",
    "ending",
    "fewer",
    "lines_of",
    "positions",
    "rank_list",
    "standing",
    "steps",
    "verb",
    "waits_in",
    "within_library",
]
