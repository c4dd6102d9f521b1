# %% [markdown]
# # 06 · Forward/backward alternation: your turn
#
# Five tasks on [lesson 06](../notebooks/06_alternation.ipynb), each a little harder than the one before. Replace what stands
# under `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks, on gangs of different
# sizes, and is judged by what it does, not by how it looks.
#
# `%hint alternation.sheet` gives a hint, and the next one when you run it again. `%solution alternation.sheet` opens
# once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. A tally sheet of your own
#
# Two ranks call a wrapped model with one weight, each in an order of its own. A letter is a call:
#
# | letter | call |
# | --- | --- |
# | `F` | a forward |
# | `N` | a forward in `no_sync` |
# | `G` | a forward under `no_grad` |
# | `M` | a forward through `.module` |
# | `B` | a backward of the oldest loss that waits |
# | `S` | one backward of all losses that wait |
#
# As in the lesson, the gradient of a loss is the input of its forward. A rank's first forward, whichever it is, sees 1 on rank
# 0 and 3 on rank 1, its second one 10 and 30, its third one 100 and 300, and so on. The wrapper is not new: both ranks have made
# three steps, as in the explorer. At the start `.grad` is 0, nothing is armed and no loss waits. Every backward has a loss to go
# back from.
#
# Return what the two ranks have in `.grad` in the end, rank 0's first: `sheet("FFBB", "FFBB")` is `(12.0, 32.0)`. If one of
# them waits for ever, return `"hang"`. Every answer is compared with two real ranks that make these calls with DDP.

# %%
# %%task alternation.sheet
def sheet(first, second):
    """What rank 0, which calls `first`, and rank 1, which calls `second`, have in .grad; or "hang"."""
    ### BEGIN SOLUTION
    ### STUB: grads = ...
    ### STUB: return grads
    grads = [0.0, 0.0]
    ranks = [backwards(first, 1.0), backwards(second, 3.0)]
    while True:
        at_average = [False, False]
        for rank, rest in enumerate(ranks):
            for gradient, armed in rest:  # up to this rank's next average, or to the end
                grads[rank] += gradient
                if armed:
                    at_average[rank] = True
                    break
        if not any(at_average):
            return tuple(grads)
        if not all(at_average):
            return "hang"
        grads = [sum(grads) / 2] * 2  # all that is in .grad, not only what was added last


def backwards(calls, x):
    """The backwards of one rank: the gradient of each, and whether it is armed."""
    armed, losses = False, []
    for call in calls:
        if call in "BS":
            taken = len(losses) if call == "S" else 1
            yield sum(losses[:taken]), armed
            armed, losses = False, losses[taken:]
            continue
        armed = armed or call == "F"
        if call != "G":
            losses.append(x)
        x *= 10
    ### END SOLUTION


# %% [markdown]
# ## 2. Repair a GAN step
#
# Many repositories have this step. Under DDP it is wrong, and nothing says so:
#
# ```python
# def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
#     fake = generator(noise)
#     discriminator_optimizer.zero_grad()
#     real_scores, fake_scores = discriminator(real), discriminator(fake.detach())
#     softplus(-real_scores).mean().backward()
#     softplus(fake_scores).mean().backward()
#     discriminator_optimizer.step()
#     generator_optimizer.zero_grad()
#     softplus(-discriminator(fake)).mean().backward()
#     generator_optimizer.step()
# ```
#
# Write it so that it is right: first the discriminator learns (the sum of the two losses above), then the generator, with the
# discriminator as it is by then. Both models are wrapped in DDP, and every rank has samples of its own. After some steps all
# ranks are to have the weights that one process would have that trains on all of them.

# %%
# %%task alternation.gan_step
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    """One step of both models."""
    ### BEGIN SOLUTION
    fake = generator(noise)
    discriminator_optimizer.zero_grad()  # also what the generator's last backward has left here
    loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()
    loss.backward()  # one backward for two forwards: one average
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    softplus(-discriminator(fake)).mean().backward()
    generator_optimizer.step()
    ### END SOLUTION


