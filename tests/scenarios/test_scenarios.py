"""The doctor's word on every scenario; the confusion table is printed at the end of the test run."""

import pytest

from realranks.scripts.examine import examine, verdict_text
from tests.records.judged import said_of_script
from tests.records.store import Records
from tests.scenarios.catalogue import SILENT, scenarios
from tests.scenarios.tally import confusion

ALL = scenarios()


def _expected_to_pass_or_open(scenario):
    marks = [pytest.mark.xfail(reason=scenario.open)] if scenario.open else []
    return pytest.param(scenario, id=scenario.name, marks=marks)


@pytest.mark.parametrize("scenario", [_expected_to_pass_or_open(scenario) for scenario in ALL])
def test_the_doctor_is_right_about(scenario, proof_delay, record_property, recorder):
    found = examine(
        str(scenario.path),
        scenario.arguments(),
        ranks=scenario.ranks,
        every=2,
        timeout=scenario.timeout,
        method=scenario.start,
    )
    diagnosis = found.outcome.diagnosis
    said = diagnosis.kind if diagnosis is not None else SILENT
    record_property("said", [scenario.kind, said])
    if proof_delay:
        record_property("delay", proof_delay[-1])
    assert said == scenario.kind, f"{verdict_text(found)}\n{found.outcome!r}"
    if scenario.path.parent.name == "healthy":
        assert found.sound, verdict_text(found)
    if scenario.culprits is not None:
        assert set(diagnosis.culprits) == set(scenario.culprits), verdict_text(found)
    if diagnosis is not None:
        assert diagnosis.summary[0].isupper()
        assert diagnosis.summary.endswith((".", ")"))
    recorder(Records("scenarios", scenario.path.parent.name), scenario.path.stem, found.run, said_of_script)


def test_the_table_shows_wrong_answers_first():
    assert confusion([("a", "a"), ("bb", "a"), ("a", "a")]) == ["bb    1 x a   <- wrong", "a     2 x a"]


def test_the_catalogue_is_large_enough_and_confusable():
    faults = [scenario for scenario in ALL if scenario.kind != SILENT and not scenario.open]
    assert len(faults) >= 110
    assert sum(scenario.kind == SILENT for scenario in ALL) >= 60
    kinds = [scenario.kind for scenario in faults]
    assert sum(kinds.count(kind) > 1 for kind in kinds) * 2 >= len(kinds), "half of them have a sibling"
