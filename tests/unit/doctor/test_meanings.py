"""Messages of torch's that mean something in DDP: names with a wrapper's prefix."""

import pytest
import torch
from torch import nn

from realranks.doctor.errors import known_error
from realranks.outcome.outcome import Ending
from tests.support.outcomes import error, outcome


def found(exception):
    told = error(type(exception).__name__, str(exception))
    ends = dict.fromkeys(range(2), Ending.RAISED)
    return known_error(outcome("raises", 2, errors={0: told, 1: told}, endings=ends))


def refusal(state, model):
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    return caught.value


def net():
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = net()


def test_names_of_a_wrapper_for_a_model_that_is_none():
    diagnosis = found(refusal(Wrapper().state_dict(), net()))
    assert diagnosis.kind == "state_dict_names"
    assert "begin with `module.` (module.0.weight)" in diagnosis.summary


def test_names_of_a_compiled_model_in_a_wrapper():
    state = {f"module._orig_mod.{name}": value for name, value in net().state_dict().items()}
    assert "`module._orig_mod.`" in found(refusal(state, net())).summary


def test_names_of_a_model_for_a_wrapper():
    assert "into a wrapper" in found(refusal(net().state_dict(), Wrapper())).summary


def test_a_single_name_that_is_not_there():
    with pytest.raises(KeyError) as caught:
        net().state_dict()["module.0.weight"]
    assert "`0.weight` is how the wrapped model calls it" in found(caught.value).summary


def test_other_names_that_do_not_fit_are_not_explained_by_a_wrapper():
    assert found(refusal({"other": torch.zeros(1)}, net())) is None
    assert found(KeyError("modules")) is None