# %% [markdown]
# ## 3. Two heads, one backward
#
# A network with a body and two heads: `net(x)` gives the outputs of the left and of the right head. In `batches` are
# `(x, left_target, right_target)`, one for each step. A target is `None` where there is none; that may be so on some ranks or
# on all, and for one head or for both. Such a step is often written like this, and under DDP it raises:
#
# ```python
# def two_losses(net, batches, weights):
#     model = DistributedDataParallel(net)
#     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
#     losses = []
#     for x, *targets in batches:
#         optimizer.zero_grad()
#         losses.append([])
#         for output, target, weight in zip(model(x), targets, weights):
#             loss = mse_loss(output, target) if target is not None else torch.zeros(())
#             if target is not None:
#                 (weight * loss).backward(retain_graph=True)
#             losses[-1].append(loss.item())
#         optimizer.step()
#     return losses
# ```
#
# Write it so that it is right in the *default* mode of the wrapper, with one backward for each step. A rank's loss is the sum
# of `weight * mse_loss(output, target)` over its heads that have a target. All ranks are to end with the weights that one
# process would have that trains on the mean of the ranks' losses.
#
# Return both losses of each step, without their weights, as the mean over all ranks; a rank without a target counts as 0.

# %%
# %%task alternation.two_losses
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def two_losses(net, batches, weights):
    """Trains `net`, with SGD and lr=0.1; returns for each step the two mean losses over all ranks."""
    ### BEGIN SOLUTION
    ### STUB: losses = ...
    ### STUB: return losses
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, *targets in batches:
        parts = [  # a head without a target is in the graph all the same, with a gradient of zero
            0 * output.sum() if target is None else mse_loss(output, target)
            for output, target in zip(model(x), targets, strict=True)
        ]
        optimizer.zero_grad()
        sum(weight * part for weight, part in zip(weights, parts, strict=True)).backward()
        optimizer.step()
        means = torch.stack(parts).detach()
        dist.all_reduce(means)
        losses.append((means / dist.get_world_size()).tolist())
    return losses
    ### END SOLUTION


# %% [markdown]
# ## 4. Evaluate in the middle of training
#
# Train a wrapped model that has a BatchNorm: one step for each `(x, y)` in `batches`, with `mse_loss`. After every `every`
# steps, rank 0 evaluates the model in eval mode on `validation`, an `(x, y)` as well, and notes the loss. Rank 0 returns its
# list of losses; what the other ranks return does not matter.
#
# The training must not notice: the same weights and, on rank 0, the same running statistics as without any evaluation, and
# every part of the model in the mode that it had when you got it. (A fine-tuning may have frozen the BatchNorm with `eval()`.)
# Every rank has the same number of batches.

# %%
# %%task alternation.train_and_evaluate
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def train_and_evaluate(model, optimizer, batches, validation, every):
    """Trains on `batches`; returns, on rank 0, the loss on `validation` after every `every` steps."""
    ### BEGIN SOLUTION
    ### STUB: losses = ...
    ### STUB: return losses
    losses = []
    for step, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
        if step % every == 0 and dist.get_rank() == 0:
            snapshot = copy.deepcopy(model.module).eval()  # the model itself stays in train mode
            with torch.no_grad():
                losses.append(mse_loss(snapshot(validation[0]), validation[1]).item())
    return losses
    ### END SOLUTION


# %% [markdown]
# ## 5. Find silent divergence
#
# The check you would put before the first `optimizer.step()` of every new training script. Return the names of the parameters whose
# gradient is not the same on all ranks (as `model.module.named_parameters()` has them, in any order), the same list on every
# rank. A gradient that is `None` on one rank and a tensor on another is not the same; nor is one with a NaN on one rank that is
# a number on another. (Whether a NaN is equal to a NaN is left to lesson 09.)
#
# The check must not change any gradient, and it must come to an end whatever the gradients are.

# %%
# %%task alternation.disagreeing
import torch
import torch.distributed as dist


def disagreeing(model):
    """Names of the parameters whose gradients differ between ranks."""
    ### BEGIN SOLUTION
    ### STUB: names = ...
    ### STUB: return names
    names = []
    for name, parameter in model.module.named_parameters():
        there = parameter.grad is not None
        gradient = parameter.grad if there else torch.zeros_like(parameter)
        mine = torch.cat([gradient.flatten(), torch.tensor([float(there)])])
        everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyones, mine)
        if not all(torch.equal(everyones[0], other) for other in everyones):
            names.append(name)
    return names
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 06
