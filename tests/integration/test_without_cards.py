"""Machines with GPUs, played where there is none: what the course decides there, and what it then starts.

Two things are played. A file that looks like a driver's makes the course try the GPUs. And on torch's CUDA build a
library that stands for NVIDIA's NVML counts GPUs, none of which works: a driver that is too old, no permission, MIG, a
GPU that has fallen off the bus.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

from realranks.ranks.kernel import gpus
from realranks.ranks.kernel.gpus import Gpu, Gpus
from tests.support.ranks_and_kernels import ROOT, Ranks

NVML = """
#include <stdlib.h>
int nvmlInit(void) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(int *count) { *count = atoi(getenv("PLAYED_GPUS")); return 0; }
"""
#: Run in a process of its own: the system reads LD_LIBRARY_PATH when a process starts.
STORY = """
import json, sys
from realranks.cells.machine import machine
from realranks.ranks.kernel import gpus
from realranks.ranks.kernel.gang import Gang

gpus.DEVICE_FILES = (__file__,) if sys.argv[1] == "driver" else ()
told = {}
report = machine()
told["gpus"], told["rows"] = report.gpus, dict(report.rows())
gang = Gang(int(sys.argv[2]))
source = '''import torch, torch.distributed as dist
x = torch.ones(1)
dist.all_reduce(x)
[x.item(), torch.cuda._is_in_bad_fork(), torch.cuda.is_available(), torch.cuda.device_count()]'''
outcome = gang.run_cell(source)
told["choice"] = [gang.backend.name, gang.backend.device]
told["values"], told["text"] = outcome.values[0], str(outcome)
gang.stop()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def nvml(tmp_path_factory):
    """A folder with a library that counts GPUs which are not there."""
    if not torch.backends.cuda.is_built():
        pytest.skip("needs the CUDA build of torch: this one never asks NVML")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML, encoding="utf-8")
    made = [compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(folder / "nvml.c")]
    subprocess.run(made, check=True)
    return folder


def story(tmp_path, driver="driver", ranks=4, **environment):
    """What `machine()` and a gang come to on such a machine."""
    script = tmp_path / "story.py"
    script.write_text(STORY, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), driver, str(ranks)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "DDP_COURSE_ZYGOTE": "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_gpus_that_are_counted_and_do_not_work_cost_nothing_but_a_sentence(tmp_path, nvml, method):
    told = story(
        tmp_path, LD_LIBRARY_PATH=str(nvml), PLAYED_GPUS="4", DDP_COURSE_START_METHOD=method, ranks=2
    )
    assert told["gpus"] == 0
    assert told["rows"]["GPUs"].startswith("4 GPU(s) counted, and CUDA does not start: ")
    assert "Hint: install the NVIDIA driver" in told["rows"]["GPUs"]
    assert "no GPU works here" in told["rows"]["backend for 4 ranks"]
    assert told["choice"] == ["gloo", "cpu"]
    assert told["values"] == [2.0, False, False, 0], "and ranks do not see them"


@pytest.mark.parametrize("how", [{}, {"CUDA_VISIBLE_DEVICES": "MIG-1c2d"}], ids=["no NVML", "MIG"])
def test_no_rank_is_forked_from_a_process_that_has_asked_cuda(tmp_path, how):
    """Where NVML does not answer, and with MIG, torch counts GPUs by initialising CUDA: its forks cannot use it."""
    if not torch.backends.cuda.is_built():
        pytest.skip("needs the CUDA build of torch: this one has no CUDA to initialise")
    told = story(tmp_path, ranks=1, **how)
    assert told["values"][1] is False


def test_on_a_machine_without_a_drivers_files_nothing_is_tried(tmp_path):
    told = story(tmp_path, driver="none", ranks=1)
    assert told["rows"]["GPUs"] == "none that torch can use"
    assert told["choice"] == ["gloo", "cpu"]


def test_a_torch_without_cuda_beside_a_gpu_says_so(tmp_path):
    if torch.backends.cuda.is_built():
        pytest.skip("needs the CPU build of torch")
    told = story(tmp_path, ranks=1)
    assert "built without CUDA" in told["rows"]["GPUs"]
    assert told["choice"] == ["gloo", "cpu"]


