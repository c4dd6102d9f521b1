"""Gangs on real GPUs, with NCCL. Reported by name as not run where there are none."""

import subprocess

import pytest

from realranks.outcome.outcome import Kind
from tests.support.ranks_and_kernels import Ranks

_WITH_TORCH = "import torch, torch.distributed as dist\nfrom course_lib import device\nrank = dist.get_rank()"


@pytest.fixture
def gang():
    """Starts gangs that use the machine's GPUs."""
    mine = []

    def start(size, **options):
        ranks = Ranks(size, **options)
        mine.append(ranks)
        ranks(_WITH_TORCH)
        return ranks

    yield start
    for ranks in mine:
        ranks.gang.stop()


def processes_on_gpus() -> set[int]:
    asked = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    return {int(line) for line in subprocess.run(asked, capture_output=True, text=True).stdout.split()}


@pytest.mark.gpu
def test_a_gang_takes_no_memory_of_a_gpu_before_it_uses_it(gang):
    ranks = gang(1)
    assert ranks.gang.backend.name == "nccl"
    ranks("dist.barrier()\ndist.all_reduce(torch.ones(1))")
    assert not processes_on_gpus() & set(ranks.pids())
    ranks("torch.ones(1, device=device())")
    assert ranks("torch.cuda.current_device()").values == {0: 0}


@pytest.mark.gpu
def test_ranks_that_share_a_gpu_reduce_cuda_tensors_through_gloo(gang):
    ranks = gang(3, backend="gloo")
    told = ranks("x = torch.ones(2, device=device())\ndist.all_reduce(x)\nx")
    assert {rank: (value.tolist(), value.is_cuda) for rank, value in told.values.items()} == {
        rank: ([3.0, 3.0], False) for rank in range(3)
    }, "and the values come to the kernel as CPU tensors"


@pytest.mark.gpu(2)
def test_nccl_reduces_cuda_tensors_and_gloo_those_on_the_cpu(gang):
    ranks = gang(2)
    told = ranks(
        "both = [torch.ones(1), torch.ones(1, device='cuda')]\n"
        "for x in both:\n    dist.all_reduce(x)\n"
        "[x.item() for x in both], torch.cuda.current_device()"
    )
    assert told.values == {0: ([2.0, 2.0], 0), 1: ([2.0, 2.0], 1)}


@pytest.mark.gpu(2)
@pytest.mark.parametrize("backend", ["auto", "nccl"])
def test_a_rank_that_leaves_a_collective_of_nccls_out_is_named_and_the_gang_lives_on(gang, backend):
    ranks = gang(2, backend=backend)
    ranks("kept = rank\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x)\ntorch.cuda.synchronize()")
    told = ranks("if rank == 0:\n    dist.all_reduce(x)\n    x.item()", timeout=5.0)
    assert told.kind is Kind.HANG
    assert told.diagnosis.kind == "waits_for_gpu"
    assert told.diagnosis.culprits == (1,)
    again = ranks("y = torch.ones(1, device='cuda')\ndist.all_reduce(y)\n(kept, y.item())")
    assert again.values == {0: (0, 2.0), 1: (1, 2.0)}


@pytest.mark.gpu(2)
def test_a_rank_that_raises_while_the_other_has_a_collective_on_its_gpu_costs_no_variables(gang):
    ranks = gang(2)
    ranks("kept = rank\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x)\ntorch.cuda.synchronize()")
    assert (
        ranks("if rank:\n    raise ValueError\nwork = dist.all_reduce(x, async_op=True)").kind is Kind.RAISES
    )
    assert ranks("dist.all_reduce(y := torch.ones(1, device='cuda'))\n(kept, y.item())").values[1] == (1, 2.0)
