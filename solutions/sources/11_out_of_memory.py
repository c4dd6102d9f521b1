# %% [markdown]
# # 11 · Out of memory on one rank: your turn
#
# Three tasks on [lesson 11](../notebooks/11_out_of_memory.ipynb). Replace what stands under `YOUR CODE HERE` and run the cell:
# running it *is* checking it. Your code runs on real ranks, whose allocator really refuses, and is judged by what it does.
#
# A task cell stands alone. It sees nothing of the other cells, so it brings its own imports.
# `%hint out_of_memory.correct_mean` gives a hint, and the next one when you run it again.
# `%solution out_of_memory.correct_mean` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. The mean without the zeros
#
# A backward is over. Ranks that were out of memory took part with a loss times zero. Make every gradient the mean over the *good*
# ranks, on all ranks.
#
# - `ddp` is a `DistributedDataParallel`; a parameter may be frozen. `good` is True where this rank had a batch. All batches
#   are equally large.
# - Where no rank is good, gradients stay zeros.
# - Return how many ranks are good, on every rank.

# %%
# %%task out_of_memory.correct_mean
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    """Correct all gradients; how many ranks are good."""
    ### BEGIN SOLUTION
    ### STUB: count = ...
    ### STUB: return count
    count = torch.tensor(float(good), device=next(ddp.parameters()).device)
    dist.all_reduce(count)
    if count > 0:
        for parameter in ddp.parameters():
            if parameter.grad is not None:
                parameter.grad *= dist.get_world_size() / count
    return int(count)
    ### END SOLUTION


# %% [markdown]
# ## 2. A step that survives
#
# One training step: gradients from zero, forward, backward, a step of the optimizer. On any rank, and on any number of them, memory may run
# out: in the forward, or anywhere in backward, in any step.
#
# - `inputs` and `targets` are this rank's batch, equally large on all ranks; `losses_of(outputs, targets)` gives one loss a sample.
# - A batch that has run out of memory is left out, all of it: smaller pieces would not fit, either. The step is then the mean over the samples
#   of all other ranks. Where all ranks fail, there is no step.
# - After each step all ranks have the same weights, bit by bit: those of one process that never drew the failed batches.
# - Other errors are raised.
# - The model may have buffers; no forward changes them.

# %%
# %%task out_of_memory.safe_step
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    """One step on the batches that fit."""
    ### BEGIN SOLUTION
    ### STUB: ...
    ### STUB: raise NotImplementedError
    optimizer.zero_grad()
    ddp.require_forward_param_sync = (
        False  # a forward may begin with a broadcast of buffers; this one does not
    )
    good = True
    try:
        with ddp.no_sync():  # so nothing in here waits for another rank
            losses_of(ddp(inputs), targets).mean().backward()
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        good = False
    if not good:
        optimizer.zero_grad()
    parameters = [p for p in ddp.parameters() if p.requires_grad]
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    flag = torch.tensor([float(good)], device=inputs.device)
    flat = torch.cat([flag, *(part.flatten() for part in parts)])
    dist.all_reduce(flat)
    count, total = flat[0], flat[1:]
    if count == 0:
        return
    for parameter, mean in zip(
        parameters, (total / count).split([p.numel() for p in parameters]), strict=True
    ):
        parameter.grad = mean.view_as(parameter)
    optimizer.step()
    ### END SOLUTION


# %% [markdown]
# ## 3. Decide by cost
#
# Several ways out have been measured. Which one costs least? Return its name.
#
# - `ways` is a dictionary, name → costs: `overhead`, seconds in *each* step; `repair`, seconds for each failure; and either `lost_steps`,
#   the steps of the whole gang that one failure throws away, or `checkpoint_every`: all steps since the last checkpoint are lost, the
#   failed one too, and a failure strikes any of them with the same chance.
# - What is lost is done again, at `step_seconds` plus the overhead per step. Failures while that is done are left out of account.
# - `failures` is in how many of the last `steps` steps *this* rank has run out of memory; ranks fail independently of each other. One
#   rank's failure is a failure of the gang, and several in the same step count as one.
# - All ranks return the same name.

# %%
# %%task out_of_memory.cheapest_way
import math

import torch.distributed as dist


def cheapest_way(ways, failures, steps, step_seconds):
    """The name of the way that adds the fewest seconds to a step, on average."""
    ### BEGIN SOLUTION
    ### STUB: name = ...
    ### STUB: return name
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failures)
    goes_wrong = 1 - math.prod(1 - count / steps for count in everyones)

    def added(way):
        lost = way["lost_steps"] if "lost_steps" in way else (way["checkpoint_every"] + 1) / 2
        return way["overhead"] + goes_wrong * (way["repair"] + lost * (step_seconds + way["overhead"]))

    return min(ways, key=lambda name: added(ways[name]))
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 11
