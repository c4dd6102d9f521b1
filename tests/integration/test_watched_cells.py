"""`%%ranks --watch`: a cell that ends well is also asked whether its ranks have drifted apart."""

import pytest

from course_lib.watch.probe import as_around

SET_UP = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
torch.manual_seed(0)
model = DDP(nn.Linear(4, 1))
forgotten = DDP(nn.Linear(4, 1))
with torch.no_grad():
    forgotten.module.weight.fill_(rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    model(torch.full((8, 4), float(rank))).sum().backward()
    optimizer.step()
"""
MUTATE = """
for number in range(4):
    step()
    if number == 2 and rank == 1:
        with torch.no_grad():
            model.module.weight.add_(1)
"""


@pytest.fixture(scope="module")
def ranks(shared_ranks):
    assert shared_ranks(SET_UP).ok
    return shared_ranks


def watched(ranks, source):
    return ranks(source, around=as_around())


def test_a_model_from_an_earlier_cell_is_watched_and_one_that_is_not_used_is_let_alone(ranks):
    assert watched(ranks, "for _ in range(3): step()").diagnosis is None


def test_weights_that_one_rank_changes_are_found(ranks):
    out = watched(ranks, MUTATE)
    assert out.ok
    assert out.diagnosis.kind == "weights_differ"
    assert out.diagnosis.culprits == (1,)
    assert ranks("dist.broadcast(model.module.weight.data, 0)").ok


def test_what_was_noted_in_a_watched_cell_is_not_held_against_the_next(ranks):
    assert watched(ranks, MUTATE).diagnosis is not None
    assert ranks("step()").diagnosis is None
    assert ranks("dist.broadcast(model.module.weight.data, 0)").ok
    assert watched(ranks, "step()").diagnosis is None


def test_nothing_of_the_watching_stays_behind(ranks):
    watched(ranks, "step()")
    out = ranks(
        "len(model.module._forward_pre_hooks), torch.autograd.backward.__module__, DDP.forward.__qualname__"
    )
    assert set(out.values.values()) == {(0, "torch.autograd", "DistributedDataParallel.forward")}


def test_also_after_an_error_nothing_stays_behind(ranks):
    out = watched(ranks, "step()\nraise ValueError('mine')")
    assert out.diagnosis.kind == "raised"
    out = ranks("len(model.module._forward_pre_hooks), DDP.forward.__qualname__")
    assert set(out.values.values()) == {(0, "DistributedDataParallel.forward")}
