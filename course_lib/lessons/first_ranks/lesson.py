# %% [markdown]
# # 00 · Your first ranks
#
# > *“How do I even run four processes from a notebook? And when one of them hangs, is my kernel gone?”*
#
# You know PyTorch on one GPU. With four of them nothing is shared any more: four processes, four memories. In the picture, the
# grey box at the top is the notebook's kernel. It sends a cell to four processes, and each of them has its own `x`. Then all
# four call `all_reduce`. What does each hold afterwards?
#
# **You will be able to** run code on ranks, choose a collective, tell a crash from a hang from a silent mix-up, train on four
# processes, and start such a script with `torchrun`. 50 minutes, no GPU needed.

# %% tags=["two-hours-1"]
# %load_ext course_lib
from course_lib.lessons.first_ranks.lab import four_processes

four_processes()

# %% tags=["two-hours-1"]
# %%ranks 4
import torch
import torch.distributed as dist

rank = dist.get_rank()
x = torch.tensor([float(rank)])
dist.all_reduce(x)
print(f"I am rank {rank} and brought {rank}.0. Now I have {x.item()}.")

# %% [markdown] tags=["two-hours-1"]
# `all_reduce` adds up what the ranks bring: 0 + 1 + 2 + 3. Each rank then has the sum. These are four real processes, and the
# numbers went through real sockets.
#
# A **rank** is one process of a distributed program, and also its number. The **world size** is the number of ranks. A
# **collective** is an operation that all ranks of a **process group** call together. `all_reduce` is a collective.
#
# A cell that begins with `%%ranks 4` does not run in the notebook's kernel. The course starts four processes and runs the cell in
# each of them. They are connected already: `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and so on are set, as `torchrun` sets them for a
# script, and `init_process_group` has been called. The rest of the code is what you would write in a script. The processes live
# on between cells, and so do their variables. `--only` runs a cell on some of them:

# %% tags=["two-hours-1"]
# %%ranks --only 1,3
x += 100

# %% tags=["two-hours-1"]
# %%ranks
x.item()

# %% [markdown] tags=["two-hours-1"]
# (The value of a cell's last line is shown. Ranks with equal values share a line.)
#
# The **backend** carries the bytes between ranks: gloo for CPU tensors, NCCL for CUDA tensors, where each rank has a GPU of its
# own. All saved outputs of this course come from gloo. With NCCL the same results are expected, and a hang is explained with less
# detail. (`machine()` says what this machine offers.)
#
# ## Break it 1: a rank that never arrives
#
# Rank 2 is going to skip the `all_reduce` that the others call. Choose an answer, then run the cell below the question. It says
# `--predicted`: it may end as any of the answers says, and in no other way.

# %% tags=["two-hours-1"]
p = predict("00.skips")

# %% tags=["two-hours-1"] claims={"54": "holds"}
# %%ranks --predicted
if dist.get_rank() != 2:
    dist.all_reduce(x)

# %% [markdown] tags=["two-hours-1"]
# A collective needs every rank of its group. In a script, the three would wait for as long as rank 2 lives and does something
# else, at most until a timeout: 30 minutes with gloo, 10 with NCCL (`kProcessGroupDefaultTimeout` and
# `kProcessGroupNCCLDefaultTimeout`, in the headers that come with torch).
#
# Here you had the answer in about a second, because the course *proved* it. Three ranks are blocked in a collective that rank 2
# has not joined, and rank 2 has left the cell, so it never will. The course then freed the three: it shut down their
# connections, and the blocked call raised an error. They got a new process group, and their variables are still there. But do
# not trust the value of `x`: a collective that was cut in the middle may leave partial sums.

# %% [markdown]
# The stop button (`I`, `I` in command mode) frees blocked ranks, too, and the kernel answers again (*Deeper* shows it).
#
# **Waiting is not yet a deadlock.** Now rank 0 comes a second late. `--trace` records the run, `--as out` keeps its outcome under the name `out`, and
# `out.replay()` plays it again. Press *play* there, or step with the arrow keys:

