"""What a report without a diagnosis has to say all the same: what it is silent about, and what it has not looked at."""

from __future__ import annotations

from course_lib.doctor.alone import not_seen
from course_lib.doctor.drift import moments_of
from course_lib.doctor.history import made_equal_again
from course_lib.doctor.models import shared_models
from course_lib.doctor.notes import notes_of
from course_lib.doctor.outside import on_purpose
from course_lib.doctor.words import rank_list
from course_lib.ranks.outcome import Outcome


def silent_about(outcome: Outcome) -> str:
    """A clause behind `No fault found on ranks 0 and 1`, such as `, but no process group was seen`; often empty."""
    notes = notes_of(outcome)
    if len(notes) < 2:
        return ""
    found = on_purpose(outcome, notes)
    for model in shared_models(notes):
        moments = moments_of(model, notes, "parameters")
        last = moments[-1].difference if moments else None
        if last is not None and made_equal_again(moments):
            found.append(f"weights that are averaged now and then differ at the end ({last.name})")
    lacking = not_seen(outcome, notes)
    # A collective, or messages, without a DDP model: a way of one's own to distribute something.
    if "no collective" in lacking and not any(told["messages"] for told in notes.values()):
        found.insert(0, f"{lacking} {'was' if ' and ' not in lacking else 'were'} seen")
    return f", but {'; '.join(found)}" if found else ""


def not_looked_at(outcome: Outcome) -> list[str]:
    """What the probes could not look at, and why: one sentence each."""
    ranks: dict[tuple[str, str], list[int]] = {}
    for rank, told in notes_of(outcome).items():
        for what, why in told["unseen"].items():
            ranks.setdefault((what, why), []).append(rank)
    return [
        f"{what} were not looked at everywhere on {rank_list(who)}: {why}"
        for (what, why), who in ranks.items()
    ]
