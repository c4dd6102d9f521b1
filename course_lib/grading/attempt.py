"""Run an answer on real ranks: a fresh gang for each world size, one job a trial, and what came back as data.

One job a trial keeps trials apart: a rank that is still in a collective of one trial can never meet a peer in the
next, and a deadlock is proved against ranks that have left exactly this call.
"""

from __future__ import annotations

import enum
import json
import os
import pickletools
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle

from course_lib.doctor import explained
from course_lib.grading import harness
from course_lib.grading.watch import OverLimitError, Watch
from course_lib.ranks.fold import fold, table
from course_lib.ranks.gang import Gang, GangError, LaunchError
from course_lib.ranks.outcome import Kind, Outcome
from course_lib.tasks.task import Task, Trial

_PRINTED = 2000
#: All calls of an answer together may take this many times as long as one.
CALLS_IN_ALL = 6


class End(enum.Enum):
    """How running an answer ended."""

    COMPLETE = enum.auto()
    STUB = enum.auto()  # nothing has been written yet
    UNFINISHED = enum.auto()  # a stub on some ranks or for some arguments
    MISSING = enum.auto()  # no function of that name
    BROKE = enum.auto()  # raised, died or hung: see the outcome
    LOST = enum.auto()  # a rank ended between two calls
    OVER_LIMIT = enum.auto()
    UNREADABLE = enum.auto()  # what the ranks sent is no observation


@dataclass(frozen=True)
class Attempt:
    """What running an answer gave.

    Attributes:
        trials: those that went through, oracle included. printed: what the answer printed in each of them.
        end: why it ended; `outcome`, `reason`, `world_size` and `case` say more where it ended before its time (case
            is None while the answer was being loaded).
    """

    trials: tuple[Trial, ...]
    printed: tuple[str, ...]
    end: End
    outcome: Outcome | None = None
    reason: str = ""
    world_size: int = 0
    case: Mapping[str, Any] | None = None
    last_words: str = ""


class _Ended(Exception):
    def __init__(self, end: End, reason: str = "", outcome: Outcome | None = None) -> None:
        super().__init__(reason)
        self.end, self.reason, self.outcome = end, reason, outcome


def attempt(task: Task, source: str, first_line: int, seed: int, folder: str) -> Attempt:
    """Run the answer on all world sizes of the task, or until it raises, dies, hangs or shows to be a stub.

    Raises:
        GangError, LaunchError: the ranks could not be started. KeyboardInterrupt: the stop button was pressed.
    """
    clock = _Clock(task.seconds, task.seconds * CALLS_IN_ALL)
    trials: list[Trial] = []
    printed: list[str] = []
    case: dict[str, Any] | None = None
    world_size = 0
    try:
        for world_size in task.world_sizes:
            case = None
            place = os.path.join(folder, f"{world_size}")
            os.makedirs(place)
            # Nothing is protected by this; it keeps accidents away from the learner's own files.
            gang = _started(world_size, task.backend, environment={"DDP_COURSE_HOME": place, "HOME": place})
            try:
                ranks = _Ranks(gang, Watch(gang, folder), clock)
                ranks.ask(harness.load, source, first_line, place)
                for case in task.cases(world_size, random.Random(f"{seed}/{world_size}")):
                    replies, text = ranks.ask(harness.run_trial, task.name, json.dumps(case))
                    trials.append(Trial(world_size, case, None, _observations(replies, first=not trials)))
                    printed.append(text)
            finally:
                gang.stop(gently=False)
                gang.reap()
    except _Ended as ended:
        words = _printed(ended.outcome) if ended.outcome is not None else ""
        return Attempt(
            _with_oracle(task, trials),
            tuple(printed),
            ended.end,
            ended.outcome,
            ended.reason,
            world_size,
            case,
            words,
        )
    return Attempt(_with_oracle(task, trials), tuple(printed), End.COMPLETE)


def _started(world_size: int, backend: str, **options: Any) -> Gang:
    """A gang that is ready. Tried twice: an answer may have killed the process that starts ranks."""
    for last in (False, True):
        gang = None
        try:
            gang = Gang(world_size, backend=backend, **options)
            gang.wait_ready()
            return gang
        except (GangError, LaunchError):
            if last:
                raise
        except BaseException:
            if gang is not None:
                gang.stop(gently=False)
            raise
    raise AssertionError("unreachable")


