"""Every record judged anew: in seconds, what the whole suite asks of thousands of ranks."""

import ast
from collections import defaultdict

import pytest

from realranks.scripts.examine import assess
from realranks.scripts.external import assess_snapshots
from tests.records.catalogue import everything
from tests.records.judged import data_of, difference
from tests.records.store import HERE
from tests.scenarios.catalogue import SILENT
from tests.support.holes import holes
from tests.support.hung_runs import HUNG

ALL = list(everything())


def of_kind(kind):
    chosen = [each for each in ALL if each.records.kind == kind]
    return pytest.mark.parametrize("each", chosen, ids=lambda each: f"{each.records.group}/{each.name}")


def said_now(each, folder):
    """What is said of the record, which must be what was said of it before."""
    run = each.run(folder)
    said = each.say(run)
    differs = difference(each.records, each.name, said)
    assert not differs, f"{differs}\nIf these words are meant:  make records ARGS=--words"
    return run, said


@of_kind("scenarios")
def test_the_doctor_says_the_same_of_a_recorded_script(each, tmp_path):
    run, _ = said_now(each, tmp_path)
    diagnosis = assess(run).outcome.diagnosis
    scenario = each.subject
    assert diagnosis is None or holes(diagnosis) == []
    if not scenario.open:
        assert (diagnosis.kind if diagnosis is not None else SILENT) == scenario.kind
        assert scenario.culprits is None or set(diagnosis.culprits) == set(scenario.culprits)


@of_kind("attach")
def test_the_same_is_said_of_recorded_looks_from_outside(each, tmp_path):
    run, said = said_now(each, tmp_path)
    if each.name not in HUNG:
        assert not assess_snapshots(run).firm
        return
    kind, diagnosis, *words = HUNG[each.name][1]
    assert said.startswith(f"{kind or assess_snapshots(run).kind} [{diagnosis}]")
    assert all(word in said for word in words)


@of_kind("answers")
def test_a_recorded_answer_gets_the_same_verdict(each, tmp_path):
    _, said = said_now(each, tmp_path)
    kind, _, names = said.partition(":")[0].partition(" ")
    assert (kind == "pass") == each.subject.right
    named, own = sorted(ast.literal_eval(names)), sorted(each.subject.misconceptions)
    assert named == own or (each.subject.unseen and set(named) < set(own))


def test_every_record_can_be_made_again():
    """Its script or answer is there; `make records` takes out what is not."""
    wanted = defaultdict(set)
    for each in ALL:
        wanted[each.records].add(each.name)
    assert {(path.parent.name, path.stem) for path in HERE.glob("*/*.txt")} == {
        (records.kind, records.group) for records in wanted
    }
    for records, names in wanted.items():
        assert set(records.names()) == names == data_of(records).keys(), records
