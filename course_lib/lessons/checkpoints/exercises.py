# %% [markdown]
# # 14 · Logging, metrics, checkpoints: your turn
#
# Four tasks on [lesson 14](../notebooks/14_checkpoints.ipynb), each harder than the one before. Replace what stands under
# `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks and is judged by what it does.
#
# `%hint checkpoints.save` gives a hint, and the next one when you run it again. `%solution checkpoints.save` opens once you
# have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. A number for the log, after every step
#
# Called on every rank, in every step, with this rank's batch: `scores` of shape `(samples, 4)`, `labels` from 0 to 3. A
# batch may be empty. `counts` belongs to this rank and lives as long as the training: whole numbers of shape `(4, 2)`,
# for each class the right answers and the samples so far, zeros in the beginning.
#
# - Count this batch into `counts`, in place. Only this rank's samples belong there.
# - Return two numbers, over the samples of **all ranks in all steps so far**, the same on every rank: the accuracy (a
#   sample is right if its highest score is that of its label), and the mean recall: for each class of which some rank
#   has seen a sample, the share of them that is right; the mean of these shares.

# %%
# %%task checkpoints.log_metrics
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    """(accuracy, mean recall) of all samples that any rank has seen so far; two numbers."""
    ### BEGIN SOLUTION
    ### STUB: return ...
    right = scores.argmax(1) == labels
    counts[:, 0] += torch.bincount(labels[right], minlength=4)
    counts[:, 1] += torch.bincount(labels, minlength=4)
    total = counts.clone()  # the sum of all ranks must not get into this rank's counts
    dist.all_reduce(total)
    right, samples = total.double().unbind(1)
    seen = samples > 0
    return (right.sum() / samples.sum()).item(), (right[seen] / samples[seen]).mean().item()
    ### END SOLUTION


# %% [markdown]
# ## 2. A checkpoint that survives a kill
#
# `save` and `load` are called on every rank, with the same arguments. In `save`, `model` is wrapped in DDP; in `load`,
# it may be wrapped or not. Beside `path`, in the same folder, lie files of others: leave them alone.
#
# - `save(model, step, path)`: one rank writes the weights and the number of the step. When `save` returns on a rank,
#   `load` finds them there at once.
# - `load(model, path)` fills the model on every rank and returns the number of the step; it returns `None` if nothing
#   has been saved. It runs no code that a file brings along.
# - The process that writes is killed, at whatever byte and between whichever two steps: then `load` finds the last
#   checkpoint or the new one, entire.

# %%
# %%task checkpoints.save
import os

import torch
import torch.distributed as dist


def save(model, step, path):
    """Write a checkpoint; returns when it is there, on every rank."""
    ### BEGIN SOLUTION
    ### STUB: return ...
    if dist.get_rank() == 0:
        with open(path + ".new", "wb") as file:
            torch.save({"step": step, "model": model.module.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())  # before the name: also a power failure must not leave half a file
        os.replace(path + ".new", path)
    dist.barrier()
    ### END SOLUTION


def load(model, path):
    """Fill the model from the checkpoint; returns the number of its step, or None."""
    ### BEGIN SOLUTION
    ### STUB: return ...
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)
    getattr(model, "module", model).load_state_dict(state["model"])
    return state["step"]
    ### END SOLUTION


# %% [markdown]
# ## 3. Resume bit by bit
#
# A training is under way on all ranks. `job` has what it needs: `job.model` (wrapped in DDP), `job.optimizer`,
# `job.scheduler`, `job.epoch`, and `job.batch`, the number of batches done in this epoch. The loop shuffles with a
# `DistributedSampler` and `set_epoch(job.epoch)`. In every step it draws random numbers from `torch`, `numpy.random`
# and `random`, on each rank others.
#
# - `save_job(job, path)` is called on every rank, between two steps. The training goes on after it as if nothing had
#   happened.
# - `load_job(job, path)` is called on every rank of a *new* job, as many ranks as before, that has made its model and
#   its optimizer and has seeded everything as at the start. From there, the training runs on as the old one did: losses
#   and weights are equal, bit by bit, on every rank.
#
# You may write several files whose names begin with `path`.

# %%
# %%task checkpoints.save_job
import os
import random

import numpy as np
import torch
import torch.distributed as dist


def save_job(job, path):
    """Save all that has a memory."""
    ### BEGIN SOLUTION
    ### STUB: return ...
    kind, keys, *rest = np.random.get_state()
    numpys = (kind, keys.tolist(), *rest)  # weights_only refuses numpy's arrays
    mine = {"torch": torch.get_rng_state(), "numpy": numpys, "random": random.getstate()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    if dist.get_rank() == 0:
        state = {
            "model": job.model.module.state_dict(),
            "optimizer": job.optimizer.state_dict(),
            "scheduler": job.scheduler.state_dict(),
            "place": (job.epoch, job.batch),
            "random": everyones,
        }
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
    ### END SOLUTION


def load_job(job, path):
    """Bring the job to where the saved one was."""
    ### BEGIN SOLUTION
    ### STUB: return ...
    state = torch.load(path, map_location="cpu", weights_only=True)
    job.model.module.load_state_dict(state["model"])
    job.optimizer.load_state_dict(state["optimizer"])
    job.scheduler.load_state_dict(state["scheduler"])
    job.epoch, job.batch = state["place"]
    mine = state["random"][dist.get_rank()]
    torch.set_rng_state(mine["torch"])
    np.random.set_state(mine["numpy"])
    random.setstate(mine["random"])
    ### END SOLUTION


# %% [markdown]
# ## 4. A script of your own, repaired from lesson to lesson
#
# [script/train.py](script/train.py), which lesson 00 has handed out: it should now train, survive and report truly. Running this cell
# launches it six times, on one to four processes: rank 0 is killed, and the writer while it writes; a process has no memory; one is late;
# images are blank; two machines are played. That takes ten to thirty seconds, longer on a busy machine. The report counts the promises that are kept, and of the rest it
# tells symptoms. Behind `--suspect`, a word of the script or a lesson's number asks about that.

# %% tags=["only-exercise", "nbval-ignore-output"]
# %%task checkpoints.script
# YOUR CODE HERE
# ... in the file script/train.py beside this notebook, not in this cell.

# %% tags=["only-solution"]
# %%task checkpoints.script
# The repaired script is the file script/train.py beside this notebook.

# %% [markdown]
# ## How far are you?

# %%
# %progress 14
