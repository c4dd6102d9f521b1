"""Lesson 02, Deeper: starts that go wrong and what the doctor says of them, a file left over, what a start costs."""

from __future__ import annotations

import itertools
import os
import re
import socket
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from course_lib.lessons.process_groups.lab import free_port, seconds, threads, torchrun
from realranks.cells.run import run_quietly
from realranks.draw import Bar, Drawing, Lane, lanes
from realranks.outcome.outcome import Kind, Outcome
from realranks.scripts.examine import Examination, examine


def be_killed(url: str) -> None:
    """Meet at this URL on two ranks, and end without tidying up."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=url, rank=int(os.environ["RANK"]), world_size=2)
    dist.barrier()
    os._exit(1)


def meet_after_a_kill() -> tuple[list[str], Outcome]:
    """Run twice through one file: what the first run, which is killed, leaves, and how the second ends."""
    with tempfile.TemporaryDirectory() as shared:
        url = f"file://{shared}/store"
        run_quietly(be_killed, url, ranks=2, init=False)
        left = os.listdir(shared)
        return left, run_quietly(start_early, url, ranks=2, init=False)


def start_early(url: str) -> None:
    """Let rank 1 ask for the group while rank 0 is late; runs on two ranks."""
    import torch.distributed as dist

    failed = url.removeprefix("file://") + ".failed"
    if os.environ["RANK"] == "0":
        while not os.path.exists(failed):
            time.sleep(0.02)
        return
    try:
        dist.init_process_group("gloo", init_method=url, rank=1, world_size=2, timeout=seconds(0.2))
    finally:
        Path(failed).touch()


def come_too_late(patience: float) -> str:
    """Give up a collective after its group's timeout, before the other of two ranks calls it.

    Args:
        patience: that timeout, in seconds. It also limits how long ranks may take to connect, on a machine that has
            other things to do.
    """
    import torch
    import torch.distributed as dist

    os.environ["NCCL_BLOCKING_WAIT"] = os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"
    impatient = cast("dist.ProcessGroup", dist.new_group(timeout=seconds(patience)))
    dist.barrier()
    if dist.get_rank() == 1:
        dist.recv(torch.empty(1), src=0)  # comes when rank 0 has given up
    said = "it worked"
    try:
        dist.all_reduce(torch.ones(1), group=impatient)
    except RuntimeError as error:
        timed_out = "Timed out waiting" in str(error)
        said = "an error, too" if dist.get_rank() else "Timed out" if timed_out else str(error)
    if dist.get_rank() == 0:
        dist.send(torch.ones(1), dst=1)
    return said


def nccl_names(*ends: str) -> list[str]:
    """Return the variables of NCCL's part of torch that end so, as the header that comes with torch lists them."""
    import torch

    header = Path(torch.__file__).parent / "include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
    return sorted(set(re.findall(rf'"(\w*NCCL_(?:{"|".join(ends)}))"', header.read_text())), reverse=True)


