"""Cases in which rounding decides are found, by the oracle in float32 and in float64, and drawn again."""

import json
import math
from random import Random

import pytest
import torch

from course_lib.grading import harness
from course_lib.tasks import all_tasks, find_task
from course_lib.tasks.precision import Tolerance, agree, in_float64

NEAR = Tolerance(1e-3)
torch.set_num_threads(1)  # as in ranks; two threads for a dozen numbers wait for each other most of the time
WITH_TOLERANCE = [task for task in all_tasks() if task.tolerance is not None]


def test_numbers_agree_up_to_a_share_of_the_tolerance():
    assert agree({"a": [1.0, 2]}, {"a": [1.0001, 2]}, NEAR)
    assert not agree({"a": [1.0, 2]}, {"a": [1.0009, 2]}, NEAR)
    assert agree([math.nan, math.inf, None, "x"], [math.nan, math.inf, None, "x"], NEAR)
    assert not agree([1.0], [1.0, 2.0], NEAR)
    assert not agree([1.0], [None], NEAR)
    assert agree([1e6], [1e6 + 0.1], Tolerance(0.0, 1e-6))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.randn(7),
        lambda: torch.rand(2, 3),
        lambda: torch.randn(5, generator=torch.Generator().manual_seed(1)),
        lambda: torch.empty(4).uniform_(-1, 1),
        lambda: torch.nn.Linear(4, 3).weight,
        lambda: torch.nn.init.xavier_uniform_(torch.empty(3, 3)),
        lambda: torch.nn.init.normal_(torch.empty(4), std=0.1),
    ],
)
def test_in_float64_the_same_numbers_are_drawn(draw):
    torch.manual_seed(3)
    single, after = draw(), torch.rand(1).item()
    torch.manual_seed(3)
    with in_float64():
        double, after_double = draw(), torch.rand(1).item()
    assert double.dtype is torch.float64
    assert torch.equal(single.double(), double)
    assert after == after_double
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize("task", WITH_TOLERANCE, ids=lambda task: task.name)
def test_most_cases_of_a_task_are_steady(task):
    """Those that are not are drawn again; were it many, the oracle would draw other numbers in float64."""
    size = task.world_sizes[-1]
    cases = [(size, case) for case in task.cases(size, Random(f"0/{size}"))]
    found = json.loads(harness.run_oracle(task.name, json.dumps(cases)))
    assert sum(steady for _, steady in found) > 0.7 * len(found)


def test_a_training_that_diverges_is_not_steady():
    """With seed 77 one of the cases grows rounding errors: in float64 the oracle ends elsewhere."""
    task = find_task("wrappers.Together")
    cases = [(3, case) for case in task.cases(3, Random("77/3"))]
    found = json.loads(harness.run_oracle(task.name, json.dumps(cases)))
    assert not all(steady for _, steady in found)
