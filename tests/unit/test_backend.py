"""Which backend a gang uses, for every kind of machine."""

import pytest

from course_lib.ranks.kernel.backend import BackendError, choose_backend


@pytest.mark.parametrize(
    ("ranks", "wished", "gpus", "nccl", "name", "device", "because"),
    [
        (4, "auto", 0, False, "gloo", "cpu", "no GPU"),
        (4, "gloo", 0, False, "gloo", "cpu", "no GPU"),
        (4, "auto", 4, True, "nccl", "cuda", "one GPU a rank"),
        (4, "auto", 8, True, "nccl", "cuda", "one GPU a rank"),
        (2, "nccl", 2, True, "nccl", "cuda", "one GPU a rank"),
        (4, "auto", 1, True, "gloo", "cuda", "NCCL refuses"),
        (4, "gloo", 4, True, "gloo", "cuda", "asked for"),
        (1, "auto", 1, True, "nccl", "cuda", "one GPU a rank"),
    ],
)
def test_the_choice_and_its_reason(ranks, wished, gpus, nccl, name, device, because):
    choice = choose_backend(ranks, wished, gpus, nccl)
    assert (choice.name, choice.device) == (name, device)
    assert because in choice.reason


def test_enough_gpus_without_nccl_use_gloo_and_nobody_is_said_to_refuse():
    choice = choose_backend(2, "auto", 2, nccl=False)
    assert (choice.name, choice.device) == ("gloo", "cuda")
    assert "refuses" not in choice.reason


@pytest.mark.parametrize(
    ("ranks", "wished", "gpus", "nccl", "says"),
    [
        (4, "mpi", 0, False, "No backend 'mpi'"),
        (4, "nccl", 0, False, "no GPU that torch can use"),
        (2, "nccl", 2, False, "built without NCCL"),
        (4, "nccl", 2, True, "at most 2 rank(s)"),
    ],
)
def test_what_cannot_work_is_refused_with_what_would(ranks, wished, gpus, nccl, says):
    with pytest.raises(BackendError) as caught:
        choose_backend(ranks, wished, gpus, nccl)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
