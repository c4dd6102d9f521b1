# %% [markdown]
# # 11 · Out of memory on one rank: your turn
#
# Four tasks on [lesson 11](../notebooks/11_out_of_memory.ipynb). Replace what stands under `YOUR CODE HERE` and run the cell:
# running it *is* checking it. Your code runs on real ranks, whose allocator really refuses, and is judged by what it does.
#
# A task cell stands alone. It sees nothing of the other cells, so it brings its own imports.
# `%hint out_of_memory.detection_loop` gives a hint, and the next one when you run it again.
# `%solution out_of_memory.detection_loop` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. The loop of the question
#
# Below is the loop of the question that the lesson begins with. Take out the first line and repair the rest, so that it survives, or
# ends loudly. It is launched on 2, 3 and 4 processes, and an allocation fails at a random operation, on a random rank.
#
# - `ddp` was made with the author's flags, `find_unused_parameters=True` and `broadcast_buffers=False`. The model has a BatchNorm,
#   frozen layers, a head that no image uses and one that some images use; the optimizer is AdamW with weight decay.
# - What no image of a step has used, as with DDP, is not moved in this step.
# - `images` gives this rank's batches, all of one size, and as many on all ranks. `loss_of(ddp, image)` is the mean loss of one.
# - A failure in forward or backward: that batch is left out, and the step is the mean over the ranks that were good. Where no rank
#   was good, there is no step.
# - A failure in the optimizer's step ends the training: the error is raised.

# %%
# %%task out_of_memory.detection_loop
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    """Train on all images that fit."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # take this line out: the loop is yours now
    ### STUB: for image in images:
    ### STUB:     try:
    ### STUB:         optimizer.zero_grad()
    ### STUB:         loss_of(ddp, image).backward()
    ### STUB:         optimizer.step()
    ### STUB:     except RuntimeError:
    ### STUB:         continue
    net = ddp.module  # without the wrapper, nothing in forward and backward waits for another rank
    trained = [p for p in net.parameters() if p.requires_grad]
    sizes = [1, len(trained), *(p.numel() for p in trained)]
    flat = torch.zeros(sum(sizes), device=trained[0].device)
    good, used, *parts = flat.split(sizes)
    for image in images:
        optimizer.zero_grad()
        flat.zero_()
        try:
            loss_of(net, image).backward()
            for p, part, uses in zip(trained, parts, used, strict=True):
                if p.grad is not None:
                    part.view_as(p).copy_(p.grad)
                    uses.fill_(1)
            good.fill_(1)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
                flat.zero_()
            else:
                raise
        dist.all_reduce(flat)
        for p, part, users in zip(trained, parts, used.tolist(), strict=True):
            p.grad = part.div_(good).view_as(p) if users else None
        optimizer.step()
    ### END SOLUTION


# %% [markdown]
# ## 2. The mean without the zeros
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
# ## 3. A step that survives
#
# One training step: gradients from zero, forward, backward, a step of the optimizer. On any rank, and on any number of them, memory may run
# out: in the forward (DDP's own part of it included), or anywhere in backward, in any step. The lesson's recipes are a start: as they are,
# none of them passes.
#
# - `inputs` and `targets` are this rank's batch: two samples or more, and not as many on every rank. `losses_of(outputs, targets)` gives one
#   loss a sample.
# - A batch that has run out of memory is left out, all of it: smaller pieces would not fit, either. The step is then the mean over the samples
#   of all other ranks. Where all ranks fail, there is no step.
# - After each step all ranks have the same weights, bit by bit: those of one process that never drew the failed batches.
# - Parameters may be frozen: they stay as they are, whatever the optimizer.
# - The model may have a BatchNorm. A failed batch leaves no trace in its running statistics. Which of the other batches they have seen is
#   up to you.
# - Other errors are raised.

# %%
# %%task out_of_memory.safe_step
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    """One step on the batches that fit."""
    ### BEGIN SOLUTION
    ### STUB: ...
    ### STUB: raise NotImplementedError
    trained = [p for p in ddp.parameters() if p.requires_grad]
    if not hasattr(ddp, "flat"):  # in the first step, once: room for one number and all gradients
        ddp.flat = torch.zeros(1 + sum(p.numel() for p in trained), device=inputs.device)
    count, *parts = ddp.flat.split([1, *(p.numel() for p in trained)])
    ddp.flat.zero_()
    before = [buffer.clone() for buffer in ddp.buffers()]
    optimizer.zero_grad()
    ddp.require_forward_param_sync = (
        False  # a forward may begin with a broadcast of buffers; this one does not
    )
    try:
        with ddp.no_sync():  # so nothing in here waits for another rank
            losses_of(ddp(inputs), targets).sum().backward()
        for part, parameter in zip(parts, trained, strict=True):
            if parameter.grad is not None:
                part.view_as(parameter).copy_(parameter.grad)
        count.fill_(len(inputs))
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        ddp.flat.zero_()
        for buffer, old in zip(ddp.buffers(), before, strict=True):
            buffer.copy_(old)
    dist.all_reduce(ddp.flat)
    optimizer.zero_grad()
    samples = count.item()
    if samples:
        ddp.flat /= samples
        for part, parameter in zip(parts, trained, strict=True):
            parameter.grad = part.view_as(parameter)
        optimizer.step()
    ### END SOLUTION


# %% [markdown]
# ## 4. Decide alike
#
# Several ways out have been measured, and each rank has noted in which of its last steps it was out of memory. From now on, which way costs
# least? Return its name.
#
# - `ways` is a dictionary, name → costs in seconds: `overhead` in *each* step, and `price` besides for each step that fails.
# - `failed` says for each of the last steps whether *this* rank has run out of memory in it: True or False. All ranks have noted the
#   same steps.
# - One rank's failure is a failure of the step, and several in the same step count as one.
# - All ranks return the same name.

# %%
# %%task out_of_memory.cheapest_way
import torch
import torch.distributed as dist


def cheapest_way(ways, failed):
    """The name of the way that adds the fewest seconds to a step, on average."""
    ### BEGIN SOLUTION
    ### STUB: name = ...
    ### STUB: return name
    anywhere = torch.tensor(failed, dtype=torch.float32)
    dist.all_reduce(anywhere, dist.ReduceOp.MAX)
    share = anywhere.mean().item()
    return min(ways, key=lambda name: ways[name]["overhead"] + share * ways[name]["price"])
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 11
