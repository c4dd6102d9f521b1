"""Ranks that wait for their GPUs: which collective of NCCL's has not finished there, and who has never issued it."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.words import capital, positions, rank_list, verb
from course_lib.outcome.outcome import Diagnosis, Outcome, RankState, Waiting
from course_lib.ranks import nccl_counts


def left_out_on_gpus(outcome: Outcome) -> Diagnosis | None:
    """Ranks wait for their GPUs, which have not finished a collective of NCCL's that others have never issued."""
    lacking = {rank: w for rank, w in outcome.waiting.items() if w.state == RankState.GPU and w.missing}
    if not lacking:
        return None
    first = next(iter(lacking.values()))
    call = f" in {first.pause[0]}" if first.pause else ""
    place = f" at {first.where}" if first.where else ""
    what = "a collective"
    if first.collective is not None:
        what = f"{first.collective}{f' at {first.collective.where}' if first.collective.where else ''}"
    whose = "whose GPU has" if len(lacking) == 1 else "whose GPUs have"
    missing = f"{rank_list(first.missing)} {verb(first.missing, 'has', 'have')}"
    return Diagnosis(
        "waits_for_gpu",
        f"{capital(rank_list(lacking))}, {whose} not finished {what}, {verb(lacking, 'waits', 'wait')}{call}{place}: "
        f"{missing} never issued that collective.",
        first.missing,
        positions(outcome, first.missing),
        advice=f"find out why {rank_list(first.missing)} {verb(first.missing, 'leaves', 'leave')} it out. NCCL's "
        "collectives return at once, so that the line that waits is not the one that hangs.",
        lesson=taught_in(13),
    )


def waits_for_gpus(outcome: Outcome, waiting: Mapping[int, Waiting]) -> Diagnosis:
    """The time was up, and these ranks waited for their GPUs."""
    first = next(iter(waiting.values()))
    call = f" in {first.pause[0]}" if first.pause else ""
    place = f" at {first.where}" if first.where else ""
    whose = "its GPU" if len(waiting) == 1 else "their GPUs"
    who = f"{rank_list(waiting)} {verb(waiting, 'was', 'were')}"
    summary = f"When the time was up, {who} waiting for {whose}{call}{place}. "
    apart = nccl_counts.apart({rank: facts.issued for rank, facts in outcome.facts.items()})
    if apart:
        counts = next(iter(apart.values()))
        behind = tuple(rank for rank, number in counts.items() if number == min(counts.values()))
        return Diagnosis(
            "waits_for_gpu",
            f"{summary}{capital(nccl_counts.sentence(counts))}: probably the GPUs wait for {rank_list(behind)}.",
            behind,
            positions(outcome, behind),
            advice=f"find the collective that {rank_list(behind)} {verb(behind, 'leaves', 'leave')} out. NCCL's return "
            "at once, so that the line that waits is not the one that hangs; with --backend gloo the same code on CPU "
            "tensors stops where it hangs.",
            lesson=taught_in(13),
        )
    return Diagnosis(
        "waits_for_gpu",
        f"{summary}What a GPU waits for cannot be seen: it may still compute, or be in an NCCL collective that another "
        "rank has not joined.",
        evidence=positions(outcome),
        advice="compare which collectives each rank issued before that line: NCCL's return at once, so that the line "
        "that waits is not the one that hangs. With --backend gloo the same code on CPU tensors stops where it hangs. "
        "If it is work, give it more time (--timeout).",
        lesson=taught_in(13),
    )
