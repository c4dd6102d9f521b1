"""Which backend a gang uses, for every kind of machine."""

import pytest

from realranks.ranks.kernel.backend import (
    BackendChoice,
    BackendError,
    choose_backend,
    may_share,
    most_ranks_on,
)
from realranks.ranks.kernel.gpus import MB_PER_CONTEXT, NO_GPUS, Gpu, Gpus


def machine_with(number: int, nccl: bool = True, free_mb: int = 80_000, broken: tuple[int, ...] = ()) -> Gpus:
    """So many GPUs, of which these do not work."""
    tried = tuple(
        Gpu(index, "busy or unavailable") if index in broken else Gpu(index, "", "H100", free_mb, 80_000)
        for index in range(number)
    )
    return Gpus(tried, number, nccl=nccl)


OLD_DRIVER = Gpus(counted=4, problem="The NVIDIA driver on your system is too old", nccl=True)


@pytest.mark.parametrize(
    ("ranks", "wished", "gpus", "name", "device", "because"),
    [
        (4, "auto", NO_GPUS, "gloo", "cpu", "no GPU that torch can use"),
        (4, "gloo", NO_GPUS, "gloo", "cpu", "no GPU that torch can use"),
        (4, "auto", machine_with(4), "nccl", "cuda", "one GPU per rank"),
        (4, "auto", machine_with(8), "nccl", "cuda", "one GPU per rank"),
        (2, "nccl", machine_with(2), "nccl", "cuda", "one GPU per rank"),
        (4, "auto", machine_with(1), "gloo", "cuda", "NCCL refuses"),
        (4, "auto", machine_with(2), "gloo", "cuda", "4 ranks share 2 GPU(s)"),
        (4, "gloo", machine_with(4), "gloo", "cuda", "asked for"),
        (1, "auto", machine_with(1), "nccl", "cuda", "one GPU per rank"),
        (4, "auto", OLD_DRIVER, "gloo", "cpu", "no GPU works here"),
        (4, "gloo", OLD_DRIVER, "gloo", "cpu", "no GPU works here"),
        (4, "auto", machine_with(4, broken=(0, 1, 2, 3)), "gloo", "cpu", "no GPU works here"),
        (4, "auto", machine_with(4, broken=(1,)), "gloo", "cuda", "4 ranks share 3 GPU(s)"),
        (3, "auto", machine_with(4, broken=(1,)), "nccl", "cuda", "3 GPU(s) for 3 rank(s)"),
        (2, "auto", machine_with(2, free_mb=100), "gloo", "cpu", "GPU 0 has 100 MB free"),
        (40, "auto", machine_with(2, free_mb=10_000), "gloo", "cpu", "20 rank(s) need about 12400 MB"),
        (32, "auto", machine_with(2, free_mb=10_000), "gloo", "cuda", "32 ranks share 2 GPU(s)"),
    ],
)
def test_the_choice_and_its_reason(ranks, wished, gpus, name, device, because):
    choice = choose_backend(ranks, wished, gpus)
    assert (choice.name, choice.device) == (name, device)
    assert because in choice.reason


def test_enough_gpus_without_nccl_use_gloo_and_nobody_is_said_to_refuse():
    choice = choose_backend(2, "auto", machine_with(2, nccl=False))
    assert (choice.name, choice.device) == ("gloo", "cuda")
    assert "refuses" not in choice.reason


@pytest.mark.parametrize(
    ("ranks", "wished", "gpus", "says"),
    [
        (4, "mpi", NO_GPUS, "No backend 'mpi'"),
        (4, "nccl", NO_GPUS, "no GPU that torch can use"),
        (4, "nccl", OLD_DRIVER, "update the NVIDIA driver"),
        (2, "nccl", machine_with(2, nccl=False), "built without NCCL"),
        (4, "nccl", machine_with(2), "at most 2 rank(s)"),
        (4, "nccl", machine_with(4, broken=(2,)), "GPU 2 cannot be used"),
        (2, "nccl", machine_with(2, free_mb=100), "GPU 0 has 100 MB free"),
    ],
)
def test_what_cannot_work_is_refused_with_what_would(ranks, wished, gpus, says):
    with pytest.raises(BackendError) as caught:
        choose_backend(ranks, wished, gpus)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert wished == "mpi" or "gloo" in str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "ranks", "split_ranks"),
    [
        (NO_GPUS, 2, [None, None]),
        (OLD_DRIVER, 2, [None, None]),
        (machine_with(4), 4, [0, 1, 2, 3]),
        (machine_with(2), 4, [0, 1, 0, 1]),
        (machine_with(3), 4, [0, 1, 2, 0]),
        (machine_with(4, broken=(0,)), 4, [0, 1, 2, 0]),
    ],
)
def test_ranks_are_dealt_out_to_the_gpus_in_turn(gpus, ranks, split_ranks):
    choice = choose_backend(ranks, "auto", gpus)
    assert [choice.gpu_of(rank) for rank in range(ranks)] == split_ranks


