"""Scripts that hang, or do not, under a plain torchrun with nothing of the course in them, and how they are started."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from realranks.ranks.external.processes import processes
from realranks.ranks.process import die_with_parent
from tests.support.ranks_and_kernels import until

HEAD = """
__import__("ctypes").CDLL(None).prctl(1, 9)  # no rank outlives its torchrun, which does not end them when it is killed
import os, sys, threading, time
import torch, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

def ready():
    open(f"ready-{rank}", "w").close()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(2)
"""
#: What runs, and then: the kind of verdict, the kind of diagnosis, the ranks that it blames, what it says.
HUNG = {
    "skipped": (
        """
def train():
    for step in range(5):
        if not (rank == 1 and step == 3):
            dist.all_reduce(x)
        ready()
        dist.barrier()
train()
""",
        (
            "proved",
            "rank_only_collective",
            "all_reduce() at train.py, line 16",
            "barrier() at train.py, line 18",
        ),
    ),
    "another order": (
        """
ready()
if rank == 0:
    dist.broadcast(x, src=1)
    dist.all_reduce(x)
else:
    dist.all_reduce(x)
    dist.broadcast(x, src=1)
""",
        (
            "proved",
            "different_collectives",
            "rank 0 in broadcast() at train.py, line 15",
            "all_reduce() at train.py, line 18",
        ),
    ),
    "only rank 0 in a barrier": (
        """
ready()
if rank == 0:
    torch.save(x, "x.pt")
    dist.barrier()
