"""Numbers and what they say: medians, spreads, ratios, goals. Knows nothing of how they were measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

COURSE = "course"
#: The course's own ranks with nobody watching them.
UNWATCHED = "unwatched"
#: Kernels that load torch themselves, each of them.
NO_ZYGOTE = "no zygote"
#: The course's ranks on two hosts, or on hosts that play them.
HOSTS = "on hosts"


@dataclass(frozen=True)
class Sample:
    """The measurements of one contender.

    Attributes:
        values: in the row's unit, one a repetition; none when no repetition worked.
        at_least: True when the contender had not finished by then: the values are where the benchmark gave up.
        remark: what a number alone does not say (`state lost`, `never says anything`).
    """

    values: tuple[float, ...]
    at_least: bool = False
    remark: str = ""

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return min(self.values), max(self.values)


@dataclass(frozen=True)
class Row:
    """One measure: samples by contender. `unit` is `s`, `ms` or `MB`; smaller is better in all of them."""

    key: str
    title: str
    unit: str
    samples: Mapping[str, Sample]

    def ratio(self, contender: str) -> float | None:
        """Divide the contender's median by the course's; None if one of them is missing."""
        ours, theirs = self.samples.get(COURSE), self.samples.get(contender)
        if ours is None or theirs is None or not ours.values or not theirs.values or not ours.median:
            return None
        return theirs.median / ours.median


@dataclass(frozen=True)
class Goal:
    """A goal: a median of at most `at_most`, or `at_least_times` better than `than`."""

    row: str
    text: str
    at_most: float | None = None
    at_least_times: float | None = None
    than: str = ""

    def judge(self, rows: Mapping[str, Row]) -> Judged | None:
        """Judge whether the goal is met; None if the run did not measure it."""
        row = rows.get(self.row)
        if row is None or COURSE not in row.samples:
            return None
        if not row.samples[COURSE].values:
            return Judged(self.text, "failed", False)
        if self.at_most is not None:
            median = row.samples[COURSE].median
            met = median <= self.at_most and not row.samples[COURSE].at_least
            return Judged(self.text, number(median, row.unit), met)
        ratio = row.ratio(self.than)
        if ratio is None or self.at_least_times is None:
            return None
        return Judged(self.text, times(ratio), ratio >= self.at_least_times)


@dataclass(frozen=True)
class Judged:
    """A goal beside what was observed."""

    goal: str
    observed: str
    met: bool


GOALS = (
    Goal("start", "new warm gang of 4 with process group in at most 0.06 s", at_most=0.06),
    Goal("start", "... at least 30 times faster than spawn", at_least_times=30, than="spawn"),
    Goal("round-trip-4", "cell round trip on 4 ranks in at most 4 ms", at_most=4.0),
    Goal(
        "round-trip-4", "... at least 5 times faster than ipyparallel", at_least_times=5, than="ipyparallel"
    ),
    Goal("round-trip-16", "... on 16 ranks in at most 14 ms", at_most=14.0),
    Goal("history", "... at most 2 ms longer after 2,000 collectives in earlier cells", at_most=2.0),
    Goal("ddp-step", "first DDP step in a new gang in at most 0.1 s", at_most=0.1),
    Goal("memory", "at most 70 MB per rank at 4 ranks", at_most=70.0),
    Goal("deadlock", "a provable deadlock explained in at most 1 s", at_most=1.0),
    Goal("stop", "stop button to usable gang, state kept, in at most 1 s", at_most=1.0),
    Goal("class-first", "first cell of six learners on one machine in at most 0.7 s", at_most=0.7),
    Goal("class-memory", "... at most 150 MB per learner", at_most=150.0),
    Goal("many-cell-1024", "a cell on 1,024 ranks that hosts play in at most 250 ms", at_most=250.0),
    Goal("grade", "a right answer graded on all world sizes in at most 1 s", at_most=1.0),
    Goal(
        "watched",
        "a watched DDP step at most 3 % slower than one unwatched",
        at_least_times=1 / 1.03,
        than=UNWATCHED,
    ),
)


@dataclass(frozen=True)
class Report:
    """A whole run."""

    machine: str
    repeat: int
    rows: tuple[Row, ...]
    goals: tuple[Judged, ...]


def judge_all(rows: Iterable[Row], goals: Sequence[Goal] = GOALS) -> list[Judged]:
    """Judge every goal that the run has measured."""
    by_key = {row.key: row for row in rows}
    return [judged for goal in goals if (judged := goal.judge(by_key)) is not None]


def number(value: float, unit: str) -> str:
    """Format a value with its unit and three significant digits: `0.081 s`, `4.6 ms`, `62 MB`."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 or unit != "s" else 3
    return f"{value:.{digits}f} {unit}"


def times(ratio: float) -> str:
    """Format a ratio briefly enough for a table: `58x`, `4.2x`, near one `0.98x`."""
    if 0.9 < ratio < 1.1:
        return f"{ratio:.2f}x"
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x"
