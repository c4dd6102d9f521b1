"""Run an answer on real ranks: a fresh gang for each world size, one job a trial, and what came back as data.

One job a trial keeps trials apart: a rank that is still in a collective of one trial can never meet a peer in the
next, and a deadlock is proved against ranks that have left exactly this call.
"""

from __future__ import annotations

import enum
import json
import pickletools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from course_lib.grading import harness
from course_lib.grading.gangs import Gangs
from course_lib.grading.process_limits import OverLimitError, ProcessLimits
from course_lib.tasks.task import Task, Trial
from realranks.doctor import with_diagnosis
from realranks.outcome.fold import fold, table
from realranks.outcome.outcome import Kind, Outcome
from realranks.ranks.kernel.gang import Gang, GangError

#: Receives what is counted ("trials are done"), how many are, and of how many.
Tell = Callable[[str, int, int], None]
_PRINTED = 2000
#: All calls of an answer together may take this many times as long as one.
CALLS_IN_ALL = 6
#: A case in which rounding decides is drawn again, so often at most; few tasks ever need it, and those once or twice.
_DRAWS = 20
#: Questions for the oracle that go to a rank at once: answers that are too large are not sent back.
_QUESTIONS = 20


class End(enum.Enum):
    """The ways in which running an answer ends."""

    COMPLETE = enum.auto()
    STUB = enum.auto()  # nothing has been written yet
    UNFINISHED = enum.auto()  # a stub on some ranks or for some arguments
    MISSING = enum.auto()  # no function of that name
    BROKE = enum.auto()  # raised, died or hung: see the outcome
    LOST = enum.auto()  # a rank ended between two calls
    OVER_LIMIT = enum.auto()
    UNREADABLE = enum.auto()  # what the ranks sent is not an observation
    FORGED = enum.auto()  # a rank answered twice: the answer has spoken in its name


@dataclass(frozen=True)
class Attempt:
    """The result of running an answer.

    Attributes:
        trials: those that went through, oracle included. printed: what the answer printed in each of them.
        end: why it ended; `outcome`, `reason`, `world_size` and `case` say more where it ended before its time (case
            is None while the answer was being loaded).
        like: the misconceptions of the known answers that do the same (see `likeness`), where they were asked.
    """

    trials: tuple[Trial, ...]
    printed: tuple[str, ...]
    end: End
    outcome: Outcome | None = None
    reason: str = ""
    world_size: int = 0
    case: Mapping[str, object] | None = None
    last_words: str = ""
    like: tuple[str, ...] = ()


class EndedError(Exception):
    """The attempt is over before all trials have gone through: how, and why."""

    def __init__(self, end: End, reason: str = "", outcome: Outcome | None = None) -> None:
        super().__init__(reason)
        self.end, self.reason, self.outcome = end, reason, outcome


def attempt(
    task: Task, source: str, first_line: int, seeds: Sequence[int], folder: str, tell: Tell | None = None
) -> Attempt:
    """Run the answer on all world sizes of the task, or until it raises, dies, hangs or shows to be a stub.

    Cases are drawn from each of the seeds, and all tried in the same ranks. `tell` is called after each trial.

    Raises:
        GangError, LaunchError: the ranks could not be started. KeyboardInterrupt: the stop button was pressed.
    """
    clock = Clock(task.seconds, task.seconds * CALLS_IN_ALL * len(seeds))
    plan: dict[int, list[_Question]] = {}
    trials: list[Trial] = []
    printed: list[str] = []
    case: Mapping[str, object] | None = None
    world_size = 0
    with Gangs(task.world_sizes, task.backend, folder, launchers=bool(task.script)) as gangs:
        try:
            for size, gang, place in gangs.each():
                world_size, case = size, None
                plan = plan or _plan(task, seeds, gang)
                in_all = sum(map(len, plan.values()))
                ranks = AskedRanks(gang, ProcessLimits(gang, folder), clock)
                if task.script:
                    ranks.ask(harness.keep_script, source, first_line, place, task.name)
                else:
                    ranks.ask(harness.load, source, first_line, place)
                for question in plan[world_size]:
                    case = question.case
                    replies, text = ranks.ask(harness.run_trial, task.name, json.dumps(case))
                    seen, wrong_kinds = _observations(replies, first=not trials)
                    trials.append(Trial(world_size, case, question.oracle, seen, wrong_kinds))
                    printed.append(text)
                    if tell is not None:
                        tell("trials are done", len(trials), in_all)
                ranks.ask(harness.sign_off)
        except EndedError as ended:
            words = _printed(ended.outcome) if ended.outcome is not None else ""
            how = (ended.end, ended.outcome, ended.reason, world_size, case, words)
            return Attempt(tuple(trials), tuple(printed), *how)
    return Attempt(tuple(trials), tuple(printed), End.COMPLETE)


