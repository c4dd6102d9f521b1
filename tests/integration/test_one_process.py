"""`like_one_process` in cells: the gradients of a batch beside those of one process with the rows of all ranks."""

import pytest

from tests.support.ranks_and_kernels import Ranks

SETUP = """
import random
from dataclasses import dataclass
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel as DDP
from course_lib import like_one_process

rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
x, y = torch.randn(4, 8), torch.randn(4, 1)
unequal = x[: 4 - rank], y[: 4 - rank]
batch = {"x": x, "y": y, "name": ["a"] * 4}

@dataclass
class Rows:
    x: torch.Tensor
    y: torch.Tensor

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5))
        self.head, self.other = nn.Linear(16, 1), nn.Linear(16, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls = self.calls + 1
        return self.head(self.body(x))

def mean(model, batch):
    return mse_loss(model(batch[0]), batch[1])

torch.manual_seed(0)
net = Net()
ddp = DDP(net, find_unused_parameters=True)
plain = DDP(nn.Linear(8, 1), gradient_as_bucket_view=True)
"""
ALIKE = "the gradients are those of one process with the {} rows of all ranks"


@pytest.fixture(scope="module")
def ranks():
    mine = Ranks(3)
    out = mine(SETUP)
    assert out.ok, out
    yield mine
    mine.gang.stop()


def said(ranks, call):
    out = ranks(f"found = repr({call})\nfound")
    assert out.ok, out
    (words,) = set(out.values.values())
    return words


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("like_one_process(plain, mean, (x, y))", 12),
        ("like_one_process(plain, lambda m, b: mse_loss(m(b['x']), b['y']), batch)", 12),
        ("like_one_process(plain, lambda m, b: mse_loss(m(b.x), b.y), Rows(x, y))", 12),
        (
            "like_one_process(plain, lambda m, b: mean(m, b) * len(b[0]) * dist.get_world_size() / total(b), unequal)",
            9,
        ),
    ],
    ids=["a mean", "a dictionary", "a dataclass", "weighted by rows"],
)
def test_ranks_that_train_like_one_process(ranks, call, rows):
    total = "def total(b):\n    n = torch.tensor(len(b[0]))\n    dist.all_reduce(n)\n    return n.item()"
    assert ranks(total).ok
    assert said(ranks, call) == ALIKE.format(rows)


@pytest.mark.parametrize(
    ("loss", "rows", "words"),
    [
        ("mean(m, b) / dist.get_world_size()", "(x, y)", "1/3 of those"),
        ("mse_loss(m(b[0]), b[1], reduction='sum')", "(x, y)", "1/3 of those"),
        ("mean(m, b) * dist.get_world_size()", "(x, y)", "3 times those"),
        ("mean(m, b)", "unequal", "the ranks had 4 and 3 and 2 rows"),
        ("mse_loss(m(b[0]), b[1]) / b[0].square().sum()", "(x, y)", "the loss is no mean over rows"),
        ("mean(m, b) / size", "(x, y)", "not compared with one process: loss_of reads size, which is 3"),
        ("mean(m, (b[0] + torch.randn_like(b[0]), b[1]))", "(x, y)", "the step draws random numbers"),
        ("mean(m, (x, y))", "(x, y)", "the rows that the model gets are not those of the batch"),
        ("mse_loss(m(b[0]), b[1].view(4, 1))", "(x, y)", "raises RuntimeError: shape '[4, 1]' is invalid"),
        ("mse_loss(m(b[0]), y[:1].expand(len(b[0]), 1))", "(x, object())", "batches with a object in them"),
    ],
)
def test_how_they_differ_and_what_cannot_be_compared_is_said(ranks, loss, rows, words):
    assert words in said(ranks, f"like_one_process(plain, lambda m, b: {loss}, {rows})")


def test_a_gather_that_passes_no_gradient_on_is_named(ranks):
    against_all = """
def against_all(m, b):
    rows = m(b[0])
    parts = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows)
    return (rows * torch.cat(parts).mean(0)).mean()
"""
    assert ranks(against_all).ok
    assert "no gradient comes back" in said(ranks, "like_one_process(plain, against_all, (x, y))")


def test_the_model_is_left_as_it_was(ranks):
    out = ranks(
        """
import copy
mean(ddp, (x, y)).backward()
mean(plain, (x, y)).backward()
before = [
    copy.deepcopy([m.state_dict(), [p.grad for p in m.parameters()], [p.training for p in m.modules()]])
    for m in (ddp, plain)
]
generators = torch.get_rng_state(), random.getstate()
found = repr(like_one_process(ddp, mean, (x, y)))
like_one_process(plain, mean, (x, y))
for m, (state, grads, modes) in zip((ddp, plain), before):
    assert all(torch.equal(a, b) for a, b in zip(state.values(), m.state_dict().values(), strict=True))
    for a, p in zip(grads, m.parameters(), strict=True):
        assert (a is None) == (p.grad is None) and (a is None or torch.equal(a, p.grad))
    assert modes == [p.training for p in m.modules()]
assert torch.equal(generators[0], torch.get_rng_state()) and generators[1] == random.getstate()
assert net.body[3].p == 0.5 and "forward" not in vars(net.body[1])
assert dist.get_world_size() == 3

# And it trains on as a twin that was not asked.
twin = DDP(copy.deepcopy(plain.module), gradient_as_bucket_view=True)
for each in (plain, twin):
    each.zero_grad()
    mean(each, (x, y)).backward()
assert torch.equal(plain.module.weight.grad, twin.module.weight.grad)
found
"""
    )
    assert out.ok, out
    (words,) = set(out.values.values())
    assert words == ALIKE.format(12) + "\nswitched off for that: batch normalisation and dropout"


def test_weights_that_differ_are_named(ranks):
    assert ranks("own = DDP(nn.Linear(8, 1))\nwith torch.no_grad():\n    own.module.bias += rank").ok
    assert "bias was not the same on all ranks" in said(ranks, "like_one_process(own, mean, (x, y))")


def test_a_bare_model_is_refused(ranks):
    out = ranks("like_one_process(net, mean, (x, y))")
    assert out.errors[0].type == "TypeError"
    assert "needs a DistributedDataParallel model, not Net" in out.errors[0].message
