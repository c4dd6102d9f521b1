# %% [markdown]
# # 00 · Your first ranks
#
# > *“How do I even run four processes from a notebook? And when one of them hangs, is my kernel gone?”*
#
# You know PyTorch on one GPU. Here is what changes with four: nothing is shared any more. Run the picture, then the cell
# below it.
#
# **You will be able to** run code on ranks, choose a collective, tell a crash from a hang from a silent mix-up, train on four
# processes, and start such a script with `torchrun`. 25 minutes, no GPU needed.

# %%
# %load_ext course_lib
from course_lib.lab.first_ranks import four_processes

four_processes()

# %%
# %%ranks 4
import torch
import torch.distributed as dist

x = torch.tensor([float(dist.get_rank())])
dist.all_reduce(x)
x.item()

# %% [markdown]
# 0 + 1 + 2 + 3 = 6, and all four have it. (`ranks 0-3 | 6.0`: equal results are shown once.) These are four real processes,
# and the sum went through real sockets.
#
# A **rank** is one process of a distributed program, and also its number. The **world size** is how many there are. A
# **collective** is an operation that all ranks of a **process group** do together; `all_reduce` is one.
#
# A cell that starts with `%%ranks 4` does not run in the notebook's kernel. It runs in four other processes, which are connected
# already: the variables that `torchrun` sets for a script are set (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, ...), and
# `init_process_group` has been called. All else is the code of a script. The processes live on between cells, and so do their variables; `--only` runs a
# cell on some of them.

# %%
# %%ranks --only 1,3
x += 100

# %%
# %%ranks
import os

print(
    f"I am rank {dist.get_rank()} of {dist.get_world_size()}, RANK is {os.environ['RANK']}, x is {x.item()}"
)

# %% [markdown]
# How the ranks talk is the **backend's** business: gloo carries CPU tensors, NCCL carries CUDA tensors where every rank can
# have a GPU of its own. All saved outputs of this course come from gloo, and what is said of deadlocks is proved there. With
# NCCL the same results are expected, with weaker explanations of a hang; no GPU has run it yet. What this machine offers:

# %% tags=["nbval-ignore-output"]
machine()

# %% [markdown]
# ## Break it 1: a rank that never arrives
#
# Rank 2 is going to skip the `all_reduce` that the others call. Commit to an answer *before* you run the cell below: click
# one, or call `p.choose(2)`.

# %%
p = predict("00.skips")

# %% claims={"54": "holds"}
# %%ranks --predicted --trace --as out
if dist.get_rank() != 2:
    dist.all_reduce(x)

# %% [markdown]
# A collective needs every rank of its group. In a script the three would wait for as long as rank 2 lives and does something
# else, at most until a timeout: 30 minutes with gloo, 10 with NCCL (`kProcessGroupDefaultTimeout` and
# `kProcessGroupNCCLDefaultTimeout`, in the headers that come with torch).
#
# Here you had the answer in about a second, because the course *proved* it: three ranks are blocked in a collective that
# rank 2 has not joined, and rank 2 has left the cell, so it never will. The three were freed (their connections were shut
# down, the blocked call raised) and got a new process group. The kernel is fine, and the variables are still there. What `x` is
# *worth* is another matter: a collective that was cut in the middle may leave partial sums.
#
# `--predicted` says: this cell may end as any of the answers says, and in no other way. If a future PyTorch does something
# else, the cell fails and this lesson has to be rewritten. Every claim of the course that can run on this machine is tested like
# this.
#
# Watch it again, with the mouse or the arrow keys. Rank 2 has no lane: it never called anything.

# %% tags=["nbval-ignore-output"]
out.replay("Ranks 0, 1 and 3 wait for rank 2 until they are freed")

# %% [markdown]
# **Waiting alone proves nothing.** Here rank 0 takes its time, the other three are blocked just as above, and nobody calls it
# a hang, because rank 0 can still come. A **straggler** makes others wait; only a rank that *cannot* come makes a deadlock.

# %%
# %%ranks
import time

if dist.get_rank() == 0:
    time.sleep(1.0)
dist.barrier()
"nobody was left behind"

# %% [markdown]
# ## Break it 2: a rank that raises

# %%
p = predict("00.divides")

# %%
# %%ranks --predicted
if dist.get_rank() == 1:
    1 / 0
dist.barrier()

# %% [markdown]
# Only rank 1 knows of the error. In a notebook it survives its exception, so its peers wait for it as in the first experiment:
# one bug, two symptoms. In a script, rank 1's process would end, and then:
#
# ## Break it 3: a rank that dies

# %%
p = predict("00.disappears")

# %% claims={"60": "holds"}
# %%ranks --predicted --as out
if dist.get_rank() == 3:
    time.sleep(0.2)  # by now the others are waiting
    os._exit(1)
dist.barrier()

# %%
print(out.errors[0].type, "on rank 0:", "Connection" in out.errors[0].message)

