"""Task 3: asked to leave, all save and leave after the same step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypedDict

from course_lib.lessons.elastic.tasks import leaving
from course_lib.lessons.elastic.tasks.leaving import PLACES, Answer, Case, Note, Signal
from course_lib.lessons.process_groups.tasks.bare import without_group
from course_lib.tasks.launching import launch
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check
from course_lib.tasks.weights import ROUNDING, close
from realranks.outcome.fold import rank_list

#: Seconds until a launch is given up; it takes less than one.
_SECONDS = 15.0
#: A signal comes before each of so many lines of the answer after a step.
_LINES = 6
#: The exit code of a rank whose agent has to start it again.
_TRY_AGAIN = 75


class Seen(TypedDict):
    """The remains of a launch.

    Attributes:
        late: whether it was killed because the time was up.
        notes: by rank, what its worker noted. checkpoints: by rank, the `step` and the `state` that it saved last.
    """

    late: bool
    notes: list[list[Note]]
    checkpoints: list[dict[str, Any]]


class Oracle(TypedDict):
    """Before each step and at the end: weights and momentum of one process that nobody asks to leave."""

    right: list[list[float]]


ThisTrial = Trial[Case, Seen, Oracle]


class Preempted(Task[Case, Seen, Oracle]):
    """Asked to leave, all save and leave after the same step."""

    name = "elastic.preempted"
    world_sizes = (1,)
    seconds = 30.0
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield jobs in which no rank, one rank or all are asked to leave, in a step or between two."""

        def case(workers: int, *asked: tuple[int, str | int], last: bool = False, gap: int = 0) -> Case:
            first, length = chance.randint(0, 3), chance.randint(7, 9)
            step = first + (length - 1 if last else chance.randint(1, length - 4))
            signals: list[Signal] = [
                {"rank": rank, "step": step + number * gap, "place": place}
                for number, (rank, place) in enumerate(asked)
            ]
            return {
                "seed": chance.randrange(10_000),
                "workers": workers,
                "first": first,
                "steps": first + length,
                "signals": signals,
            }

        yield case(2)
        yield case(3, (0, chance.choice(PLACES)))
        yield case(3, (chance.randint(1, 2), "middle"))
        for line in range(1, _LINES + 1):
            yield case(2, (chance.randrange(2), line))
        yield case(2, (1, chance.choice(PLACES)), last=True)
        order = chance.sample(range(3), 3)
        yield case(3, *((rank, chance.choice(PLACES)) for rank in order), gap=chance.randrange(2))

    def describe(self, case: Case) -> str:
        asked = ", ".join(f"rank {one['rank']} {_where(one)}" for one in case["signals"])
        steps = f"first={case['first']}, steps={case['steps']}"
        return f"{steps} on {case['workers']} ranks, " + (
            f"SIGTERM for {asked}" if asked else "without a SIGTERM"
        )

    def trial(self, answer: Answer, case: Case) -> Seen:
        without_group()
        ranks = case["workers"]
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
            ended = launch(
                leaving.work, answer, dict(case), folder, ranks=ranks, folder=Path(folder), seconds=_SECONDS
            )
            notes = [leaving.read_notes(folder, rank) for rank in range(ranks)]
            checkpoints = [leaving.read_checkpoint(folder, rank) for rank in range(ranks)]
        if any(note["event"] == "stub" for one in notes for note in one):
            answer(lambda _: None, lambda _: None, 0, 1)  # says so here, where it is heard
        return {"late": ended.late, "notes": notes, "checkpoints": checkpoints}

    def oracle(self, case: Case, world_size: int) -> Oracle:
        return {"right": leaving.states(case["seed"], case["steps"])}

    @check("On every rank it returns.", gate=True)
    def returns(self, trial: ThisTrial) -> Miss | None:
        for rank, notes in _by_rank(trial):
            if _got_signal(notes) and _last(notes) in (None, "exit"):
                how = "left" if _last(notes) else "ended"
                return Miss(
                    f"{self._with(trial)}, rank {rank} got the signal and {how} there, without returning"
                )
        for rank, notes in _by_rank(trial):
            before = [other for other, one in _by_rank(trial) if _last(one) == "return"]
            returned = f"; {rank_list(before)} had returned" * bool(before)
            if _last(notes) == "raise":
                done = notes[-1]["done"]
                return Miss(
                    f"{self._with(trial)}, rank {rank} raised with {done} steps done: {notes[-1]['text']}{returned}"
                )
            if _last(notes) == "exit":
                return Miss(f"{self._with(trial)}, rank {rank} left with exit code {notes[-1]['code']}")
        missing = [rank for rank, notes in _by_rank(trial) if _last(notes) != "return"]
        if missing:
            how = (
                f"had not returned after {_SECONDS:g} s" if trial.seen[0]["late"] else "ended without a word"
            )
            return Miss(f"{self._with(trial)}, {rank_list(missing)} {how}")
        return None

    @check("It calls train_step once for each step, beginning with `first`.")
    def in_order(self, trial: ThisTrial) -> Miss | None:
        for rank, notes in _by_rank(trial):
            called = [note["step"] for note in notes if note["event"] == "step"]
            if called != list(range(trial.case["first"], trial.case["first"] + len(called))):
                return Miss(f"{self._with(trial)}, rank {rank} called it with {str(called)[:80]}")
        return None

    @check("As long as nobody gets a SIGTERM, it goes on.")
    def stays(self, trial: ThisTrial) -> Miss | None:
        wanted = trial.case["steps"] if (asked := _due(trial)) is None else asked
        for rank, notes in _by_rank(trial):
            if (done := notes[-1]["done"]) < wanted:
                return Miss(f"{self._with(trial)}, rank {rank} returned when {done} steps were done")
        return None

    @check("When any rank has got a SIGTERM, all leave after that step or the next one.")
    def leaves(self, trial: ThisTrial) -> Miss | None:
        if (asked := _due(trial)) is None:
            return None
        for rank, notes in _by_rank(trial):
            if (done := notes[-1]["done"]) > asked + 1:
                return Miss(
                    f"{self._with(trial)}, step {asked - 1} was over when the signal had come, and rank {rank} went "
                    f"on to step {done - 1}"
                )
        return None

    @check("Every rank saves once, when its last step is over.")
    def saves(self, trial: ThisTrial) -> Miss | None:
        for rank, notes in _by_rank(trial):
            saved = [note for note in notes if note["event"] == "save"]
            if any(note["inside"] for note in saved):
                return Miss(f"{self._with(trial)}, rank {rank} called save in the middle of a step")
            if len(saved) != 1:
                return Miss(f"{self._with(trial)}, rank {rank} called save {len(saved)} times")
            if saved[0]["done"] != notes[-1]["done"]:
                return Miss(f"{self._with(trial)}, rank {rank} did steps after it had saved")
        return None

    @check("What it has saved is what one process has after so many steps.")
    def nothing_lost(self, trial: ThisTrial) -> Miss | None:
        right = trial.oracle["right"]
        for rank, saved in enumerate(trial.seen[0]["checkpoints"]):
            step = saved.get("step")
            if saved and not (
                isinstance(step, int) and 0 <= step < len(right) and close(saved["state"], right[step])
            ):
                return Miss(
                    f"{self._with(trial)}, rank {rank} saved as step {step!r} the weights of another moment"
                )
        return None

    @check(
        "It returns the exit code that its agent understands: 75 on a rank that nobody has asked, if steps are missing."
    )
    def tells(self, trial: ThisTrial) -> Miss | None:
        for rank, notes in _by_rank(trial):
            if notes[-1].get("value") not in (right := _codes(notes, trial.case["steps"])):
                returned, asked = notes[-1].get("value"), "was" if _got_signal(notes) else "was not"
                return Miss(
                    f"{self._with(trial)}, rank {rank} returned {returned!r} after {notes[-1]['done']} steps; it "
                    f"{asked} asked itself, so its exit code is {right[0]}"
                )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        asked = [trial for trial in trials if trial.case["signals"]]
        found = {name for trial in asked for name in _mistakes(trial)}
        asked = [trial for trial in asked if (_due(trial) or 0) + 1 < trial.case["steps"]]  # not in the end
        by_rank_0 = [trial for trial in asked if {one["rank"] for one in trial.case["signals"]} == {0}]
        others = [trial for trial in asked if all(one["rank"] for one in trial.case["signals"])]
        ignored = {"exits_at_once", "goes_on"}
        heeds_rank_0 = by_rank_0 and not any(ignored & {*_mistakes(trial)} for trial in by_rank_0)
        if heeds_rank_0 and others and all(ignored & {*_mistakes(trial)} for trial in others):
            found = {*(found - ignored), "only_rank_0_listens"}
        return tuple(self.by_severity(found)) or None

    def _with(self, trial: ThisTrial) -> str:
        return f"with {self.describe(trial.case)}"


