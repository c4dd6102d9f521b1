"""Ranks whose GPUs wait, judged by NCCL's numbers: which have issued fewer collectives, and which are waited for.

NCCL's collectives return at once; what becomes of them is seen on the GPU alone. But each backend of a group counts
what a rank issues, and NCCL's recorder says how far the GPU has got. Pure: from numbers to ranks and sentences.

That a GPU waits is never proved by numbers: the line at which the rank waits may need another stream's work only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from realranks.outcome.fold import rank_list
from realranks.ranks.status import GpuQueue


def apart(issued: Mapping[int, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """Return, by process group, how many collectives each rank has issued through NCCL, if the numbers differ.

    Args:
        issued: what each rank says of its groups (`inside.process_group.sequence_numbers`).
    """
    found: dict[str, dict[int, int]] = {}
    for rank, numbers in sorted(issued.items()):
        for key, number in numbers.items():
            group, _, backend = key.rpartition("/")
            if backend == "nccl":
                found.setdefault(group, {})[rank] = number
    return {group: counts for group, counts in found.items() if len(set(counts.values())) > 1}


def open_number(queue: GpuQueue) -> int | None:
    """Return the number of the collective that a rank's GPU has not finished; None if there is none, or it is
    uncertain.

    This is the last issued collective, if it is not known to be completed. Without TORCH_NCCL_ENABLE_TIMING, NCCL
    reports no beginning. It is uncertain if sends and receives were put on the stream last, because the numbers are
    then theirs, and while a collective is still being issued (its communicator is being created).
    """
    return queue.enqueued if queue.completed < queue.enqueued == queue.issued else None


def absent(
    number: int, rank: int, members: Iterable[int], issued: Mapping[int, int | None]
) -> tuple[int, ...]:
    """Return the members of a group that never issued its collective of this number, as far as known.

    Args:
        rank: the one that has issued it. issued: how many each member has issued, None where that is not known.
    """
    return tuple(
        member
        for member in members
        if member != rank and (known := issued.get(member)) is not None and known < number
    )


def sentence(counts: Mapping[int, int]) -> str:
    """Put the numbers of one group into a sentence, the fewest first."""
    by_number: dict[int, list[int]] = {}
    for rank, number in counts.items():
        by_number.setdefault(number, []).append(rank)
    first, *others = sorted(by_number.items())
    number, ranks = first
    noun = "collective" if number == 1 else "collectives"
    clauses = [f"{rank_list(ranks)} {_have(ranks)} issued {number} {noun} through NCCL"]
    clauses += [f"{rank_list(ranks)} {_have(ranks)} issued {number}" for number, ranks in others]
    return ", and ".join(clauses)


def _have(ranks: list[int]) -> str:
    return "has" if len(ranks) == 1 else "have"
