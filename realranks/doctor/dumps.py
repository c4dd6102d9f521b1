"""Evidence from files of torch's flight recorder for a run that was observed from outside; never a proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from realranks.doctor.words import at_line, collective_text, rank_list
from realranks.outcome.outcome import Collective
from realranks.ranks.external.dumps import Dump
from realranks.ranks.kernel.deadlock import brought, first_misfit
from realranks.watch.majority import groups_of

#: Files that were written within so many seconds are compared as of one moment.
_TOGETHER = 10.0


def lines(dumps: Mapping[int, Dump]) -> list[str]:
    """Describe what each rank issued last, and the first collective that does not match."""
    good = {rank: dump for rank, dump in sorted(dumps.items()) if not dump.problem}
    if not dumps:
        return []
    ages = [dump.age for dump in dumps.values()]
    whose = f"{rank_list(sorted(dumps))}, written {_seconds(min(ages), max(ages))} before this look"
    found = [f"flight recorder's dumps of {whose}:"]
    found += [
        f"  rank {rank}: {d.file} cannot be read ({d.problem})"
        for rank, d in sorted(dumps.items())
        if d.problem
    ]
    last: dict[str, list[int]] = {}
    for rank, dump in good.items():
        last.setdefault(_last(dump), []).append(rank)
    found += [f"  {rank_list(ranks)}: {text}" for text, ranks in last.items()]
    if max(ages) - min(ages) <= _TOGETHER:
        found += [f"  {line}" for line in _compared(good)]
    else:
        found.append("  they were not written together, and are not compared")
    return found


def _seconds(least: float, most: float) -> str:
    low, high = round(least), round(most)
    return f"{low} s" if low == high else f"{low} to {high} s"


def _last(dump: Dump) -> str:
    if not dump.records:
        return "no collective"
    record = dump.records[-1]
    where = at_line(record.where)
    over = "" if record.done else ", not over then"
    return f"last issued {_named(record)}{where}{over}"


def _named(record: Collective) -> str:
    return f"{collective_text(record)}, number {record.seq} of group {_group(record.group)}"


def _group(name: str) -> str:
    return name.removesuffix("/nccl")


def _compared(dumps: Mapping[int, Dump]) -> Iterator[str]:
    groups = {rank: dump.groups for rank, dump in dumps.items()}
    met = first_misfit({rank: dump.records for rank, dump in dumps.items()}, groups)
    if met is not None:
        first = next(iter(met.values()))
        sides = sorted(groups_of({rank: brought(record) for rank, record in met.items()}))
        texts = [f"{collective_text(met[ranks[0]])} on {rank_list(ranks)}" for ranks in sides]
        yield f"number {first.seq} of group {_group(first.group)} is {', and '.join(texts)}"
    counts: dict[str, dict[int, int]] = {}
    for rank, dump in dumps.items():
        for record in dump.records:
            counts.setdefault(record.group, {})[rank] = record.seq
    for group, issued in counts.items():
        members = next(dumps[rank].groups.get(group, ()) for rank in issued)
        same = [m for m in members if m in dumps and dumps[m].groups.get(group) == members]
        most = max(issued.values())
        behind = [m for m in same if issued.get(m, 0) < most and (m in issued or dumps[m].whole)]
        record = next(r for d in dumps.values() for r in d.records if (r.group, r.seq) == (group, most))
        if behind and not record.done:
            yield f"{rank_list(behind)} had not issued {_named(record)}"
