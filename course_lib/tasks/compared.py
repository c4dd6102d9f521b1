"""Tasks whose observations are compared, rank by rank, with what one process finds.

The oracle of such a task gives, by name, what is observed on each rank, or the parts of it that are decided: `right`,
for a right answer, and by the id of a misconception (`not_reduced`; with a variant, `not_reduced/total`) for an answer
that has it. From this follow the reference for float64, the misconception that explains what was seen, and the checks
that `compared` declares.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import (
    CaseT,
    Judge,
    Miss,
    Recognised,
    SeenT,
    Task,
    Trial,
    check,
    recognise_by_name,
    said_of,
)
from course_lib.tasks.toys import short
from course_lib.tasks.weights import ROUNDING

if TYPE_CHECKING:
    from typing_extensions import TypeVar as _Open

    PartT = _Open("PartT", default=Any)
else:
    PartT = TypeVar("PartT")

#: The misconception that a miss on a rank shows: its id, or what names it for a trial and a rank.
Known = str | Callable[[Any, int], str | None] | None
#: Where a part of an observation is: a key, a number, or several of them, one inside the other.
Path = str | int | tuple[str | int, ...]


class Compared(Task[CaseT, SeenT, dict[str, list[PartT]]], Generic[CaseT, SeenT, PartT]):
    """A task of this kind; `PartT` is what the oracle gives for a rank: an observation, or parts of it.

    Attributes:
        one_may_fit: False where observations say so little that one trial would fit some misconception by chance.
    """

    one_may_fit = True

    def recognise(self, trials: Sequence[Trial[CaseT, SeenT, dict[str, list[PartT]]]]) -> Recognised:
        """Name the misconceptions for which the oracle predicts this, in the parts that misconceptions decide."""
        given = dict.fromkeys(name for trial in trials for name in trial.oracle)
        names = self.by_severity(given)

        def predicts(trial: Trial[CaseT, SeenT, dict[str, list[PartT]]], name: str) -> list[Any]:
            by_rank = trial.oracle.get(name, trial.oracle["right"])  # it makes no difference in this case
            like = next((trial.oracle[one][0] for one in names if one in trial.oracle), None)
            if not isinstance(like, Mapping):
                return list(by_rank)
            return [{key: one[key] for key in like} for one in by_rank if isinstance(one, Mapping)]

        return recognise_by_name(trials, names, predicts, self.alike, alone=self.one_may_fit)

    def alike(self, seen: object, predicted: object) -> bool:
        """Return whether this was seen, as far as `predicted` decides it."""
        return fits(seen, predicted, self.tolerance or ROUNDING)


def fits(seen: Any, right: Any, tolerance: Tolerance) -> bool:
    """Return whether both are equal, numbers up to a tolerance; of a mapping, only the keys in `right` count."""
    if isinstance(right, Mapping):
        return isinstance(seen, Mapping) and all(fits(seen.get(key), right[key], tolerance) for key in right)
    if isinstance(right, list):
        return (
            isinstance(seen, list)
            and len(seen) == len(right)
            and all(fits(one, other, tolerance) for one, other in zip(seen, right, strict=True))
        )
    if isinstance(right, float) and isinstance(seen, float | int):
        return tolerance.admits(seen, right)
    return bool(seen == right)


def gap(seen: Any, right: Any) -> float:
    """Return the largest difference between numbers in these; infinite where one is not a number."""
    if isinstance(right, list) and isinstance(seen, list) and len(seen) == len(right):
        return max((gap(one, other) for one, other in zip(seen, right, strict=True)), default=0.0)
    if isinstance(seen, float | int) and isinstance(right, float | int):
        return abs(seen - right) if seen == seen else float("inf")
    return float("inf")


def compared(
    sentence: str,
    said: str,
    *,
    of: Path = (),
    right: Callable[[Any, int], Any] | None = None,
    each: bool = False,
    within: Tolerance | None = None,
    known: Known = None,
    when: Callable[[Any], bool] = lambda _: True,
    gate: bool = False,
) -> Judge:
    """Make a check: every rank has what the oracle calls right.

    Args:
        said: of the first rank that has not (see `said_of`): it has {seen}, and not {right}; the largest difference is
            {gap}. With `each`, these are of one item, and {number} is its number, from 1.
        of: the part of an observation that is looked at.
        right: what that should be, for a trial and a rank, if not this part of the oracle's `right` of the rank.
        each: these are lists, of which all first items are compared, then all second ones.
        within: how near is near enough, if not the task's tolerance.
        when: for which cases this is demanded. gate: whether a miss ends the judging.
    """

    def right_of(trial: Trial, rank: int) -> Any:
        return _part(trial.oracle["right"][rank], of) if right is None else right(trial, rank)

    def pairs(trial: Trial) -> Iterator[tuple[int, int, Any, Any]]:
        """Yield the number of an item, the rank, what it has, and what is right."""
        parts = [(rank, _part(seen, of), right_of(trial, rank)) for rank, seen in sorted(trial.seen.items())]
        if not each:
            yield from ((1, *one) for one in parts)
            return
        for number in range(max((len(wanted) for _, _, wanted in parts), default=0)):
            for rank, *lists in parts:
                found, wanted = (items[number] if number < len(items) else None for items in lists)
                yield number + 1, rank, found, wanted

    @check(sentence, gate=gate)
    def judge(task: Task, trial: Trial) -> Miss | None:
        if not when(trial.case):
            return None
        for number, rank, found, wanted in pairs(trial):
            if not fits(found, wanted, within or task.tolerance or ROUNDING):
                shown = {"seen": _shown(found), "right": _shown(wanted), "gap": gap(found, wanted)}
                named = known(trial, rank) if callable(known) else known
                return Miss(said_of(task, trial, rank, said, number=number, **shown), named)
        return None

    return judge


def same_everywhere(
    sentence: str, said: str, *, of: Path = (), each: bool = False, known: Known = None
) -> Judge:
    """Make a check: every rank has what rank 0 has, up to 1e-6; for the arguments see `compared`."""

    def of_rank_0(trial: Trial, _rank: int) -> Any:
        return _part(trial.seen[0], of)

    return compared(sentence, said, of=of, right=of_rank_0, each=each, within=Tolerance(1e-6), known=known)


def _part(value: Any, path: Path) -> Any:
    return functools.reduce(operator.getitem, path if isinstance(path, tuple) else (path,), value)


def _shown(value: object) -> object:
    if isinstance(value, float) and not value.is_integer():
        return float(f"{value:.6g}")
    return short(value) if isinstance(value, list) else value


def at_most(
    sentence: str, said: str, known: str | None = None, *, of: str, limit: Callable[[Any, int], float]
) -> Judge:
    """Make a check: no rank has more of something than `limit` gives for the case and the rank; it has {seen}."""

    @check(sentence)
    def judge(task: Task, trial: Trial) -> Miss | None:
        for rank, seen in sorted(trial.seen.items()):
            if seen[of] > limit(trial.case, rank):
                return Miss(said_of(task, trial, rank, said, seen=seen[of]), known)
        return None

    return judge