dist.all_reduce(x)
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to barrier() at train.py, line 16",
            "`rank == 0`",
        ),
    ),
    "receives what nobody sends": (
        """
ready()
if rank == 0:
    dist.recv(x, src=1)
else:
    dist.barrier()
""",
        ("proved", "waiting_in_a_circle", "rank 0 waits in recv() at train.py, line 15", "line 17"),
    ),
    "waits for a message that nobody sends": (
        """
def receive():
    work = dist.irecv(x, src=1, tag=7)
    ready()
    work.wait()
if rank == 0:
    receive()
ready()
dist.barrier()
""",
        (
            "proved",
            "waiting_in_a_circle",
            "rank 0 waits in wait() at train.py, line 16 for rank 1 (tag 7)",
            "ranks 1 and 2 wait in barrier() at train.py, line 20 for rank 0",
        ),
    ),
    "a batch of messages lacks one": (
        """
def exchange():
    messages = [dist.P2POp(dist.irecv, torch.zeros(2), (rank - 1) % world)]
    if rank != 1:
        messages.append(dist.P2POp(dist.isend, x, (rank + 1) % world))
    works = dist.batch_isend_irecv(messages)
    ready()
    for work in works:
        work.wait()
    dist.barrier()
exchange()
""",
        (
            "proved",
            "nobody_answers",
            "Rank 2 waits in wait() at train.py, line 20, for what no other rank sends or sets",
            "while ranks 0 and 1 wait in barrier() at train.py, line 21",
        ),
    ),
    "waits for a key that nobody sets": (
        """
def begin():
    store = dist.distributed_c10d._get_default_store()
    ready()
    if rank == 0:
        store.wait(["configuration"])
    dist.barrier()
begin()
""",
        (
            "probable",
            "nobody_answers",
            "Rank 0 waits in wait() at train.py, line 17, for what no other rank sends or sets",
        ),
    ),
    "sends with other tags": (
        """
ready()
if rank == 0:
    dist.send(torch.ones(100_000_000), dst=1, tag=3)
elif rank == 1:
    dist.recv(torch.ones(100_000_000), src=0, tag=4)
dist.barrier()
""",
        ("proved", "different_tags", "line 15", "line 17"),
    ),
    "one forward more": (
        """
def train(model):
    for step in range(4):
        ready()
        if rank == 0 and step == 2:
            model(torch.randn(4, 4))
        model(torch.randn(4, 4)).sum().backward()
train(DDP(nn.BatchNorm1d(4)))
""",
        (
            "proved",
            "different_collectives",
            "rank 0 in forward()'s broadcast of the buffers at train.py, line 18",
            "backward()",
        ),
    ),
    "left the script": (
        """
ready()
if rank == 1:
    threading.Thread(target=threading.Event().wait).start()
else:
    dist.all_reduce(x)
""",
        (None, "rank_left", "wait in all_reduce() at train.py, line 17 for rank 1", "left the script"),
    ),
    "a group of which not all know": (
        """
ready()
if rank != 1:
    dist.new_group([0, 1])
dist.all_reduce(x)
""",
        (
            "proved",
            "new_group_on_some_ranks",
            "Only rank 0 calls new_group at train.py, line 15",
            "ranks 1 and 2",
        ),
    ),
    "the work of a collective": (
        """
ready()
works = [dist.all_reduce(x, async_op=True)] if rank == 0 else []
for work in works:
    work.wait()
if works == []:
    dist.barrier()
""",
        (
            "proved",
            "different_collectives",
            "Ranks 1 and 2 are in barrier() at train.py, line 18, which stands under `works == []`",
            "rank 0 is in wait() at train.py, line 16",
        ),
    ),
    "a condition that holds on one rank": (
        """
def evaluate():
    dist.all_gather_object([None] * world, rank)
def train():
    best = 2
    for epoch in range(8):
        if epoch == 3:
            ready()
        dist.all_reduce(x)
        metric = 1 if epoch == 3 and rank == 1 else 3
        if metric < best:
            evaluate()
train()
""",
        (
            "proved",
            "different_collectives",
            "Rank 1 is in all_gather_object() at train.py, line 14, which stands under `metric < best`",
            "ranks 0 and 2 are in all_reduce() at train.py, line 20.",
            "epoch is 3 on rank 1, and 4 on ranks 0 and 2",
        ),
    ),
    "waits for a lock twice": (
        """
lock = threading.Lock()
def log():
    with lock:
        ready()
        if rank == 1:
            with lock:
                print("never")
log()
dist.all_reduce(x)
""",
        (
            "probable",
            "stuck_outside",
            "Rank 1 sleeps in with lock at train.py, line 18",
            "all_reduce() at train.py, line 21",
        ),
    ),
    "sleeps": (
        """
ready()
if rank == 1:
    time.sleep(10_000)
dist.all_reduce(x)
""",
        (
            "unknown",
            "straggler",
            "rank 1, which is in time.sleep() at train.py, line 15",
            "all_reduce() at train.py, line 16",
        ),
    ),
    "waits for a file": (
        """
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.05)
ready()
if rank == 1:
    wait_for("never")
dist.all_reduce(x)
""",
        ("unknown", "straggler", "rank 1, which is in time.sleep() at train.py, line 15", "line 19"),
    ),
    "runs in a circle": (
        """
ready()
n = 0
while rank == 1:
    n += 1
dist.all_reduce(x)
""",
        (
            "unknown",
            "straggler",
            "rank 1, which is at work at train.py, line",
            "all_reduce() at train.py, line 17",
        ),
    ),
    "waits for somebody to type": (
        """
ready()
if rank == 2:
    input("continue? ")
dist.all_reduce(x)
""",
        ("unknown", "straggler", "rank 2, which is in input() at train.py, line 15", "line 16"),
    ),
    "its loader's worker sleeps": (
        """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        if i == 17 and rank == 1:
            time.sleep(10_000)
        return torch.ones(3)
model = DDP(nn.Linear(3, 1))
ready()
for batch in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=1):
    model(batch).sum().backward()
""",
        (
            "unknown",
            "straggler",
            "rank 1, which is in next() at train.py, line 21",
            "in time.sleep() at train.py, line 17",
        ),
    ),
    "killed": (
        """
ready()
if rank == 1:
    os.kill(os.getpid(), 19)
dist.all_reduce(x)
""",
        (None, "rank_stopped", "Rank 1 was stopped by a signal", "line 16"),
    ),
    "FSDP2: one forward more": (
        """
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
def train():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for step in range(3):
        model(torch.ones(2, 8)).sum().backward()
    ready()
    if rank == 0:
        model(torch.ones(2, 8))
    dist.barrier()
mesh = init_device_mesh("cpu", (world,))
train()
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to all_gather_single() at train.py, line 24",
            "in FSDP's _pre_forward(), called at train.py, line 24",
        ),
    ),
    "FSDP2: one rank leaves out backward": (
        """
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
def train():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for step in range(3):
        loss = model(torch.ones(2, 8)).sum()
        if step == 2:
            ready()
            if rank == 1:
                continue
        loss.backward()
    dist.barrier()
mesh = init_device_mesh("cpu", (world,))
train()
""",
        (
            "proved",
            "uneven_batches",
            "all_gather_single() at train.py, line 26",
            "behind it, in barrier() at train.py, line 27",
        ),
    ),
    "DTensor: full_tensor on one rank": (
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor, Shard, Replicate
def save():
    mesh = init_device_mesh("cpu", (world,))
    weight = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
    ready()
    if dist.get_rank() == 0:
        torch.save(weight.full_tensor(), "x.pt")
    dist.barrier()
save()
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to wait_tensor() at train.py, line 20",
            "rank 0 is in DTensor's full_tensor()",
        ),
    ),
    "DTensor: redistribute on one rank": (
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor, Shard, Replicate
def save():
    mesh = init_device_mesh("cpu", (world,))
    weight = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
    ready()
    if rank == 1:
        weight = weight.redistribute(mesh, [Replicate()])
        print(weight)
    dist.all_reduce(x)
save()
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 1 comes to wait_tensor() at train.py, line 20",
            "rank 1 is in DTensor's redistribute()",
        ),
    ),
    "DCP: one rank saves": (
        """
import torch.distributed.checkpoint as dcp
def save():
    model = nn.Linear(3, 3)
    ready()
    if rank == 0:
        dcp.save({"model": model.state_dict()}, checkpoint_id="ckpt")
    dist.barrier()
save()
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to gather_object() at train.py, line 18",
            "rank 0 is in torch.distributed.checkpoint's save()",
        ),
    ),
    "one rank leaves out a group's collective": (
        """
from torch.distributed.device_mesh import init_device_mesh
def step():
    tp, dp = mesh["tp"].get_group(), mesh["dp"].get_group()
    ready()
    if rank != 3:
        dist.all_reduce(x, group=tp)
    dist.all_reduce(x, group=dp)
    dist.barrier()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
step()
""",
        (
            "proved",
            "waiting_in_a_circle",
            "rank 2 waits in all_reduce() at train.py, line 18",
            "rank 0 waits in a group of ranks 0 and 2",
            "rank 2 waits in a group of ranks 2 and 3",
        ),
    ),
    "one line, other groups": (
        """
def step(groups):
    for group in groups:
        dist.all_reduce(x, group=group)
rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
mine = [rows[rank // 2], columns[rank % 2]]
ready()
step(mine if rank in (0, 3) else mine[::-1])
""",
        (
            "proved",
            "waiting_in_a_circle",
            "rank 0 waits in all_reduce() at train.py, line 15 for rank 1;",
            "rank 0 waits in a group of ranks 0 and 1",
            "rank 1 waits in a group of ranks 1 and 3",
            "rank 2 waits in a group of ranks 0 and 2",
            "rank 3 waits in a group of ranks 2 and 3",
        ),
    ),
    "two threads, two locks": (
        """
buffer, stats = threading.Lock(), threading.Lock()
met = threading.Barrier(2)
def log():
    with stats:
        met.wait()
        with buffer:
            pass
def train():
    if rank == 0:
        threading.Thread(target=log, daemon=True).start()
        with buffer:
            met.wait()
            ready()
            with stats:
                pass
    ready()
    dist.all_reduce(x)
train()
""",
        (
            "probable",
            "stuck_outside",
            "Rank 0 sleeps in with stats at train.py, line 26",
            "thread 'Thread-1 (log)'",
        ),
    ),
    "objects are broadcast on one rank": (
        """
def load():
    config = [None]
    if rank == 2:
        ready()
        dist.broadcast_object_list(config, src=0)
    ready()
    dist.barrier()
load()
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 2 comes to broadcast_object_list() at train.py, line 17",
            "line 19",
        ),
    ),
    "one rank leaves the loop": (
        """
def train():
    model = DDP(nn.Linear(3, 1))
    for step in range(8):
        loss = model(torch.ones(3, 3)).sum()
        if step == 4:
            ready()
        if step == 4 and loss.item() * 0 + rank == 2:
            break
        loss.backward()
    dist.all_gather_object([None] * world, rank)
train()
""",
        (
            "proved",
            "uneven_batches",
            "Rank 2 has left the loop in which ranks 0 and 1 still are (in backward()'s all-reduce",
            "behind it, in all_gather_object() at train.py, line 22",
        ),
    ),
    "an exception is swallowed": (
        """
def train():
    model = DDP(nn.Linear(3, 1))
    for step in range(8):
        if step == 4:
            ready()
        try:
            batch = torch.ones(3, 4 if step == 4 and rank == 1 else 3)
            model(batch).sum().backward()
        except RuntimeError as error:
            print("skipped", error)
    dist.barrier()
train()
""",
        (
            "proved",
            "uneven_batches",
            "Rank 1 has left the loop in which ranks 0 and 2 still are",
            "at train.py, line 20",
            "behind it, in barrier() at train.py, line 23",
        ),
    ),
    "a collective in another thread": (
        """
from concurrent.futures import ThreadPoolExecutor
def save():
    dist.barrier()
def train():
    pool = ThreadPoolExecutor(1)
    future = pool.submit(save) if rank == 0 else None
    ready()
    if future:
        future.result()
    dist.all_reduce(x)
train()
""",
        ("probable", "stuck_outside", "Rank 0 sleeps in future.result() at train.py, line 21", "line 22"),
    ),
}
#: Four ranks: two groups of two, and two across.
OF_FOUR = ("one rank leaves out a group's collective", "one line, other groups")
OF_LIBRARIES = {
    "lightning: a metric on one rank": (
        """
import lightning.pytorch as pl
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def training_step(self, batch, number):
        loss = self.layer(batch).sum()
        if number == 2:
            ready()
        if number == 2 and self.trainer.is_global_zero:
            self.log("loss", loss, sync_dist=True, on_step=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.ones(40, 4), batch_size=4)
pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_progress_bar=False,
    enable_checkpointing=False, enable_model_summary=False).fit(Net(), data)
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to barrier() at train.py, line 23",
            "`number == 2 and self.trainer.is_global_zero`",
            "rank 0 is in lightning's log()",
            "rank 1 is in lightning's fit()",
        ),
    ),
    "lightning: a checkpoint of one rank": (
        """
import lightning.pytorch as pl
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def training_step(self, batch, number):
        return self.layer(batch).sum()
    def on_train_epoch_end(self):
        ready()
        if self.global_rank == 0:
            self.trainer.save_checkpoint("best.ckpt")
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.ones(40, 4), batch_size=4)
pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_progress_bar=False,
    enable_checkpointing=False, enable_model_summary=False).fit(Net(), data)
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to barrier() at train.py, line 23",
            "in lightning's save_checkpoint()",
        ),
    ),
    "transformers: one rank evaluates": (
        """
from transformers import Trainer, TrainingArguments
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        out = self.layer(x)
        return {"loss": ((out - labels) ** 2).mean(), "logits": out}
data = [{"x": torch.ones(4), "labels": torch.ones(1)} for _ in range(40)]
def main():
    trainer = Trainer(Net(), TrainingArguments("out", use_cpu=True, max_steps=3, report_to=[], save_strategy="no",
        disable_tqdm=True), train_dataset=data, eval_dataset=data)
    trainer.train()
    ready()
    if trainer.is_world_process_zero():
        trainer.evaluate()
    dist.barrier()
main()
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to all_gather() at train.py, line 28",
            "in transformers's evaluate()",
        ),
    ),
    "accelerate: one rank gathers metrics": (
        """
from accelerate import Accelerator
def train():
    accelerator = Accelerator(cpu=True)
    model, data = accelerator.prepare(nn.Linear(4, 1), torch.utils.data.DataLoader(torch.ones(40, 4), batch_size=4))
    for number, batch in enumerate(data):
        loss = model(batch).sum()
        if number == 2:
            ready()
            if accelerator.is_main_process:
                accelerator.gather_for_metrics(loss)
        accelerator.backward(loss)
train()
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to all_gather() at train.py, line 22",
            "rank 0 is in accelerate's gather_for_metrics(), called at train.py, line 22",
        ),
    ),
    "accelerate: one rank waits for everyone": (
        """
from accelerate import Accelerator
def train():
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(nn.Linear(4, 1))
    ready()
    if accelerator.is_main_process:
        accelerator.wait_for_everyone()
        accelerator.unwrap_model(model)
    accelerator.reduce(torch.ones(3))
train()
""",
        (
            "proved",
            "rank_only_collective",
            "Only rank 0 comes to barrier() at train.py, line 19",
            "rank 0 is in accelerate's wait_for_everyone()",
            "rank 1 is in accelerate's reduce()",
        ),
    ),
}
SOUND = {
    "trains": """
model = DDP(nn.Linear(3, 1))
for step in range(10**9):
    model(torch.ones(3, 3)).sum().backward()
    if step == 3: ready()
""",
    "one rank is slower": """
model = DDP(nn.Linear(3, 1))
for step in range(10**9):
    model(torch.ones(3, 3)).sum().backward()
    if rank == 1: time.sleep(5)
    ready()
""",
    "one rank evaluates": """
def evaluate(model):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        model(torch.ones(100, 300))
model = DDP(nn.Linear(300, 300))
ready()
for step in range(10**9):
    if rank == 0: evaluate(model.module)
    dist.barrier()
""",
    "slow data": """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, i):
        time.sleep(1.5 if rank == 0 else 0)
        return torch.ones(3)
