# %% [markdown]
# # 00 · Your first ranks
#
# > *“How do I even run four processes from a notebook? And when one of them hangs, is my kernel gone?”*
#
# In this lesson you start four real processes from a cell, let them talk to each other, break them in four different
# ways, and finally train a network on all of them. Nothing here is simulated: the processes, the process group, the
# deadlock and the training are real.
#
# **You will be able to** run code on ranks, read what they send back, tell a crash from a hang, and get out of both.
# 20 minutes, no GPU needed.
#
# Words first. A **rank** is one process of a distributed program, and also its number. The **world size** is how many
# there are. A **collective** is an operation that all ranks of a **process group** do together, such as summing a tensor.

# %%
# %load_ext course_lib

# %% [markdown]
# ## What this machine offers
#
# The course looks at the machine and decides how ranks talk to each other. **gloo** works everywhere, and carries all CPU
# tensors. If every rank can have a GPU of its own, **NCCL** carries the CUDA tensors. (All outputs in this course come from
# gloo, on CPUs. Where NCCL behaves differently, a lesson says so from NCCL's or PyTorch's source; no GPU was at hand to run
# it.) Your numbers will differ.

# %% tags=["nbval-ignore-output"]
machine()

# %% [markdown]
# ## Four ranks, one sum
#
# A cell that starts with `%%ranks 4` does not run in the notebook's kernel. It runs in four other processes, each with its
# own memory. They are already connected: what `torchrun` prepares for a script (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, ...
# and `init_process_group`) has been done.
#
# Each rank puts its own number into a tensor. `all_reduce` adds the four tensors and leaves the sum on every rank.

# %%
# %%ranks 4
import os

import torch
import torch.distributed as dist

x = torch.tensor([float(dist.get_rank())])
dist.all_reduce(x)
x.item()

# %% [markdown]
# 0 + 1 + 2 + 3 = 6, and all four ranks have it. Equal results are shown once: `ranks 0-3 | 6.0`. Where ranks differ, you
# see each of them:

# %%
# %%ranks
print(f"I am rank {dist.get_rank()} of {dist.get_world_size()}, RANK is {os.environ['RANK']}")

# %% [markdown]
# The code is what you would write in a script for `torchrun`. Try it: this course never gives you a special API where
# PyTorch has one.
#
# ## State stays
#
# The four processes live on between cells, each with its own variables. `--only` runs a cell on some of them.

# %%
# %%ranks --only 1,3
x += 100

# %%
# %%ranks --as out
seen = x.item()
seen

# %% [markdown]
# `--as out` keeps what came back as an `Outcome` in the kernel: the last value of every rank, any variable by its name,
# the collectives each rank issued (this cell: none).

# %%
out.values, out["seen"][1], len(out.collectives[0])

# %% [markdown]
# ## Break it 1: a rank that never arrives
#
# Rank 2 is going to skip the `all_reduce` that the others call. Commit to an answer *before* you run the cell below: click
# one, or call `p.choose(2)`. Whether you are right, the run decides.

# %%
p = predict(
    "Rank 2 skips the all_reduce. What happens?",
    {
        "the other three add up their tensors without it": "ok",
        "rank 2 raises an error": "raises:2",
        "the other three wait for ever": "hang:0,1,3",
    },
)

# %% claims={"54": "holds"}
# %%ranks --predicted
if dist.get_rank() != 2:
    dist.all_reduce(x)

# %% [markdown]
# A collective needs every rank of its group. In a script the three would sit there for as long as rank 2 lives and does
# something else, at most until a timeout: 30 minutes with gloo, 10 with NCCL (`kProcessGroupDefaultTimeout` and
# `kProcessGroupNCCLDefaultTimeout` in the headers that come with torch). When rank 2's process ends, gloo tells the others at
# once that the connection is closed; the message names neither the rank that left nor the line.
#
# Here you had the answer in well under a second, and not because somebody guessed from the silence. The course *proved* it:
# three ranks are blocked in a collective that rank 2 has not joined, and rank 2 has left the cell, so it never will. The
# three were then freed (their connections were shut down, the blocked call raised, the cell ended) and got a new process
# group. Their variables are still there:

# %%
# %%ranks
torch.is_tensor(x)

# %% [markdown]
# What `x` is *worth* is another matter. A collective that was cut in the middle may leave partial sums. Set such tensors
# again.
#
# `--predicted` says: this cell may end as any of the answers says, and in no other way. A cell that shows what has been explained
# already says how it ends, as in `--expect hang`. If a future PyTorch does something else, the cell fails and this lesson has to
# be rewritten. Every claim of the course that can run on this machine is tested like this; where one cannot, because it needs
# GPUs for example, the lesson says where it was read.
#
# ## Silence is not a deadlock
#
# Rank 0 takes its time. The other three wait for it in the barrier, blocked just as above. Why does nobody call it a hang?

