"""Task 3: what measured steps say: which kind of scaling, what 64 ranks give, and which claims about them are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypedDict

from course_lib.lessons.scale.tasks.model import ring_seconds
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Trial, gate

#: How far measurements scatter, and how far a claim may be off that holds.
_SCATTER, _HOLDS = 0.002, 0.02
#: Ranks of one machine; how many have been measured; and those of all machines together.
_NODE, _COUNTS, _ASKED = 8, (1, 2, 4, 8, 16, 24, 32), 64
#: Samples of a step, of one rank (weak) or of all (strong): each number of ranks divides them.
_SAMPLES = 768


class Run(TypedDict):
    """A measured training: `samples` are those of one rank in a step of so many seconds."""

    ranks: int
    machines: int
    samples: int
    seconds: float


class Claim(TypedDict):
    """A claim about a run: its speed_up, efficiency or busbw (bytes per second)."""

    what: str
    ranks: int
    value: float


class Case(TypedDict):
    """The arguments of the answer, and what is behind them."""

    runs: list[Run]
    gradients: int
    claims: list[Claim]
    wrong: list[int]
    at_64: float


class Seen(TypedDict, total=False):
    """The answer's reading: weak or strong, the speed-up of 64 ranks, the places of wrong claims."""

    kind: str
    at_64: float
    wrong: list[int]


