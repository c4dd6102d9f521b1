"""The GPUs that ranks can use, tried rather than counted; and if one cannot be used, why, and what helps.

Asked only where the system has files of a GPU's driver, which costs a tenth of a millisecond; elsewhere nothing is
started. The trying itself is done in processes of its own (`server/try_gpus.py`) and takes as long as CUDA needs to
start, once per kernel and setting of the variables that decide which GPUs a process sees: a CUDA_VISIBLE_DEVICES that
is set in the notebook counts from the next gang on.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from realranks.ranks.codec import decode
from realranks.ranks.server.try_gpus import TRY_SECONDS
from realranks.ranks.starting import Gpu, GpuReport, GpusConfig

if TYPE_CHECKING:
    from realranks.ranks.kernel.launcher import Launcher

#: Files of which a machine has at least one when a process there may use a GPU: NVIDIA's driver, WSL 2, Jetson, ROCm.
DEVICE_FILES = (
    "/dev/nvidiactl",
    "/proc/driver/nvidia/version",
    "/dev/dxg",
    "/dev/nvhost-gpu",
    "/dev/nvgpu",
    "/dev/kfd",
)
#: Variables that decide which GPUs a process sees, and which library of the driver it loads.
_VARIABLES = re.compile(r"(CUDA|NVIDIA|HIP|ROCR)_|(GPU_DEVICE_ORDINAL|LD_LIBRARY_PATH)$")
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


#: What a rank takes of its GPU as soon as it uses it: 620 MB with its first tensor on an H200 (torch 2.11 for CUDA 13),
#: and 990 MB once NCCL has connected two ranks.
MB_PER_CONTEXT = 620


@dataclass(frozen=True)
class Gpus(GpuReport):
    """The GPUs of a machine as its ranks see them: what trying them has reported (see `GpuReport`).

    Attributes:
        visible: the variable that hides GPUs from ranks, as the user has set it; None where it is not set.
    """

    visible: str | None = None

    @property
    def usable(self) -> tuple[Gpu, ...]:
        """Those that a rank can use."""
        return tuple(gpu for gpu in self.gpus if not gpu.problem)

    @property
    def only_usable(self) -> str | None:
        """The value of CUDA_VISIBLE_DEVICES that hides all other GPUs from ranks; None if it need not change.

        `cuda:1` is then the second GPU that works, so that `torch.cuda.set_device(LOCAL_RANK)` is right.
        """
        if len(self.usable) == len(self.gpus):
            return None
        names = self.visible.split(",") if self.visible else [str(gpu.index) for gpu in self.gpus]
        return ",".join(names[gpu.index].strip() for gpu in self.usable if gpu.index < len(names))

    @property
    def trouble(self) -> str:
        """A sentence on why GPUs cannot be used, and what helps; '' if all can, or there are none."""
        if not self.built:
            return _sentence(
                "the machine seems to have a GPU, and this torch is built without CUDA", _OTHER_BUILD
            )
        if self.problem:
            number = f"{self.counted} GPU(s) counted" if self.counted else "the machine seems to have a GPU"
            return _sentence(f"{number}, and CUDA does not start: {self.problem}", advice(self.problem))
        broken = [gpu for gpu in self.gpus if gpu.problem]
        if not broken:
            return ""
        which = ", ".join(str(gpu.index) for gpu in broken)
        return _sentence(f"GPU {which} cannot be used: {broken[0].problem}", advice(broken[0].problem))

    @classmethod
    def from_report(cls, report: GpuReport, visible: str | None) -> Gpus:
        """Build this from what `report_gpus` has written."""
        values = {item.name: getattr(report, item.name) for item in fields(report)}
        return cls(**{**values, "gpus": tuple(map(_with_room, report.gpus))}, visible=visible)


def _with_room(gpu: Gpu) -> Gpu:
    """Mark a GPU as unusable if others have left no memory on it: on a shared machine the next one may be free."""
    if gpu.problem or gpu.free_mb >= MB_PER_CONTEXT:
        return gpu
    return replace(gpu, problem=f"out of memory, {gpu.free_mb} of {gpu.total_mb} MB are free")


NO_GPUS = Gpus()
_CHOOSE = "CUDA_VISIBLE_DEVICES"
_OTHER_BUILD = "to use it, install a CUDA build of torch (pytorch.org, Get Started)"
#: What CUDA and torch say, and what helps.
_ADVICE = (
    (
        r"driver on your system is too old|driver version is insufficient|unsupported PTX|error 803",
        "update the NVIDIA driver, or install a torch that is built for an older CUDA",
    ),
    (r"no kernel image", "install a torch that is built for this GPU"),
    (
        r"no NVIDIA driver|libcuda",
        "install the NVIDIA driver; in a container, start it with --gpus all and NVIDIA_DRIVER_CAPABILITIES=all",
    ),
    (
        r"busy or unavailable",
        "another process may have it to itself (nvidia-smi -q -d COMPUTE says so): choose another one with "
        + _CHOOSE,
    ),
    (
        r"out of memory",
        "another process uses its memory (nvidia-smi says which): choose another one with " + _CHOOSE,
    ),
    (
        r"no CUDA-capable device|No CUDA GPUs",
        "compare CUDA_VISIBLE_DEVICES with what nvidia-smi -L lists; with MIG it has to be one of the MIG-... names",
    ),
    (
        r"operation not permitted|permission|OS call failed",
        "ask for access to /dev/nvidia* (a group, or the container)",
    ),
    (
        r"no answer|uncorrectable|is lost|unspecified launch|ECC",
        "see nvidia-smi and dmesg: it may need a reset",
    ),
    (r"ended with", "see nvidia-smi and dmesg: the driver may be broken"),
)


def advice(problem: str) -> str:
    """Return what helps against this problem, or a general hint if it is unknown."""
    for pattern, text in _ADVICE:
        if re.search(pattern, problem, re.IGNORECASE):
            return text
    return 'try it by hand: python -c "import torch; print(torch.ones(1).cuda())"'


def _sentence(what: str, helps: str) -> str:
    return f"{what.rstrip('. ')}. Hint: {helps}"


def may_have_gpu(environment: Mapping[str, str]) -> bool:
    """Check for a GPU's device files and that the user does not hide all GPUs; starts nothing."""
    if any(environment.get(name, "all").strip() in ("", "-1") for name in _VISIBLE):
        return False
    return any(os.path.exists(name) for name in DEVICE_FILES)


