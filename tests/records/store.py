"""Runs as they were recorded: what real ranks gave once, and what the judges say of it.

The three judges are pure: the doctor reads an `Outcome` (or all that a script did that starts its ranks itself), the
look from outside a few `Snapshot`s, grading an `Attempt`. `make records` keeps what they read, as packed JSON lines
(`scenarios/faults.jsonl.gz`), and what they say of it as text beside it (`scenarios/faults.txt`): a change of a
judge's words is a change in a text that can be read. The quick tests judge every record anew; the whole suite makes
every run anew and compares what is then said.

A record holds no times, paths or ports: what differs from run to run is taken out before it is judged, so the text is
what is said of the record.
"""

from __future__ import annotations

import dataclasses
import fcntl
import gzip
import json
import re
import socket
import sysconfig
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

from course_lib.grading.attempt import Attempt, End
from course_lib.grading.harness import computed
from course_lib.tasks.task import Task, Trial
from realranks.outcome.outcome import Outcome
from realranks.outcome.steady import steady
from realranks.ranks.codec import decode, encode
from realranks.ranks.observed.script_run import ScriptRun
from realranks.scripts.external import Snapshot

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: What stands for folders that lie elsewhere on every machine.
PLACES = {
    "<course>": str(ROOT),
    "<packages>": sysconfig.get_path("purelib"),
    "<python>": sysconfig.get_path("stdlib"),
    "<host>": socket.gethostname(),
}
#: Times: in a record there are only their order and the whole seconds of waits.
_CLOCKS = ("time_ns", "written_ns")
_SECONDS = ("seconds", "stalled_for", "age", "asleep_for", "ends_in")
#: Of numbers of a trial: float32 has no more.
_DIGITS = 9
#: What these tasks expect depends on where a rank's generators stand, or needs a process group. Of all others it is not
#: kept, but computed when a record is judged: so a change in it is a change in verdicts.
_KEPT = {
    "alternation.train_and_evaluate",
    "buckets.bucket_list",
    "first_ranks.train",
    "synchronised.GlobalBatchNorm",
}
_LEFT_OUT = "computed"
_ANSWERS_FOLDER = re.compile(r"[^\s'\"]*ddp-course-answer-[^\s/'\"]+(/\d+)?")

# An outcome without what no judge reads, all of which is JSON.
_NOT_READ = ("pictures", "packed", "diagnosis")
_HINTS = typing.get_type_hints(Outcome)


def _like(one: dataclasses.Field[Any]) -> Any:
    if one.default_factory is not dataclasses.MISSING:
        return field(default_factory=one.default_factory)
    return field() if one.default is dataclasses.MISSING else field(default=one.default)


_Evidence = make_dataclass(
    "_Evidence",
    [(one.name, _HINTS[one.name], _like(one)) for one in fields(Outcome) if one.name not in _NOT_READ],
    frozen=True,
)


@dataclass(frozen=True)
class _Trial:
    world_size: int
    case: object
    oracle: object
    seen: Mapping[int, object]
    wrong_kinds: Mapping[int, str]


@dataclass(frozen=True)
class _Attempt:
    trials: tuple[_Trial, ...]
    printed: tuple[str, ...]
    end: str
    outcome: object = None
    reason: str = ""
    world_size: int = 0
    case: object = None
    last_words: str = ""
    like: tuple[str, ...] = ()


def _plain_outcome(outcome: Outcome) -> object:
    return encode(_Evidence(**{one.name: getattr(outcome, one.name) for one in fields(_Evidence)}))


def _outcome(data: object) -> Outcome:
    evidence = decode(_Evidence, data)
    return Outcome(pictures={}, **{one.name: getattr(evidence, one.name) for one in fields(_Evidence)})


def plain(evidence: object, places: Mapping[str, str] = PLACES) -> object:
    """Return the evidence of a judge as JSON, without what differs from run to run.

    Args:
        places: folders by the mark that stands for them in the record.
    """
    match evidence:
        case ScriptRun():
            data: object = {
                "sets": [_plain_outcome(one) for one in evidence.sets],
                "script": _plain_outcome(evidence.script),
                "started": evidence.started,
            }
        case Outcome():
            data = {"outcome": _plain_outcome(evidence)}
        case Attempt():
            trials = tuple(
                _Trial(*(getattr(trial, one.name) for one in fields(_Trial))) for trial in evidence.trials
            )
            told = {one.name: getattr(evidence, one.name) for one in fields(Attempt)}
            outcome = None if evidence.outcome is None else _plain_outcome(evidence.outcome)
            data = {
                "attempt": encode(
                    _Attempt(**told | {"trials": trials, "end": evidence.end.name, "outcome": outcome})
                )
            }
        case _:
            assert isinstance(evidence, list), evidence
            data = {"snapshots": [encode(one) for one in evidence]}
    return _without_run(_as_json(data), places)


def without_oracles(data: Any, task: str) -> Any:
    """Return the record of an answer without what was expected of it, where that can be computed again."""
    if task in _KEPT:
        return data
    trials = [trial | {"oracle": _LEFT_OUT} for trial in data["attempt"]["trials"]]
    return {"attempt": data["attempt"] | {"trials": trials}}