# %% [markdown]
# When a process ends, the operating system closes its connections, and gloo's other ends notice within milliseconds. So with
# gloo a *dead* peer is an error, a *silent* peer is a wait. The next `%%ranks` starts four new processes, in about a tenth of a
# second, and says that the old variables are gone.
#
# > **On GPUs (NCCL).** The ranks wait on their GPUs, and a peer's death may go unnoticed until `torchrun` ends the
# > others, or until the timeout. Then the log says “Watchdog caught collective operation timeout”, and the process
# > ends. (Read in
# > [`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp),
# > not run here.)
#
# ## Break it 4: a rank that calls something else
#
# Now ranks 0, 1 and 3 add up their losses; rank 2 is elsewhere in the program and counts its samples. Each calls one
# `all_reduce`.

# %%
p = predict("00.loss_or_samples")

# %%
# %%ranks --predicted --as out
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

# %% [markdown]
# No error, no hang, no warning: a loss with rank 2's samples in it, on every rank. A collective carries no name and no line.
# The *n*-th call on one rank is matched with the *n*-th call on the others, in the same group. A hang is the lucky case.
#
# ## Break it 5: press stop
#
# Press the stop button (or `I`, `I` in command mode) while a cell runs on ranks: each rank gets a `KeyboardInterrupt`, ranks
# blocked in a collective are freed, and the kernel answers again. This cell would run for an hour; `--stop-after 0.5` presses the
# button for you. Take it out and press it yourself.

# %%
# %%ranks --stop-after 0.5 --expect raises:KeyboardInterrupt
import time

if rank == 0:
    time.sleep(3600)
dist.barrier()

# %% [markdown]
# All four are alive, with their variables and a new process group. `%ranks` shows who is doing what, `%ranks rescue`
# rebuilds the process group, `%ranks restart` starts afresh.
#
# ## Five collectives, side by side
#
# DDP copies weights with `broadcast` and sums gradients with `all_reduce`; what comes after DDP (lesson 15) is made of the
# others. Rank 0 brings `[1, 1, 1, 1]`, rank 1 twos, rank 2 fours, rank 3 eights. So each sum tells who is in it, and 15 is all.

# %%
# %%ranks --as out
mine = torch.full((4,), 2.0**rank)

broadcast, reduced, summed = mine.clone(), mine.clone(), mine.clone()
dist.broadcast(broadcast, src=1)  # in place, like the next two
dist.reduce(reduced, dst=1)
dist.all_reduce(summed)

gathered, part = torch.empty(4), torch.empty(1)
dist.all_gather_single(gathered, mine[:1])  # older name: all_gather_into_tensor
dist.reduce_scatter_single(part, mine)  # older name: reduce_scatter_tensor

results = {"broadcast": broadcast, "reduce": reduced, "all_reduce": summed}
results |= {"all_gather": gathered, "reduce_scatter": part}
after = {name: tensor.tolist() for name, tensor in results.items()}

# %%
from course_lib.lab.first_ranks import draw_collectives

draw_collectives(out)

# %% [markdown]
# All-gather what reduce-scatter leaves, and you have an all-reduce: that is how a ring sends large sums (lesson 15). `reduce` is
# the trap. Only its destination has the result; the tensors of the others hold anything. Use `all_reduce` unless you are sure
# that nobody else looks.
#
# Change the numbers, the root and the collective. Every click is a run on four real ranks:

# %%
from course_lib.lab.first_ranks import explore_collectives

explore_collectives()

# %% [markdown]
# ## Train on four ranks
#
# A small real data set, 1,797 handwritten digits of 8×8 pixels, and an ordinary training loop. Two things make it
# distributed. Each rank takes every fourth sample of each batch, from another one on. So a batch keeps its 128 samples, 32 on
# each rank; with 128 on *each* rank, an epoch would have a quarter of the steps, and be another training. And
# `DistributedDataParallel` copies rank 0's weights to all ranks once, when it is made, and averages the gradients during every
# `backward()`.

# %%
# %%ranks --as out
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

# %% [markdown]
# Do all ranks hold the same weights? That is a claim, so it gets a run: compare them bit by bit.

# %%
# %%ranks
everyones = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(everyones, weights)
all(torch.equal(weights, other) for other in everyones)

# %% [markdown]
# And is it the *right* model? The mean of four equal quarters' gradients should be the gradient of the whole batch. If so, one
# process that trains on whole batches ends up with the same weights.

# %%
p = predict("00.same_model")

# %%
# %%ranks --only 0 --predicted --as out
alone = train(make_model(), mine=slice(None))
untrained = torch.nn.utils.parameters_to_vector(make_model().parameters())
difference = ((alone - weights).abs().max() / (alone - untrained).abs().max()).item()
print("the largest difference is below 0.01 % of the largest change:", difference < 1e-4)