# %%
# %%ranks --trace --as out
import time

if dist.get_rank() == 0:
    time.sleep(1.0)
dist.barrier()
"nobody was left behind"

# %% tags=["nbval-ignore-output"]
out.replay()

# %% [markdown]
# Each lane is a rank; the striped bars are waits in `barrier`. Ranks 1, 2 and 3 are blocked
# as ranks 0, 1 and 3 were before, but nobody calls this a hang: rank 0 can still come, and it does. A **straggler** makes others
# wait. Only a rank that *cannot* come makes a deadlock. (Add `--trace --as out` to the cell of Break it 1, and compare.)

# %% [markdown] tags=["two-hours-1"]
# ## Break it 2: a rank that raises

# %% tags=["two-hours-1"]
p = predict("00.divides")

# %% tags=["two-hours-1"]
# %%ranks --predicted
if dist.get_rank() == 1:
    1 / 0
dist.barrier()

# %% [markdown] tags=["two-hours-1"]
# Only rank 1 knows of the error. In a notebook its process survives the exception, so the others wait for it, as they waited for
# rank 2 in Break it 1. In a script, rank 1's process would end:
#
# ## Break it 3: a rank that dies

# %% tags=["two-hours-1"]
p = predict("00.disappears")

# %% tags=["two-hours-1"] claims={"60": "holds"}
# %%ranks --predicted
import os
import time

if dist.get_rank() == 3:
    time.sleep(0.2)  # by now the others are waiting
    os._exit(1)
dist.barrier()

# %% [markdown] tags=["two-hours-1"]
# When a process ends, the operating system closes its connections, and gloo notices that on the other ranks within milliseconds. So
# with gloo the *end of a process* is an error on the others, and a *silent* process is a wait. (A machine that loses power
# closes nothing: that is a wait, too.) The next `%%ranks` starts four new processes, in about a tenth of a second. The old
# variables are gone.
#
# > **On GPUs (NCCL).** The ranks wait on their GPUs, and a peer's death may go unnoticed until `torchrun` ends the
# > others, or until the timeout. Then the log says “Watchdog caught collective operation timeout”, and the process
# > ends. (Read in
# > [`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp),
# > not run: it needs GPUs.)
#
# ## Break it 4: a rank that calls something else
#
# Ranks 0, 1 and 3 add up their losses. Rank 2 is elsewhere in the program, and adds up its number of samples. Each of them calls
# one `all_reduce`.

# %% tags=["two-hours-1"]
p = predict("00.loss_or_samples")

# %% tags=["two-hours-1"]
# %%ranks --predicted
import torch
import torch.distributed as dist

rank = dist.get_rank()
if rank == 2:
    samples = got = torch.tensor([4.0])
    dist.all_reduce(samples)
else:
    loss = got = torch.tensor([float(rank)])
    dist.all_reduce(loss)
got.item()

# %% [markdown] tags=["two-hours-1"]
# No error, no hang, no warning. Every rank now has a loss with rank 2's number of samples in it. A collective carries no name and
# no line of the program: the *n*-th call on one rank is matched with the *n*-th call on the others, in the same group. Compared
# with this, a hang is the lucky case.

# %% [markdown]
# ## Five collectives, side by side
#
# DDP copies weights with `broadcast` and sums gradients with `all_reduce`. What comes after DDP (lesson 17) is made of the others.
# Below, rank 0 brings `[1, 1, 1, 1]`, rank 1 twos, rank 2 fours, rank 3 eights. So a sum tells whose numbers are in it: 3 is the
# sum of ranks 0 and 1, and 15 that of all. `out["mine"][2]` is then rank 2's variable `mine`.

# %%
# %%ranks --as out
mine = torch.full((4,), 2.0**rank)

broadcast, reduced, summed = mine.clone(), mine.clone(), mine.clone()
dist.broadcast(broadcast, src=1)  # in place, like the next two
dist.reduce(reduced, dst=1)
dist.all_reduce(summed)

