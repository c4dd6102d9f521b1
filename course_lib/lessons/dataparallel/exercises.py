# %% [markdown]
# # 01 · DataParallel vs DDP: your turn
#
# One task on [lesson 01](../notebooks/01_dataparallel.ipynb). Replace what stands under `YOUR CODE HERE` and run the cell: running
# it *is* checking it. A task cell stands alone, so it brings its own imports.
#
# `%hint dataparallel.train` gives a hint, and the next one when you run it again. `%solution dataparallel.train` opens once you have
# passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## From DataParallel to DDP
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
