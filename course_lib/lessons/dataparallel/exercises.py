# %% [markdown]
# # 01 · DataParallel vs DDP: your turn
#
# Three tasks on [lesson 01](../notebooks/01_dataparallel.ipynb), each a little harder than the one before. Replace what stands
# under `YOUR CODE HERE` and run the cell: running it *is* checking it. A task cell stands alone, so it brings its own imports.
#
# `%hint dataparallel.parallel_step` gives a hint, and the next one when you run it again. `%solution dataparallel.parallel_step` opens
# once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. One step by hand
#
# Do what `DataParallel` does in a training step, with `devices` devices. All of them are the CPU, so nothing has to be moved:
# a copy is a copy.
#
# - Cut `inputs` as `scatter` does.
# - Give each part to a copy of `model`, in a thread of its own, all at the same time. (If there is one part only, you may
#   compute it right here.)
# - Put the outputs together, in the order of the batch, and return them.
# - Go back from the cross-entropy of the *whole* batch: afterwards, `model`'s own parameters have its gradient.

# %%
# %%task dataparallel.parallel_step
import copy
import threading

import torch
from torch import nn


def parallel_step(model, inputs, labels, devices):
    """The outputs of the whole batch; afterwards model has the gradient of its loss."""
    ### BEGIN SOLUTION
    ### STUB: outputs = ...
    ### STUB: return outputs
    parts = inputs.chunk(devices)
    outputs = [None] * len(parts)
    replicas = [
        (copy.deepcopy(model), {name: weight.clone() for name, weight in model.named_parameters()})
        for _ in parts
    ]

    def work(device):
        module, weights = replicas[device]
        outputs[device] = torch.func.functional_call(module, weights, (parts[device],))

    threads = [threading.Thread(target=work, args=(device,)) for device in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gathered = torch.cat(outputs)
    nn.functional.cross_entropy(gathered, labels).backward()
    return gathered
    ### END SOLUTION


# %% [markdown]
# ## 2. Every byte, as a formula
#
# How many bytes does each device send in one training step? Return a list, device 0 first. The arguments:
#
# - `scheme`: `"dp"` for `DataParallel`, `"ddp"` for DDP; `devices`: how many there are; `samples`: in the whole batch;
# - `weights`: bytes of all weights; `sample_in`, `sample_out`: bytes of *one* sample's input and output.
#
# `DataParallel`: plain copies, as in the lesson. The batch lies on device 0, where the outputs are gathered and the loss is
# computed. A device that gets no part of the batch has no part in the step at all. DDP: each rank loads its part of the batch
# by itself, and the gradients go through a ring all-reduce; `weights` can be cut into `devices` equal pieces.

# %%
# %%task dataparallel.bytes_sent
import math


def bytes_sent(scheme, devices, samples, weights, sample_in, sample_out):
    """Bytes that each device sends in one training step."""
    ### BEGIN SOLUTION
    ### STUB: sent = ...
    ### STUB: return sent
    if scheme == "ddp":
        return [2 * (devices - 1) * weights / devices] * devices
    most = math.ceil(samples / devices)
    parts = [max(0, min(most, samples - device * most)) for device in range(devices)]
    sent = [weights + part * sample_out if part else 0 for part in parts]  # gradients, outputs
    sent[0] = sum(weights + part * (sample_in + sample_out) for part in parts[1:] if part)
    return sent
    ### END SOLUTION


# %% [markdown]
# ## 3. From DataParallel to DDP
#
# This is a `DataParallel` script. It does not shuffle, so that its result can be compared.
#
# ```python
# def train(model, dataset, batch_size, epochs, lr):
#     model = nn.DataParallel(model)
#     optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
#     loader = DataLoader(dataset, batch_size=batch_size)
#     for epoch in range(epochs):
#         for inputs, labels in loader:
#             optimizer.zero_grad()
#             nn.functional.cross_entropy(model(inputs), labels).backward()
#             optimizer.step()
#     return model.module.state_dict()
# ```
#
# Write it for DDP. It is called on every rank, with the process group up, and is to end with the same weights as the old
# script in one process, on all ranks. `batch_size` is that of the old script. All sizes can be divided by the number of ranks.
# The ranks share the work. Every rank is given a model; the weights to start from are those of rank 0's.

# %%
# %%task dataparallel.train
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler


def train(model, dataset, batch_size, epochs, lr):
    """The weights by name, as model.state_dict() gives them, after training on all ranks."""
    ### BEGIN SOLUTION
    ### STUB: state = ...
    ### STUB: return state
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr, momentum=0.9)
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, batch_size=batch_size // dist.get_world_size(), sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # it does not shuffle now; the line is there for the day it does
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(inputs), labels).backward()
            optimizer.step()
    return ddp.module.state_dict()
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 01
