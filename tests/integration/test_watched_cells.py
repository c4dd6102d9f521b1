"""`%%ranks --watch`: a cell that ends well is also asked whether its ranks have drifted apart."""

import pytest

from realranks.watch.around import as_around

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
    assert all(facts.probe is None for facts in ranks("1 / 0").facts.values())


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


EVERYTHING = """
import torch.utils.data as data
tensors = data.TensorDataset(torch.arange(16.0).reshape(4, 4))
loader = data.DataLoader(tensors, sampler=data.DistributedSampler(tensors), batch_size=1)
alone = nn.Linear(2, 1)
both = torch.optim.SGD([*model.parameters(), *alone.parameters()], lr=0.1)
for (batch,) in loader:
    model(batch).sum().backward()
    alone(torch.ones(2)).sum().backward()
    both.step()
try:
    model(torch.ones(3))
except RuntimeError:
    pass
dist.broadcast(torch.ones(1), 0)
others = dist.new_group([0])
if rank:
    dist.all_reduce(torch.ones(1), group=others)
if rank == 0:
    dist.send(torch.ones(1), 1)
elif rank == 1:
    dist.recv(torch.ones(1), 0)
"""


def test_everything_that_the_probe_notes_is_read(ranks):
    """What the probe tells is JSON; a field that its record has not got would cost the doctor all notes of the rank."""
    out = watched(ranks, EVERYTHING)
    notes = out.facts[1].probe
    assert notes.unseen == {}
    assert (notes.counts.forwards, notes.counts.steps) == (2, 1)
    assert notes.failures[0].what == "forward"
    assert notes.models[-1].ranks == (0, 1, 2, 3)
    assert notes.loaders[0].epochs[0].batches == 1
    assert notes.calls.last
    assert notes.weights[0].parameters["weight"].crc is not None
    assert notes.gradients[0].settings[0]["lr"] == 0.1
    assert notes.outside[0].parameters[0].shape == (1, 2)
    assert notes.messages
    assert notes.rooted["0"][-1].operation == "broadcast"
    assert notes.strange
    assert notes.waiting.seconds > 0
