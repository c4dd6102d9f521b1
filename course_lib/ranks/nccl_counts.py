"""What the numbers of NCCL tell of ranks whose GPUs wait: who has issued fewer collectives, and who is waited for.

NCCL's collectives return at once; what becomes of them is seen on the GPU alone. But each backend of a group counts
what a rank issues, and NCCL's recorder says how far the GPU has got. Pure: from numbers to ranks and sentences.

That a GPU waits is never proved by numbers: the line at which the rank waits may need another stream's work only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from course_lib.outcome.fold import rank_list
from course_lib.ranks.status import GpuQueue


def apart(issued: Mapping[int, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """By process group, how many collectives each rank has issued through NCCL, where these numbers differ.

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
    """The number of the collective with which a rank's GPU has not finished; None where there is none, or none is sure.

    It is the last one that the rank has issued, and not known to be completed. Without TORCH_NCCL_ENABLE_TIMING NCCL
    tells of no beginning. Where sends and receives were put on the stream last, the numbers are theirs: then nothing is
    sure, and neither is it while a collective is only being issued (its communicator is being created).
    """
    return queue.enqueued if queue.completed < queue.enqueued == queue.issued else None


def absent(
    number: int, rank: int, members: Iterable[int], issued: Mapping[int, int | None]
) -> tuple[int, ...]:
    """The members of a group that have never issued its collective of this number; who does not tell is not named.

    Args:
        rank: the one that has issued it. issued: how many each member has issued, None where that is not known.
    """
    return tuple(
        member
        for member in members
        if member != rank and (told := issued.get(member)) is not None and told < number
    )


def sentence(counts: Mapping[int, int]) -> str:
    """The numbers of one group in words, the fewest first."""
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