@dataclass
class _Clock:
    """The answer's time: only what it uses itself counts, not the starting of ranks."""

    a_call: float
    in_all: float
    used: float = 0.0

    def limit(self) -> tuple[float, str]:
        """Seconds for the next call, and how this limit is called."""
        left = self.in_all - self.used
        if left < self.a_call:
            return max(0.2, left), f"{self.in_all:g} s in all"
        return self.a_call, f"{self.a_call:g} s"


class _Ranks:
    """The gang of one world size, and the questions it is asked."""

    def __init__(self, gang: Gang, watch: Watch, clock: _Clock) -> None:
        self.gang = gang
        self.watch = watch
        self.clock = clock
        watch.look()

    def ask(self, function: Callable[..., str], *arguments: Any) -> tuple[dict[int, Any], str]:
        """Run a function of the harness on all ranks: their replies, and what was printed meanwhile."""
        payload = cloudpickle.dumps((function, arguments, []))
        limit, called = self.clock.limit()
        started = time.monotonic()
        try:
            outcome = self.gang.call(
                payload,
                timeout=limit,
                repair=False,
                on_progress=lambda _: self.watch.look(),
            )
        except GangError:
            raise _Ended(End.LOST) from None
        except OverLimitError as error:
            raise _Ended(End.OVER_LIMIT, str(error)) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # The wire is JSON, but what stands in it comes from the answer's process.
            raise _Ended(End.UNREADABLE, f"{type(error).__name__} while reading") from error
        finally:
            self.clock.used += time.monotonic() - started
        if outcome.interrupted:
            raise KeyboardInterrupt
        if outcome.kind is not Kind.OK:
            raise _Ended(End.BROKE, called, explained(outcome))
        try:
            raw = outcome.raw_values
            return {rank: json.loads(_text(raw[rank])) for rank in range(outcome.world_size)}, _printed(
                outcome
            )
        except (ValueError, KeyError, RecursionError) as error:
            raise _Ended(End.UNREADABLE, f"{type(error).__name__} while reading") from error


def _text(blob: bytes) -> str:
    """The string in a pickle of a string, read without running it as pickle.loads would."""
    opcodes = [(code.name, argument) for code, argument, _ in pickletools.genops(blob)]
    strings = [argument for name, argument in opcodes if name.endswith("UNICODE") or name == "BINUNICODE8"]
    allowed = {"PROTO", "FRAME", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "MEMOIZE", "STOP"}
    if len(strings) != 1 or not {name for name, _ in opcodes} <= allowed:
        raise ValueError("not a pickled string")
    return str(strings[0])


def _observations(replies: Mapping[int, Any], first: bool) -> dict[int, Any]:
    """What was seen on each rank; raises _Ended where there is nothing to see."""
    if not all(isinstance(reply, dict) for reply in replies.values()):
        raise _Ended(End.UNREADABLE, "no observation")
    stubs = [rank for rank, reply in replies.items() if reply.get("stub")]
    if any(reply.get("missing") for reply in replies.values()):
        raise _Ended(End.STUB if stubs else End.MISSING)
    if stubs and first and len(stubs) == len(replies):
        raise _Ended(End.STUB)
    if stubs:
        raise _Ended(End.UNFINISHED, str(min(stubs)))
    if not all("seen" in reply for reply in replies.values()):
        raise _Ended(End.UNREADABLE, "no observation")
    return {rank: reply["seen"] for rank, reply in replies.items()}


def _printed(outcome: Outcome) -> str:
    texts = {rank: text.rstrip("\n") for rank, text in outcome.stdout.items() if text.strip()}
    short = {rank: text if len(text) <= _PRINTED else text[:_PRINTED] + "\n…" for rank, text in texts.items()}
    return table(fold(short)) if short else ""


def _with_oracle(task: Task, trials: list[Trial]) -> tuple[Trial, ...]:
    """The trials with what is right, computed by one process in which no answer has run."""
    if not trials or type(task).oracle is Task.oracle:
        return tuple(trials)
    questions = json.dumps([[trial.world_size, trial.case] for trial in trials])
    gang = _started(1, "gloo", init=False)
    try:
        outcome = gang.call(cloudpickle.dumps((harness.run_oracle, (task.name, questions), [])), timeout=60.0)
    finally:
        gang.stop(gently=False)
        gang.reap()
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.kind is not Kind.OK:
        raise RuntimeError(f"The oracle of {task.name} failed:\n{outcome!r}")
    answers = json.loads(_text(outcome.raw_values[0]))
    return tuple(
        Trial(trial.world_size, trial.case, oracle, trial.seen)
        for trial, oracle in zip(trials, answers, strict=True)
    )
