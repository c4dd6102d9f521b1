"""Lesson 15 on real ranks: every way to make an all-reduce gives its sums, and a ring made of sleep carries DDP."""

import pytest

from course_lib import run_quietly
from course_lib.lessons.scale.all_reduces import WAYS, explore_all_reduces, same_sums
from course_lib.lessons.scale.lab import Ring


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_every_way_gives_the_sums_of_all_reduce(way, ranks):
    assert set(run_quietly(same_sums, way, ranks=ranks, backend="gloo").values.values()) == {True}


def test_a_choice_runs_on_real_ranks_and_shows_its_rounds():
    explorer = explore_all_reduces()
    assert "It has run on 8 ranks" in explorer.picture.value
    explorer.ranks.value = 4
    explorer.way.value = "double tree"
    assert "gave the same sums as <code>dist.all_reduce</code>" in explorer.picture.value
    assert "4 rounds. The busiest rank sends 2 × the tensor" in explorer.picture.value
    (shown,) = explorer.steps.outputs
    assert shown["data"]["text/plain"].startswith("[Double tree on 4 ranks: 1. Before")


def step_in_a_pair(ring):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from course_lib.lessons.scale.lab import sleepy_model

    pair = dist.new_group([0, 1])
    if dist.get_rank() > 1:
        return None  # is not of the group, and is not waited for
    ddp = DistributedDataParallel(sleepy_model(), process_group=pair)
    for parameter in ddp.parameters():
        parameter.register_hook(lambda gradient: torch.full_like(gradient, dist.get_rank() + 1.0))
    seconds = ring.step_seconds(ddp)
    return seconds, {value for parameter in ddp.parameters() for value in parameter.grad.unique().tolist()}


def test_a_ring_of_sleep_takes_no_less_than_it_should_and_averages_in_the_group_of_the_model():
    ring = Ring(latency=0.02, bandwidth=12.5)
    found = run_quietly(step_in_a_pair, ring, ranks=3, backend="gloo").values
    assert [found[rank][1] for rank in range(2)] == [{4 * 1.5}] * 2  # four steps add up
    assert min(found[rank][0] for rank in range(2)) >= 0.2 + 2 * 0.02 + 0.5 / 12.5


def sleep_in_a_backward_of_its_own():
    import torch
    import torch.distributed as dist

    from course_lib.lab.network import sixteen_layers

    if dist.get_rank() == 0:
        model = sixteen_layers(0.1, wide=8)
        loss = model(torch.ones(1, 8)).sum()
        model.pace.begin(resting=False)
        loss.backward()
    dist.barrier()
    return "through"


def test_a_model_that_sleeps_in_its_backward_while_others_wait_for_it_is_no_deadlock():
    assert run_quietly(sleep_in_a_backward_of_its_own, ranks=2, backend="gloo").values == {
        0: "through",
        1: "through",
    }