def _where(one: Signal) -> str:
    if isinstance(one["place"], int):
        return f"after step {one['step']}"
    return {"begin": "at the begin of", "middle": "in the middle of", "end": "at the end of"}[
        one["place"]
    ] + f" step {one['step']}"


def _by_rank(trial: ThisTrial) -> list[tuple[int, list[Note]]]:
    return list(enumerate(trial.seen[0]["notes"]))


def _last(notes: Sequence[Note]) -> str | None:
    """Return how a worker ended; None if it could not note it."""
    last = notes[-1]["event"] if notes else None
    return last if last in ("return", "raise", "exit") else None


def _got_signal(notes: Sequence[Note]) -> bool:
    return any(note["event"] == "signal" for note in notes)


def _codes(notes: Sequence[Note], steps: int) -> tuple[int, ...]:
    """Return the exit codes that a rank may return; both, if its own signal came after the last step."""
    if notes[-1]["done"] >= steps:
        return (0,)
    last = max((number for number, note in enumerate(notes) if note["event"] == "step"), default=0)
    early = any(note["event"] == "signal" for note in notes[:last])
    return (0,) if early else (0, _TRY_AGAIN) if _got_signal(notes) else (_TRY_AGAIN,)


def _due(trial: ThisTrial) -> int | None:
    """Count the steps done when the one in which the first signal came is over; None without a signal."""
    came = [
        note["done"] + note["inside"]
        for _, notes in _by_rank(trial)
        for note in notes
        if note["event"] == "signal"
    ]
    return min(came, default=None)


def _mistakes(trial: ThisTrial) -> Iterator[str]:
    """Yield misconceptions that explain one trial in which a rank was asked to leave."""
    if (asked := _due(trial)) is None:
        return
    notes = [notes for _, notes in _by_rank(trial)]
    saved = [[note for note in one if note["event"] == "save"] for one in notes]
    if any(note["inside"] for one in saved for note in one):
        yield "saves_in_handler"
    if any(_got_signal(one) and _last(one) in (None, "exit") for one in notes):
        yield "exits_at_once"
        return
    returned = [one[-1]["done"] for one in notes if _last(one) == "return"]
    if len(returned) < len(notes) or len(set(returned)) > 1:
        if any(_last(one) == "return" and _got_signal(one) for one in notes):
            yield "decides_alone"
        return
    if any(one[-1].get("value") == 0 not in _codes(one, trial.case["steps"]) for one in notes):
        yield "taken_for_done"
    if returned[0] > asked + 1:
        yield "goes_on"
    elif not any(saved):
        yield "not_saved"
    elif not all(saved):
        yield "one_saves"
