"""Whether GPUs are tried at all, what is made of the answer, and what is said about those that do not work."""

import json
import socket

import pytest

from realranks.ranks.codec import decode
from realranks.ranks.kernel import gpus
from realranks.ranks.kernel.gpus import Gpu, Gpus, advice, find_gpus, may_have_gpu
from realranks.ranks.server import try_gpus
from realranks.ranks.starting import GpuReport, GpusConfig


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """A machine on which there is a file of a GPU's driver."""
    (tmp_path / "dxg").touch()
    monkeypatch.setattr(gpus, "DEVICE_FILES", (str(tmp_path / "nvidiactl"), str(tmp_path / "dxg")))
    gpus.forget_gpus()
    yield tmp_path
    gpus.forget_gpus()


class Answering:
    """Stands for the process that starts ranks: answers like one that has tried, and counts how often it is asked."""

    method = "forkserver"

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked: list[dict[str, str]] = []

    def start(self, config, environment, fds):
        assert isinstance(config, GpusConfig)
        self.asked.append(environment)
        with socket.fromfd(fds[0], socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.sendall(self.answer)


def answer(*tried, problem="", counted=None, built=True, nccl=True) -> bytes:
    counted = len(tried) if counted is None else counted
    told = {"built": built, "nccl": nccl, "problem": problem, "counted": counted, "gpus": list(tried)}
    return json.dumps(told).encode()


def works(index):
    return {"index": index, "problem": "", "name": "H100", "free_mb": 79_000, "total_mb": 81_000}


BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"


def test_where_no_file_of_a_driver_is_nobody_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(gpus, "DEVICE_FILES", (str(tmp_path / "nvidiactl"),))
    launcher = Answering(answer(works(0)))
    assert find_gpus(launcher, {}) == gpus.NO_GPUS
    assert launcher.asked == []


@pytest.mark.parametrize(
    ("environment", "worth_it"),
    [
        ({}, True),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, True),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1c"}, True),
        ({"CUDA_VISIBLE_DEVICES": ""}, False),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, False),
        ({"HIP_VISIBLE_DEVICES": ""}, False),
    ],
)
def test_gpus_that_the_user_hides_are_not_tried(driver, environment, worth_it):
    assert may_have_gpu(environment) is worth_it


def test_they_are_tried_once_and_again_when_a_variable_that_decides_has_changed(driver):
    launcher = Answering(answer(works(0), works(1)))
    for environment in (
        {"A": "1"},
        {"A": "2"},
        {"CUDA_VISIBLE_DEVICES": "1"},
        {"CUDA_VISIBLE_DEVICES": "1", "B": "1"},
    ):
        assert len(find_gpus(launcher, environment).usable) == 2
    assert launcher.asked == [{"A": "1"}, {"CUDA_VISIBLE_DEVICES": "1"}]
    gpus.forget_gpus()
    find_gpus(launcher, {"A": "1"})
    assert len(launcher.asked) == 3


def test_a_process_that_ends_without_an_answer_is_no_gpu(driver):
    found = find_gpus(Answering(b""), {})
    assert not found.usable
    assert "no answer" in found.trouble


@pytest.mark.parametrize(
    ("text", "usable", "says"),
    [
        (answer(works(0), works(1)), 2, ""),
        (answer(works(0), {"index": 1, "problem": BUSY}), 1, "GPU 1 cannot be used: CUDA error"),
        (answer({"index": 0, "problem": "CUDA out of memory."}), 0, "another process uses its memory"),
        (
            answer(problem="Found no NVIDIA driver on your system.", counted=4),
            0,
            "4 GPU(s) counted, and CUDA does not",
        ),
        (answer(problem="No CUDA GPUs are available"), 0, "with MIG it has to be one of"),
        (answer(built=False, nccl=False), 0, "built without CUDA"),
    ],
)
def test_what_is_said_of_gpus_that_do_not_work(driver, text, usable, says):
    found = find_gpus(Answering(text), {})
    assert len(found.usable) == usable
    assert found.trouble == "" if says == "" else says in found.trouble
    assert "\n" not in found.trouble


def test_a_gpu_that_others_have_filled_is_passed_over_for_one_that_is_free(driver):
    full = {**works(0), "free_mb": 200}
    found = find_gpus(Answering(answer(full, works(1), works(2))), {})
    assert [gpu.index for gpu in found.usable] == [1, 2]
    assert found.only_usable == "1,2"
    assert "GPU 0 cannot be used: out of memory, 200 of 81000 MB are free" in found.trouble
    assert "another process uses its memory" in found.trouble


@pytest.mark.parametrize(
    ("problem", "helps"),
    [
        ("The NVIDIA driver on your system is too old (found version 11040).", "update the NVIDIA driver"),
        ("CUDA error: no kernel image is available for execution on the device", "built for this GPU"),
        ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "--gpus all"),
        (BUSY, "nvidia-smi -q -d COMPUTE"),
        ("CUDA error: out of memory", "another process uses its memory"),
        ("No CUDA GPUs are available", "MIG-..."),
        ("CUDA error: operation not permitted", "/dev/nvidia*"),
        ("no answer within 30 seconds", "a reset"),
        ("the process that tried it ended with -11", "the driver may be broken"),
        ("something new", "try it by hand"),
    ],
)
def test_every_known_problem_has_advice_of_its_own(problem, helps):
    assert helps in advice(problem)


@pytest.mark.parametrize(
    ("broken", "visible", "only"),
    [
        ((), None, None),
        ((), "2,3", None),
        ((1,), None, "0,2"),
        ((0,), "4,5,6", "5,6"),
        ((2,), "MIG-a, MIG-b, MIG-c", "MIG-a,MIG-b"),
    ],
)
def test_the_gpus_that_work_are_named_as_the_user_names_them(broken, visible, only):
    tried = tuple(Gpu(index, BUSY if index in broken else "") for index in range(3))
    assert Gpus(tried, 3, visible=visible).only_usable == only


# -- trying, in processes of its own -----------------------------------------------------------------------------------


def test_each_try_has_a_process_of_its_own_and_one_that_crashes_or_hangs_spoils_no_other():
    import os
    import signal
    import time

    mine = os.getpid()
    found = try_gpus._children(
        {
            0: lambda: try_gpus._Tried(counted=int(os.getpid() != mine)),
            1: lambda: os.kill(os.getpid(), signal.SIGTERM),
            2: lambda: time.sleep(60),
            3: lambda: try_gpus._Tried("said"),
        },
        1.0,
    )
    assert found[0] == try_gpus._Tried(counted=1)
    assert found[1] == try_gpus._Tried(f"the process that tried it ended with -{signal.SIGTERM.value}")
    assert found[2] == try_gpus._Tried("no answer within 1 seconds")
    assert found[3] == try_gpus._Tried("said")


def test_a_torch_without_cuda_says_so_and_tries_nothing():
    import torch

    if torch.backends.cuda.is_built():
        pytest.skip("needs the CPU build of torch")
    ours, theirs = socket.socketpair()
    with ours:
        assert try_gpus.report_gpus(theirs.detach(), GpusConfig(1.0)) == 0
        assert decode(GpuReport, json.loads(ours.recv(1 << 16))) == GpuReport(built=False)
