"""What answers to questions say of a run, on plain data."""

import pytest

from course_lib.lab import predictions as lab
from tests.support.outcomes import Run


def having(*values, ok=True):
    return Run(*values, ok=ok)


def test_predictions_look_at_all_ranks():
    assert lab.adds_up_to(8)(having(3, 5))
    assert not lab.adds_up_to(3)(having(3, 5))
    mixed = having(True, False)
    assert not lab.yes_everywhere(mixed)
    assert not lab.yes_nowhere(mixed)
    assert lab.ranks_have(1, 2)(having(1, 2))
    assert not lab.ranks_have(1, 2)(having(2, 1))
    assert lab.all_have(4)(having(4, 4))
    assert not lab.all_have(4)(having(4, 8))
    assert not lab.all_have(4)(having(4, ok=False))


def test_predictions_look_at_a_number_of_rank_0():
    assert lab.is_about(0.5)(having(0.46))
    assert not lab.is_about(0.25)(having(0.46))
    assert lab.gives([1, 2])(having([1, 2]))
    assert not lab.gives([1, 2])(having([2, 1], [1, 2]))


@pytest.mark.parametrize("ok", [True, False])
def test_predictions_look_into_a_variable_of_a_run_that_ended_well(ok):
    out = Run(ok=ok, took={0: 175.0, 1: 0.0}, path={3: {"a": [1, 2, 5]}})
    assert lab.at_least("took", 160)(out) is ok
    assert not lab.below("took", 160)(out)
    assert lab.value_is("took", 175)(out) is ok
    assert not lab.value_is("took", 0)(out)
    assert lab.value_is("took", 0, rank=1)(out) is ok
    assert lab.between("path", 5, 6, "a", -1, rank=3)(out) is ok
    assert not lab.between("path", 4, 5, "a", -1, rank=3)(out)
