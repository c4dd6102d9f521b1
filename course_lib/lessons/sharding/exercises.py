# %% [markdown]
# # 17 · When DDP ends: your turn
#
# Two tasks on [lesson 17](../notebooks/17_sharding.ipynb). Replace what stands under `YOUR CODE HERE` and run the cell: running it
# *is* checking it. The first one is a function that calculates; the second one's code runs on real ranks.
#
# A task cell stands alone. It sees nothing of the other cells, so it brings its own imports. `%hint sharding.shard` gives a hint,
# and the next one when you run it again. `%solution sharding.shard` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. Does it fit?
#
# How many bytes must **rank 0** hold for weights, gradients and Adam's state? `shapes` are those of the model's parameters. Not
# counted: activations, and Adam's step counters.
#
# - `mixed=False`: all in fp32. `mixed=True`, as in the ZeRO paper: weights and gradients in 2 bytes; the optimizer keeps an fp32
#   copy of the weights beside its two fp32 means.
# - `scheme="ddp"`: DDP as it is by default, so with buckets that are a copy of the gradients (in the gradients' type).
# - `scheme="zero1"`: the same, but all that the optimizer keeps is divided equally among `ranks`.
# - `scheme="fsdp"`: FSDP2. Weights, gradients and optimizer are cut, each parameter along its first dimension, as
#   `torch.chunk` does. There are no buckets; the gathered copies of a layer are not counted.

# %%
# %%task sharding.bytes_held
import math


def bytes_held(shapes, ranks, scheme, mixed):
    """Bytes on rank 0: scheme is "ddp", "zero1" or "fsdp"."""
    ### BEGIN SOLUTION
    ### STUB: held = ...
    ### STUB: return held
    weight, gradient, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    if scheme == "fsdp":
        mine = sum(math.ceil(rows / ranks) * math.prod(rest) for rows, *rest in shapes)
        return mine * (weight + gradient + optimizer)
    if scheme == "zero1":
        optimizer /= ranks
    return sum(map(math.prod, shapes)) * (weight + 2 * gradient + optimizer)
    ### END SOLUTION


# %% [markdown]
# ## 2. Shard it, and train it
#
# A model has outgrown DDP. Shard it over all ranks with FSDP2 and train it; return the losses.
#
# - `model` has its layers in `model.blocks`, and a `model.head` after them. Its weights are others on each rank: training begins with rank
#   0's, as it would with DDP.
# - `make_optimizer(parameters)` makes the optimizer. `batches` are this rank's pairs of inputs and targets, one for each step, with the same number of
#   rows on all ranks. The loss is `torch.nn.functional.mse_loss`.
# - Gradients are clipped: the norm of all of them together is `max_norm` at most.
# - Return a list of floats: for each step, the mean loss over all ranks, the same list on every rank. All numbers are those of one process
#   that trains on the batches of all ranks.
# - A rank holds its own part of weights, gradients and optimizer. While a block computes its forward, no other block is whole.

# %%
# %%task sharding.shard
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    """The mean loss over all ranks, step by step."""
    ### BEGIN SOLUTION
    ### STUB: losses = ...
    ### STUB: return losses
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)  # the head, too
    optimizer, losses = make_optimizer(model.parameters()), []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / dist.get_world_size())
    return losses
    ### END SOLUTION