@dataclass(frozen=True)
class _Question:
    """A case, and what the oracle says of it."""

    case: Mapping[str, object]
    oracle: object = None


def _plan(task: Task, seeds: Sequence[int], gang: Gang) -> dict[int, list[_Question]]:
    """Return the questions for each world size; where rounding decides, draw again, the same way every time."""
    places = [(size, seed) for size in task.world_sizes for seed in seeds]
    plan = [
        _Place(size, seed, number, case)
        for size, seed in places
        for number, case in enumerate(_cases(task, size, seed))
    ]
    if type(task).oracle is not Task.oracle:
        for draw in range(1, _DRAWS + 1):
            ill_conditioned = _ask_oracle(task, [place for place in plan if not place.well_conditioned], gang)
            if not ill_conditioned:
                break
            for place in ill_conditioned:
                place.case = _cases(task, place.world_size, place.seed, draw)[place.number]
        else:
            raise RuntimeError(
                f"The oracle of {task.name} is ill-conditioned, whatever is drawn: {plan[0].case}"
            )
    questions: dict[int, list[_Question]] = {size: [] for size in task.world_sizes}
    for place in plan:
        questions[place.world_size].append(_Question(place.case, place.oracle))
    return questions


@dataclass
class _Place:
    """A place in the plan: which case it is of those that are drawn from a seed; later, what the oracle says of it."""

    world_size: int
    seed: int
    number: int
    case: Mapping[str, object]
    oracle: object = None
    well_conditioned: bool = False


def _cases(task: Task, world_size: int, seed: int, draw: int = 0) -> list[Mapping[str, object]]:
    drawn = f"/{draw}" if draw else ""
    return list(task.cases(world_size, random.Random(f"{seed}/{world_size}{drawn}")))


def _ask_oracle(task: Task, places: list[_Place], gang: Gang) -> list[_Place]:
    """Let rank 0 of a gang without answers compute the oracles; return the ill-conditioned places."""
    for start in range(0, len(places), _QUESTIONS):
        _ask_some(task, places[start : start + _QUESTIONS], gang)
    gang.call(_payload(harness.forget), only=(0,))
    return [place for place in places if not place.well_conditioned]


def _ask_some(task: Task, places: list[_Place], gang: Gang) -> None:
    questions = json.dumps([[place.world_size, place.case] for place in places])
    payload = _payload(harness.run_oracle, task.name, questions)
    outcome = gang.call(payload, timeout=60.0 + len(places), only=(0,))
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.kind is not Kind.OK:
        raise RuntimeError(f"The oracle of {task.name} failed:\n{outcome!r}")
    for place, (oracle, sound) in zip(places, json.loads(pickled_text(outcome.raw_values[0])), strict=True):
        place.oracle, place.well_conditioned = oracle, sound


@dataclass
class Clock:
    """The answer's time: only what it uses itself counts, not the starting of ranks."""

    a_call: float
    in_all: float
    used: float = 0.0

    def limit(self) -> tuple[float, str]:
        """Return the seconds for the next call, and the name of this limit."""
        left = self.in_all - self.used
        if left < self.a_call:
            return max(0.2, left), f"{self.in_all:g} s in all"
        return self.a_call, f"{self.a_call:g} s"