@pytest.fixture
def four_gpus(monkeypatch):
    """As if four GPUs had been tried, of which the second does not work."""
    tried = tuple(
        Gpu(n, "CUDA error: out of memory" if n == 1 else "", "H100", 80_000, 80_000) for n in range(4)
    )
    monkeypatch.setattr("realranks.ranks.kernel.local_start.find_gpus", lambda *_: Gpus(tried, 4))


def test_ranks_know_their_gpu_and_touch_none_until_they_use_it(four_gpus):
    ranks = Ranks(4)
    told = ranks(
        "import os\nimport torch\nfrom course_lib import device\ndevice(), torch.cuda.is_initialized()"
    )
    assert told.values == {rank: (torch.device("cuda", gpu), False) for rank, gpu in enumerate((0, 1, 2, 0))}
    told = ranks("os.environ['CUDA_VISIBLE_DEVICES'], os.environ['NCCL_SOCKET_IFNAME']")
    assert told.values[3] == ("0,2,3", "lo")
    ranks.gang.stop()


def test_without_gpus_the_device_is_the_cpu(shared_ranks):
    told = shared_ranks("from course_lib import device\ndevice().type")
    assert told.values == dict.fromkeys(range(4), "cpu")


def test_nccls_settings_are_those_of_gangs_whose_group_is_the_courses(shared_ranks, monkeypatch):
    read = "import os\n[os.environ.get('TORCH_NCCL_' + n) for n in ('ASYNC_ERROR_HANDLING', 'ENABLE_MONITORING')]"
    assert shared_ranks(read).values[0] == ["0", "0"]
    learners = Ranks(1, init=False)
    assert learners(read).values[0] == [None, None], "a script keeps torch's defaults"
    learners.gang.stop()
    monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    mine = Ranks(1)
    assert mine(read).values[0] == ["1", "0"], "and what the user has set stays"
    mine.gang.stop()


def test_answers_are_graded_on_the_cpu(tmp_path):
    from course_lib.grading.gangs import Gangs

    with Gangs((2,), "gloo", str(tmp_path)) as gangs:
        for _, gang, _ in gangs.each():
            told = gang.run_cell(
                "import os, torch\n(os.environ['CUDA_VISIBLE_DEVICES'], torch.cuda.is_available())"
            )
            assert told.values == dict.fromkeys(range(2), ("", False))


def test_variables_that_choose_gpus_in_the_notebook_count_from_the_next_gang_on(monkeypatch):
    asked = []
    monkeypatch.setattr(gpus, "DEVICE_FILES", (__file__,))
    monkeypatch.setattr(gpus, "_ask", lambda _, environment: asked.append(dict(environment)) or Gpus())
    gpus.forget_gpus()
    for visible in ("0,1", "2"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        one = Ranks(1)
        assert one("import os\nos.environ['CUDA_VISIBLE_DEVICES']").values == {0: visible}
        one.gang.stop()
    gpus.forget_gpus()
    assert [each["CUDA_VISIBLE_DEVICES"] for each in asked] == ["0,1", "2"]


@pytest.mark.parametrize(
    ("tried", "counted", "problem", "says"),
    [
        (
            (Gpu(0, "", "H100", 79_000, 81_000), Gpu(1, "", "H100", 79_000, 81_000)),
            2,
            "",
            "2 (H100): memory for about 254",
        ),
        (
            (Gpu(0, "", "T4", 15_000, 16_000), Gpu(1, "no answer within 30 seconds")),
            2,
            "",
            "GPU 1 cannot be used: no",
        ),
        ((), 4, "The NVIDIA driver on your system is too old", "4 GPU(s) counted, and CUDA does not start"),
        ((), 0, "", "none that torch can use"),
    ],
)
def test_machine_tells_of_every_gpu_whether_it_works(monkeypatch, tried, counted, problem, says):
    from realranks.cells.machine import machine

    found = Gpus(tried, counted, problem, nccl=True)
    monkeypatch.setattr("realranks.cells.machine.find_gpus", lambda *_: found)
    report = machine()
    assert says in dict(report.rows())["GPUs"]
    assert says in repr(report)
    assert report.gpus == len(found.usable)
    assert "<table" in report._repr_html_()
