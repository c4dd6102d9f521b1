"""Gangs whose group has two backends, as beside NCCL: gloo for CPU tensors, and torch's fake one for CUDA tensors.

`cpu:gloo,cuda:fake` has the shape of `cpu:gloo,cuda:nccl` and needs no GPU: what a gang does with such a group is run
here. What NCCL itself does is not.
"""

import pytest

from realranks.outcome.outcome import Kind
from realranks.ranks.kernel.backend import BackendChoice
from tests.support.ranks_and_kernels import Ranks

_WITH_TORCH = "import os, time\nimport torch, torch.distributed as dist\nrank = dist.get_rank()"


@pytest.fixture
def mixed(monkeypatch):
    """A gang of three of which each rank has such a group."""
    monkeypatch.setattr(BackendChoice, "init_argument", "cpu:gloo,cuda:fake")
    mine = Ranks(3)
    mine(_WITH_TORCH)
    yield mine
    mine.gang.stop()


def test_the_group_has_the_shape_of_one_with_nccl(mixed):
    backends = mixed(
        "[dist.group.WORLD._get_backend(torch.device(d)).name() for d in ('cpu', 'cuda')]"
    ).values
    assert backends == {rank: ["gloo", "fake"] for rank in range(3)}


def test_ranks_that_have_come_apart_get_a_new_group(mixed):
    """Asked of the group, torch gives the number of its default backend, which counts nothing of gloo's."""
    apart = mixed("if rank == 1:\n    raise ValueError\nwork = dist.all_reduce(torch.ones(1), async_op=True)")
    assert apart.kind is Kind.RAISES
    assert any("has been rebuilt" in note for note in apart.notes), apart.notes
    together = mixed("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()")
    assert together.values == dict.fromkeys(range(3), 3.0)
    assert mixed("dist.get_backend_config()").values[0] == "cpu:gloo,cuda:fake"


def test_a_deadlock_of_cpu_tensors_is_proved_and_the_ranks_are_freed(mixed):
    mixed("kept = [rank]")
    hung = mixed("if rank:\n    dist.all_reduce(torch.ones(1))")
    assert hung.kind is Kind.HANG
    assert hung.proved
    assert {rank: waiting.missing for rank, waiting in hung.waiting.items()} == {1: (0,), 2: (0,)}
    assert mixed("dist.barrier()\nkept").values == {0: [0], 1: [1], 2: [2]}


def test_barriers_new_groups_and_objects_go_through_gloo(mixed):
    outcome = mixed(
        "pair = dist.new_group([0, 1])\n"
        "dist.barrier()\n"
        "everybody = [None] * 3\n"
        "dist.all_gather_object(everybody, rank)\n"
        "x = torch.ones(1)\n"
        "if rank < 2:\n"
        "    dist.all_reduce(x, group=pair)\n"
        "everybody, x.item()"
    )
    assert outcome.values == {0: ([0, 1, 2], 2.0), 1: ([0, 1, 2], 2.0), 2: ([0, 1, 2], 1.0)}


def test_a_ddp_model_on_the_cpu_trains_with_it(mixed):
    outcome = mixed(
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "torch.manual_seed(0)\n"
        "model = DDP(torch.nn.Linear(2, 1))\n"
        "model(torch.full((1, 2), float(rank))).sum().backward()\n"
        "model.module.weight.grad.tolist()"
    )
    assert outcome.values == {rank: [[1.0, 1.0]] for rank in range(3)}
