# %% [markdown]
# # 05 · When ranks run at different speeds: your turn
#
# Three tasks on [lesson 05](../notebooks/05_stragglers.ipynb), each a little harder than the one before. Replace what
# stands under `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks, some of
# them late on purpose, and is judged by what it does.
#
# A task cell stands alone. It sees nothing of the other cells, so it brings its own imports.
# `%hint stragglers.waiting_seconds` gives a hint, and the next one when you run it again.
# `%solution stragglers.waiting_seconds` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. Who waits, and how long?
#
# Do `loss.backward()` on this rank, and return how many seconds of it the rank stood waiting for others: no more to
# compute, and not yet allowed to go on.
#
# - `ddp` is a `DistributedDataParallel`; `loss` comes from one forward through it. Afterwards all ranks have mean
#   gradients, as ever.
# - Ranks are late in two ways: they begin their backward later, or they compute longer in it.
# - A few hundredths of a second more or less do not matter.
# - The group is gloo's. With NCCL, Python's clock does not see the waiting (“On GPUs” in the lesson).

# %%
# %%task stragglers.waiting_seconds
import time


def waiting_seconds(ddp, loss):
    """Seconds that this rank waits for other ranks in `loss.backward()`."""
    ### BEGIN SOLUTION
    ### STUB: waited = ...
    ### STUB: return waited
    ready = []
    hooks = [
        parameter.register_post_accumulate_grad_hook(lambda _: ready.append(time.perf_counter()))
        for parameter in ddp.parameters()
    ]
    loss.backward()
    through = time.perf_counter()
    for hook in hooks:
        hook.remove()
    return through - ready[-1]  # the last gradient was there: from then on, the rank only waited
    ### END SOLUTION


# %% [markdown]
# ## 2. An epoch with uneven batches
#
# Train for one epoch. `batches` is this rank's list of `(inputs, targets)`, of shapes `(n, 4)` and `(n, 2)`. The ranks have
# different numbers of batches, of different sizes; a rank may have none at all.
#
# - In round *k*, all ranks that have a batch number *k* take part, and there is one step of the optimizer. Its gradient
#   is that of the mean loss over **all samples of this round**, of all ranks.
# - `losses_of(outputs, targets)` gives one loss per sample.
# - `optimizer` has momentum, and a second epoch follows: `train_epoch` is called again, with the same model and optimizer.
# - After each epoch all ranks have the same weights: those of one process that sees all batches of a round as one.

# %%
# %%task stragglers.train_epoch
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    """Train on all ranks' batches, round by round."""
    ### BEGIN SOLUTION
    ### STUB: ...
    ### STUB: raise NotImplementedError
    world = dist.get_world_size()
    everyones = [None] * world
    dist.all_gather_object(everyones, [len(inputs) for inputs, _ in batches])
    nothing = torch.empty(0, 4), torch.empty(0, 2)
    for number in range(max(len(sizes) for sizes in everyones)):
        total = sum(sizes[number] for sizes in everyones if number < len(sizes))
        inputs, targets = batches[number] if number < len(batches) else nothing
        optimizer.zero_grad()
        # DDP averages over ranks: times their number gives the sum, divided by all samples the mean.
        loss = losses_of(ddp(inputs), targets).sum() * world / total
        loss.backward()
        optimizer.step()
    ### END SOLUTION


# %% [markdown]
# ## 3. How often to synchronise
#
# The gradients are to be reduced only after every *k*-th step (`no_sync()` in between). How large must *k* be? Return the
# smallest *k* with which reductions take at most `share` of the gang's time: *k* steps and one reduction are one round.
#
# - `step_seconds`: how long steps took on this rank, without any communication. The first one is a warm-up.
# - `reduce_seconds`: how long this rank stood in each reduction, reducing in every step.
# - Each rank is given what it has measured itself. One of them is slower than the others, it is always the same. There is
#   no noise worth speaking of, apart from the warm-up.
# - Never more than `longest` steps from one reduction to the next, whatever the share; and at least 1.
# - All ranks return the same number.

# %%
# %%task stragglers.sync_interval
import math
from statistics import median

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    """After how many steps to reduce: an int, the same on every rank."""
    ### BEGIN SOLUTION
    ### STUB: interval = ...
    ### STUB: return interval
    step = torch.tensor(median(step_seconds), dtype=torch.float64)
    reduction = torch.tensor(median(reduce_seconds), dtype=torch.float64)
    dist.all_reduce(step, op=dist.ReduceOp.MAX)  # the gang is as fast as its slowest rank,
    dist.all_reduce(reduction, op=dist.ReduceOp.MIN)  # which has waited for nobody
    needed = reduction * (1 - share) / (share * step)
    return min(longest, max(1, math.ceil(needed.item())))
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 05