_known: dict[tuple[str, tuple[tuple[str, str], ...]], Gpus] = {}
_asking = threading.Lock()


def find_gpus(launcher: Launcher, environment: Mapping[str, str]) -> Gpus:
    """Find the GPUs that a rank with this environment can use; tried once, then cached.

    Raises:
        LaunchError: the process that starts ranks is gone.
    """
    if not may_have_gpu(environment):
        return NO_GPUS
    deciding = tuple(sorted(item for item in environment.items() if _VARIABLES.match(item[0])))
    with _asking:
        key = (launcher.method, deciding)
        if key not in _known:
            _known[key] = _ask(launcher, environment)
        return _known[key]


def find_gpus_early(launcher: Launcher) -> None:
    """Try the GPUs in the background; returns at once. CUDA takes seconds to start, which the learner reads away."""
    if may_have_gpu(os.environ):
        environment = dict(os.environ)

        def find() -> None:
            with contextlib.suppress(Exception):  # a caller who needs them asks again, and is told
                launcher.wait_ready()
                find_gpus(launcher, environment)

        threading.Thread(target=find, name="course-gpus", daemon=True).start()


def forget_gpus() -> None:
    """Try them again the next time."""
    with _asking:
        _known.clear()


def _ask(launcher: Launcher, environment: Mapping[str, str]) -> Gpus:
    wire, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        with theirs:
            launcher.start(GpusConfig(TRY_SECONDS), environment, [theirs.fileno(), null, null])
    except BaseException:
        wire.close()
        raise
    finally:
        os.close(null)
    text = b""
    with wire, contextlib.suppress(OSError):
        # Two rounds of trying, and a fresh interpreter that loads torch where ranks are not forked.
        wire.settimeout(3 * TRY_SECONDS)
        while chunk := wire.recv(1 << 16):
            text += chunk
    visible = next((environment[name] for name in _VISIBLE if name in environment), None)
    try:
        return Gpus.from_report(decode(GpuReport, json.loads(text)), visible)
    except ValueError:
        return Gpus(problem=f"no answer within {3 * TRY_SECONDS:.0f} seconds", visible=visible)
