"""The parts of a graded task.

A task is a class with four parts, each in the place where it runs:

* `cases` (grader): what the answer is called with, drawn from a seeded generator; plain JSON-able data.
* `trial` (every rank): calls the answer once on one case and returns what was observed, again as plain data.
* `oracle` (a rank in which no answer has run): what would be right, computed by torch itself. Where numbers are
  compared up to rounding (`tolerance`), it runs again in float64: a case on which the two disagree is drawn anew.
* `@check` methods (grader): one sentence each, and what was observed when it does not hold. Nothing of the answer is
  there any more, only data.

What a task says to learners (its title, hints and misconceptions) stands in `tasks.toml` beside it: see `words`.

`Task[Case, Seen, Oracle]` names the types of these data, usually TypedDicts, because they travel as JSON: `Case` is
what `cases` yields; `Seen` is what `trial` returns on one rank; `Oracle` is what `oracle` returns, with its functions
called.
Where an answer gives something of another kind than asked for, `trial` raises `WrongKind` (the functions of `toys` that
convert values do): that rank has no observation, and the task's `gate` says so. Other checks, and `recognise`, see only
trials in which every rank has one. An answer may call collectives: a trial that calls it several times converts what it
gave after the last call, or the other ranks would wait for a rank that has left.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from course_lib.tasks.precision import Tolerance
from course_lib.tasks.words import Misconception, words_of
from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Outcome, RankError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as _Open  # with a default: a plain `Task` is a task of any types

    CaseT = _Open("CaseT", bound=Mapping[str, object], default=Any)
    SeenT = _Open("SeenT", default=Any)
    OracleT = _Open("OracleT", default=Any)
else:
    CaseT, SeenT, OracleT = TypeVar("CaseT"), TypeVar("SeenT"), TypeVar("OracleT")

_Trial = TypeVar("_Trial", bound="Trial")
_Predicted = TypeVar("_Predicted")

#: What `Task.recognise` gives: the id of a misconception, the ids of several that act together, or nothing.
Recognised = str | tuple[str, ...] | None


@dataclass(frozen=True)
class Trial(Generic[CaseT, SeenT, OracleT]):
    """One call of the answer on all ranks of one gang.

    Attributes:
        world_size: number of ranks. case: what it was called with. oracle: what `Task.oracle` says of the case.
        seen: what `Task.trial` returned, by rank.
        wrong_kinds: of ranks that have no observation, what the answer gave instead (see `WrongKind`).
    """

    world_size: int
    case: CaseT
    oracle: OracleT
    seen: Mapping[int, SeenT]
    wrong_kinds: Mapping[int, str] = field(default_factory=dict)

    def with_seen(self, seen: Mapping[int, _Predicted]) -> Trial[CaseT, _Predicted, OracleT]:
        """Return the same trial with a part of what was seen, or what was made of it."""
        return Trial(self.world_size, self.case, self.oracle, seen)

    def on_all_ranks(self, one: _Predicted) -> list[_Predicted]:
        """Return the same for every rank."""
        return [one] * self.world_size


# Not a value in the observation's place: every check, and every `recognise`, would have to ask for it.
class WrongKind(Exception):
    """An answer's value is not of the kind asked for; the message says what it is instead, as after "returned"."""


@dataclass(frozen=True)
class Miss:
    """A check that does not hold: what was observed on which rank, and the misconception this shows, if it is known."""

    observed: str
    misconception: str | None = None


Judge = Callable[[Any, Trial], Miss | None]
_Judge = TypeVar("_Judge", bound=Judge)


@dataclass(frozen=True)
class Check:
    """One demand on the answer; `judge(task, trial)` returns None where the trial meets it.

    A `gate` that is missed ends the judging: what comes after it would make no sense. `of_kind` marks the gate that
    looks at `Trial.wrong_kinds`; other checks do not see trials that have any. `suspects` are words, with blanks
    between them: where a task's checks have some, a learner sees a miss only after naming one of them.
    """

    sentence: str
    judge: Judge = field(compare=False)
    gate: bool = False
    of_kind: bool = False
    suspects: str = ""


def check(sentence: str, *, gate: bool = False, suspects: str = "") -> Callable[[_Judge], _Judge]:
    """Make a method of a task a check; the order of the methods is the order of the checks."""

    def mark(judge: _Judge) -> _Judge:
        judge.__check__ = Check(sentence, judge, gate, suspects=suspects)  # type: ignore[attr-defined]
        return judge

    return mark


def ranks_text(count: int) -> str:
    """Return `1 rank`, `4 ranks`."""
    return "1 rank" if count == 1 else f"{count} ranks"