model = DDP(nn.Linear(3, 1))
for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1):
    model(batch).sum().backward()
    ready()
""",
    "no group": """
ready()
while True:
    torch.ones(1000, 1000).sum()
""",
    "FSDP2 trains": """
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
mesh = init_device_mesh("cpu", (world,))
fully_shard(model, mesh=mesh)
ready()
while True:
    model(torch.ones(2, 8)).sum().backward()
    if rank == 1: time.sleep(3)
""",
    "one rank saves slowly": """
ready()
while True:
    if rank == 0:
        with open("big", "wb") as file:
            for _ in range(400):
                file.write(b"0" * 1000_000)
                os.fsync(file.fileno())
                time.sleep(0.02)
    dist.barrier()
""",
    "waits for a child that works": """
import subprocess
ready()
while True:
    if rank == 0:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(9)"])
    dist.barrier()
""",
    "large tensors": """
y = torch.ones(30_000_000)
ready()
while True:
    dist.all_reduce(y)
""",
    "a pipeline": """
ready()
while True:
    if rank: dist.recv(x, src=rank - 1)
    time.sleep(1.5)
    if rank < world - 1: dist.send(x, dst=rank + 1)
""",
}


def write_script(folder: Path, text: str) -> Path:
    """The script as torchrun gets it."""
    script = folder / "train.py"
    script.write_text(HEAD + text.lstrip("\n"), encoding="utf-8")
    return script


@contextlib.contextmanager
def running(folder: Path, text: str, ranks: int = 3, *launcher: str) -> Iterator[list[int]]:
    """torchrun with this script; yields the numbers of its processes when all are where they hang."""
    script = write_script(folder, text)
    read, write = os.pipe()  # nobody ever types
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(
                    launcher
                    or (
                        sys.executable,
                        "-m",
                        "torch.distributed.run",
                        "--standalone",
                        f"--nproc-per-node={ranks}",
                    )
                ),
                str(script),
            ],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=read,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    try:
        until(lambda: len(list(folder.glob("ready-*"))) == ranks or process.poll() is not None, 90.0)
        assert process.poll() is None, (folder / "log").read_text(errors="replace")
        yield started_by(process.pid)
    finally:
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
        os.close(read)
        os.close(write)


def started_by(pid: int) -> list[int]:
    """All processes below this one that have torch loaded."""
    found = {pid}
    for each in sorted(processes(), key=lambda each: each.pid):
        if each.parent in found:
            found.add(each.pid)
    return sorted(found - {pid})