# %%
# %%ranks
import time

if dist.get_rank() == 0:
    time.sleep(1.0)
dist.barrier()
"nobody was left behind"

# %% [markdown]
# Because rank 0 could still come, and it did. A **straggler** makes others wait; only a rank that *cannot* come any more
# makes a deadlock.
#
# ## Break it 2: a rank that raises

# %%
p = predict(
    "Rank 1 divides by zero before a barrier. What do you see?",
    {
        "ZeroDivisionError on all four ranks": "raises:0,1,2,3",
        "ZeroDivisionError on rank 1, and the others are stuck": "raises:1",
        "all ranks are stuck, no error anywhere": "hang",
    },
)

# %%
# %%ranks --predicted
if dist.get_rank() == 1:
    1 / 0
dist.barrier()

# %% [markdown]
# Only rank 1 knows of the error. In a notebook it stays alive after the exception, so its peers wait for it like in the
# first experiment: one bug, two symptoms. In a script, rank 1 would end with its traceback, and then:
#
# ## Break it 3: a rank that dies

# %%
p = predict(
    "Rank 3's process disappears while the others wait in a barrier. How do they find out?",
    {
        "not at all: they wait until the timeout": "hang",
        "they get an error at once": "died:3",
    },
)

# %% claims={"60": "holds"}
# %%ranks --predicted --as out
if dist.get_rank() == 3:
    time.sleep(0.2)  # by now the others are waiting
    os._exit(1)
dist.barrier()

# %%
print(out.errors[0].type, "on rank 0:", "Connection" in out.errors[0].message)

# %% [markdown]
# When a process dies, the operating system closes its connections, and gloo's other ends notice within milliseconds. So with
# gloo a *dead* peer is an error, a *silent* peer is a wait. The one that hides is the process that is alive but elsewhere.
#
# > **On GPUs.** With NCCL the ranks wait on their GPUs, and a peer's death may go unnoticed until `torchrun` ends the
# > others, or until the timeout. Then the log says “Watchdog caught collective operation timeout”, and the process
# > ends. (Read in `ProcessGroupNCCL.cpp`, not run here.)
#
# A gang that has lost a rank cannot go on. The next `%%ranks` starts a new one, in about a tenth of a second, and tells you
# that the old variables are gone.

# %%
# %%ranks
import os
import time

import torch
import torch.distributed as dist

dist.get_world_size()

# %% [markdown]
# ## Break it 4: press stop
#
# Some code just runs too long. Press the stop button (or `I`, `I` in command mode) while a cell runs on ranks: each rank
# gets a `KeyboardInterrupt`, ranks blocked in a collective are freed, and the kernel answers again.
#
# The cell below would run for an hour. `--stop-after 0.5` presses the button for you, so that this notebook can also run
# by itself; take it out and press it yourself.

# %%
# %%ranks --stop-after 0.5 --expect raises:KeyboardInterrupt
numbers = [1, 2, 3]
if dist.get_rank() == 0:
    time.sleep(3600)
dist.barrier()

# %%
# %%ranks
x = torch.ones(1)
dist.all_reduce(x)
x.item(), numbers

# %% [markdown]
# All four are alive, the new process group works, `numbers` is still there. If you ever want to look after a gang by hand:
# `%ranks` shows who is alive and doing what, `%ranks rescue` rebuilds the process group, `%ranks restart` starts afresh.

# %%
# %ranks rescue

# %% [markdown]
# ## The real thing: train on four ranks
#
# Enough broken cells. The course brings a small real data set: 1,797 handwritten digits, 8×8 pixels, from the UCI
# repository. Every rank loads it, shuffles it with the *same* seed and takes every fourth sample of each batch. How to
# leave that to a `DistributedSampler` is lesson 03.

# %%
# %%ranks
from course_lib.data import load_digits

device = torch.device("cpu")
if torch.cuda.is_available():  # one GPU a rank; shared, if there are fewer
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)

images, labels = load_digits()
pixels = (torch.from_numpy(images).float().flatten(1) / 16).to(device)
targets = torch.from_numpy(labels).long().to(device)
train_pixels, train_targets = pixels[:1408], targets[:1408]
test_pixels, test_targets = pixels[1408:], targets[1408:]
len(train_pixels), len(test_pixels)


# %% [markdown]
# `train` is an ordinary training loop. It knows nothing of ranks: which part of each batch it gets and what kind of model
# are its arguments.

# %%
# %%ranks
from tqdm import tqdm


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(device)


