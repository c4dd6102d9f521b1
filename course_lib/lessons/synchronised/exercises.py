# %% [markdown]
# # 09 · What is synchronised, and when: your turn
#
# Four tasks on [lesson 09](../notebooks/09_synchronised.ipynb), each harder than the one before. Replace what stands under
# `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks and is judged by what it does.
#
# `%hint synchronised.mutate` gives a hint, and the next one when you run it again. `%solution synchronised.mutate` opens once
# you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. An alarm that rings everywhere
#
# DDP never compares weights. Write the check that does: it raises on **every** rank, with the same message, as soon as any
# parameter or buffer of `model` on any rank is not that of rank 0, bit by bit. If all ranks agree, it does nothing. It changes
# nothing, either way.
#
# The message names a tensor that differs, as `model.state_dict()` calls it, and a rank where it does: `encoder.weight of rank 2
# is not that of rank 0`. The kind of error is up to you.

# %%
# %%task synchronised.assert_in_sync
import torch
import torch.distributed as dist


def assert_in_sync(model):
    """Raise the same error on all ranks if the model is not the same on all of them."""
    ### BEGIN SOLUTION
    odd = []
    for (
        name,
        tensor,
    ) in model.state_dict().items():  # one after the other: a copy of the whole model may not fit
        mine = tensor.contiguous().flatten().view(torch.uint8)  # bytes: the same NaN is equal to itself
        right = mine.clone()  # a broadcast writes into what it is given
        dist.broadcast(right, src=0)
        if not torch.equal(mine, right):
            odd.append(name)
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, odd)  # names only; nobody raises before all know
    for rank, names in enumerate(everyones):
        for name in names:
            raise AssertionError(f"{name} of rank {rank} is not that of rank 0")
    ### END SOLUTION


# %% [markdown]
# ## 2. A mutation that keeps DDP true
#
# One generation of evolution on a model that is wrapped in DDP. Every rank tries *one* mutant of its own: the weights plus noise,
# `sigma` times a normal random number for each of them, drawn with `seed` (the same on all ranks) so that no two ranks try the
# same. `fitness(module)` says how good a module is, larger is better; ask it for your mutant, and for the model as it is if you
# like. It sends nothing.
#
# The fittest of all ranks' mutants becomes the model **on every rank**, if it is fitter than the model is now; otherwise nothing
# changes. Return the fitness of what the model is then. Training goes on afterwards, with the same wrapper and optimizer.

# %%
# %%task synchronised.mutate
import copy

import torch
import torch.distributed as dist


def mutate(model, fitness, sigma, seed):
    """Make the fittest mutant of all ranks the model, if it is fitter; return the model's fitness."""
    ### BEGIN SOLUTION
    ### STUB: best = ...
    ### STUB: return best
    rank, world_size = dist.get_rank(), dist.get_world_size()
    mutant = copy.deepcopy(model.module)
    noise = torch.Generator().manual_seed(seed * world_size + rank)
    with torch.no_grad():
        for parameter in mutant.parameters():
            parameter += sigma * torch.randn(parameter.shape, generator=noise).to(parameter)

    score = torch.tensor(fitness(mutant), dtype=torch.double, device=parameter.device)
    scores = [torch.zeros_like(score) for _ in range(world_size)]
    dist.all_gather(scores, score)
    winner = max(range(world_size), key=lambda r: scores[r].item())
    before = fitness(model.module)  # the same on every rank, so all take the same way here
    if scores[winner].item() <= before:
        return before

    with torch.no_grad():
        for parameter, new in zip(model.module.parameters(), mutant.parameters(), strict=True):
            parameter.copy_(new)
            dist.broadcast(parameter, src=winner)  # into the parameters that DDP knows
    return scores[winner].item()
    ### END SOLUTION


# %% [markdown]
# ## 3. A BatchNorm over all ranks
#
# `SyncBatchNorm` refuses to work on a CPU. Write one that does. Its input has the shape `(samples, features)`, and **the ranks may
# have different numbers of samples**. Wrapped in DDP, it trains as `torch.nn.BatchNorm1d` does in one process with the samples of all
# ranks: outputs, gradients and running statistics.
#
# It has the attributes `weight`, `bias`, `running_mean` and `running_var`. In eval mode it uses the running statistics and sends
# nothing, so that one rank may call it alone.

# %%
# %%task synchronised.GlobalBatchNorm
import torch
import torch.distributed as dist


class GlobalBatchNorm(torch.nn.Module):
    """BatchNorm with the statistics of the samples of all ranks, for inputs (samples, features)."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        mean, var = self.running_mean, self.running_var
        if self.training:
            count = x.new_full((x.shape[1],), len(x))  # ranks may have different numbers of samples
            total, n = self.SumOverRanks.apply(torch.stack([x.sum(0), count]))
            mean = total / n
            # From the mean: the mean of squares minus its square loses digits where the mean is large.
            var = self.SumOverRanks.apply((x - mean).square().sum(0)) / n
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var * n / (n - 1), self.momentum)
        return (x - mean) / (var + self.eps).sqrt() * self.weight + self.bias

    class SumOverRanks(torch.autograd.Function):
        """A sum over ranks: every rank's loss depends on it, so its gradient is such a sum, too."""

        @staticmethod
        def forward(ctx, x):
            total = x.clone()
            dist.all_reduce(total)
            return total

        @staticmethod
        def backward(ctx, gradient):
            total = gradient.clone()
            dist.all_reduce(total)
            return total

        ### END SOLUTION


# %% [markdown]
# ## 4. Stop early, all together
#
# Train until the validation loss gets no better, and stop on **all ranks after the same epoch**.
#
# `train_epoch()` trains for one epoch; all ranks have to call it. `validate()` gives the losses of this rank's validation samples, a
# tensor with one number each. It sends nothing. Ranks have different numbers of samples; a rank may have none.
#
# What counts is the mean loss over **all samples of all ranks**. An epoch is better if its mean is smaller than the best before
# (nan never is). Stop as soon as `patience` epochs in a row were not better, and after `most` epochs in any case. Return the means of
# all epochs, as a list.

# %%
# %%task synchronised.stop_together
import math

import torch
import torch.distributed as dist


def stop_together(train_epoch, validate, patience, most):
    """Train until the loss over all ranks gets no better; return the loss of each epoch."""
    ### BEGIN SOLUTION
    ### STUB: means = ...
    ### STUB: return means
    means, best, waited = [], math.inf, 0
    while len(means) < most and waited < patience:
        train_epoch()
        losses = validate()
        count = losses.new_tensor(len(losses))
        sums = torch.stack([losses.sum(), count])  # 0 and 0 where there are no samples
        dist.all_reduce(sums)
        means.append((sums[0] / sums[1]).item())  # the same number on all ranks: they decide alike
        waited += 1
        if means[-1] < best:  # False for nan
            best, waited = means[-1], 0
    return means
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 09
