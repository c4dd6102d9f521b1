# %% [markdown]
# # 03 · Samplers: your turn
#
# Five tasks on [lesson 03](../notebooks/03_samplers.ipynb), each a little harder than the one before. Replace what stands
# under `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks, on gangs of different
# sizes, and is judged by what it does, not by how it looks.
#
# A task cell stands alone. It sees nothing of the other cells, so it brings its own imports. When something hangs, raises
# or prints without end, the cell tells you and stops it: you cannot break anything here.
#
# `%hint samplers.shard_indices` gives a hint, and the next one when you run it again. `%solution samplers.shard_indices`
# opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. Write the sampler yourself
#
# `DistributedSampler` gives each rank its list of sample numbers. Return the list of one rank. You learn more by working it out
# than by asking the class.
#
# - Without `drop_last`, every rank gets the same number of samples: the shuffled list is continued with its own beginning until it can be
#   dealt out evenly (several times over, when there are fewer samples than ranks).
# - With `drop_last`, what does not fit is left out.
# - The order is that of `torch.randperm(n, generator=g)`, with `g` seeded as the sampler does it.

# %%
# %%task samplers.shard_indices
import math

import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    """The numbers of the samples that `rank` sees in `epoch`, in order."""
    ### BEGIN SOLUTION
    ### STUB: indices = ...  # a list of numbers below n
    ### STUB: return indices
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)  # the same on every rank: nothing has to be sent
    order = torch.randperm(n, generator=generator).tolist()
    if drop_last:
        order = order[: n // world_size * world_size]
    else:
        total = math.ceil(n / world_size) * world_size
        order = (order * math.ceil(total / n))[:total]
    return order[rank::world_size]
    ### END SOLUTION


# %% [markdown]
# ## 2. A loader that shuffles anew in every epoch
#
# Now torch can deal for you. Return what a training loop goes through in epoch `epoch`: batches of `batch_size` samples, this
# rank's share only. It is called on every rank, with the same arguments.
#
# Over all ranks, every sample is to be seen in every epoch; the order changes from epoch to epoch and with the seed, and is
# the same when the epoch is run again. Every rank gets the same number of samples, and only as many are repeated as that
# requires.

# %%
# %%task samplers.make_loader
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    """This rank's batches of epoch `epoch`."""
    ### BEGIN SOLUTION
    ### STUB: loader = ...
    ### STUB: return loader
    sampler = DistributedSampler(dataset, shuffle=True, seed=seed)
    sampler.set_epoch(epoch)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
    ### END SOLUTION


# %% [markdown]
# ## 3. An accuracy that counts nobody twice
#
# Return the accuracy of `model` on the whole data set, as one process alone would find it: exactly, on every rank, however
# many samples and ranks there are. The ranks share the work, each sample goes through the model of one of them.
#
# `dataset[i]` is a pair: features of shape `(4,)` and a label from 0 to 3. `model` gives one score for each label and is in
# `eval` mode.

# %%
# %%task samplers.evaluate
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset


def evaluate(model, dataset):
    """The share of samples whose highest score is their label's: a float, the same on every rank."""
    ### BEGIN SOLUTION
    ### STUB: accuracy = ...
    ### STUB: return accuracy
    mine = Subset(dataset, range(dist.get_rank(), len(dataset), dist.get_world_size()))
    counts = torch.zeros(2, dtype=torch.int64)  # right answers, samples: exact, however many there are
    with torch.no_grad():
        for features, labels in DataLoader(mine, batch_size=64):
            counts[0] += (model(features).argmax(1) == labels).sum()
            counts[1] += len(labels)
    dist.all_reduce(counts)  # once, and also on a rank that had no sample at all
    return (counts[0] / counts[1]).item()
    ### END SOLUTION


# %% [markdown]
# ## 4. Equal weights, different noise
#
# Call `build_model()` and return the model, so that
#
# - all ranks have the same weights, drawn with `seed`;
# - whatever is drawn *after* that - augmentation, dropout, exploration - differs from rank to rank, from each of the three
#   global generators: `torch`, `numpy.random` and `random`;
# - a second call with the same seed gives the same weights and the same numbers again, another seed gives others;
# - runs with neighbouring seeds can be compared: with the next seed, no rank draws what another rank draws with this one.

# %%
# %%task samplers.seed_everything
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    """The model, equal on all ranks; afterwards every rank draws random numbers of its own."""
    ### BEGIN SOLUTION
    ### STUB: model = ...
    ### STUB: return model
    torch.manual_seed(seed)
    model = build_model()
    # mixed, not added: rank 1 of this run is not rank 0 of the next
    mine = np.random.SeedSequence([seed, dist.get_rank()]).generate_state(1).item()
    torch.manual_seed(mine)
    np.random.seed(mine)
    random.seed(mine)
    return model
    ### END SOLUTION


# %% [markdown]
# ## 5. A stream for ranks and workers
#
# Return an `IterableDataset` with this rank's share of `stream`. Loaders read it, in every epoch anew: without workers or with
# several of them, the same number on every rank. You can go through `stream` from its beginning as often as you like
# (`for sample in stream`), but it has no length and no indices.
#
# - No sample is read twice, by whichever rank and worker.
# - Every rank gets the same number of samples, so that no rank waits at the end. Deal in *rounds* of one sample for each rank: only the
#   samples that do not fill a round are left out.
# - Samples come out while the stream is read; it may be too long for the memory.

# %%
# %%task samplers.split_stream
from torch.utils.data import IterableDataset, get_worker_info


def split_stream(stream, rank, world_size):
    """An IterableDataset with this rank's share of `stream`, for loaders with any number of workers."""
    ### BEGIN SOLUTION
    ### STUB: share = ...
    ### STUB: return share

    class Share(IterableDataset):
        def __iter__(self):
            worker = get_worker_info()
            number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
            together = [iter(stream)] * world_size  # one iterator, several times
            rounds = zip(*together, strict=False)  # a round that is not filled is left out
            for count, samples in enumerate(rounds):
                if count % workers == number:
                    yield samples[rank]

    return Share()
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 03