#: An article's first sample, as it stands but for the port.
SAMPLE = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def train(rank, world_size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "FREE"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = DistributedDataParallel(torch.nn.Linear(10, 10))
    model(torch.ones(4, 10)).sum().backward()
    print("trained")
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    mp.spawn(train, args=(count,), nprocs=count)
"""
#: One repair after the other, each on top of those before: what is replaced by what.
REPAIRS = {
    "as it stands": ("", ""),
    "on two processes": ("torch.cuda.device_count()", "2"),
    "with import os": ("import torch\n", "import os\n\nimport torch\n"),
    "with gloo": ("nccl", "gloo"),
}
#: Starts that go wrong, each for one reason.
BROKEN = {
    "port taken": """
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:TAKEN", rank=rank, world_size=2)

if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
""",
    "wrong world size": """
import os
import torch.distributed as dist

os.environ["WORLD_SIZE"] = "4"  # from another machine's job script
dist.init_process_group("gloo")
""",
    "two ranks 0": """
import torch.distributed as dist

dist.init_process_group("gloo", rank=0, world_size=2)  # rank=local_rank, on the second machine
""",
    "not cleaned up": """
import torch.distributed as dist

def fit():
    dist.init_process_group("gloo")

fit()
fit()
""",
}


def examine_sample() -> dict[str, Examination]:
    """Examine the sample with the doctor, as it is and after each repair."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # it counts GPUs: here it finds none, as on a laptop
    texts, text = {}, SAMPLE
    for name, (old, new) in REPAIRS.items():
        text = text.replace(old, new, 1) if old else text
        texts[name] = text
    return _examine(texts)


def examine_broken_starts() -> dict[str, Examination]:
    """Examine each of `BROKEN` with the doctor."""
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        taken = str(somebody.getsockname()[1])
        return _examine({name: text.strip().replace("TAKEN", taken) for name, text in BROKEN.items()})


def verdict(examination: Examination) -> str:
    """Describe how it ended, what the doctor says, and where a rank is blocked though another one has raised."""
    outcome = examination.outcome
    said = f"{outcome.kind.value}\n    {outcome.diagnosis.summary if outcome.diagnosis else ''}"
    blocked = outcome.waiting.values() if outcome.kind is Kind.RAISES else ()
    return said + "".join(f"\n    rank {one.rank}: {one.state} in {one.call}" for one in blocked)


def found(examination: Examination) -> str:
    """Return in one line the first error, or what the doctor says, or that nothing was found."""
    errors, diagnosis = examination.outcome.errors, examination.outcome.diagnosis
    if errors:
        said = errors[min(errors)].message.splitlines()[0]
        return "NCCL needs GPUs, and a torch built for them" if "nccl" in said.lower() else said
    return diagnosis.summary if diagnosis else "trained, no fault found"


def _examine(scripts: Mapping[str, str]) -> dict[str, Examination]:
    with ThreadPoolExecutor(len(scripts)) as pool:
        return dict(zip(scripts, pool.map(_ask_doctor, scripts.values()), strict=True))


def _ask_doctor(text: str) -> Examination:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "start.py")
        script.write_text(text.replace("FREE", str(free_port())))
        return examine(str(script), ranks=2, method="forkserver")  # all of them at once: milliseconds each


#: A script that writes down when it is where.
CLOCK = """
import time
moments = [time.time()]
import torch
import torch.distributed as dist
moments.append(time.time())
dist.init_process_group("gloo")
moments.append(time.time())
dist.all_reduce(torch.ones(1))
moments.append(time.time())
import json, os
print(json.dumps({"RANK": os.environ["RANK"], "moments": moments}), flush=True)
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class StartTimes:
    """Seconds of each part of a start: per rank of torchrun's, and for two ranks of the course altogether."""

    torchrun: tuple[tuple[float, ...], ...]
    course: float

    @property
    def loaded(self) -> float:
        """The moment at which torch was imported in the first of torchrun's ranks."""
        return min(span[0] + span[1] for span in self.torchrun)

    @property
    def loading(self) -> float:
        """The seconds that this import took, at least."""
        return min(span[1] for span in self.torchrun)

    @property
    def meeting(self) -> float:
        """The seconds that `init_process_group` took on the rank that came last."""
        return min(span[2] for span in self.torchrun)


def time_starts() -> StartTimes:
    """Start two processes with torchrun, and two ranks of the course."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(CLOCK)
        began = time.time()
        line = f"torchrun --nproc-per-node=2 --master-port={free_port()} {script}"
        outcome = run_quietly(torchrun, line, ranks=1, init=False, timeout=120)
    clocks = [one["moments"] for one in outcome.values[0]]
    began_here = time.time()
    run_quietly(threads, ranks=2)
    here = time.time() - began_here
    spans = tuple(tuple(b - a for a, b in zip([began, *clock], clock, strict=False)) for clock in clocks)
    return StartTimes(spans, here)


def draw_start_times(times: StartTimes) -> Drawing:
    """Draw a lane for each rank of torchrun's, and one for the course's."""
    looks = ("even", "forward", "communication", "bad")
    found_lanes = []
    for rank, spans in enumerate(times.torchrun):
        begins = itertools.accumulate((0.0, *spans))
        bars = tuple(Bar(begin, span, look) for begin, span, look in zip(begins, spans, looks, strict=False))
        found_lanes.append(Lane(f"torchrun, rank {rank}", (bars,)))
    found_lanes.append(Lane("this course, 2 ranks", ((Bar(0, times.course, "good"),),)))
    return lanes(
        found_lanes,
        title="What a start costs is import torch",
        alt="A lane for each of torchrun's two ranks and one for the course. In the former import torch is longer "
        "than init_process_group and the first all_reduce after it. The course's lane is shorter than the import.",
        legend={
            "even": "torchrun itself",
            "forward": "import torch",
            "communication": "init_process_group",
            "bad": f"first all_reduce ({1e3 * max(span[3] for span in times.torchrun):.0f} ms)",  # hardly to be seen
            "good": "everything",
        },
        unit="seconds",
    )