# %% [markdown]
# Not bit-equal: a sum of four partial sums is rounded differently from one long sum. But the same model. That is the promise of
# data parallelism, and every later lesson is about how it is kept, or silently broken.
#
# Why it works: each rank divides its gradients by the number of ranks while it copies them into DDP's buckets, and an
# all-reduce sums the buckets (`Reducer::mark_variable_ready_dense` in
# [`reducer.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer.cpp)). A mean of
# four means is the mean of the whole batch when the four parts have equal sizes and no sample's loss depends on another
# sample. (Unequal sizes: lesson 05. Samples that meet: lesson 07. Buffers, such as BatchNorm's: lesson 09.)
#
# ## The same as a script
#
# Outside a notebook, `torchrun` starts the processes, tells each its rank, and watches them. The script says the rest
# itself. The next cells write scripts into the folder `scratch` beside this notebook. The first can be this short:

# %%
from pathlib import Path

scratch = Path("scratch")
scratch.mkdir(exist_ok=True)
for name in ("train.py", "fails.py"):
    (scratch / name).unlink(missing_ok=True)  # from the last time

# %%
# %%writefile scratch/train.py
import os

import torch
import torch.distributed as dist
from course_lib.data import load_digits
from torch.nn.parallel import DistributedDataParallel


def main():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    images, labels = load_digits()
    pixels, targets = torch.from_numpy(images).float().flatten(1) / 16, torch.from_numpy(labels).long()
    torch.manual_seed(0)
    ddp = DistributedDataParallel(torch.nn.Linear(64, 10))  # rank 0's weights, on all ranks
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    for batch in torch.arange(1408).split(128):
        mine = batch[rank::world_size]
        loss = torch.nn.functional.cross_entropy(ddp(pixels[mine]), targets[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:  # compute on all, print on one
        right = (ddp.module(pixels[1408:]).argmax(1) == targets[1408:]).float().mean()
        print(f"{world_size} processes, accuracy {right:.2f}", flush=True)


dist.init_process_group("gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
main()
dist.destroy_process_group()
os._exit(0)  # at once: gloo's threads can abort Python's own shutdown

# %% tags=["nbval-skip"]
# log = !torchrun --standalone --nproc-per-node=4 scratch/train.py
print(*[line for line in log if "accuracy" in line])

# %% [markdown]
# `log = !...` keeps what a command has written; `print(*log, sep="\n")` shows all of it. In a terminal you type the same line
# without `log = !`; in JupyterLab, **+** and *Terminal* open one in this folder. On GPUs three lines change: take your GPU
# (`torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`), use `"nccl"`, and move model and data there.
#
# ## What torchrun says when a rank fails
#
# Two ranks, three batches each. One of two things goes wrong: rank 0 raises while rank 1 still loads its third batch; or rank 1
# has a batch fewer, and is done early.

# %%
# %%writefile scratch/fails.py
import os
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
os._exit(0)

# %%
# log = !torchrun --standalone --nproc-per-node=2 scratch/fails.py raise
from course_lib.lab.first_ranks import torchruns_last_words

print(torchruns_last_words(log))

# %% [markdown]
# `torchrun` looks at its processes ten times a second (`--monitor-interval`). One had ended with an error, so it ended the
# other (`_close` in `torch/distributed/elastic/multiprocessing/api.py`) and named the first failure that it *observed*. Here it
# is the right one. The first line is that rank's own, from further up in the log: torch writes `[rank0]` before each line
# of its traceback.
#
# Now rank 1 runs out of batches, says that it is done and ends with exit code 0. Whom will `torchrun` name?

# %%
# log = !torchrun --standalone --nproc-per-node=2 scratch/fails.py short
print(*[line for line in log if "is done" in line])
print(torchruns_last_words(log))

# %% [markdown]
# Rank 0 again, and this time it is the *victim*. It was in its third `all_reduce` when rank 1's process ended and the
# connection was closed (Break it 3). Rank 1, the culprit, ended well, so no line blames it. “Root Cause (first observed
# failure)” means just what the brackets say.
#
# > **On GPUs (NCCL).** `torchrun` ends the others when a process *fails* (`_poll` in the same file), and exit code 0 is not
# > a failure. Rank 0 may then wait on its GPU until the timeout. (Read, not run here.)
#
# ## What goes wrong in real life
#
# - **A hang after hours of training** is nearly always experiment 1: one rank took a different code path (an `if rank == 0:` with a
#   collective inside, a shorter data loader, a skipped batch) and the rest wait. Look for the rank that is *not* waiting.
# - **“Connection closed by peer”**, gloo's message, is experiment 3. The rank that prints it is the witness, not the
#   culprit: look for the first rank that ended, and at *its* log, even if it ended with exit code 0.
# - **All ranks print, nobody reads.** With four ranks you get four times everything. Print on one rank, compute on all.
# - **A number that is a little wrong on all ranks** may be experiment 4. Count the calls between two good numbers.
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
# ## Further reading
#
# - PyTorch, *Distributed communication package* (`torch.distributed` in the API reference): every collective used here.
# - PyTorch, *torchrun (Elastic Launch)*: its options, and the variables that it sets. Lesson 02 opens it.
# - Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB 2020.
#
# **Next:** [lesson 02](02_process_groups.ipynb), how the processes find each other, or [lesson 03](03_samplers.ipynb), who
# gets which sample. Coming from `nn.DataParallel`? [Lesson 01](01_dataparallel.ipynb).
