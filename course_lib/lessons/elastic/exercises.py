# %% [markdown]
# # 12 · Elastic training: your turn
#
# Three tasks on [lesson 12](../notebooks/12_elastic.ipynb). Replace what stands under `YOUR CODE HERE` and run the cell: running it
# *is* checking it. In the second and third one, your code runs under a real elastic agent, and is killed, or asked to leave.
#
# `%hint elastic.train` gives a hint, and the next one when you run it again. `%solution elastic.train` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. How often to save
#
# You have the log of a job that ran on `ranks_then` ranks for about a day, and are going to run the same training on `ranks_now`
# ranks. A step, a save and a restart take as long as before; each rank fails as often as before. Return after how many **steps**
# to save, so that as little time as possible is lost.
#
# The log is a list of events, in the order of time: `{"event": "save", "time": 3600.5, "seconds": 5.1}`. `time` counts seconds since
# the start. `seconds` is how long it took: a `step` (the log has only some of them), a `save`, and for a `failure` the restart after
# it. The last event is the `end`.

# %%
# %%task elastic.interval
import math
from statistics import mean


def interval(log, ranks_then, ranks_now):
    """The number of steps between two saves."""
    ### BEGIN SOLUTION
    ### STUB: steps = ...
    ### STUB: return steps
    save = mean(event["seconds"] for event in log if event["event"] == "save")
    step = mean(event["seconds"] for event in log if event["event"] == "step")
    failures = sum(event["event"] == "failure" for event in log)
    between = log[-1]["time"] / failures * ranks_then / ranks_now
    return max(1, round(math.sqrt(2 * save * between) / step))  # the restart is not in it
    ### END SOLUTION


# %% [markdown]
# ## 2. Three kills, one curve
#
# This function trains, and is not elastic:
#
# ```python
# def train(make, batch_of, steps, every, path):
#     net, optimizer = make()  # the same weights on every rank
#     ddp = DistributedDataParallel(net)
#     rank, world = dist.get_rank(), dist.get_world_size()
#     for step in range(steps):
#         inputs, targets = batch_of(step)  # the whole batch of this step
#         optimizer.zero_grad()
#         loss = (ddp(inputs[rank::world]) - targets[rank::world]).square().mean()
#         loss.backward()
#         optimizer.step()
# ```
#
# Make it so. An agent calls it in all workers, in a process group that is ready. Three times a worker is killed, once in the middle
# of `torch.save`, and `train` is called again in new workers, with the same arguments; after the second time there are **more**
# workers, and their number need not divide the batch. The loss of every step must be what it would have been without a kill.
#
# - After every `every`-th step, a checkpoint is saved; a restart goes on from the last one that is whole.
# - All files that are written, also those that are there for a moment only, lie at `path` or have names that begin with it, such
#   as `path + ".new"`.
# - Call `batch_of(step)` once for each step, when the step begins.

# %%
# %%task elastic.train
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(make, batch_of, steps, every, path):
    """Train until `steps` steps are done, however often it is killed and called again."""
    ### BEGIN SOLUTION
    net, optimizer = make()
    step = 0
    if os.path.exists(path):  # on every rank
        saved = torch.load(path, map_location="cpu")
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    ddp = DistributedDataParallel(net)
    rank, world = dist.get_rank(), dist.get_world_size()
    while step < steps:
        inputs, targets = batch_of(step)
        optimizer.zero_grad()
        errors = (ddp(inputs[rank::world]) - targets[rank::world]).square()
        (errors.sum() / targets.numel() * world).backward()  # shares need not be equal
        optimizer.step()
        step += 1
        if step % every == 0 and rank == 0:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, path + ".new")
            os.replace(path + ".new", path)  # the old one is there until the new one is whole
    ### END SOLUTION


# %% [markdown]
# ## 3. Asked to leave
#
# `train_step(step)` trains one step, together with the other ranks. `save(step)` writes this rank's part of a checkpoint that says
# that `step` steps are done; every rank has to call it. `first` steps have been done before, in an earlier life.
#
# Train until `steps` steps are done, or until **any** rank has got a SIGTERM. Then save, and return the exit code of this process. Each
# rank is on a machine of its own; the signal may come on one or on several, in the middle of a step or between two.
#
# - The code is 0 if all steps are done, or if this rank has got a SIGTERM itself. Else it is 75, so that its agent starts it again.
# - All ranks leave after the same step: the one in which the signal came, or the next one.
# - Each rank saves once, when its last step is over.

# %%
# %%task elastic.preempted
import signal

import torch
import torch.distributed as dist


def preempted(train_step, save, first, steps):
    """Train from step `first`, until all steps are done or a rank is asked to leave; the exit code."""
    ### BEGIN SOLUTION
    asked = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    step, leave = first, False
    while step < steps and not leave:
        train_step(step)
        step += 1
        anybody = torch.tensor(len(asked))  # with NCCL on this rank's GPU
        dist.all_reduce(anybody, op=dist.ReduceOp.MAX)
        leave = anybody.item() > 0  # not `asked`: it may have changed since, and on this rank only
    save(step)
    return 0 if step == steps or asked else 75
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 12
