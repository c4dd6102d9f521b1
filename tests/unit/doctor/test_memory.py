"""Graphs that are kept, from the counts of three steps."""

import pytest

from realranks.doctor.diagnose import diagnose
from tests.support.watched import models, notes, record, watched, weights

SOME_COLLECTIVE = {rank: (record("", 3),) for rank in range(2)}


def said(*nodes):
    told = [
        notes(weights=weights(1), models=models(0), graphs={"nodes": list(each), "held_by": "total"})
        for each in nodes
    ]
    return diagnose(watched(*told, recorded=SOME_COLLECTIVE))


def test_graphs_that_grow_evenly_are_kept_by_a_variable():
    found = said((40, 80, 120), (10, 10, 10))
    assert found.summary.startswith("Rank 0 keeps the graph of every step (by the variable total): 10 more")
    assert said((40, 80, 120), (40, 82, 120)).summary.startswith("Ranks 0 and 1 keep")


@pytest.mark.parametrize(
    "nodes", [(40, 80), (40, 80, 80), (40, 40, 80), (80, 40, 0), (40, 42, 44), (40, 80, 240)]
)
def test_what_does_not_grow_with_each_step_is_not_kept(nodes):
    assert said(nodes, nodes) is None
