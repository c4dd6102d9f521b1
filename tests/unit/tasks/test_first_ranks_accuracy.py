"""Which accuracy a printed line tells, however it is rounded, and which images it is asked of."""

from itertools import pairwise
from random import Random

import pytest

from course_lib.lessons.first_ranks.tasks.accuracy import TESTS, of, right_ones, tells


@pytest.mark.parametrize(
    "line",
    [
        "accuracy 0.66",
        "accuracy: 0.6600",
        "accuracy tensor(0.6600)",
        "accuracy 0.7",
        "accuracy 66",
        "accuracy 66%",
        "accuracy on 50 images: 66.0 %",
        "accuracy 33/50",
        "33 of 50 right, accuracy 6.6e-01",
        "2 processes, accuracy 0.66",
    ],
)
def test_an_accuracy_may_be_written_in_many_ways(line):
    assert tells(line, 33 / 50)


@pytest.mark.parametrize(
    "line",
    [
        "accuracy 1.00",
        "accuracy 1",
        "accuracy 0.68",
        "accuracy 0.6",
        "accuracy 64 %",
        "accuracy 0",
        "accuracy on 66 images: 0.84",
        "accuracy 16/25",
        "accuracy 1.32",
        "accuracy",
    ],
)
def test_another_number_is_not_it(line):
    assert not tells(line, 33 / 50)


def test_no_share_of_the_test_images_has_the_accuracy_of_all_and_no_launch_that_of_another():
    for seed in range(200):
        launches = [right_ones(world_size, Random(seed)) for world_size in (1, 2)]
        for right in launches:
            half = TESTS // 2
            for share in (right[::2], right[1::2], right[:half], right[half:]):
                assert abs(of(share) - of(right)) > 0.02
        assert all(of(one) != of(other) for one, other in pairwise(launches))
