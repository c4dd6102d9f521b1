"""Ranks that wait for their GPUs: which collective of NCCL's has not finished there, and who has never issued it."""

from __future__ import annotations

from collections.abc import Mapping

from realranks.doctor.sentences import Words, diagnosis, text
from realranks.doctor.words import at_line, capital
from realranks.outcome.outcome import Diagnosis, Outcome, RankState, Waiting
from realranks.ranks import nccl_counts


def left_out_on_gpus(outcome: Outcome) -> Diagnosis | None:
    """Detect ranks whose GPUs wait in a collective of NCCL's that others have never issued."""
    lacking = {rank: w for rank, w in outcome.waiting.items() if w.state == RankState.GPU and w.missing}
    if not lacking:
        return None
    first = next(iter(lacking.values()))
    call = f" in {first.pause[0]}" if first.pause else ""
    place = at_line(first.where)
    what = "a collective"
    if first.collective is not None:
        what = f"{first.collective}{at_line(first.collective.where)}"
    whose = "whose GPU has" if len(lacking) == 1 else "whose GPUs have"
    words = {
        "lacking": lacking,
        "whose": whose,
        "what": what,
        "place": call + place,
        "missing": first.missing,
    }
    return diagnosis("waits_for_gpu.left_out", outcome, first.missing, **words)


def waits_for_gpus(outcome: Outcome, waiting: Mapping[int, Waiting]) -> Diagnosis:
    """Report ranks that were waiting for their GPUs when the time limit was reached."""
    first = next(iter(waiting.values()))
    call = f" in {first.pause[0]}" if first.pause else ""
    place = at_line(first.where)
    whose = "its GPU" if len(waiting) == 1 else "their GPUs"
    words: Words = {"who": text("{ranks} {ranks:was}", ranks=waiting), "whose": whose, "place": call + place}
    apart = nccl_counts.apart({rank: facts.issued for rank, facts in outcome.facts.items()})
    if not apart:
        return diagnosis("waits_for_gpu", outcome, **words)
    counts = next(iter(apart.values()))
    behind = tuple(rank for rank, number in counts.items() if number == min(counts.values()))
    words |= {"counts": capital(nccl_counts.sentence(counts)), "behind": behind}
    name = "waits_for_gpu.attached" if outcome.from_outside else "waits_for_gpu.behind"
    return diagnosis(name, outcome, behind, **words)
