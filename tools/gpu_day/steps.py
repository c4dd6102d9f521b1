"""What there is to be found out on a machine with GPUs: the steps, in their order, in five parts of eight minutes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: A part has to fit into one command of a machine that is lent for ten minutes at a time.
PART_SECONDS = 480.0
PARTS = {
    1: "the machine, and what the course chooses there",
    2: "the tests that need GPUs",
    3: "the notebooks",
    4: "NCCL: collectives, hangs, mismatches and errors, and the doctor",
    5: "speed and memory",
}
#: These use CUDA where there is a GPU, or say what happens there: they come first, in case the time is over too soon.
_FIRST_LESSONS = ("00", "01", "02", "11", "13", "15")


@dataclass(frozen=True)
class Step:
    """One thing to be found out.

    Attributes:
        part: 1 to 5. name: unique. what: what it finds out, for the page.
        command: what runs; its last line is `PASS why`, `FAIL why` or `CANNOT why`, or pytest's.
        gpus: how many it needs. seconds: how long it may take.
    """

    part: int
    name: str
    what: str
    command: tuple[str, ...]
    gpus: int = 1
    seconds: float = 90.0


def _story(part: int, name: str, what: str, gpus: int = 1, seconds: float = 90.0) -> Step:
    return Step(part, name, what, (sys.executable, "-m", "tools.gpu_day.stories", name), gpus, seconds)


def _tests(name: str, what: str, *arguments: str, seconds: float = 240.0) -> Step:
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    return Step(2, name, what, pytest, seconds=seconds)


def _notebooks() -> list[Step]:
    """A step per lesson; those that can meet CUDA first."""
    found = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    found.sort(key=lambda path: (path.name[:2] not in _FIRST_LESSONS, path.name))
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval")
    return [
        Step(
            3,
            f"notebook_{path.name[:2]}",
            f"every cell of {path.name} shows what it shows without a GPU",
            (*pytest, f"notebooks/{path.name}"),
            seconds=150.0,
        )
        for path in found
    ]


STEPS = (
    _story(1, "driver", "driver, GPUs, compute mode and MIG, as nvidia-smi has them"),
    _story(1, "torch", "the build of torch, its CUDA and NCCL, and whether CUDA starts"),
    _story(1, "tried", "every GPU that torch counts computes when the course tries it"),
    _story(
        1, "choices", "NCCL with up to as many ranks as GPUs, gloo with more, and both compute", seconds=150
    ),
    _story(1, "forked", "a rank that was forked can use CUDA, and has its own GPU"),
    _story(1, "lazy", "a gang takes no memory of a GPU before it uses it"),
    _story(1, "hidden", "with CUDA_VISIBLE_DEVICES empty, ranks run on the CPU and see no GPU"),
    _story(1, "sharing", "DDP_COURSE_NCCL_SHARES_GPUS=1: two ranks reduce through NCCL on one GPU"),
    _tests("marked", "the tests marked `gpu`", "-m", "gpu", "tests/integration/test_on_gpus.py"),
    _tests(
        "choosing",
        "the tests that play machines with GPUs, beside real ones",
        "tests/unit/ranks/test_backend.py",
        "tests/unit/ranks/test_gpus.py",
        "tests/integration/test_without_cards.py",
    ),
    _tests(
        "proofs",
        "deadlocks of CPU tensors are proved on this machine, too",
        "tests/integration/test_deadlocks.py",
        "tests/integration/test_mixed_group.py",
    ),
    *_notebooks(),
    _story(4, "collectives", "every collective, send and recv give the right sums through NCCL"),
    _story(4, "ddp", "DDP on NCCL trains to the weights that one process reaches"),
    _story(
        4,
        "left_out",
        "a rank leaves an all_reduce out, the others call .item(): named, and the gang lives on",
    ),
    _story(4, "left_open", "the same without .item(): the cell ends, and says what it has left open"),
    _story(
        4, "left_open_async", "the same with async_op=True: the check at a cell's end looks at all streams"
    ),
    _story(
        4, "first_left_out", "a rank leaves the very first CUDA collective out: freed, or ended by the course"
    ),
    _story(4, "mismatch", "all_reduce meets broadcast: it is not reported as a success"),
    _story(4, "raises", "a rank raises while the other has a collective on its GPU: variables are kept"),
    _story(4, "dies", "a rank is killed while the other waits for it: the report says so"),
    _story(4, "late", "a rank that comes 3 s late is waited for, and nothing is called a deadlock"),
    _story(4, "busy", "GPUs that compute for seconds, with TORCH_NCCL_BLOCKING_WAIT=1, are no deadlock"),
    _story(4, "stop", "the stop button, while a GPU waits for another rank: ranks and DDP models live on"),
    _story(
        4,
        "out_of_memory",
        "one rank's GPU is out of memory: raised, and swallowed; the gang lives on both times",
    ),
    _story(4, "recorder", "NCCL's recorder is read while a rank waits; its dumps are kept as fixtures"),
    _story(
        4,
        "doctor_healthy",
        "ddp-course doctor finds nothing in a sound script with CUDA tensors",
        seconds=120,
    ),
    _story(
        4, "doctor_left_out", "ddp-course doctor names the rank that leaves a collective out", seconds=120
    ),
    _story(
        4,
        "attached",
        "ddp-course doctor --attach names that rank, too, in a run that torchrun started",
        seconds=150,
    ),
    _story(5, "start", "seconds until a gang is ready: gloo, and NCCL connected at once", seconds=120),
    _story(
        5, "contexts", "memory that a rank takes of its GPU with its first tensor (the course assumes 620 MB)"
    ),
    _story(5, "first_step", "seconds of the first collective on CUDA tensors, and of later ones"),
    _story(
        5,
        "again",
        "five deadlocks, one after the other: no more than the broken group is kept, and DDP models live on",
        seconds=150,
    ),
    _story(5, "kernel_killed", "the kernel is killed: no rank is left, and its memory is given back"),
    _story(5, "fence", "what the wait at the end of a cell costs a rank that uses CUDA"),
)
