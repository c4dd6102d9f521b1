"""One launch of the script, and all that was observed of it, as plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from course_lib.lessons.capstone.tasks import single_process as alone
from course_lib.lessons.capstone.tasks.cases import Case, Placed, blank_images, write_images
from course_lib.lessons.capstone.tasks.evidence import Seen
from course_lib.lessons.capstone.tasks.launch import launch
from course_lib.lessons.capstone.tasks.notes import (
    Checkpoint,
    Event,
    by_epoch,
    read_checkpoint,
    read_notes,
    unreadable,
)
from course_lib.lessons.process_groups.tasks.bare import without_group
from course_lib.tasks.launching import Ended

#: A way out where all else fails; a launch takes a second or two.
SECONDS = 40.0
_MAX_LATE = 2
#: The same, once the doctor has ended a launch: whatever nobody watches may hang in the same way.
_SECONDS_AFTER_A_HANG = 30.0


def observe_launch(script: str, case: Case) -> Seen:
    """Launch the script and collect notes, checkpoint, the doctor's sentence, and the distance to one process."""
    without_group()
    folder = Path.cwd() / case["launch"]
    out = folder / "out"
    out.mkdir(parents=True)
    data = folder / "digits.npz"
    write_images(case, data)
    arguments = [*case["options"], "--data", str(data), "--out", str(out)]
    placed: Placed = {
        **case,
        "arguments": arguments,
        "data": str(data),
        "checkpoint": str(out / "checkpoint.pt"),
    }
    # A script that does not come to an end costs its time twice, not in every launch.
    late, hung = folder.parents[1] / "late", folder.parents[1] / "hung"
    if late.exists() and len(late.read_bytes()) >= _MAX_LATE:
        ended = Ended(ok=False, late=True)
        (folder / "notes").mkdir()
    else:
        ended = launch(placed, script, folder, _SECONDS_AFTER_A_HANG if hung.exists() else SECONDS)
    if ended.late:
        with late.open("ab") as file:
            file.write(b"x")
    notes = read_notes(folder / "notes")
    attempts = {
        str(attempt): {str(rank): events for rank, events in ranks.items()}
        for attempt, ranks in notes.items()
    }
    doctor = _diagnosis(folder / "diagnosis.txt")
    if doctor and not ended.ok:
        hung.touch()
    return {
        "ok": ended.ok,
        "late": ended.late,
        "attempts": attempts,
        "doctor": doctor,
        "checkpoint": _checkpoint(case, out / "checkpoint.pt", data),
        "off": _off(case, folder, data, notes),
        "files": sorted(os.listdir(out)),
        "blank": blank_images(case),
    }


def _diagnosis(report: Path) -> str:
    """Return the doctor's first sentence, or '' where it found nothing."""
    if not report.is_file():
        return ""
    for line in report.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("Diagnosis: "):
            return line.removeprefix("Diagnosis: ")
    return ""


def _checkpoint(case: Case, path: Path, data: Path) -> Checkpoint:
    """Read the checkpoint, as far as it can be read."""
    import torch

    found = read_checkpoint(path)
    if "problem" not in found:
        try:
            state = torch.load(path, weights_only=True)[case["classifier"].lower()]
            found["right"] = alone.right_answers(state, alone.Images(data))
        except Exception as error:  # whatever a file may hold
            return {"problem": unreadable(error)}
    return found


def _off(
    case: Case, folder: Path, data: Path, notes: Mapping[int, Mapping[int, list[Event]]]
) -> float | None:
    """Return how far the last saved weights are from those of one process; None where there are none to compare."""
    import torch

    accumulate = case["accumulate"]
    try:
        start = torch.load(folder / "notes" / "start-0-0.pt", weights_only=True)
        passes = [alone.images_of(events) for _, events in sorted(notes[0].items())]
        last = max((folder / "notes").glob("saved-*-*-*.pt"), key=_order)
        if case["launch"] == "killed":
            # What was begun in the epoch of the kill is lost; the last attempt does it again.
            each = len(case["digits"]) // case["micro_batch"] // case["ranks"]
            again = notes[max(notes)]
            passes = [one[:each] + alone.images_of(again[rank]) for rank, one in enumerate(passes)]
        steps = alone.steps_of(passes, accumulate)
        if case["launch"] == "alone":
            epochs = [alone.images_of(epoch) for epoch in by_epoch(notes[0][0])]
            steps = [step for epoch in epochs for step in alone.steps_of([epoch], accumulate)]
        right = alone.trained(start, steps, alone.Images(data))
        saved = torch.load(last, weights_only=True)
        return max(alone.difference(saved[case[role].lower()], state) for role, state in right.items())
    except Exception:  # whatever the script has written, or not
        return None


def _order(path: Path) -> tuple[int, int, int]:
    _, rank, attempt, number = path.stem.split("-")
    return int(attempt), int(number), -int(rank)