@pytest.mark.parametrize(
    ("gpus", "hidden"),
    [
        (NO_GPUS, {}),
        (machine_with(4), {}),
        (machine_with(4, broken=(1,)), {"CUDA_VISIBLE_DEVICES": "0,2,3"}),
        (machine_with(4, broken=(0, 1, 2, 3)), {"CUDA_VISIBLE_DEVICES": ""}),
        (OLD_DRIVER, {"CUDA_VISIBLE_DEVICES": ""}),
        (machine_with(4, free_mb=0), {"CUDA_VISIBLE_DEVICES": ""}),
    ],
)
def test_gpus_that_cannot_be_used_are_hidden_from_ranks(gpus, hidden):
    """So that `cuda:1` is the second GPU that works, and `torch.cuda.is_available()` false where none does."""
    assert choose_backend(4, "auto", gpus).environment_of(0) == hidden


@pytest.mark.parametrize(("wished", "eager"), [("auto", False), ("gloo", False), ("nccl", True)])
def test_only_who_asks_for_nccl_by_name_has_the_gpus_connected_at_once(wished, eager):
    assert choose_backend(2, wished, machine_with(2)).eager is eager


def test_beside_nccl_gloo_carries_cpu_tensors():
    assert BackendChoice("nccl", "cuda", "").init_argument == "cpu:gloo,cuda:nccl"
    assert BackendChoice("gloo", "cuda", "").init_argument == "gloo"


def test_the_smallest_gpu_decides_how_many_ranks_have_room():
    small, large = Gpu(0, free_mb=2 * MB_PER_CONTEXT + 1), Gpu(1, free_mb=9 * MB_PER_CONTEXT)
    assert most_ranks_on(Gpus((small, large))) == 4
    assert most_ranks_on(NO_GPUS) == 0


def test_with_the_variable_nccl_that_was_asked_for_shares_a_gpu():
    choice = choose_backend(4, "nccl", machine_with(1), sharing=True)
    assert (choice.name, choice.device, choice.eager) == ("nccl", "cuda", True)
    assert [choice.gpu_of(rank) for rank in range(4)] == [0, 0, 0, 0]
    assert choice.environment_of(0).keys() == {"NCCL_HOSTID"}
    assert choice.environment_of(0) != choice.environment_of(1)
    assert "4 ranks share 1 GPU(s) with NCCL" in choice.reason


def test_sharing_changes_nothing_where_nccl_was_not_asked_for_or_gpus_are_enough():
    assert choose_backend(4, "auto", machine_with(1), sharing=True) == choose_backend(
        4, "auto", machine_with(1)
    )
    assert choose_backend(2, "nccl", machine_with(2), sharing=True).environment_of(0) == {}


def test_ranks_that_do_not_fit_into_a_shared_gpu_are_refused():
    with pytest.raises(BackendError, match="8 rank"):
        choose_backend(8, "nccl", machine_with(1, free_mb=4000), sharing=True)


@pytest.mark.parametrize(("value", "shares"), [("1", True), ("0", False), ("", False), (None, False)])
def test_nccl_shares_a_gpu_only_where_the_variable_is_1(value, shares):
    environment = {} if value is None else {"DDP_COURSE_NCCL_SHARES_GPUS": value}
    assert may_share(environment) is shares


def test_who_is_refused_is_told_of_the_variable():
    with pytest.raises(BackendError, match="DDP_COURSE_NCCL_SHARES_GPUS=1"):
        choose_backend(2, "nccl", machine_with(1))
