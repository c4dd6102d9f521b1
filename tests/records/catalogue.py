"""All that is recorded: the scenarios, the hung runs that are looked at from outside, the answers of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.grading.known_answers import catalogue
from tests.records.judged import Say, data_of, said_of_answer, said_of_looks, said_of_script
from tests.records.store import PLACES, ROOT, Records, evidence, here
from tests.scenarios.catalogue import scenarios
from tests.support.hung_runs import HUNG, SOUND, write_script


@dataclass(frozen=True)
class Recorded:
    """A run that is recorded.

    Attributes:
        subject: what was run: a scenario, the text of a script, or an answer.
    """

    records: Records
    name: str
    subject: Any
    say: Say

    def run(self, folder: Path) -> Any:
        """What its judge reads; the script of looks from outside is put into this folder, where its lines are read."""
        places = PLACES
        if self.records.kind == "attach":
            write_script(folder, self.subject)
            places = {"<folder>": str(folder), **PLACES}
        return evidence(here(data_of(self.records)[self.name], places))


def everything() -> Iterator[Recorded]:
    """Each run that has, or is to have, a record."""
    for scenario in scenarios():
        records = Records("scenarios", scenario.path.parent.name)
        yield Recorded(records, scenario.path.stem, scenario, said_of_script)
    for group, scripts in (("hung", {name: text for name, (text, _) in HUNG.items()}), ("sound", SOUND)):
        for name, text in scripts.items():
            yield Recorded(Records("attach", group), name, text, said_of_looks)
    for specimen in catalogue(ROOT / "course_lib/lessons"):
        lesson, name = specimen.name.split("/", 1)
        yield Recorded(Records("answers", lesson), name, specimen, said_of_answer(specimen))
