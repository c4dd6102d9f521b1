# %% [markdown]
# # 10 · Accumulation, clipping and mixed precision: your turn
#
# Three tasks on [lesson 10](../notebooks/10_accumulation.ipynb), each harder than the one before. Replace what stands under
# `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks and is judged by what it does.
#
# `%hint accumulation.accumulate` gives a hint, and the next one when you run it again. `%solution accumulation.accumulate`
# opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. One big batch, whatever is left over
#
# Put into `.grad`, on every rank, the gradient that one process would find for the mean loss over **all samples of all
# micro-batches of all ranks**, in one big batch. Return that mean loss, the same number on every rank.
#
# - `micro_batches` is this rank's list of `(inputs, targets)`. Ranks may have different numbers of them (at least one), of any sizes.
# - No forward may get more than one micro-batch: more does not fit into memory.
# - `losses_of(outputs, targets)` gives one loss a sample.
# - Gradients are sent exactly once. A few numbers besides may be sent.
# - What is in `.grad` before does not count.

# %%
# %%task accumulation.accumulate
from contextlib import nullcontext

import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    """Leave the big batch's gradient in .grad; return its mean loss."""
    ### BEGIN SOLUTION
    ### STUB: loss = ...
    ### STUB: return loss
    device = next(ddp.parameters()).device
    total = torch.tensor(sum(len(inputs) for inputs, _ in micro_batches), device=device)
    dist.all_reduce(total)
    ddp.zero_grad()
    loss = torch.zeros((), device=device)
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        with nullcontext() if number == len(micro_batches) else ddp.no_sync():
            part = losses_of(ddp(inputs), targets).sum() / total
            (part * dist.get_world_size()).backward()  # DDP will divide by the number of ranks
        loss += part.detach()
    dist.all_reduce(loss)
    return loss.item()
    ### END SOLUTION


# %% [markdown]
# ## 2. One norm for the whole model
#
# A model with experts: `shared` are parameters that DDP looks after, their gradients have been reduced and are the same on
# all ranks. `own` are parameters that only this rank has, with gradients of its own; ranks may have different numbers of them, or none.
# Some parameters have no gradient.
#
# Find the norm of all gradients of all ranks, the shared ones counted once. If it is larger than `max_norm`, shorten all
# gradients in place by the factor `max_norm / norm`. If it is not finite, leave them as they are, on all ranks: the caller
# will skip the step. Return the norm (before clipping), the same on every rank.

# %%
# %%task accumulation.clip_global_norm
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    """Clip by the norm of the whole model, of which each rank holds another part; return that norm."""
    ### BEGIN SOLUTION
    ### STUB: norm = ...
    ### STUB: return norm
    shared = [parameter.grad for parameter in shared if parameter.grad is not None]
    own = [parameter.grad for parameter in own if parameter.grad is not None]
    device = next((gradient.device for gradient in [*shared, *own]), "cpu")
    squares = torch.zeros((), device=device)
    for gradient in own:
        squares += gradient.square().sum()
    dist.all_reduce(squares)  # every rank takes part, also with 0
    for gradient in shared:
        squares += gradient.square().sum()  # equal on all ranks: counted once, after the reduction
    norm = squares.sqrt()
    if norm.isfinite() and norm > max_norm:
        for gradient in [*shared, *own]:
            gradient.mul_(max_norm / norm)
    return norm.item()
    ### END SOLUTION


# %% [markdown]
# ## 3. One loop with everything in it
#
# The article's third sample again, with today's names in place of apex, and nothing else repaired. Take out the first line and
# repair the rest:
#
# - Every `every` micro-batches make a group; the last group may be shorter. Each group ends with one step, whose gradient is that
#   of the mean loss over all samples of the group, of all ranks. It is sent once, and clipped to `max_norm`. (All micro-batches have the
#   same size, and all ranks the same number of them.)
# - The model runs in float16, with `scaler`, a `torch.amp.GradScaler`. It doubles its scale after many good steps; how many is for
#   the scaler to say.
# - `scheduler` lowers the learning rate: call `scheduler.step()` once after each step of the optimizer.
# - Last, an overflow. If the gradient of any rank is not finite, all ranks skip that step: the scale is halved, and the scheduler
#   stays where it is.
#
# `micro_batches` is a list of `(inputs, labels)`. A second epoch follows, with the same model, optimizer, scaler and scheduler.

# %%
# %%task accumulation.amp_step
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    """Train on all ranks' micro-batches in float16, with one step for each group of them."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # take this line out: the loop is yours now
    ### STUB: for i, (inputs, labels) in enumerate(micro_batches):
    ### STUB:     optimizer.zero_grad()
    ### STUB:     with torch.autocast(inputs.device.type, torch.float16):
    ### STUB:         loss = cross_entropy(ddp(inputs), labels)
    ### STUB:     scaler.scale(loss).backward()
    ### STUB:     clip_grad_norm_(ddp.parameters(), max_norm)
    ### STUB:     scheduler.step()
    ### STUB:     if (i + 1) % every == 0:
    ### STUB:         optimizer.step()
    for first in range(0, len(micro_batches), every):
        group = micro_batches[first : first + every]
        optimizer.zero_grad()
        for number, (inputs, labels) in enumerate(group, 1):
            with nullcontext() if number == len(group) else ddp.no_sync():
                with torch.autocast(inputs.device.type, torch.float16):
                    loss = cross_entropy(ddp(inputs), labels) / len(group)
                scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        scaler.step(optimizer)
        scale = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= scale:  # smaller after a step that was skipped, on all ranks
            scheduler.step()
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 10