class AskedRanks:
    """The gang of one world size, and the questions it is asked."""

    def __init__(self, gang: Gang, limits: ProcessLimits, clock: Clock) -> None:
        self.gang = gang
        self.limits = limits
        self.clock = clock
        limits.look()

    def ask(self, function: Callable[..., str], *arguments: object) -> tuple[dict[int, object], str]:
        """Run a function of the harness on all ranks: their replies, and what was printed."""
        outcome = self.run(function, *arguments)
        if any(link.unasked for link in self.gang.links):
            raise EndedError(End.FORGED)
        raw = outcome.raw_values
        try:
            replies = {rank: json.loads(pickled_text(raw[rank])) for rank in range(self.gang.world_size)}
        except (ValueError, KeyError, RecursionError) as error:
            raise EndedError(End.UNREADABLE, f"{type(error).__name__} while reading") from error
        return replies, _printed(outcome)

    def run(self, function: Callable[..., object], *arguments: object) -> Outcome:
        """Run a function of the harness on all ranks; raises EndedError where one of them does not come to its end."""
        payload = _payload(function, *arguments)
        limit, called = self.clock.limit()
        started = time.monotonic()
        try:
            outcome = self.gang.call(
                payload,
                timeout=limit,
                repair=False,
                on_progress=lambda _: self.limits.look(),
            )
        except GangError:
            raise EndedError(End.LOST) from None
        except OverLimitError as error:
            raise EndedError(End.OVER_LIMIT, str(error)) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # The wire is JSON, but what is in it comes from the answer's process.
            raise EndedError(End.UNREADABLE, f"{type(error).__name__} while reading") from error
        finally:
            self.clock.used += time.monotonic() - started
        if outcome.interrupted:
            raise KeyboardInterrupt
        if outcome.kind is not Kind.OK:
            raise EndedError(End.BROKE, called, with_diagnosis(outcome))
        return outcome


def _payload(function: Callable[..., object], *arguments: object) -> bytes:
    """Encode a call as a rank reads it."""
    import cloudpickle

    return bytes(cloudpickle.dumps((function, arguments, [])))


def pickled_text(blob: bytes) -> str:
    """Return the string in a pickle of a string, without running it as pickle.loads would."""
    opcodes = [(code.name, argument) for code, argument, _ in pickletools.genops(blob)]
    strings = [argument for name, argument in opcodes if "UNICODE" in name]
    allowed = {"PROTO", "FRAME", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "MEMOIZE", "STOP"}
    if len(strings) != 1 or not {name for name, _ in opcodes} <= allowed:
        raise ValueError("not a pickled string")
    return str(strings[0])


def _observations(answers: Mapping[int, object], first: bool) -> tuple[dict[int, object], dict[int, str]]:
    """Return by rank what was seen, or what the answer gave instead of the kind of value asked for.

    Raises:
        EndedError: there is nothing to see.
    """
    replies = {rank: answer for rank, answer in answers.items() if isinstance(answer, dict)}
    if len(replies) < len(answers):
        raise EndedError(End.UNREADABLE, "no observation")
    stubs = [rank for rank, reply in replies.items() if reply.get("stub")]
    if any(reply.get("missing") for reply in replies.values()):
        raise EndedError(End.STUB if stubs else End.MISSING)
    if stubs and first and len(stubs) == len(replies):
        raise EndedError(End.STUB)
    if stubs:
        raise EndedError(End.UNFINISHED, str(min(stubs)))
    wrong = {rank: str(reply["wrong_kind"]) for rank, reply in replies.items() if "wrong_kind" in reply}
    seen = {rank: reply["seen"] for rank, reply in replies.items() if "seen" in reply}
    if len(seen.keys() | wrong.keys()) < len(replies):
        raise EndedError(End.UNREADABLE, "no observation")
    return seen, wrong


def _printed(outcome: Outcome) -> str:
    texts = {rank: text.rstrip("\n") for rank, text in outcome.stdout.items() if text.strip()}
    short = {rank: text if len(text) <= _PRINTED else text[:_PRINTED] + "\n…" for rank, text in texts.items()}
    return table(fold(short)) if short else ""