def train(model, part, epochs=20, batch=128, quiet=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    shuffle = torch.Generator().manual_seed(0)
    losses, accuracies = [], []
    for _ in tqdm(range(epochs), desc="epochs", ncols=70, disable=quiet):
        order = torch.randperm(len(train_pixels), generator=shuffle)
        for indices in order.split(batch):
            mine = indices[part]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(train_pixels[mine]), train_targets[mine])
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        with torch.no_grad():
            guessed = model(test_pixels).argmax(1)
        accuracies.append((guessed == test_targets).float().mean().item())
    return losses, accuracies


# %% [markdown]
# Two things make it distributed: the slice `rank::4` of every batch, and the wrapper `DistributedDataParallel`. The wrapper
# copies rank 0's weights to all ranks once, when it is made, and averages the gradients during every `backward()`. (Buffers,
# which this model has not, are another matter: lesson 09.)

# %%
# %%ranks --as out
from torch.nn.parallel import DistributedDataParallel

rank = dist.get_rank()
model = DistributedDataParallel(make_model())
losses, accuracies = train(model, part=slice(rank, None, 4), quiet=rank != 0)
round(accuracies[-1], 2)

# %% [markdown]
# Every rank has a loss of its own, because it sees other samples. But all have the same accuracy in every epoch, because
# they have the same weights. Draw it from what the ranks have recorded:

# %%
import matplotlib.pyplot as plt

all_losses, all_accuracies = out["losses"], out["accuracies"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for r, style in enumerate(("-", "--", "-.", ":")):
    left.plot(all_losses[r], style, label=f"rank {r}")
    right.plot(all_accuracies[r], style, label=f"rank {r}")
left.set(title="Each rank sees its own loss ...", xlabel="epoch", ylabel="loss of the last batch")
right.set(title="... but all hold the same model", xlabel="epoch", ylabel="accuracy on test digits")
right.legend(title="four lines, all in one place")
plt.show()

# %% [markdown]
# ## Prove it
#
# “The same weights” is a claim, so it gets a run. Each rank compares its weights with those of all others, bit by bit.

# %%
# %%ranks
weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
everyones = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(everyones, weights)
all(torch.equal(weights, other) for other in everyones)

# %% [markdown]
# And is it the *right* model? Averaging the gradients of four equal quarters should give the gradient of the whole batch.
# If so, one process that trains on whole batches must end up with the same weights. Commit first:

# %%
p = predict(
    "One process trains on whole batches. Are its weights those of the four ranks?",
    {
        "yes, up to rounding": lambda out: out["difference"][0] < 1e-4 * out["moved"][0],
        "no, four ranks learn something else": lambda out: out["difference"][0] >= 1e-4 * out["moved"][0],
    },
)

# %%
# %%ranks --only 0 --predicted
alone = make_model()
train(alone, part=slice(None), quiet=True)
alone_weights = torch.nn.utils.parameters_to_vector(alone.parameters()).detach()
difference = (alone_weights - weights).abs().max().item()
moved = (alone_weights - torch.nn.utils.parameters_to_vector(make_model().parameters())).abs().max().item()
print("the largest difference is below 0.01 % of what the weights have moved:", difference < 1e-4 * moved)

# %% [markdown]
# Not bit-equal: a sum of four partial sums is rounded differently from one long sum. But the same model. That is the
# promise of data parallelism, and every later lesson is about how it is kept, or silently broken.
#
# Why it works: each rank divides its gradients by the number of ranks while it copies them into DDP's buckets, and the
# all-reduce sums the buckets (`Reducer::mark_variable_ready_dense` in `torch/csrc/distributed/c10d/reducer.cpp`). So every
# rank ends with the *mean*. A mean of four means is the mean of the whole batch when the four parts have equal sizes and no
# sample's loss depends on another sample. Unequal sizes are lesson 05, samples that meet lesson 07.
#
# ## What goes wrong in real life
#
# - **A hang after hours of training** is nearly always experiment 1: one rank took a different code path (an `if rank == 0:` with a
#   collective inside, a shorter data loader, a skipped batch) and the rest wait. Look for the rank that is *not* waiting.
# - **“Connection closed by peer”**, gloo's message, is experiment 3. The rank that prints it is the witness, not the
#   culprit: look for the first rank that ended, and at *its* log.
# - **All ranks print, nobody reads.** With four ranks you get four times everything. Print on one rank, compute on all.
#
# ## Rule of thumb
#
# > Every rank calls the same collectives, in the same order, the same number of times. When a program hangs, ask which rank
# > broke that rule, not which rank complains.
#
# ## Further reading
#
# - PyTorch, *Distributed communication package* (`torch.distributed` in the API reference): every collective used here.
# - PyTorch, *Distributed Data Parallel* (design note in the documentation): what the wrapper does in each phase.
# - Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB 2020.
#
# **Next:** lesson 03, *Samplers*: who gets which sample.
