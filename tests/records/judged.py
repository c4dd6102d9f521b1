"""What the judges say of a run, live or recorded, and whether a live run is still what its record says."""

from __future__ import annotations

import difflib
import functools
import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from course_lib.grading.attempt import Attempt
from course_lib.grading.grader import seed_of
from course_lib.grading.judge import judge, judge_source
from course_lib.grading.known_answers import Specimen
from course_lib.grading.verdict import CheckState, Verdict
from course_lib.tasks import find_task
from realranks.scripts.examine import assess, verdict_text
from realranks.scripts.external import assess_snapshots
from tests.records.store import (
    PLACES,
    ROOT,
    Records,
    evidence,
    here,
    plain,
    with_oracles,
    without_oracles,
)

Say = Callable[[Any], str]
#: The kind of a verdict, and of looks from outside the ranks at fault: the same in each run. Numbers, the order of a
#: set, and who came first are not.
_KIND = re.compile(r"^(?:[\w, ]+ )?\[\w+\].*", re.MULTILINE)


def said_of_script(run: Any) -> str:
    """The doctor's report on a watched script."""
    return verdict_text(assess(run))


def said_of_looks(told: Any) -> str:
    """What two looks from outside come to."""
    linecache.checkcache()
    found = assess_snapshots(told)
    if found.outcome is None or found.outcome.diagnosis is None:
        return "The ranks get on."
    diagnosis = found.outcome.diagnosis
    head = (
        f"{found.kind}{'' if found.firm else ', not firm'} [{diagnosis.kind}] ranks {[*diagnosis.culprits]}"
    )
    return "\n".join([head, diagnosis.summary, *diagnosis.evidence])


def said_of_answer(specimen: Specimen) -> Say:
    """The grader's verdict on an answer of the catalogue, without the checks that hold."""

    def say(attempt: Attempt) -> str:
        task, seed = find_task(specimen.task), seed_of(specimen.task, specimen.source)
        judge_source(
            task, specimen.source, 1, seed, even_untouched=True
        )  # the doctor reads the answer's lines
        return _verdict(judge(task, with_oracles(attempt, task), seed))

    return say


def _verdict(verdict: Verdict) -> str:
    lines = [
        f"{verdict.kind} {[item.id for item in verdict.misconceptions]}: {verdict.headline}",
        *verdict.details,
    ]
    lines += [
        f"not: {check.sentence} {check.observed} {check.misconception.id if check.misconception else ''}".rstrip()
        for check in verdict.checks
        if check.state is CheckState.FAILED
    ]
    if verdict.passed:  # the trials that show a mistake need not be of all numbers of ranks
        lines.append(f"on {[*verdict.ran_on]}")
    return "\n".join([*lines, *verdict.printed.splitlines()])


def shortened(attempt: Attempt, say: Say) -> Attempt:
    """Leave out trials, the largest first, as long as the verdict stays word for word what it is."""
    said = say(attempt)
    for trial in sorted(attempt.trials, key=lambda each: -len(repr(each))):
        rest = [n for n, each in enumerate(attempt.trials) if each is not trial]
        fewer = replace(
            attempt,
            trials=tuple(attempt.trials[n] for n in rest),
            printed=tuple(attempt.printed[n] for n in rest if n < len(attempt.printed)),
        )
        if say(fewer) == said:
            attempt = fewer
    return attempt


@functools.cache
def data_of(records: Records) -> Mapping[str, Any]:
    """The packed part of some records, read once."""
    return records.data()


def difference(records: Records, name: str, said: str, *, live: bool = False) -> str:
    """What differs between this and what was said of a record; empty where nothing does.

    Args:
        live: this is of another run than the record, so only the kinds are compared.
    """
    kept = records.text(name)
    if kept is not None and live:
        kept, said = ("\n".join(_KIND.findall(text)) for text in (kept, said))
    if kept == said.strip("\n"):
        return ""
    if kept is None:
        return f"{name} has no record"
    lines = difflib.unified_diff(kept.splitlines(), said.splitlines(), "recorded", "now", lineterm="")
    return "\n".join([f"of {name}, another thing is said than of its record:", *lines])


class Recorder:
    """Compares a live run with its record; with `--record`, keeps it instead."""

    def __init__(self, config: pytest.Config) -> None:
        self.keeps = bool(config.getoption("--record"))

    def __call__(
        self,
        records: Records,
        name: str,
        run: object,
        say: Say,
        places: Mapping[str, str] = PLACES,
        *,
        compares: bool = True,
    ) -> None:
        """Fail where another thing is said of this run than of the record; or keep the run.

        Args:
            places: folders by the mark that stands for them in the record.
            compares: False where a run has no words that are the same each time.
        """
        if self.keeps:
            data = plain(shortened(run, say) if isinstance(run, Attempt) else run, places)
            if isinstance(run, Attempt):
                data = without_oracles(data, f"{records.group}.{name.partition('/')[0]}")
            records.update({name: (data, say(evidence(here(data, places))))})
        elif compares and of_this_torch():
            said = say(evidence(here(plain(run, places), places)))
            if differs := difference(records, name, said, live=True):
                pytest.fail(
                    f"{differs}\nIf that is meant:  make records ARGS='-k \"{name.rpartition('/')[2]}\"'",
                    pytrace=False,
                )


@functools.cache
def of_this_torch() -> bool:
    """Whether the records are of the installed torch: messages and stacks of another one have other words."""
    from importlib.metadata import version

    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8").partition("\ntorch==")[2].split()[0]
    return version("torch").partition("+")[0] == locked
