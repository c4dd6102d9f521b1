"""Which backend a gang uses, and why: decided in one place, said in words.

| ranks and GPUs | backend | tensors |
| --- | --- | --- |
| no GPU | gloo | CPU, one thread a rank |
| at least one GPU for each rank | nccl | one GPU a rank |
| fewer GPUs than ranks | gloo | CUDA tensors, GPUs shared: NCCL refuses two ranks on one GPU |
"""

from __future__ import annotations

from dataclasses import dataclass

BACKENDS = ("auto", "gloo", "nccl")
#: Memory to set aside for a rank when asking whether a gang fits: measured 60 MB (proportional share), with a margin.
MB_PER_RANK = 80


class BackendError(ValueError):
    """The wished-for backend cannot work on this machine; the message says why and what would."""


@dataclass(frozen=True)
class BackendChoice:
    """A backend, the device its tensors live on, and the reason in one sentence."""

    name: str
    device: str
    reason: str

    @property
    def init_argument(self) -> str:
        """What `init_process_group` is given. Next to NCCL, gloo serves CPU tensors: lessons run unchanged on both."""
        return "cpu:gloo,cuda:nccl" if self.name == "nccl" else self.name


def choose_backend(world_size: int, wished: str, gpus: int, nccl: bool) -> BackendChoice:
    """Decide for a gang of `world_size` ranks on a machine with `gpus` GPUs.

    Raises:
        BackendError: `wished` is unknown, or NCCL is wished for where it cannot work.
    """
    if wished not in BACKENDS:
        raise BackendError(f"No backend {wished!r}: choose {', '.join(BACKENDS)}.")
    if wished == "nccl":
        if not gpus or not nccl:
            why = (
                "this machine has no GPU that torch can use"
                if not gpus
                else "this torch is built without NCCL"
            )
            raise BackendError(f"--backend nccl cannot work here: {why}. Use gloo (or leave --backend out).")
        if world_size > gpus:
            raise BackendError(
                f"--backend nccl needs a GPU for each rank: {world_size} ranks, {gpus} GPU(s). "
                f"Use at most {gpus} rank(s), or gloo with shared GPUs (leave --backend out)."
            )
    if not gpus:
        return BackendChoice("gloo", "cpu", "no GPU that torch can use: gloo on the CPU, one thread a rank")
    if wished == "gloo":
        return BackendChoice("gloo", "cuda", "gloo was asked for; CUDA tensors work with it")
    if world_size <= gpus and nccl:
        return BackendChoice("nccl", "cuda", f"{gpus} GPU(s) for {world_size} rank(s): NCCL, one GPU a rank")
    if world_size <= gpus:
        return BackendChoice("gloo", "cuda", "this torch is built without NCCL: gloo with CUDA tensors")
    return BackendChoice(
        "gloo", "cuda", f"{world_size} ranks share {gpus} GPU(s), which NCCL refuses: gloo with CUDA tensors"
    )
