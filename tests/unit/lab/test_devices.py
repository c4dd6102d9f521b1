"""Lesson 01's model of DataParallel: it computes what one device computes."""

import pytest
import torch
from torch import nn

from course_lib.lessons.dataparallel import devices
from course_lib.lessons.dataparallel.devices import ByHand, make_net


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


def test_a_copy_has_no_parameters_and_its_weights_lead_back_to_the_original():
    net = make_net()
    replica = devices.replicate(net, 2)[1]
    assert list(replica.parameters()) == []
    assert replica[0].weight is not net[0].weight
    assert not replica[0].weight.is_leaf
