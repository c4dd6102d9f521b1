"""Every measure of `make bench` is taken once, of the course alone and small: no time is judged, but it works."""

import pytest

from benchmarks.measures import ABOUT, Plan, measure
from benchmarks.processes import nothing_left_over
from benchmarks.results import COURSE

SMALL = Plan(
    repeat=1,
    cells=2,
    sizes=(2,),
    reading=0.1,
    bound=5.0,
    torchrun_tasks=0,
    graded_tasks=2,
    steps=5,
    history=20,
    contenders=(COURSE,),
)


@pytest.fixture(scope="module", autouse=True)
def _marked_run():
    with nothing_left_over():
        yield


@pytest.mark.parametrize("name", ABOUT)
def test_the_measure_works(name):
    said = []
    rows = measure(SMALL, [name], said.append)
    assert rows
    for row in rows:
        sample = row.samples[COURSE]
        assert sample.values, f"{row.title}: {said}"
        assert not sample.at_least
        assert "not every repetition worked" not in sample.remark
