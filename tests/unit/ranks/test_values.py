"""How values travel, and what stands for those that cannot."""

import threading

import pytest
import torch

from realranks.outcome.packed import NotSent, unpack
from realranks.ranks.inside.values import EAGER_BYTES, pack


@pytest.mark.parametrize("value", [1, "text", [1, {"a": (2, 3)}], b"bytes", 0, False, "", []])
def test_a_value_comes_back_as_it_was(value):
    blob, not_sent = pack(value)
    assert not_sent is None
    assert unpack(blob, not_sent) == value


def test_nothing_stays_nothing():
    assert unpack(*pack(None)) is None


def test_functions_and_classes_defined_here_travel():
    offset = 3
    assert unpack(*pack(lambda x: x + offset))(4) == 7


def test_what_cannot_be_pickled_is_described():
    value = unpack(*pack({"lock": threading.Lock()}))
    assert isinstance(value, NotSent)
    assert "lock" in repr(value)
    assert "not sent to the kernel" in repr(value)


def test_what_is_too_large_is_named_large_and_costs_nothing():
    blob, not_sent = pack(bytes(10_000_000))
    assert blob == b""
    assert not_sent.reason == "large"
    assert pack(bytes(10_000_000), limit=None)[1] is None


class Tensorlike:
    """Has a tensor's storage, and cannot be pickled: whoever copies it before asking for its size is found out."""

    def __init__(self, size):
        self.size = size

    def untyped_storage(self):
        return self

    def nbytes(self):
        return self.size

    def __reduce__(self):
        raise AssertionError("copied")


def test_a_tensor_is_asked_for_its_size_before_it_is_copied():
    assert pack({"weights": [Tensorlike(EAGER_BYTES + 1)]})[1].reason == "large"
    assert pack(Tensorlike(101), limit=100)[1].reason == "too large to send"
    for small in (pack(Tensorlike(100), limit=100), pack(Tensorlike(EAGER_BYTES + 1), limit=None)):
        assert small[1].reason == "AssertionError: copied"


@pytest.mark.parametrize("error", [ValueError, RecursionError, SystemExit])
def test_an_object_that_misbehaves_when_pickled_is_described(error):
    class Odd:
        def __reduce__(self):
            raise error("no")

        def __repr__(self):
            raise error("no")

    value = unpack(*pack(Odd()))
    assert "Odd" in value.text
    assert value.reason


def test_what_cannot_be_rebuilt_here_says_so():
    class Odd:
        def __reduce__(self):
            return (int, ("x",))

    assert "cannot be rebuilt in the kernel: ValueError" in unpack(*pack(Odd())).reason


def test_what_is_no_pickle_says_so():
    assert isinstance(unpack(b"nonsense", None), NotSent)


class _OnGpu:
    """Says of itself that it lies on a GPU, and is a CPU tensor: what is to be seen is that it is asked for a copy."""

    is_cuda = True
    requires_grad = True

    def __init__(self) -> None:
        self.values = torch.ones(2)

    def untyped_storage(self):
        return self.values.untyped_storage()

    def detach(self):
        return self

    def cpu(self):
        return self.values


def test_a_tensor_on_a_gpu_travels_as_a_cpu_tensor():
    """Unpacked on its GPU, it would cost the notebook's kernel a CUDA context there."""
    value = unpack(*pack({"loss": _OnGpu()}))["loss"]
    assert type(value) is torch.Tensor
    assert value.tolist() == [1, 1]
    assert value.requires_grad


@pytest.mark.gpu
def test_parameters_on_a_gpu_travel_as_parameters_on_the_cpu():
    layer = unpack(*pack(torch.nn.Linear(2, 1).cuda()))
    assert isinstance(layer.weight, torch.nn.Parameter)
    assert not layer.weight.is_cuda