gathered, part = [torch.empty(1) for _ in range(4)], torch.empty(1)
dist.all_gather(gathered, mine[:1])  # into one tensor: all_gather_single
dist.reduce_scatter(part, list(mine.split(1)))  # from one tensor: reduce_scatter_single

results = {"broadcast": broadcast, "reduce": reduced, "all_reduce": summed}
results |= {"all_gather": torch.cat(gathered), "reduce_scatter": part}
after = {name: tensor.tolist() for name, tensor in results.items()}

# %%
from course_lib.lessons.first_ranks.lab import draw_collectives

draw_collectives(out)

# %% [markdown]
# Compare the columns with the left one, what each rank brings. A coloured number still is one rank's; a green one is a sum. Where
# `reduce` shows a question mark, the tensor holds something, but the documentation promises nothing of it: only the destination
# has the result. Use `all_reduce` unless you are sure that nobody else looks. And `reduce_scatter`, then `all_gather`, makes an
# `all_reduce`: that is how a ring sends large sums (lesson 01).
#
# Now it is your turn: every change is a run on four real ranks. Find numbers after which `broadcast` and
# `all_reduce` cannot be told apart. (Then you know why a test of a collective should not bring zeros.)

# %%
from course_lib.lessons.first_ranks.lab import explore_collectives

explore_collectives(out)

# %% [markdown] tags=["two-hours-2"]
# ## Train on four ranks
#
# A small real data set, 1,797 handwritten digits of 8×8 pixels, and an ordinary training loop. Two things make it distributed:
#
# - Rank *r* takes every fourth sample of a batch, from sample *r* on. The batch still has 128 samples in all, 32 on each
#   rank. With 128 on *each* rank, an epoch would have a quarter of the steps, and be another training.
# - `DistributedDataParallel` copies rank 0's weights to all ranks once, when the wrapper is made. During every `backward()` it
#   replaces each gradient with the mean of all ranks' gradients.

# %% tags=["two-hours-2"]
# %%ranks
from course_lib.data import load_digits
from torch.nn.parallel import DistributedDataParallel