def said_of(task: Task, trial: Trial, rank: int, said: str, **values: object) -> str:
    """Fill the gaps in a sentence about a rank.

    Args:
        said: in it stand {rank}, {ranks} (how many there are), {gang} ("4 ranks"), {case} (its description), the parts
            of the case by their names, and `values`.
    """
    known = {"rank": rank, "ranks": trial.world_size, "gang": ranks_text(trial.world_size)}
    return said.format(**{**trial.case, **known, "case": task.describe(trial.case), **values})


def gate(
    sentence: str,
    said: str = "rank {rank} of {ranks} returned {given}",
    known: Callable[[Trial], str | None] = lambda _: None,
) -> Judge:
    """Make the gate of most tasks: on every rank the answer gave a value of the kind asked for (see `WrongKind`).

    Args:
        said: of the first rank on which it did not (see `said_of`): what it gave is {given}, all such ranks are {who}.
        known: names the misconception that is behind it, if it shows one.
    """

    def judge(task: Task, trial: Trial) -> Miss | None:
        if not trial.wrong_kinds:
            return None
        rank = min(trial.wrong_kinds)
        who, given = rank_list(trial.wrong_kinds), trial.wrong_kinds[rank]
        return Miss(said_of(task, trial, rank, said, who=who, given=given), known(trial))

    judge.__check__ = Check(sentence, judge, gate=True, of_kind=True)  # type: ignore[attr-defined]
    return judge


