"""Ranks that have finished after fewer batches than others: what is said of them, whichever rule has found it."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.words import capital, positions, rank_list, verb
from course_lib.outcome.outcome import Diagnosis, Outcome


def uneven_batches(
    outcome: Outcome,
    gone: Iterable[int],
    blocked: Iterable[int],
    done: str,
    reached: str,
    left: str = "finished",
    now: str = "",
) -> Diagnosis:
    """The diagnosis.

    Args:
        done: how far the ranks that have finished came, such as `4 batches`. reached: where the others wait, such as
            `batch 5 in backward() at line 3 of this cell`. left: what the others have done after that. now: where they
            are, a clause.
    """
    early, late = tuple(gone), tuple(blocked)
    return Diagnosis(
        "uneven_batches",
        f"{capital(rank_list(early))} {verb(early, 'has', 'have')} {left} after {done}{now}, and {rank_list(late)} "
        f"{verb(late, 'waits', 'wait')} in {reached}.",
        early,
        positions(outcome, early),
        advice="give every rank the same number of batches (DistributedSampler, drop_last), or train inside "
        "`with Join([model]):`; before a rank stops early, let all agree to stop.",
        lesson=taught_in(5, 3),
    )
