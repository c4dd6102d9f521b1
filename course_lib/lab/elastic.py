"""Lesson 12: what the ranks of its jobs have noted, and what its predictions ask of that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.outcome.outcome import Outcome


def log_of(folder: str) -> list[dict[str, Any]]:
    """What the ranks have noted, in the order of time."""
    return [json.loads(line) for line in Path(folder, "log").read_text().splitlines()]


def events(folder: str, kind: str, rank: int | None = 0) -> list[dict[str, Any]]:
    """The notes of one kind that one rank has made; of all ranks with rank=None."""
    return [note for note in log_of(folder) if note["event"] == kind and rank in (None, note["rank"])]


def processes(folder: str, machine: int) -> int:
    """How many worker processes this machine has had."""
    return len({note["pid"] for note in events(folder, "begin", rank=None) if note["machine"] == machine})


def second_life(folder: str) -> list[str]:
    """The errors of rank 0 in its second life."""
    return [note["text"] for note in events(folder, "error") if note["life"]]


def had_processes(folder: str, machine: int, count: int) -> Callable[[Outcome], bool]:
    """This machine has had so many worker processes."""
    return lambda _: processes(folder, machine) == count


def found_address(folder: str, *, of_the_dead: bool) -> Callable[[Outcome], bool]:
    """In its second life rank 0 found an address at rank 1's name: that of the old process, or that of the new one."""
    return lambda outcome: not found_nothing(folder)(outcome) and bool(second_life(folder)) is of_the_dead


def found_nothing(folder: str) -> Callable[[Outcome], bool]:
    """In its second life rank 0 found no address."""
    return lambda _: events(folder, "look")[0]["addresses"] == 0


def went_on_at(folder: str, step: int) -> Callable[[Outcome], bool]:
    """After the first change of its workers the job went on with this step."""
    return lambda _: bool(events(folder, "ready")[1]["step"] == step)


def did_all(outcome: Outcome) -> bool:
    """Rank 0 did each of the twelve steps once."""
    return bool(outcome.values[0]["done"] == list(range(12)))


def left_out_step_5(outcome: Outcome) -> bool:
    """Rank 0 did not do the step in which rank 2 died."""
    return 5 not in outcome.values[0]["done"]


def started_again(outcome: Outcome) -> bool:
    """Rank 0 did the first step twice."""
    return bool(outcome.values[0]["done"].count(0) > 1)