class Task(Generic[CaseT, SeenT, OracleT]):
    """Base class of all tasks; see the module's docstring for what runs where.

    Attributes:
        name: `lesson.function`; the answer must define a function of that name (after the dot).
        script: where the answer stands, below `exercises/` and `solutions/`, if it is a whole script. Such an answer
            is not called in ranks: `trial` runs once for each number of ranks, in one process, and starts them.
        not_handed_out: the misconceptions that such a script does not show as it is handed out.
        world_sizes: gang sizes the answer runs on. seconds: time limit of one call; all together may take more.
        tolerance: how far a right answer's numbers may be from `reference`, where they are rounded on the way.
    """

    name: ClassVar[str]
    script: ClassVar[str] = ""
    not_handed_out: ClassVar[tuple[str, ...]] = ()
    world_sizes: ClassVar[tuple[int, ...]] = (1, 2, 3, 4)
    seconds: ClassVar[float] = 10.0
    backend: ClassVar[str] = "gloo"
    tolerance: ClassVar[Tolerance | None] = None

    @property
    def title(self) -> str:
        """A few words."""
        return words_of(self.name).title

    @property
    def signature(self) -> str:
        """The function's first line without `def`."""
        return words_of(self.name).signature

    @property
    def lesson(self) -> str:
        """Number and name of the lesson, such as `03_samplers`."""
        return words_of(self.name).lesson

    @property
    def place(self) -> int:
        """The task's number in its lesson, from 1."""
        return words_of(self.name).place

    @property
    def hints(self) -> tuple[str, ...]:
        """Two or more, each going a step further than the one before."""
        return words_of(self.name).hints

    @property
    def misconceptions(self) -> tuple[Misconception, ...]:
        """The gravest first; a verdict names them in this order."""
        return words_of(self.name).misconceptions

    @property
    def topic(self) -> str:
        """The topic of its lesson, which is the folder's name: `samplers`."""
        return self.name.partition(".")[0]

    @property
    def function(self) -> str:
        """The name of the function the answer must define."""
        return self.name.partition(".")[2]

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks, in the order in which they are written."""
        members = {
            name: member for kind in reversed(type(self).__mro__) for name, member in vars(kind).items()
        }
        found = (getattr(member, "__check__", None) for member in members.values())
        return tuple(item for item in found if item is not None)

    def misconception(self, id_: str) -> Misconception:
        """Return the misconception with this id; raises KeyError when the task has none."""
        return {item.id: item for item in self.misconceptions}[id_]

    def by_severity(self, names: Iterable[str]) -> list[str]:
        """Return those of the names (see `recognise_by_name`) that are misconceptions of this task, in their order."""
        known = list(names)
        return [name for item in self.misconceptions for name in known if name.partition("/")[0] == item.id]

    def cases(self, world_size: int, chance: random.Random) -> Iterator[CaseT]:
        """Yield the arguments for the answer on a gang of this size; JSON-able, drawn from `chance` only."""
        raise NotImplementedError

    def trial(self, answer: Callable[..., Any], case: CaseT) -> SeenT:
        """Call the answer on this rank and return what was observed, JSON-able. Exceptions are the answer's.

        Raises:
            WrongKind: the answer gave something else than it was asked for.

        A task says here what its answer is called with; what an answer returns may be anything, and is an `object`.
        """
        raise NotImplementedError

    def oracle(self, case: CaseT, world_size: int) -> object:
        """Return what is right (and what known misconceptions would give); runs where no answer has been.

        In a mapping, a function without arguments stands for what it returns. Where `tolerance` is given, `reference`
        is computed once more, in float64: of such functions, only those that it takes are called then.
        """
        return None

    def reference(self, oracle: Any) -> object:
        """Return the part of the oracle that is right: what answers are compared with."""
        return oracle["right"] if isinstance(oracle, Mapping) and "right" in oracle else oracle

    def describe(self, case: CaseT) -> str:
        """Describe a case in a few words, for a sentence such as 'on 4 ranks, with ...'."""
        return ", ".join(
            f"{name}={value}" for name, value in case.items() if isinstance(value, int | float | str)
        )

    def recognise(self, trials: Sequence[Trial[CaseT, SeenT, OracleT]]) -> Recognised:
        """Return the misconceptions that explain the failing trials; asked when a miss does not name its own."""
        return None

    def symptoms(self, trials: Sequence[Trial[CaseT, SeenT, OracleT]]) -> tuple[str, ...]:
        """Return the symptoms of a wrong answer without their causes, one sentence each."""
        return ()

    def recognise_ending(
        self, outcome: Outcome, trials: Sequence[Trial[CaseT, SeenT, OracleT]]
    ) -> Recognised:
        """Return the misconceptions behind a call that raised, died or hung after `trials` went through."""
        return self.recognise(trials)

    def explain_error(self, error: RankError) -> str:
        """Describe an out-of-memory error that the task itself causes ("raised ..."); '' for other errors."""
        return ""


@dataclass(frozen=True)
class Model(Generic[_Trial, _Predicted]):
    """A model of answers, right or with certain misconceptions: an observation for each rank, for each trial.

    Attributes:
        misconception: the id, or the ids of several that act together.
        predicts: the observations, by rank.
    """

    misconception: str | tuple[str, ...]
    predicts: Callable[[_Trial], Sequence[_Predicted]]


def recognise_by_name(
    trials: Sequence[_Trial],
    names: Iterable[str],
    predicts: Callable[[_Trial, str], Sequence[_Predicted]],
    equal: Callable[[Any, _Predicted], bool] = operator.eq,
    *,
    alone: bool = True,
) -> Recognised:
    """Return the misconceptions of these names that explain the failing trials.

    Args:
        names: the id of a misconception each, with a variant (`summed/late`) or not; the gravest first. Of `right`
            there is no model.
        predicts: called with a trial and a name, gives the observations by rank; with `right`, those of a right answer.
    """

    def model(name: str) -> Model[_Trial, _Predicted]:
        return Model(name.partition("/")[0], lambda trial: predicts(trial, name))

    known = [model(name) for name in names if name != "right"]
    return recognise_by_models(trials, lambda trial: predicts(trial, "right"), known, equal, alone=alone)


def recognise_by_models(
    trials: Sequence[_Trial],
    right: Callable[[_Trial], Sequence[_Predicted]],
    models: Sequence[Model[_Trial, _Predicted]],
    equal: Callable[[Any, _Predicted], bool],
    *,
    together: Sequence[Model[_Trial, _Predicted]] = (),
    alone: bool = True,
) -> Recognised:
    """Return the models that explain the failing trials; `models` are in the order of their gravity.

    One that fits every rank of every trial explains everything. Where there is none, several mistakes are at work, or
    one that is not known: then the first failing trial names the model that fits it and most of the others, the gravest
    where several do, and so does each failing trial that is still unexplained.

    Args:
        together: models of several mistakes at once; they count only where they fit everything, and no single one does.
        alone: False where observations say so little (a choice of four) that one trial alone would fit by chance: a
            model then has to fit two of the failing trials, or all of them.
    """

    def fits(trial: Trial, predicted: Sequence[_Predicted]) -> bool:
        return all(equal(trial.seen[rank], predicted[rank]) for rank in range(trial.world_size))

    failing = [trial for trial in trials if not fits(trial, right(trial))]
    if not failing:
        return None
    for model in (*models, *together):
        if all(fits(trial, model.predicts(trial)) for trial in trials):
            return model.misconception
    explained = [[fits(trial, model.predicts(trial)) for trial in failing] for model in models]
    named: list[str] = []
    open_ = [True] * len(failing)
    for number in range(len(failing)):
        fitting = [
            (model, found)
            for model, found in zip(models, explained, strict=True)
            if open_[number] and found[number] and (alone or sum(found) >= min(2, len(failing)))
        ]
        if fitting:
            model, found = max(fitting, key=lambda pair: sum(pair[1]))  # the first of several
            named += [model.misconception] if isinstance(model.misconception, str) else model.misconception
            open_ = [still and not fit for still, fit in zip(open_, found, strict=True)]
    return tuple(dict.fromkeys(named)) or None


def recognise_by_message(outcome: Outcome, texts: Mapping[str, str]) -> Recognised:
    """Return the first misconception whose text, in torch's own words, is in an error of this outcome."""
    messages = " ".join(error.message for error in outcome.errors.values())
    return next((name for text, name in texts.items() if text in messages), None)
