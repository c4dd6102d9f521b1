"""Lesson 04: a network of chosen latency and bandwidth, on two real ranks; and the sliders that choose it."""

import re

from course_lib.lab.network import (
    CAPS,
    CapsExplorer,
    Network,
    at_pace,
    computed_step,
    measured_steps,
    steps_by_hand,
)
from realranks.cells.run import run_quietly


def gradients_on(network: Network) -> bool:
    """The gradients that the network delivers are the mean over the ranks."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from course_lib.lab.network import sixteen_layers

    ddp = DistributedDataParallel(sixteen_layers(0), bucket_cap_mb=1)
    network.steps(ddp, 1)
    ddp.zero_grad()
    ddp(torch.full((1, 512), dist.get_rank() + 1.0)).sum().backward()
    alone = sixteen_layers(0)
    alone(torch.full((1, 512), 1.5)).sum().backward()
    pairs = zip(ddp.module.parameters(), alone.parameters(), strict=True)
    return all(torch.allclose(mine.grad, right.grad, rtol=1e-3, atol=1e-5) for mine, right in pairs)


def test_the_network_delivers_the_mean():
    outcome = run_quietly(gradients_on, Network(0.001, 1000), ranks=2)
    assert outcome.values == {0: True, 1: True}


def test_a_slider_runs_what_is_missing_and_no_step_is_shorter_than_computed(monkeypatch):
    asked = []

    def noted(caps, network, layer):
        asked.append((list(caps), network))
        return measured_steps(caps, network, layer)

    monkeypatch.setattr("course_lib.lab.network.measured_steps", noted)
    explorer = CapsExplorer()
    explorer.layer.unobserve_all()
    explorer.layer.value = 1
    explorer.latency.value = 1
    assert asked == [([0.5, 1, 2, 3.0, 4, 25, None], Network(0.001, 100))]
    assert explorer.picture.value.count(" ms (") == len(CAPS) + 1
    explorer.cap.value = 6.0
    assert asked[1:] == [([6.0], Network(0.001, 100))]
    label = re.search(r'aria-label="([^"]*)"', explorer.picture.value)[1]
    assert label.startswith("A row for each bucket_cap_mb of 0.5, 1, 2, 4, 6, 25, default")
    explorer.cap.value = 3.0
    assert len(asked) == 2, "what has been measured already is not run again"

    for cap, step in explorer.found.items():
        computed = computed_step(cap, Network(0.001, 100), at_pace(0.001))
        assert computed.seconds <= step.seconds
        assert len(step.sent) == len(computed.sent)
        assert step.sent[-1][1] <= step.seconds
        for (_, end), (start, _) in zip(step.sent, step.sent[1:], strict=False):
            assert end <= start, "messages do not overtake each other"


def test_models_and_networks_of_real_sizes_are_computed_and_nothing_runs(monkeypatch):
    monkeypatch.setattr("course_lib.lab.network.measured_steps", None)
    explorer = CapsExplorer()
    explorer.model.value = next(name for name in explorer.model.options if "GPT-2" in name)
    explorer.carrier.value = next(name for name in explorer.carrier.options if "100 GbE" in name)
    assert "backward of 148 layers" in explorer.picture.value
    assert "Computed only" in explorer.status.value


def test_the_ways_by_hand_send_as_many_messages_as_they_say_and_two_of_them_only_after_backward():
    steps = run_quietly(steps_by_hand, Network(0.001, 1000), ranks=2).values[0]
    assert {name: len(step.sent) for name, step in steps.items()} == {
        "one by one": 16,
        "one flat buffer": 1,
        "hooks": 16,
        "buckets": 4,
    }
    after = {name: step.sent[0][0] >= step.ready[-1] for name, step in steps.items()}
    assert after == {"one by one": True, "one flat buffer": True, "hooks": False, "buckets": False}
