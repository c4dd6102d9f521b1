"""Notes of a process that runs the learner's script: one line of JSON per event, as it happens.

A process may be killed at any moment, so nothing is kept back. Used in the processes of the script.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

#: `what` happened, and facts that belong to this kind of event.
Event = dict[str, Any]


class Checkpoint(TypedDict, total=False):
    """The contents of a file, or the problem with it; `right`: how many test images its Classifier reads right."""

    problem: str
    epoch: int
    history: list[float]
    right: int


class Notes:
    """The notes of one process: `folder/RANK-ATTEMPT.jsonl`."""

    def __init__(self, folder: Path, rank: int, attempt: int) -> None:
        self.folder, self.rank, self.attempt = folder, rank, attempt
        path = folder / f"{rank}-{attempt}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def put(self, what: str, **facts: object) -> None:
        """Note an event."""
        os.write(self._file, (json.dumps({"what": what, **facts}) + "\n").encode())


def read_notes(folder: Path) -> dict[int, dict[int, list[Event]]]:
    """Return all events, by attempt (0: before the first restart) and rank."""
    found: dict[int, dict[int, list[Event]]] = {}
    for path in sorted(folder.glob("*-*.jsonl")):
        rank, attempt = map(int, path.stem.split("-"))
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        events: list[Event] = []
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:
                continue  # cut off by a kill
        found.setdefault(attempt, {})[rank] = events
    return found


def by_epoch(events: Iterable[Event]) -> list[list[Event]]:
    """Return a process's training passes of the Classifier by epoch; an evaluation ends one."""
    epochs: list[list[Event]] = [[]]
    evaluates = False
    for event in events:
        if event.get("model") != "Classifier":
            continue
        if event["learns"]:
            if evaluates:
                epochs.append([])
            epochs[-1].append(event)
        evaluates = not event["learns"]
    return epochs


def read_checkpoint(path: Path) -> Checkpoint:
    """Read `epoch` and `history` from the file, or the `problem` with it."""
    import torch

    if not path.is_file():
        return {"problem": "there is none"}
    try:
        state = torch.load(path, weights_only=True)
        return {
            "epoch": int(state["epoch"]),
            "history": [float(one["accuracy"]) for one in state["history"]],
        }
    except Exception as error:  # whatever a file may hold
        return {"problem": unreadable(error)}


def unreadable(error: Exception) -> str:
    """Describe why a file is not a checkpoint."""
    return f"it cannot be read ({type(error).__name__})"
