"""Files of torch's flight recorder: which collectives each rank had issued when they were written.

NCCL's watchdog writes a file for each rank at a timeout, or when it is asked to; its name is what the run's environment
says and the rank. The file is a pickle of plain values, and only such values are read from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, NoReturn

from realranks.outcome.outcome import Collective
from realranks.ranks.codec import decode, encode
from realranks.ranks.external.processes import Process, started_at
from realranks.ranks.inside.flight_recorder import collectives_of
from realranks.ranks.status import MAX_RECORDS

#: torch asks for these in this order (FlightRecorder's DebugInfoWriter). Without one, the file of another run that ends
#: at the same time may be at the same place: such files are not read.
_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
MAX_BYTES = 1 << 27
#: How many collectives are kept: the newest that are over, and the oldest that are not; and the last of each group.
_KEPT = 20


@dataclass(frozen=True)
class Dump:
    """The file of one rank.

    Attributes:
        file: its name. age: how many seconds before the look it was written.
        records: collectives, oldest first; without those long over. groups: the members of the groups, by name.
        whole: whether it reaches back to the first collective of the run.
        problem: why it cannot be read; empty where it was.
    """

    file: str
    age: float
    records: tuple[Collective, ...] = ()
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    whole: bool = False
    problem: str = ""

    def without_source(self) -> Dump:
        """Return the dump without the text of lines."""
        bare = (replace(r, origin=r.origin and replace(r.origin, source="")) for r in self.records)
        return replace(self, records=tuple(bare))


class _PlainValues(pickle.Unpickler):
    """Reads numbers, texts, tuples, lists and dictionaries, and refuses what would call or import anything."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("it asks for another object")


def dumps_of(process: Process, ranks: Iterable[int]) -> dict[int, Dump]:
    """Read the recorder files of these ranks, from where the environment of one rank says they are.

    A file that is older than the process belongs to an earlier run.
    """
    prefix = next(filter(None, map(process.environment.get, _PREFIXES)), "")
    began = started_at(process.pid) if prefix else None
    if began is None:
        return {}
    found = {}
    for rank in ranks:
        name = f"{prefix}{rank}"
        # As the process sees its files, which may be in a container.
        root = f"/proc/{process.pid}/{'root' if os.path.isabs(name) else 'cwd'}"
        path = os.path.join(root, name.lstrip("/"))
        with contextlib.suppress(OSError):
            status = os.stat(path)
            if os.path.isfile(path) and status.st_mtime >= began:
                found[rank] = read(path, name, max(time.time() - status.st_mtime, 0.0))
    return found


def read(path: str, name: str, age: float) -> Dump:
    """Read one file.

    Raises:
        OSError: it may not be opened.
    """
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)

    def load() -> object:
        if len(data) > MAX_BYTES:
            raise ValueError("it is too large")
        return _PlainValues(BytesIO(data)).load()

    return dump_of(name, age, load)


def dump_of(name: str, age: float, load: Callable[[], Any]) -> Dump:
    """Build the dump of one rank from untrusted values, which `load` reads."""
    try:
        data = load()
        entries = data.get("entries", [])
        records = [Collective.from_record(each) for each in collectives_of(entries)]
        whole = len(entries) <= MAX_RECORDS and (not entries or entries[0]["record_id"] == 0)
        dump = Dump(name, age, _kept(records), _groups(data.get("pg_config", {})), whole)
        return decode(Dump, json.loads(json.dumps(encode(dump))))  # nothing but what a dump has
    except Exception as error:  # whatever pickles can raise
        return Dump(name, age, problem=f"{type(error).__name__}: {error}"[:200])


def _kept(records: list[Collective]) -> tuple[Collective, ...]:
    under_way = [record for record in records if not record.done]
    last_of_groups = {record.group: record for record in records}.values()
    kept = [*[r for r in records if r.done][-_KEPT:], *under_way[:_KEPT], *last_of_groups]
    return tuple(record for record in records if any(record is each for each in kept))


def _groups(config: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[int, ...]]:
    """Parse groups such as `{"0": {"name": "0", "ranks": "[0, 1]"}}` by name, each also as NCCL's (`name/nccl`)."""
    found = {}
    for each in config.values():
        members = tuple(map(int, json.loads(each["ranks"])))
        name = each["name"] or "0"  # gloo's default group has no name there
        found[name] = found[f"{name}/nccl"] = members
    return found
