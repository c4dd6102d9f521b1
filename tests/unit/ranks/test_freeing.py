"""In which order a rank gives up NCCL's communicators, on groups that write down what is asked of them."""

import threading
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from realranks.ranks.inside import freeing, process_group


class Backend:
    """Stands for one backend of a group: NCCL's cannot be had without GPUs."""

    def __init__(self, kind, group, calls):
        self.kind, self.group, self.calls = kind, group, calls

    def name(self):
        return self.kind

    def _group_start(self):
        self.calls.append("start")

    def _group_end(self):
        self.calls.append("end")

    def abort(self):
        self.calls.append(f"abort {self.kind} of {self.group}")


class Group:
    """A group for CPU tensors through gloo, and for CUDA tensors through a backend of this kind."""

    def __init__(self, name, calls, on_gpus="nccl"):
        self._device_types = ["cpu", "cuda"]
        self.backends = {"cpu": Backend("gloo", name, calls), "cuda": Backend(on_gpus, name, calls)}

    def _get_backend(self, device):
        return self.backends[device]


@pytest.fixture
def calls(monkeypatch):
    """What is asked of the groups `0` (the default one), `1` and `2`, in order."""
    made: list[str] = []
    groups = {Group(name, made): name for name in ("0", "1", "2")}
    monkeypatch.setattr(distributed_c10d._world, "pg_names", groups, raising=False)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: made.append("destroy"))
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **how: made.append(f"init {how['device_id']}"))
    return made


@pytest.fixture(autouse=True)
def _with_a_world_of_its_own(monkeypatch):
    world = SimpleNamespace(pg_names={}, pg_map={})
    monkeypatch.setattr(distributed_c10d, "_world", world)
    monkeypatch.setattr(freeing, "_shut_down_connection", lambda *_: 0)  # pytest's own connections stay


ABORTED = ["start", "abort nccl of 2", "abort nccl of 1", "abort nccl of 0", "end"]


def test_all_groups_are_aborted_in_one_go_the_newest_first_and_gloo_is_left_alone(calls):
    assert freeing.abort_nccl() == 3
    assert calls == ABORTED


def test_a_communicator_that_cannot_be_aborted_does_not_keep_the_others(calls):
    def broken():
        raise RuntimeError("ncclInternalError")

    group = next(group for group, name in distributed_c10d._world.pg_names.items() if name == "1")
    group.backends["cuda"].abort = broken
    assert freeing.abort_nccl() == 2
    assert calls == ["start", "abort nccl of 2", "abort nccl of 0", "end"]


def test_without_nccl_nothing_is_aborted(monkeypatch):
    calls = []
    groups = {Group("0", calls, on_gpus="fake"): "0"}
    monkeypatch.setattr(distributed_c10d._world, "pg_names", groups)
    assert freeing.abort_nccl() == 0
    assert calls == []


def test_a_group_is_aborted_before_it_is_destroyed(calls, monkeypatch):
    """Destroyed first, NCCL waits for collectives that other ranks will never join."""
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(process_group, "_wrappers_of_default_group", list)
    assert process_group.rebuild_group("cpu:gloo,cuda:nccl", None, 1) == 0
    assert calls == [*ABORTED, "destroy", "init None"]


def test_gpus_are_connected_at_once_where_that_is_asked_for(calls):
    process_group.start_group("cpu:gloo,cuda:nccl", 3)
    assert calls == ["init cuda:3"]


def test_a_rank_that_does_not_use_its_gpu_has_nothing_to_abort(calls):
    freeing.free_blocked(None)
    assert calls == []


def test_freeing_does_not_wait_for_an_abort_that_does_not_come_back(calls, monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(freeing, "ABORT_SECONDS", 0.1)
    monkeypatch.setattr(freeing, "abort_nccl", never.wait)
    freeing.free_blocked(None)
    never.set()


def test_a_rank_takes_its_gpu_when_it_first_uses_cuda_and_not_before(monkeypatch):
    taken, queued = [], []
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(torch.cuda, "_lazy_call", queued.append)
    process_group.take_gpu(2)
    assert taken == []
    queued[0]()
    assert taken == [2]
