"""Every measure of `make bench` is taken once, of the course alone and small: no time is judged, but it works."""

import json
import random

import pytest

from benchmarks import workloads
from benchmarks.measures import ABOUT, Plan, measure
from benchmarks.processes import nothing_left_over
from benchmarks.results import COURSE
from course_lib.grading.attempt import Attempt, End
from course_lib.grading.judge import judge
from course_lib.grading.task_sources import task_cell
from course_lib.tasks import find_task
from course_lib.tasks.task import Trial

SMALL = Plan(
    repeat=1,
    cells=2,
    sizes=(2,),
    reading=0.1,
    bound=5.0,
    torchrun_tasks=0,
    graded_tasks=2,
    steps=5,
    step_seconds=0.002,
    learners=2,
    history=20,
    contenders=(COURSE,),
    many=(256,),
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


def test_what_torchrun_is_given_to_grade_runs(shared_ranks, tmp_path):
    """The same answers as a script calls them; of a task whose oracle holds back part of what it says."""
    task = find_task("buckets.BucketedDDP")
    size = shared_ranks.gang.world_size
    cases = list(task.cases(size, random.Random(0)))[:1]
    workload = workloads.trials(task.name, task_cell(task, solved=True), json.dumps(cases), str(tmp_path))
    outcome = shared_ranks(workload)
    assert outcome.ok, str(outcome)
    said = [json.loads((tmp_path / str(rank)).read_text(encoding="utf-8")) for rank in range(size)]
    trial = Trial(size, cases[0], said[0]["oracle"][0], dict(enumerate(each["seen"][0] for each in said)))
    assert judge(task, Attempt((trial,), ("",), End.COMPLETE), seed=0).passed
