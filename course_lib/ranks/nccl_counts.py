"""Which ranks have issued fewer collectives through NCCL than others: all that is known of what their GPUs wait for.

NCCL's collectives return at once, and its record of them is not read (see `inside/flight_recorder.py`); but each
backend of a group counts them. Pure: from the numbers that ranks tell of themselves to a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.outcome.fold import rank_list


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
