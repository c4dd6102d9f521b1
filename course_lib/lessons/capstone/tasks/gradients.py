"""Mistakes between a loss and a step of the optimizer, read from the notes of a launch."""

from __future__ import annotations

from course_lib.lessons.capstone.tasks.evidence import Evidence
from course_lib.lessons.capstone.tasks.notes import Event


def first_two_backwards(seen: Evidence) -> str | None:
    """Find two training passes of the Classifier whose losses go into two backwards after them."""
    for rank in seen.ranks:
        for number, events, _ in seen.groups(rank):
            if not any(event["what"] == "loss" for event in events):
                continue
            passes = losses = 0
            for event in [*events, {"what": "backward"}]:
                if _learns(event, "Classifier"):
                    passes, losses = (passes + 1, 0) if not losses else (1, 0)
                elif event["what"] == "loss":
                    losses += 1
                elif event["what"] == "backward" and 0 < losses < passes:
                    return (
                        f"on the way to step {number}, rank {rank} passed {passes} times through the "
                        f"{seen.case['classifier']}, and its next backward brought the gradients of {losses}; another "
                        "backward followed"
                    )
    return None


def first_bypass(seen: Evidence) -> str | None:
    """Find a step before which the Completer's gradients differ, because its wrapper was not called."""
    wrapped = [
        event["wrapped"] for rank in seen.ranks for event in seen.events(rank) if _learns(event, "Completer")
    ]
    if wrapped and all(wrapped):
        return None
    marks = [[step["gradients"]["Completer"] for _, _, step in seen.groups(rank)] for rank in seen.ranks]
    for number, found in enumerate(zip(*marks, strict=False), start=1):
        for rank, theirs in enumerate(found):
            if any(abs(a - b) > 1e-4 * (abs(a) + abs(b)) for a, b in zip(found[0], theirs, strict=True)):
                return f"at step {number}, rank {rank} had other gradients for the {seen.case['completer']} than rank 0"
    return None


def first_loss(seen: Evidence) -> str | None:
    """Find gradients that are zeroed after a backward and before the step."""
    for rank in seen.ranks:
        for number, events, _ in seen.groups(rank):
            backwards = 0
            for event in events:
                backwards += event["what"] == "backward"
                if event["what"] == "zero" and backwards:
                    return f"on the way to step {number}, rank {rank} zeroed gradients after a backward"
    return None


def first_unsynced(seen: Evidence) -> str | None:
    """Find a step whose last training pass of the Classifier does not synchronise."""
    for rank in seen.ranks:
        for number, events, _ in seen.groups(rank):
            passes = [event for event in events if _learns(event, "Classifier") and "synced" in event]
            if passes and not passes[-1]["synced"]:
                model = seen.case["classifier"]
                return f"before step {number}, rank {rank} made its last pass through the {model} under no_sync()"
    return None


def first_weight(seen: Evidence) -> str | None:
    """Find a step whose losses do not enter backward with the weight of a mean."""
    wanted = 1 / seen.case["accumulate"]
    for rank in seen.ranks:
        for number, events, _ in seen.groups(rank):
            scales = [event["scale"] for event in events if event["what"] == "loss"]
            if scales and abs(sum(scales) / len(scales) - wanted) > 1e-3:
                return (
                    f"on the way to step {number}, the losses of rank {rank} went into backward with weight "
                    f"{sum(scales) / len(scales):.3g}; with {seen.case['accumulate']} micro-batches it is {wanted:.3g}"
                )
    return None


def first_left_over(seen: Evidence) -> str:
    """Find a step with micro-batches of the epoch before it; return the end of a sentence, or ''."""
    wanted = seen.case["accumulate"]
    for rank in seen.ranks:
        for number, count in enumerate(seen.backwards(rank), start=1):
            if wanted < count < 2 * wanted:
                return (
                    f"; step {number} of rank {rank} was made of {count} micro-batches, not of {wanted}: what is left "
                    "over at the end of an epoch takes part in the next"
                )
    return ""


def first_mixed_pass(seen: Evidence) -> str:
    """Find a pass that mixes original and shifted images; return the end of a sentence, or ''."""
    for rank in seen.ranks:
        for event in seen.events(rank):
            if _learns(event, "Classifier") and len({image >= 0 for image in event["images"]}) == 2:
                model = seen.case["classifier"]
                return f"; rank {rank} put images and moved ones through the {model} in one pass: two are promised"
    return ""


def _learns(event: Event, model: str) -> bool:
    return event["what"] == "pass" and event["model"] == model and bool(event["learns"])
