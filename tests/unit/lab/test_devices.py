"""Lesson 01's model of DataParallel: it computes what one device computes, and counts what the task's oracle counts."""

import pytest
import torch
from torch import nn

from course_lib.lessons.dataparallel import devices
from course_lib.lessons.dataparallel.devices import ByHand, make_net, moved, sent
from course_lib.lessons.dataparallel.tasks.traffic import counted


def train_step(net: nn.Module, samples: int) -> torch.Tensor:
    torch.manual_seed(1)
    outputs = net(torch.randn(samples, 64))
    nn.functional.cross_entropy(outputs, torch.randint(10, (samples,))).backward()
    return outputs


@pytest.mark.parametrize(("samples", "count"), [(12, 4), (10, 4), (6, 4), (3, 1)])
def test_a_step_has_the_outputs_and_the_gradients_of_one_device(samples, count):
    alone, net = make_net(), make_net()
    assert torch.allclose(train_step(alone, samples), train_step(ByHand(net, count), samples), atol=1e-6)
    for one, other in zip(alone.parameters(), net.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-6)


@pytest.mark.parametrize(("samples", "count"), [(12, 4), (10, 8), (6, 4), (9, 2)])
def test_the_bytes_of_a_step_are_those_that_the_task_counts(samples, count):
    net = make_net()
    moved.clear()
    train_step(ByHand(net, count), samples)
    weights = sum(weight.nbytes for weight in net.parameters())
    case = {"scheme": "dp", "devices": count, "samples": samples, "weights": weights}
    assert sent(count) == counted(case | {"sample_in": 64 * 4, "sample_out": 10 * 4})


def test_only_what_is_changed_in_place_on_device_0_stays():
    norm = nn.BatchNorm1d(1, momentum=1.0)
    with torch.no_grad():
        out = ByHand(norm, 4)(torch.arange(8.0)[:, None])
    assert not out.requires_grad  # also in the threads
    assert norm.running_mean.item() == 0.5
    assert norm.num_batches_tracked.item() == 1
    assert "running_mean" in norm.state_dict()


def test_a_copy_has_no_parameters_and_its_buffers_are_buffers():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    replica = devices.replicate(net, 2)[1]
    assert list(replica.parameters()) == []
    assert [name for name, _ in replica.named_buffers()] == [name for name, _ in net.named_buffers()]
    assert replica[0].weight is not net[0].weight
    assert not replica[0].weight.is_leaf
