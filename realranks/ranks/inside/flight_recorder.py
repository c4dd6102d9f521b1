"""The entries of torch's flight recorder, with the line and the stage of DDP that issued each collective.

Used inside a rank, also by its control thread while the main thread is blocked; torch is not imported here, because
nothing is recorded before the main thread has done so. On gloo the recorded `state` stays `scheduled`, but `retired`
turns true when an operation is over; point-to-point operations are not recorded there. Source:
torch/csrc/distributed/c10d/FlightRecorder.

NCCL's collectives are in a recorder of their own, which is read only where that is safe (`nccl_recorder`). So a
collective without a record here proves nothing on a rank that uses GPUs (`RankStatus.uses_gpus`). Entries of NCCL
count on their own beside gloo's of the same group, and sends and receives stand among them.
"""

from __future__ import annotations

import linecache
import os
import pickle
import sys
from collections.abc import Iterable
from typing import TypedDict

from realranks.outcome.outcome import CollectiveOrigin, CollectiveRecord, DDPStage
from realranks.outcome.places import is_above_torch, is_learners
from realranks.ranks.status import MAX_RECORDS

_DDP = "torch/nn/parallel/distributed.py"
#: DDP's own functions, as they stand on the stack of a collective: what it was for.
_STAGES = {
    "_sync_buffers": DDPStage.BUFFERS,
    "_sync_module_buffers": DDPStage.BUFFERS,
    "_pre_forward": DDPStage.REBUILD,
    "__init__": DDPStage.CONSTRUCTION,
    "_ddp_init_helper": DDPStage.CONSTRUCTION,
}


class IssuingFrame(TypedDict):
    """A frame of the stack that issued a collective."""

    filename: str
    name: str
    line: int


class _Issued(TypedDict):
    """The fields of an entry of a recorder's dump that the course reads."""

    process_group: tuple[str, str]
    collective_seq_id: int
    profiling_name: str
    time_created_ns: int
    input_sizes: list[list[int]]
    input_dtypes: list[str]
    retired: bool
    thread_id: str


class Entry(_Issued, total=False):
    """An entry of a recorder's dump; `frames` where stacks were asked for."""

    is_p2p: bool
    state: str
    frames: list[IssuingFrame]


def recorded_collectives(
    since_ns: int, stacks: bool = False, of_nccl: Iterable[Entry] = ()
) -> list[CollectiveRecord]:
    """List the newest collectives of the process groups that exist now, oldest first.

    Args:
        since_ns: when the groups began; older entries belong to groups that are gone.
        stacks: also tell the `stage` (`construction`, `buffers`, `rebuild`, `gradients`, `join` for DDP's own
            collectives, else empty), the `call` in torch.distributed, the learner's line (`file`, `line`,
            `function`, `source`), the `frames` that led there, and the `thread`.
        of_nccl: the entries of NCCL's recorder, where they were read.
    """
    entries = _entries(stacks)
    if more := list(of_nccl):
        entries = sorted([*entries, *more], key=lambda entry: int(entry["time_created_ns"]))
    return collectives_of(entries, since_ns)


def collectives_of(entries: Iterable[Entry], since_ns: int = 0) -> list[CollectiveRecord]:
    """List the newest collectives among the entries of a recorder's dump, oldest first."""
    return [_record(entry) for entry in _newest_lives(entries, since_ns)[-MAX_RECORDS:]]


def _entries(stacks: bool) -> list[Entry]:
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace", None)
    if dump is None:
        return []
    try:
        # The pickle comes from torch in this very process; the JSON dump takes four times as long.
        return list(pickle.loads(dump(True, stacks, False)).get("entries", []))
    except (RuntimeError, ValueError, pickle.UnpicklingError):
        return []


def _newest_lives(entries: Iterable[Entry], since_ns: int) -> list[Entry]:
    """Keep the entries of each group's newest life: a recreated group has the old name and counts from 1 again.

    Each backend of a group counts separately. Sends and receives repeat the number of the collective before them and
    are left out, as gloo does.
    """
    kept: dict[tuple[str, str], list[tuple[int, Entry]]] = {}
    for position, entry in enumerate(entries):
        if entry.get("is_p2p"):
            continue
        backend = _backend_of(entry)
        life = kept.setdefault((str(entry["process_group"][0]), backend), [])
        if life and _begins_anew(entry["collective_seq_id"], life[-1][1]["collective_seq_id"], backend):
            life.clear()
        life.append((position, entry))
    newest = sorted((pair for life in kept.values() for pair in life), key=lambda pair: pair[0])
    return [entry for _, entry in newest if entry["time_created_ns"] >= since_ns]


def _begins_anew(number: int, last: int, backend: str) -> bool:
    # Collectives that NCCL does in one go share a number.
    return number < last if backend == "nccl" else number <= last


def _backend_of(entry: Entry) -> str:
    """Return `gloo` for `gloo:all_reduce`."""
    return str(entry["profiling_name"]).partition(":")[0]


def _record(entry: Entry) -> CollectiveRecord:
    name = str(entry["profiling_name"])
    group = str(entry["process_group"][0])
    record: CollectiveRecord = {
        # As `groups.sequence_numbers` has it: the numbers of two backends are not one sequence.
        "group": f"{group}/nccl" if _backend_of(entry) == "nccl" else group,
        "seq": entry["collective_seq_id"],
        "op": name.partition(":")[2] or name,
        "sizes": entry["input_sizes"],
        "dtypes": entry["input_dtypes"],
        # On NCCL the watchdog retires what is completed, a moment later; what has timed out is retired, too.
        "done": bool(entry["retired"]) or entry.get("state") == "completed",
        "time_ns": entry["time_created_ns"],
    }
    frames = entry.get("frames")
    return {**record, **origin_of(frames, entry["thread_id"])} if frames else record


def origin_of(frames: Iterable[IssuingFrame], thread: str) -> CollectiveOrigin:
    """Find who issued it: from the innermost frame outwards to the learner's line, and that line's callers."""
    stage, call = DDPStage.NONE, ""
    origin = CollectiveOrigin(
        stage=DDPStage.NONE, call="", file="", line=0, function="", source="", frames=[], thread=0
    )
    for frame in frames:
        file, function = str(frame["filename"]), str(frame["name"])
        path = file.replace(os.sep, "/")
        if is_above_torch(file):
            origin["frames"].append((file, frame["line"], function))
        elif function == "_bootstrap_inner" and path.endswith("/threading.py"):
            origin["thread"] = int(thread)
        if is_learners(file):
            if origin["file"]:
                continue
            source = linecache.getline(file, frame["line"]).strip()
            origin["file"], origin["line"] = file, frame["line"]
            origin["function"], origin["source"] = function, source
        elif origin["file"]:
            continue
        elif path.endswith("distributed/algorithms/join.py"):
            stage = DDPStage.JOIN
        elif path.endswith(_DDP):
            if "Join" in function or function.startswith(("_match", "_sync_final", "_check_global")):
                stage = DDPStage.JOIN
            elif not stage or function == "__init__":
                stage = _STAGES.get(function, stage)
        elif path.endswith("torch/autograd/graph.py") and not call and not stage:
            stage = DDPStage.GRADIENTS
        elif path.endswith("distributed/distributed_c10d.py") and not stage:
            call = function
    origin["stage"], origin["call"] = stage, call
    return origin
