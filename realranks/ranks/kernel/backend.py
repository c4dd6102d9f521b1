"""The choice of a gang's backend and devices, made in one place and explained in words. Also NCCL's settings.

| ranks and GPUs that work | backend | tensors |
| --- | --- | --- |
| none, or too little memory on them | gloo | CPU, one thread per rank |
| at least one GPU per rank | gloo for CPU tensors, NCCL for CUDA tensors | CPU, or the rank's own GPU |
| fewer GPUs than ranks | gloo | CPU, or the GPU that ranks share: NCCL refuses two ranks on one GPU |
| the same, `--backend nccl` and `DDP_COURSE_NCCL_SHARES_GPUS=1` | as with enough GPUs | CPU, or the shared GPU |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from realranks.ranks.kernel.gpus import MB_PER_CONTEXT, Gpus

BACKENDS = ("auto", "gloo", "nccl")
#: Memory to set aside for a rank when asking whether a gang fits, by start method: measured 60 MB (proportional share)
#: where it is forked, and 250 MB where it loads torch itself, each with a margin.
MB_PER_RANK = {"forkserver": 80, "spawn": 300}
#: NCCL's settings, where the user has not set them, for gangs whose process group is the course's. There the course
#: ends what hangs, keeps the rank's variables, and builds a new group. torch's watchdog would end the process instead
#: when a collective takes too long (0: it only reports; torch's `_abort_process_group` asks for this); so would the
#: heartbeat monitor when the watchdog has been silent for eight minutes (on a rank that was stopped with SIGSTOP). A
#: script makes its own group and keeps torch's defaults, with which it will run in production.
NCCL_SETTINGS_OF_OUR_GROUP = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_ENABLE_MONITORING": "0"}
#: Set to 1, `--backend nccl` accepts more ranks than GPUs: to learn about NCCL on a single card, not for speed. NCCL
#: refuses two ranks of one machine on one GPU; with an NCCL_HOSTID of its own each rank counts as a machine, and what
#: ranks send each other goes through sockets.
SHARING_VARIABLE = "DDP_COURSE_NCCL_SHARES_GPUS"


class BackendError(ValueError):
    """The requested backend cannot work on this machine; the message says why and what would."""


@dataclass(frozen=True)
class BackendChoice:
    """A backend, where its tensors can live, and why.

    Attributes:
        name: `gloo` or `nccl`. device: `cuda` where each rank has a GPU, alone or shared, else `cpu`; the ranks'
            `realranks.device()`. reason: in one sentence. gpus: how many GPUs the ranks are dealt out to.
        eager: NCCL connects the ranks at once, not in their first collective on CUDA tensors. Only where NCCL was asked
            for by name: it takes a CUDA context on every GPU at once, and sends `barrier()` through NCCL too.
        visible: what CUDA_VISIBLE_DEVICES has to be, where GPUs do not work or are full; None: as it is.
        shared: NCCL is asked to accept several ranks per GPU.
    """

    name: str
    device: str
    reason: str
    gpus: int = 0
    eager: bool = False
    visible: str | None = None
    shared: bool = False

    @property
    def init_argument(self) -> str:
        """The argument of `init_process_group`. With NCCL, gloo serves CPU tensors: lessons run unchanged on both."""
        return "cpu:gloo,cuda:nccl" if self.name == "nccl" else self.name

    def gpu_of(self, rank: int) -> int | None:
        """Return the index of this rank's GPU, or None on the CPU."""
        return rank % self.gpus if self.device == "cuda" else None

    def environment_of(self, rank: int) -> dict[str, str]:
        """Return variables that hide unusable GPUs from ranks and, if requested, let NCCL share the others."""
        hidden = {} if self.visible is None else {"CUDA_VISIBLE_DEVICES": self.visible}
        return {**hidden, "NCCL_HOSTID": f"rank {rank}"} if self.shared else hidden


