"""What the doctor advises helps: done to a script with that fault, it leaves one in which nothing is wrong."""

import tomllib
from pathlib import Path

import pytest

import realranks.doctor
from realranks.scripts.examine import examine, verdict_text
from tests.scenarios.catalogue import FOLDER, SILENT, scenarios
from tests.scenarios.mended import mended

FAULTS = [scenario for scenario in scenarios() if scenario.kind != SILENT]
MENDED = {scenario: source for scenario in FAULTS if (source := mended(scenario.path)) is not None}
KINDS = tomllib.loads((Path(realranks.doctor.__file__).parent / "diagnoses.toml").read_text(encoding="utf-8"))
#: The kinds of which no script is mended here, by the reason.
LEFT = tomllib.loads((FOLDER / "not_mended.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("scenario", MENDED, ids=[scenario.name for scenario in MENDED])
def test_taking_the_advice_ends_well(scenario, tmp_path):
    script = tmp_path / scenario.path.name
    script.write_text(MENDED[scenario], encoding="utf-8")
    found = examine(
        str(script),
        scenario.arguments(),
        ranks=scenario.ranks,
        every=2,
        timeout=scenario.timeout,
        method=scenario.start,
    )
    assert found.outcome.diagnosis is None, verdict_text(found)
    assert found.sound, verdict_text(found)


def test_every_kind_has_a_script_that_is_mended_or_a_reason_why_not():
    done = {scenario.kind for scenario in MENDED}
    left = [kind for kinds in LEFT.values() for kind in kinds]
    assert sorted([*done, *left]) == sorted({*KINDS, *(scenario.kind for scenario in FAULTS)})