images, labels = load_digits()
pixels = torch.from_numpy(images).float().flatten(1) / 16
targets = torch.from_numpy(labels).long()


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def train(model, mine, epochs=20):
    """Train on this part of every batch of 128; returns all weights as one vector."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    shuffle = torch.Generator().manual_seed(0)  # the same order on every rank
    for _ in range(epochs):
        for batch in torch.randperm(1408, generator=shuffle).split(128):
            loss = torch.nn.functional.cross_entropy(model(pixels[batch[mine]]), targets[batch[mine]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


ddp = DistributedDataParallel(make_model())
weights = train(ddp, mine=slice(rank, None, 4))
accuracy = (ddp.module(pixels[1408:]).argmax(1) == targets[1408:]).float().mean().item()
round(accuracy, 2)

# %% [markdown] tags=["two-hours-2"]
# Do all ranks hold the same weights? `weights` is all of them in one vector, so compare that of every rank, bit by bit:

# %% tags=["two-hours-2"]
# %%ranks
everyones = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(everyones, weights)
all(torch.equal(weights, other) for other in everyones)

# %% [markdown] tags=["two-hours-2"]
# And is it the *right* model? One process now trains the same model on whole batches of 128, in the same order.

# %% tags=["two-hours-2"]
p = predict("00.same_model")

# %% tags=["two-hours-2"]
# %%ranks --only 0 --predicted
alone = train(make_model(), mine=slice(None))
untrained = torch.nn.utils.parameters_to_vector(make_model().parameters())
difference = ((alone - weights).abs().max() / (alone - untrained).abs().max()).item()
print("the largest difference is below 0.01 % of the largest change:", difference < 1e-4)

# %% [markdown] tags=["two-hours-2"]
# It is the same model, but not bit by bit: a sum of four partial sums is rounded differently from one long sum. That is the
# promise of data parallelism, and every later lesson is about how it is kept, or silently broken.

# %% [markdown]
# Why it works: each rank divides its gradients by the number of ranks, and an all-reduce sums them
# (`Reducer::mark_variable_ready_dense` in
# [`reducer.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer.cpp)). The mean of four means
# is the mean of the whole batch when the parts have equal sizes and no sample's loss depends on another sample. (Unequal sizes:
# lesson 05. Samples that meet: lesson 07. BatchNorm's buffers: lesson 09.)

# %% [markdown] tags=["two-hours-2"]
# ## The same as a script
#
# Outside a notebook, `torchrun` starts the processes, tells each of them its rank, and watches them. The next cell writes such a
# script into the folder `scratch` beside this notebook. Keep it: with `torchrun` it runs on any number of processes, on CPUs and on
# GPUs.

# %% tags=["two-hours-2", "hide-input"] jupyter={"source_hidden": true}
from pathlib import Path

scratch = Path("scratch")
scratch.mkdir(exist_ok=True)
for name in ("train.py", "fails.py"):
    (scratch / name).unlink(missing_ok=True)  # from the last time

# %% tags=["two-hours-2"]
# %%writefile scratch/train.py
import gc
import os

import torch
import torch.distributed as dist
from course_lib.data import load_digits
from torch.nn.parallel import DistributedDataParallel


def main(device):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    images, labels = load_digits()
    pixels = torch.from_numpy(images).float().flatten(1).to(device) / 16
    targets = torch.from_numpy(labels).long().to(device)
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 10).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for batch in torch.arange(1408).split(128):
        batch = batch[rank::world_size]
        loss = torch.nn.functional.cross_entropy(model(pixels[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (model(pixels[1408:]).argmax(1) == targets[1408:]).float().mean()
    if rank == 0:  # compute on all, print on one
        print(f"{world_size} processes, accuracy {right:.2f}")


if __name__ == "__main__":
    gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = f"cuda:{os.environ['LOCAL_RANK']}" if gpu else "cpu"
    dist.init_process_group("nccl" if gpu else "gloo")  # reads RANK, WORLD_SIZE, ...
    main(device)
    gc.collect()  # first the wrapped model goes,
    dist.destroy_process_group()  # then the group: lesson 02 says why

# %% [markdown] tags=["two-hours-2"]
# What has changed against the script for one device? `-` is a line that has gone, `+` one that has come:

# %% tags=["two-hours-2"]
from course_lib.lessons.first_ranks.lab import changes_to_one_device

print(changes_to_one_device("scratch/train.py"))

# %% [markdown] tags=["two-hours-2"]
# Model, loss and loop are what they were. Start it (this takes some seconds):

# %% tags=["two-hours-2", "nbval-skip"]
# log = !torchrun --standalone --nproc-per-node=4 scratch/train.py
print(*[line for line in log if "accuracy" in line])

# %% [markdown] tags=["two-hours-2"]
# `log = !...` keeps what a command has written. In a terminal you type the same line without `log = !`; in JupyterLab, **+** and
# *Terminal* open one in this folder.

# %% [markdown]
# The log begins with a warning: `torchrun` has set `OMP_NUM_THREADS` to 1 (`config_from_args` in `torch/distributed/run.py`). Several
# processes that each use all cores slow each other down. If CPU work is your bottleneck, set it yourself to cores / ranks.
#
# ## What goes wrong in real life
#
# - **A hang after hours of training** is nearly always Break it 1: one rank took a different code path (an `if rank == 0:` with a
#   collective inside, a shorter data loader, a skipped batch) and the rest wait. Look for the rank that is *not* waiting.
# - **“Connection closed by peer”**, gloo's message, is Break it 3. The rank that prints it is the witness, not the
#   culprit: look for the first rank that ended, and at *its* log, even if it ended with exit code 0.
# - **Everything is printed four times.** Compute on all ranks, print on one.
# - **A number that is a little wrong on all ranks** may be Break it 4. Compare the ranks' numbers of collectives.
#
# ## Rule of thumb
#
# > Every rank calls the same collectives, in the same order, the same number of times, with tensors of the same shape and type.
# > When a program hangs or ends, ask which rank broke that rule, not which rank complains.
#
# ## Your turn
#
# One task waits in [exercises/00_first_ranks](../exercises/00_first_ranks.ipynb): make a script for one process run under
# `torchrun`. It is judged by launches.
#
# ## A script of your own
#
# `exercises/script/train.py` trains two models on handwritten digits, evaluates them, and survives a kill: that is what its first lines
# promise. It has fifteen faults, and most raise no error. It is yours for the whole course: lessons 02 to 14 end with the
# faults that they have taught you to see. You repair them, and after lesson 14 it trains, survives and reports truly. `%progress` says how
# many faults the last check has seen. Read its first lines now, and run it once, in a terminal:
#
#     torchrun --standalone --nproc-per-node=2 exercises/script/train.py --epochs 2 --out "$(mktemp -d)"
#
# ## Deeper
#
# ### Break it 5: press stop
#
# Press the stop button (or `I`, `I` in command mode) while a cell runs on ranks, and the kernel answers again. The cell below would
# run for an hour. `--stop-after 0.5` presses the button for you; take it out and press it yourself. `--expect` says how a cell
# ends where that is no question any more.

# %%
# %%ranks --stop-after 0.5 --expect raises:KeyboardInterrupt
import time

if rank == 0:
    time.sleep(3600)
dist.barrier()

# %% [markdown]
# Each rank got a `KeyboardInterrupt`, and those that were blocked in a collective were freed. All four are alive, with their
# variables and a new process group. `%ranks` shows who is doing what; `%ranks restart` starts new ranks.
#
# ### What torchrun says when a rank fails
#
# Two ranks have three batches each. One of two things goes wrong: rank 0 raises while rank 1 still loads its third batch; or rank 1
# has a batch fewer, and is done early.

# %%
# %%writefile scratch/fails.py
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for batch in range(2 if rank == 1 and "short" in sys.argv else 3):
    if batch == 2 and "raise" in sys.argv:
        if rank == 0:
            raise ValueError("sample 17 is broken")
        time.sleep(60)
    dist.all_reduce(torch.ones(1))
print(f"rank {rank} is done", flush=True)
dist.destroy_process_group()

# %%
# log = !torchrun --standalone --nproc-per-node=2 scratch/fails.py raise
from course_lib.lessons.first_ranks.lab import torchruns_last_words

print(torchruns_last_words(log))

# %% [markdown]
# `torchrun` looks at its processes ten times a second (`--monitor-interval`). Rank 0's had ended with an error. So `torchrun` ended
# the other one (`_close` in `torch/distributed/elastic/multiprocessing/api.py`) and named the first failure that it *observed*.
# The line above it comes from further up in the log: torch writes `[rank0]` before each line of rank 0's traceback.
#
# Now rank 1 runs out of batches, says that it is done and ends with exit code 0. Which rank will `torchrun` name?

# %%
# log = !torchrun --standalone --nproc-per-node=2 scratch/fails.py short
print(*[line for line in log if "is done" in line])
print(torchruns_last_words(log))

# %% [markdown]
# Rank 0 again, and this time it is the *victim*. It was in its third `all_reduce` when rank 1's process ended and the
# connection was closed (Break it 3). Rank 1, the culprit, ended with exit code 0, so no line blames it. What `torchrun` calls the root
# cause is only the first failure that it has observed.
#
# > **On GPUs (NCCL).** `torchrun` ends the others when a process *fails* (`_poll` in the same file), and exit code 0 is not
# > a failure. Rank 0 may then wait on its GPU until the timeout. (Read, not run: it needs GPUs.)
#
# ## Further reading
#
# - PyTorch, *Distributed communication package* (`torch.distributed` in the API reference): every collective used here.
# - Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB 2020.
#
# **Next:** [lesson 02](02_process_groups.ipynb), how the processes find each other, or [lesson 03](03_samplers.ipynb), who
# gets which sample. Coming from `nn.DataParallel`? [Lesson 01](01_dataparallel.ipynb).