def may_share(environment: Mapping[str, str]) -> bool:
    """Check whether the user lets NCCL put several ranks on one GPU."""
    return environment.get(SHARING_VARIABLE, "").strip() == "1"


def choose_backend(world_size: int, requested: str, gpus: Gpus, sharing: bool = False) -> BackendChoice:
    """Decide for a gang of `world_size` ranks on a machine with these GPUs.

    Args:
        sharing: where NCCL was asked for by name, several ranks may share a GPU with it (see `may_share`).

    Raises:
        BackendError: `requested` is unknown, or NCCL is requested where it cannot work.
    """
    if requested not in BACKENDS:
        raise BackendError(f"No backend {requested!r}: choose {', '.join(BACKENDS)}.")
    number = len(gpus.usable)
    full = _full(world_size, gpus)
    if requested == "nccl":
        _check_nccl(world_size, gpus, full, sharing)
    if not number or full:
        why = full or ("no GPU works here" if gpus.trouble else "no GPU that torch can use")
        # What is there and cannot be used is hidden: code that asks `torch.cuda.is_available()` runs on the CPU, too.
        hidden = "" if full or gpus.trouble else None
        return BackendChoice("gloo", "cpu", f"{why}: gloo on the CPU, one thread per rank", visible=hidden)

    def on_gpus(name: str, reason: str, shared: bool = False) -> BackendChoice:
        return BackendChoice(name, "cuda", reason, number, requested == "nccl", gpus.only_usable, shared)

    if requested == "gloo":
        return on_gpus("gloo", "gloo was asked for; CUDA tensors work with it")
    if world_size <= number and gpus.nccl:
        return on_gpus("nccl", f"{number} GPU(s) for {world_size} rank(s): NCCL, one GPU per rank")
    if world_size <= number:
        return on_gpus("gloo", "this torch is built without NCCL: gloo with CUDA tensors")
    if requested == "nccl":
        why = f"{world_size} ranks share {number} GPU(s) with NCCL, which {SHARING_VARIABLE} allows"
        return on_gpus("nccl", f"{why}: to learn from, not for speed", shared=True)
    return on_gpus(
        "gloo", f"{world_size} ranks share {number} GPU(s), which NCCL refuses: gloo with CUDA tensors"
    )


def _check_nccl(world_size: int, gpus: Gpus, full: str, sharing: bool) -> None:
    number = len(gpus.usable)
    if not number or not gpus.nccl:
        why = gpus.trouble or "this machine has no GPU that torch can use"
        if number:
            why = "this torch is built without NCCL"
        raise BackendError(f"--backend nccl cannot work here: {why}. Use gloo (or leave --backend out).")
    if world_size > number and not sharing:
        broken = f" {gpus.trouble}." if gpus.trouble else ""
        raise BackendError(
            f"--backend nccl needs a GPU for each rank: {world_size} ranks, {number} GPU(s).{broken} "
            f"Use at most {number} rank(s), or gloo with shared GPUs (leave --backend out). "
            f"To learn from, ranks can share a GPU with NCCL: set {SHARING_VARIABLE}=1."
        )
    if full:
        raise BackendError(f"--backend nccl cannot work here: {full}. Use gloo (or leave --backend out).")


def _full(world_size: int, gpus: Gpus) -> str:
    """Explain why the ranks do not fit into the memory of the working GPUs; '' if they do."""
    usable = gpus.usable
    for place, gpu in enumerate(usable):
        ranks = len(range(place, world_size, len(usable)))
        if ranks * MB_PER_CONTEXT > gpu.free_mb:
            return (
                f"GPU {gpu.index} has {gpu.free_mb} MB free, and {ranks} rank(s) need about "
                f"{ranks * MB_PER_CONTEXT} MB of it before their first tensor"
            )
    return ""


def most_ranks_on(gpus: Gpus) -> int:
    """Return how many ranks, evenly distributed, have room on the working GPUs."""
    return min((gpu.free_mb // MB_PER_CONTEXT for gpu in gpus.usable), default=0) * len(gpus.usable)
