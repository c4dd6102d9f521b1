"""How many steps an optimizer had made before its first step in a run."""

import weakref

import pytest
import torch

from realranks.watch.optimizers import Stepped

OPTIMIZERS = {
    "Adam": (lambda p: torch.optim.Adam(p), 3),
    "momentum": (lambda p: torch.optim.SGD(p, momentum=0.9), -1),
    "nothing to keep": (lambda p: torch.optim.SGD(p), 0),
}


@pytest.mark.parametrize(("make", "steps"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_loaded_state_says_how_many_steps_were_made(make, steps):
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    before, after = make([weight]), make([weight])
    for _ in range(3):
        before.step()
    assert Stepped(0, weakref.ref(after), None).made_before() == 0
    after.load_state_dict(before.state_dict())
    assert Stepped(0, weakref.ref(after), None).made_before() == steps