class ReadIt(Compared[Case, Seen, Seen]):
    """Weak or strong, what 64 ranks give, and which claims are wrong."""

    name = "scale.read_it"
    world_sizes = (1,)
    tolerance = Tolerance(0.0, 0.05)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield strong and weak scaling, and strong with longer steps, each with one wrong claim.

        The first one tells apart what misconceptions make of 64 ranks.
        """
        for strong, slow, wrong in (
            (True, False, "efficiency"),
            (False, False, "efficiency"),
            (True, True, "busbw"),
            (False, False, "speed_up"),
        ):
            alone = chance.uniform(3, 6) if strong else chance.uniform(0.2, 0.5)
            share = alone / 32 if strong else alone
            times = 100 if slow else 1
            gradients = chance.randint(50, 500) * 10**6
            latency = times * chance.uniform(0.2, 0.35) * share / (2 * 31)
            bandwidth = 2 * gradients / (times * chance.uniform(0.2, 0.35) * share)
            faster = chance.uniform(4, 6)  # inside a machine
            step = {n: alone / (n if strong else 1) for n in (*_COUNTS, _ASKED)}
            for n in step:
                network = (latency, bandwidth) if n > _NODE else (latency / faster, bandwidth * faster)
                step[n] += ring_seconds(gradients, n, *network)
            runs: list[Run] = [
                {
                    "ranks": n,
                    "machines": max(1, n // _NODE),
                    "samples": _SAMPLES // n if strong else _SAMPLES // 24,
                    "seconds": step[n] * (1 + chance.uniform(-_SCATTER, _SCATTER)),
                }
                for n in _COUNTS
            ]
            claims: list[Claim] = [
                _claim(runs, gradients, what, n, strong, what == wrong and n == about[-1])
                for what, about in (("speed_up", (4, 8)), ("efficiency", (16, 32)), ("busbw", (8, 24)))
                for n in about
            ]
            chance.shuffle(claims)
            chance.shuffle(runs)
            at_64 = _speed_up(alone, step[_ASKED], _ASKED, strong)
            places = [n for n, each in enumerate(claims) if not _holds(runs, gradients, each, strong)]
            yield {"runs": runs, "gradients": gradients, "claims": claims, "wrong": places, "at_64": at_64}

    def describe(self, case: Case) -> str:
        one, *_, most = sorted(case["runs"], key=lambda run: run["ranks"])
        return (
            f"steps of {one['seconds']:.2f} s on 1 rank ({one['samples']} samples) and {most['seconds']:.2f} s on "
            f"{most['ranks']} ({most['samples']} each)"
        )

    def trial(
        self,
        answer: Callable[[list[tuple[int, int, int, float]], int, list[tuple[str, int, float]]], object],
        case: Case,
    ) -> Seen:
        runs = [(run["ranks"], run["machines"], run["samples"], run["seconds"]) for run in case["runs"]]
        claims = [(claim["what"], claim["ranks"], claim["value"]) for claim in case["claims"]]
        given = answer(runs, case["gradients"], claims)
        if not isinstance(given, tuple | list) or len(given) != 3 or given[0] not in ("weak", "strong"):
            raise toys.wrong_kind(given)
        return {
            "kind": str(given[0]),
            "at_64": toys.number(given[1]),
            "wrong": sorted(toys.whole_numbers(given[2])),
        }

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Seen]]:
        strong = _is_strong(case["runs"])
        kind = "strong" if strong else "weak"
        return {"right": [{"kind": kind, "at_64": case["at_64"], "wrong": case["wrong"]}]}

    gives_three = gate(
        'Three things: "weak" or "strong", a number, and the places of claims in their list.',
        "with {case}, rank {rank} returned {given}",
    )
    kind = compared(
        "It tells weak scaling from strong.",
        "with {case}, rank {rank} returned {seen!r}; the scaling is {right}",
        of="kind",
        known=lambda trial, _: _by_times(trial),
    )
    at_64 = compared(
        "The speed-up of 64 ranks is what ranks on several machines let one expect, to within five percent.",
        "with {case}, rank {rank} returned a speed-up of {seen:.3g} for 64 ranks; it is {right:.3g}",
        of="at_64",
    )
    wrong = compared(
        "It finds the claims that are wrong, and no others.",
        "with {case}, rank {rank} returned {seen} as the places of wrong claims; they are {right}",
        of="wrong",
    )


def _is_strong(runs: Sequence[Run]) -> bool:
    return len({run["samples"] for run in runs}) > 1


def _by_times(trial: Trial[Case, Seen, dict[str, list[Seen]]]) -> str | None:
    """Recognise that steps which get shorter are taken for strong scaling, and others for weak."""
    seconds = {run["ranks"]: run["seconds"] for run in trial.case["runs"]}
    shorter = seconds[max(_COUNTS)] < seconds[1]
    return "kind_by_times" if trial.seen[0]["kind"] == ("strong" if shorter else "weak") else None


def _speed_up(alone: float, seconds: float, ranks: int, strong: bool) -> float:
    """Return samples per second, relative to one rank."""
    return (1 if strong else ranks) * alone / seconds


def _value(
    runs: Sequence[Run],
    size: int,
    what: str,
    ranks: int,
    strong: bool,
    *,
    algbw: bool = False,
) -> float:
    """Return the value of a run; `algbw` takes its bandwidth for the bus's."""
    seconds = {run["ranks"]: run["seconds"] for run in runs}
    alone, step = seconds[1], seconds[ranks]
    if what == "speed_up":
        return _speed_up(alone, step, ranks, strong)
    if what == "efficiency":
        return _speed_up(alone, step, ranks, strong) / ranks
    sent = size / (step - (alone / ranks if strong else alone))
    return sent if algbw else sent * 2 * (ranks - 1) / ranks


def _claim(runs: Sequence[Run], size: int, what: str, ranks: int, strong: bool, wrong: bool) -> Claim:
    """Make a claim; a wrong one comes from the other kind of scaling's formula, or from algbw."""
    if wrong and what == "busbw":
        value = _value(runs, size, what, ranks, strong, algbw=True)
    else:
        value = _value(runs, size, what, ranks, strong is not wrong)
    return {"what": what, "ranks": ranks, "value": float(f"{value:.4g}")}


def _holds(runs: Sequence[Run], size: int, claim: Claim, strong: bool) -> bool:
    value = _value(runs, size, claim["what"], claim["ranks"], strong)
    return abs(claim["value"] - value) <= _HOLDS * value
