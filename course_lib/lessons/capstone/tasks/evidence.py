"""Evidence of a launch, as the checks ask for it: plain data in, plain answers out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from course_lib.lessons.capstone.tasks.cases import Case
from course_lib.lessons.capstone.tasks.notes import Checkpoint, Event, by_epoch
from course_lib.tasks.task import Trial

#: Weights that are so close to those of one process differ by rounding only.
SAME = 1e-4


class Seen(TypedDict):
    """The remains of a launch.

    Attributes:
        ok, late: whether it ended well, and whether it was killed because the time was up.
        attempts: by attempt (0: before the first restart) and rank, what happened.
        doctor: the doctor's sentence. checkpoint: the last one. files: the names of those that were written.
        off: how far the last weights are from those of one process; None where that cannot be said.
        blank: the numbers of the training images that are blank.
    """

    ok: bool
    late: bool
    attempts: dict[str, dict[str, list[Event]]]
    doctor: str
    checkpoint: Checkpoint
    off: float | None
    files: list[str]
    blank: list[int]


ThisTrial = Trial[Case, Seen, None]


class Evidence:
    """One launch of the script."""

    def __init__(self, trial: ThisTrial) -> None:
        self.case = trial.case
        self.world_size = trial.world_size
        self.seen = trial.seen[0]

    @property
    def ranks(self) -> range:
        """All ranks of the launch."""
        return range(self.world_size)

    @property
    def doctor(self) -> str:
        """The doctor's sentence, to be put behind an observation; empty where it found nothing."""
        return f". The doctor: {self.seen['doctor'].rstrip('.')}" if self.seen["doctor"] else ""

    @property
    def deadlock(self) -> bool:
        """Whether the doctor found a fault before the end; a last call by one rank alone is another fault."""
        return bool(self.seen["doctor"]) and not self.seen["doctor"].startswith("Only rank")

    @property
    def as_one_process(self) -> bool:
        """Whether the saved weights are those of one process, in which case the gradients were right."""
        return self.seen["off"] is not None and self.seen["off"] < SAME

    def events(self, rank: int, attempt: int = 0) -> Sequence[Event]:
        """Return the events of one process, in order."""
        return self.seen["attempts"].get(str(attempt), {}).get(str(rank), [])

    def found(self, attempt: int) -> Event:
        """Return the checkpoint that rank 0 found after a restart; empty if it found none."""
        return next((event for event in self.events(0, attempt) if event["what"] == "found"), {})

    def has(self, rank: int, what: str, attempt: int = 0) -> bool:
        """Return whether an event of this kind happened on that rank."""
        return any(event["what"] == what for event in self.events(rank, attempt))

    def micro_batches(self, rank: int, attempt: int = 0) -> list[list[list[int]]]:
        """Return, by epoch, the images of each micro-batch that the rank trained on; an evaluation ends an epoch."""
        epochs = [
            [event["images"] for event in epoch if event["images"] and min(event["images"]) >= 0]
            for epoch in by_epoch(self.events(rank, attempt))
        ]
        found = [epoch for epoch in epochs if epoch]
        if len(found) == 1 < self.case["epochs"] and self.finished(rank):
            # A rank that does not evaluate: as many in each epoch.
            each = len(found[0]) // self.case["epochs"]
            return [found[0][i : i + each] for i in range(0, len(found[0]), each)] if each else found
        return found

    def shares(self, rank: int) -> list[list[int]]:
        """Return, by epoch, all images that the rank trained on, in order."""
        return [[image for micro in epoch for image in micro] for epoch in self.micro_batches(rank)]

    def evaluations(self, rank: int) -> list[list[float]]:
        """Return the running statistics with which the rank began each evaluation."""
        found = []
        before = True
        for event in self.events(rank):
            if event.get("model") == "Classifier":
                if not event["learns"] and before:
                    found.append(event["buffers"])
                before = event["learns"]
        return found

    def groups(self, rank: int) -> Iterator[tuple[int, list[Event], Event]]:
        """Yield each step of the optimizer: its number from 1, the events that led to it, and the step itself."""
        since: list[Event] = []
        number = 0
        for event in self.events(rank):
            if event["what"] == "step":
                number += 1
                yield number, since, event
                since = []
            else:
                since.append(event)

    def finished(self, rank: int) -> bool:
        """Return whether the script reached its last line on that rank."""
        return self.has(rank, "finished")

    def trained(self, rank: int) -> bool:
        """Return whether the rank has left its training: it evaluates, or has finished."""
        return bool(self.evaluations(rank)) or self.finished(rank)

    def collectives(self, rank: int) -> list[str]:
        """Return the collectives that the script itself called, without DDP's own."""
        return [event["name"] for event in self.events(rank) if event["what"] == "collective"]

    def backwards(self, rank: int) -> list[int]:
        """Return, for each step of the optimizer, the number of backwards since the last zeroing."""
        found = []
        for _, events, _ in self.groups(rank):
            whats = [event["what"] for event in events]
            after = len(whats) - whats[::-1].index("zero") if "zero" in whats else 0
            found.append(whats[after:].count("backward"))
        return found

    def end(self) -> str:
        """Describe how the launch ended, for a check that was not reached."""
        for attempt in ("2", "1", "0"):
            for rank, events in self.seen["attempts"].get(attempt, {}).items():
                for event in events:
                    if event["what"] == "raised" and "closed by peer" not in event["message"]:
                        return f"rank {rank} had raised {event['type']} in line {event['line']}"
        if self.seen["late"] and not self.seen["attempts"]:
            return "launches before this one did not come to an end, so it was not made"
        if self.seen["late"]:
            return "the ranks had not come to an end and were stopped"
        return "the run had ended before" + self.doctor


def other_start(seen: Evidence) -> str | None:
    """Describe the first rank that takes its first step from other weights than rank 0."""
    first = [next((step["weights"] for _, _, step in seen.groups(rank)), None) for rank in seen.ranks]
    for rank, theirs in enumerate(first):
        if (
            first[0]
            and theirs
            and any(abs(a - b) > 1e-6 * (1 + abs(a)) for a, b in zip(first[0], theirs, strict=True))
        ):
            return f"rank {rank} took its first step from other weights than rank 0"
    return None


def other_statistics(seen: Evidence) -> str | None:
    """Describe the first evaluation that ranks begin with different running statistics."""
    found = [seen.evaluations(rank) for rank in seen.ranks]
    for epoch, first in enumerate(found[0], start=1):
        for rank in seen.ranks[1:]:
            theirs = found[rank][epoch - 1 : epoch]
            if theirs and any(
                abs(a - b) > 1e-5 * (1 + abs(a)) for a, b in zip(first, theirs[0], strict=False)
            ):
                return f"after epoch {epoch}, rank {rank} evaluated with other running statistics than rank 0"
    return None