def with_oracles(attempt: Attempt, task: Task) -> Attempt:
    """Compute what a record of an answer leaves out."""
    trials = tuple(
        replace(trial, oracle=_rounded(_as_json(computed(task.oracle(trial.case, trial.world_size)))))
        if trial.oracle == _LEFT_OUT
        else trial
        for trial in attempt.trials
    )
    return replace(attempt, trials=trials)


def _as_json(value: object) -> Any:
    """Return this as it travels: keys are texts, tuples are lists."""
    return json.loads(json.dumps(value))


def _rounded(value: Any) -> Any:
    """Round numbers as those of a record are, so that equal ones stay equal."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [*map(_rounded, value)]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def evidence(data: Any) -> Any:
    """Return what a judge reads, from the JSON of `plain`."""
    if "sets" in data:
        return ScriptRun(tuple(map(_outcome, data["sets"])), _outcome(data["script"]), data["started"])
    if "outcome" in data:
        return _outcome(data["outcome"])
    if "snapshots" in data:
        return [decode(Snapshot, one) for one in data["snapshots"]]
    kept = decode(_Attempt, data["attempt"])
    told = {one.name: getattr(kept, one.name) for one in fields(_Attempt)}
    trials = tuple(
        Trial(**{one.name: getattr(trial, one.name) for one in fields(_Trial)}) for trial in kept.trials
    )
    outcome = None if kept.outcome is None else _outcome(kept.outcome)
    return Attempt(**told | {"trials": trials, "end": End[kept.end], "outcome": outcome})


def _without_run(data: object, places: Mapping[str, str]) -> object:
    """Take out times, paths, ports and build paths; of moments there is left which came first."""
    moments = {moment: place for place, moment in enumerate(sorted(set(_moments(data))), start=1)}

    def cleaned(value: object, name: str = "", *, given: bool = False) -> object:
        # Numbers and texts that an answer was given, or gave, are the task's: of these only folders are taken out.
        given = given or name == "trials"
        if isinstance(value, dict):
            return {
                key: cleaned(value.get("traceback") if key == "full_traceback" else one, key, given=given)
                for key, one in value.items()
                if key != "memory_bytes"
            }
        if isinstance(value, list):
            return [cleaned(one, given=given) for one in value]
        if isinstance(value, str):
            for mark, place in places.items():
                value = value.replace(place, mark)
            value = _ANSWERS_FOLDER.sub("<working folder>", value)
            return value if given else steady(value)
        if given:
            return _rounded(value)
        if name in _CLOCKS and isinstance(value, int):
            return moments[value]
        if name in _SECONDS and isinstance(value, float):
            return float(round(value))
        return value

    return cleaned(data)


def _moments(data: object) -> Iterator[int]:
    if isinstance(data, dict):
        for name, value in data.items():
            if name in _CLOCKS:
                yield value
            else:
                yield from _moments(value)
    elif isinstance(data, list):
        for value in data:
            yield from _moments(value)


def here(data: object, places: Mapping[str, str] = PLACES) -> object:
    """Return the JSON with the folders of this machine in it."""
    if isinstance(data, dict):
        return {name: here(value, places) for name, value in data.items()}
    if isinstance(data, list):
        return [here(value, places) for value in data]
    if isinstance(data, str) and "<" in data:
        for mark, place in places.items():
            data = data.replace(mark, place)
    return data


def _line(name: str, data: object) -> str:
    return json.dumps([name, data], separators=(",", ":"), ensure_ascii=False)


# -- files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Records:
    """The records of one kind and group: `Records("scenarios", "faults")`."""

    kind: str
    group: str
    folder: Path = HERE

    @property
    def packed(self) -> Path:
        """What the judges read."""
        return self.folder / self.kind / f"{self.group}.jsonl.gz"

    @property
    def words(self) -> Path:
        """What they say of it."""
        return self.folder / self.kind / f"{self.group}.txt"

    def names(self) -> list[str]:
        """What is recorded."""
        return list(self._texts())

    def data(self) -> dict[str, Any]:
        """By name, the JSON that `plain` gave."""
        if not self.packed.exists():
            return {}
        with gzip.open(self.packed, "rt", encoding="utf-8") as file:
            return dict(map(json.loads, file))

    def text(self, name: str) -> str | None:
        """Return what was said of a record; None where there is none of that name."""
        return self._texts().get(name)

    def _texts(self) -> dict[str, str]:
        if not self.words.exists():
            return {}
        parts = self.words.read_text(encoding="utf-8").split("\n=== ")
        pairs = (part.removeprefix("=== ").partition("\n") for part in parts if part.strip())
        return {name: text.strip("\n") for name, _, text in pairs}

    def update(self, changes: Mapping[str, tuple[object, str] | None]) -> None:
        """Keep records and what is said of them; None takes one out. Several processes may do so at once."""
        self.packed.parent.mkdir(parents=True, exist_ok=True)
        with (self.packed.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept, texts = self.data(), self._texts()
            for name, change in changes.items():
                kept.pop(name, None)
                texts.pop(name, None)
                if change is not None:
                    kept[name], texts[name] = change[0], change[1].strip("\n")
            lines = "".join(f"{_line(name, kept[name])}\n" for name in sorted(kept))
            # Without the time, so that equal records are equal files.
            packed = gzip.compress(lines.encode(), mtime=0)
            self.packed.write_bytes(packed)
            self.words.write_text(
                "\n".join(f"=== {name}\n{texts[name]}\n" for name in sorted(texts)), encoding="utf-8"
            )
