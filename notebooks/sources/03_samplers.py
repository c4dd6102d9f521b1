# %% [markdown]
# # 03 · Samplers: who gets which sample
#
# > *“On four GPUs my validation accuracy is a little different from one GPU. And why does every epoch look the same?”*
#
# DDP averages gradients. It never asks which samples they were computed from: that is decided by a **sampler**, and most
# mistakes there raise no error. Ten samples are dealt to four ranks, like cards. What happens in the last round?
#
# **You will be able to** say which rank sees which sample in which epoch, shuffle properly, seed ranks, compute a metric
# over all ranks that counts every sample once, split a stream, and resume in the middle of an epoch. 30 minutes.
#
# **Before this:** lesson 00.

# %%
# %load_ext course_lib
from course_lib.lab.samplers import the_deck

the_deck()

# %% [markdown]
# ## Ten samples, four ranks

# %%
p = predict("03.ten_samples")

# %% claims={"28": "incomplete"}
# %%ranks 4 --predicted --as out
from torch.utils.data import DistributedSampler

hand = list(DistributedSampler(range(10), shuffle=False))
print(hand)
len(hand)

# %% [markdown]
# Twelve. The list of indices is padded from its own start to a multiple of the number of ranks, and then each rank takes
# every fourth index, beginning with its own number (`DistributedSampler.__iter__` in `torch/utils/data/distributed.py`).
# So samples 0 and 1 are dealt twice:

# %%
from course_lib.lab.samplers import draw_deal

draw_deal(out["hand"], 10, "Padding: samples 0 and 1 are given to two ranks")

# %% [markdown]
# Why does every rank get the same number? Because every batch means collectives. A rank with one batch more than the others
# would wait for them for ever (Break it 1 in [lesson 00](00_first_ranks.ipynb)).
#
# ## drop_last: lose instead of repeat
#
# With `drop_last=True` the incomplete round is left out. Which samples are lost? And what if there are fewer samples than ranks?

# %%
# %%ranks
print("of 10:", list(DistributedSampler(range(10), shuffle=False, drop_last=True)))
print("of  3:", list(DistributedSampler(range(3), shuffle=False, drop_last=True)))

# %% [markdown]
# Samples 8 and 9 are never seen. And three samples on four ranks with `drop_last` are *no* samples, on any rank, without
# an error: the training loop has nothing to do and is very fast. Without shuffling, the same samples are lost in every epoch.
# With shuffling they change, provided that the order changes. Does it?
#
# ## Shuffling, epoch by epoch
#
# `DistributedSampler` shuffles by default. Two epochs, one sampler:

# %%
p = predict("03.two_epochs")

# %%
# %%ranks --predicted
sampler = DistributedSampler(range(10))
first, second = list(sampler), list(sampler)
print(first, second)
first == second

# %% [markdown]
# The same, on every rank. All ranks must shuffle alike without talking to each other, so the order is a function of two
# numbers that they all know: `torch.randperm` with a generator seeded by `seed + epoch`. The epoch is a number that *you* set:

# %% claims={"27": "refined"}
# %%ranks
import torch
import torch.distributed as dist

rank = dist.get_rank()
for epoch in range(3):
    sampler.set_epoch(epoch)
    print(f"epoch {epoch}:", list(sampler))

before = list(sampler)
torch.manual_seed(12345)
print("torch.manual_seed changes the order:", list(sampler) != before)

one, zero = DistributedSampler(range(10), seed=1), DistributedSampler(range(10), seed=0)
zero.set_epoch(1)
print("seed 1, epoch 0 equals seed 0, epoch 1:", list(one) == list(zero))

# %% [markdown]
# You will read that the sampler must be “reset” in every epoch. There is nothing to reset: `set_epoch` sets one integer. The
# global generator has no say in the order.
#
# The last line matters when you compare runs: `seed + epoch` is a *sum*, so runs with seeds 0, 1 and 2 see the same orders,
# shifted by an epoch. Give the sampler seeds that are farther apart than the number of epochs: 1000, 2000, 3000.
#
# Now deal yourself. Every change is a run on as many real ranks as you choose. Find a deal in which a sample is taken three times,
# one in which nobody gets anything, and one with `drop_last` in which nothing is lost. Then let each rank use its own number as
# the seed.

# %%
from course_lib.lab.samplers import explore_deals

explore_deals()

# %% [markdown]
# ## Two samplers do not fit into one loader
#
# `shuffle=True` tells the `DataLoader` to make a sampler of its own:

# %%
# %%ranks --expect raises:ValueError
from torch.utils.data import DataLoader

DataLoader(range(10), batch_size=2, sampler=sampler, shuffle=True)

# %% [markdown]
# An error, at least. The tempting way out of it, to keep `shuffle=True` and drop the sampler, raises none:

# %%
# %%ranks --as out
torch.manual_seed(0)
seen = [index for batch in DataLoader(range(10), batch_size=2, shuffle=True) for index in batch.tolist()]

# %%
draw_deal(out["seen"], 10, "No DistributedSampler: every rank gets everything")

# %% [markdown]
# Every rank sees all ten samples. With one seed for all, as here, it sees them in the same order: four processes do the work of one,
# four times. Without a seed each rank has an order of its own, and what you call an epoch is four. The loss goes down, the ranks stay
# equal, and nothing ever complains.
#
# ## A seed of one's own
#
# “Each process should have a different seed.” For the sampler that is wrong:

# %%
# %%ranks --as out
mine = list(DistributedSampler(range(10), seed=rank))

# %%
draw_deal(out["mine"], 10, "A seed per rank: each rank deals from a deck of its own")

# %% [markdown]
# Each rank takes every fourth card of a *different* deck: some samples are dealt twice, others never. The sampler needs **one**
# seed for all ranks.
#
# For random numbers *inside* the training step it is the other way round. Equal seeds mean equal dropout masks and equal
# augmentation noise on all ranks. So every rank needs a seed that depends on the run's seed and on its rank:

# %%
# %%ranks
import numpy as np

from course_lib.lab.deals import equal_everywhere


def own_seed(seed):
    """For this rank in the run with this seed: mixed, not added."""
    return np.random.SeedSequence([seed, rank]).generate_state(1).item()


drop = torch.nn.Dropout(0.5)
torch.manual_seed(0)
print("one seed for all: equal masks on all ranks?", equal_everywhere(drop(torch.ones(8))))
torch.manual_seed(own_seed(0))
print("a seed per rank:  equal masks on all ranks?", equal_everywhere(drop(torch.ones(8))))

# %% [markdown]
# Why mixed? With `seed + rank` the ranks of *one* run differ, but seed 1 on rank 0 is seed 0 on rank 1: the same sum. Here are the
# seeds of three runs, 0, 1 and 2, on four ranks:

# %%
# %%ranks
print("added:", [seed + rank for seed in range(3)], "mixed:", [own_seed(seed) for seed in range(3)])

# %% [markdown]
# Added, they are six different seeds instead of twelve: the “independent” runs share most of their noise. Mix wherever you seed a
# rank: `torch.manual_seed`, an environment's `reset(seed=...)`, and also numpy and Python's `random`. Each of the three has a global
# generator. One that is not seeded takes its seed from the system: the ranks draw different numbers, but you cannot repeat the run.
#
# What is it worth? The weights stay fixed here, and noise is all that the model sees: 200 gradients with one seed for all ranks,
# and 200 with a seed per rank.

# %%
p = predict("03.scatter")

# %%
# %%ranks --predicted
noisy = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))


def scatter(seed):
    torch.manual_seed(seed)
    gradients = []
    for _ in range(200):
        noisy.zero_grad()
        noisy(torch.randn(16, 1)).mean().backward()
        gradients.append(noisy.module.weight.grad.item())
    return np.std(gradients).item()


round(scatter(own_seed(0)) / scatter(0), 2)

# %% [markdown]
# About 1/√4. With one seed, four ranks compute the *same* gradient, and the mean of four equal numbers is no better than one of
# them. Four environments of reinforcement learning with one seed are one environment, in the same way.
#
# If the ranks are seeded differently, must the model be built before that?

# %%
p = predict("03.different_seeds")

# %% claims={"57": "holds"}
# %%ranks --predicted
torch.manual_seed(own_seed(0))
model = torch.nn.Linear(4, 1)
print("before DDP:", equal_everywhere(model.weight.detach()))
ddp = torch.nn.parallel.DistributedDataParallel(model)
equal_everywhere(model.weight.detach())

# %% [markdown]
# The constructor broadcasts parameters and buffers from rank 0 (`_sync_module_states`, called in
# `DistributedDataParallel.__init__`, `torch/nn/parallel/distributed.py`), unless you pass `init_sync=False`. It does so once, and
# does not look again later ([lesson 09](09_synchronised.ipynb)).
#
# > **On GPUs.** `torch.manual_seed` also seeds the generators of all GPUs (`_manual_seed_impl` in `torch/random.py`), and what a
# > GPU draws comes from its own generator: `torch.cuda.get_rng_state()` is a state of its own (`torch/cuda/random.py`). The sampler
# > shuffles on the CPU, so its order is the same there. (Read, not run here.)
#
# ## An accuracy that counts nobody twice
#
# Now the question from the top. Train a classifier on the digits, with everything that this lesson has said so far:

# %%
# %%ranks
from course_lib.lab.deals import digits

train_set, test_set = digits()
torch.manual_seed(0)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
sampler = DistributedSampler(train_set)
loader = DataLoader(train_set, batch_size=25, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for inputs, answers in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), answers).backward()
        optimizer.step()

# %% [markdown]
# Evaluate it on the other 397 digits. 397 does not divide by four, so a `DistributedSampler` pads: 400 answers to 397 questions.

# %%
# %%ranks --as out
inputs, answers = test_set.tensors
right = net.module(inputs).argmax(1) == answers


def counts(indices):
    """On all ranks together: how many of these test samples the model gets right, and how many there are."""
    both = torch.tensor([right[indices].sum().item(), len(indices)])
    dist.all_reduce(both)
    return both.tolist()


print(f"one process:        {right.sum().item()} of {len(right)}")
print("DistributedSampler: {} of {}".format(*counts(list(DistributedSampler(right, shuffle=False)))))
print("range(rank, n, 4):  {} of {}".format(*counts(list(range(rank, len(right), 4)))))

# %% [markdown]
# Three samples vote twice. The effect is small here and large for small test sets, and it *depends on the number of ranks*: one
# GPU pads nothing, so the same model can score differently on one and on four.
#
# The exact way has two parts. Let the ranks have shares of different sizes: evaluation has no gradient collectives, so nobody waits
# for anybody. And sum **counts**, not averages: the mean of the four ranks' accuracies would be wrong again as soon as the
# shares differ. (Here every rank has looked at all digits, to keep the cell short. In your code each looks at its share.)
#
# Two traps. Use `net.module`, not `net`: a forward through the wrapper may broadcast buffers, which is a collective, and with different
# numbers of batches somebody would wait. For the same reason, reduce the counts once, after the loop. `all_reduce` gives
# the sums to every rank, `reduce` to one of them only.
#
# > **On GPUs (NCCL).** NCCL carries CUDA tensors only. Keep the counts on the rank's GPU, or use a process group that has gloo for CPU
# > tensors beside it: `init_process_group("cpu:gloo,cuda:nccl")` (its docstring in `torch/distributed/distributed_c10d.py`; read,
# > not run here).
#
# How wrong can padding get, and in which direction? Try all test sets of up to 60 samples at once, with two classifiers that
# are wrong on every seventh sample: one begins with sample 0, the other with sample 3.

# %%
# %%ranks --as out
from course_lib.lab.deals import padding_errors

errors = {first_mistake: padding_errors(first_mistake) for first_mistake in (0, 3)}
both = zip(*errors.values(), strict=True)
"exact for both:", [n for n, pair in enumerate(both, 1) if max(map(abs, pair)) < 1e-4]

# %%
from course_lib.lab.samplers import plot_padding

plot_padding(out["errors"][0])

# %% [markdown]
# Multiples of four need no padding, and one or two samples are all repeated equally often. For all others at least one of the
# two is off. In which direction depends on the samples that vote twice, which are always the first ones: a classifier that fails on
# them looks worse than it is, one that knows them looks better.
#
# ## A stream has no sampler
#
# Large data often come as a stream: many files, a socket, a tokenizer's output. An `IterableDataset` has no indices, so
# there is nothing that a sampler could deal out.

# %%
p = predict("03.stream")

# %%
# %%ranks --predicted --as out
from torch.utils.data import IterableDataset, get_worker_info

# For workers whose data set is a notebook's class; not in a program that uses CUDA before.
torch.multiprocessing.set_start_method("fork", force=True)


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(10)


seen = list(DataLoader(Stream(), batch_size=None, num_workers=2))
len(seen)

# %%
draw_deal(out["seen"], 10, "A stream that nobody splits: eight workers read everything")

# %% [markdown]
# Each worker has a copy of the data set and calls its `__iter__`. So `__iter__` itself has to leave out what is not its own:
# `get_worker_info()` says which worker of how many this is, and is `None` in the rank's own process.

# %%
# %%ranks --as out
import itertools


class Shard(Stream):
    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks  # only a forked worker has its rank's process group to ask

    def __iter__(self):
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        first, step = self.rank + self.ranks * number, self.ranks * workers
        yield from itertools.islice(super().__iter__(), first, None, step)


by_worker = list(DataLoader(Shard(0, 1), batch_size=None, num_workers=2))
by_both = list(DataLoader(Shard(rank, 4), batch_size=None, num_workers=2))

# %%
for name in ("by_worker", "by_both"):
    print(f"split {name}: {sum(map(len, out[name].values()))} samples")
draw_deal(out["by_both"], 10, "Split by ranks and workers: each sample once")

# %% [markdown]
# `get_worker_info()` knows the workers of *its* loader, not the other ranks. The example in `IterableDataset`'s own docstring
# splits by it alone; under DDP that is the whole stream once for every rank. There are ranks × workers readers, and each
# needs a number of its own: `rank + ranks * worker.id`. With `rank + worker.id`, rank 0's worker 1 would read what rank 1's
# worker 0 reads.
#
# The `DataLoader` calls `__iter__` in every epoch, so open the stream there: one that was opened before is used up after the first
# epoch. And hand out samples while you read: a stream has no length, and a list of all its samples may not fit into memory.
#
# ## Streams end when they like
#
# In the picture ranks 0 and 1 have three samples, ranks 2 and 3 have two. `DistributedSampler` would have padded, but a
# stream does not know its length. This is how an epoch hangs at its end:

# %%
# %%ranks --expect hang
for number in DataLoader(Shard(rank, 4), batch_size=None):
    net(torch.full((2, 64), float(number))).sum().backward()

# %% [markdown]
# The course's doctor names the ranks that have *finished*: the others wait for them. If you cannot count the samples beforehand,
# there are two remedies. Before every step, let the ranks agree whether all of them have a batch; or let `Join` answer for
# those that have none. In this run the gradient of every single sample is 1:

# %%
# %%ranks
from torch.distributed.algorithms.join import Join


def while_all_have(batches):
    batches = iter(batches)
    while True:
        batch = next(batches, None)
        have = torch.tensor(int(batch is not None))
        dist.all_reduce(have, op=dist.ReduceOp.MIN)
        if not have:
            return
        yield batch


def gradients(batches):
    found = []
    for _ in batches:
        toy.zero_grad()
        toy(torch.ones(1, 1)).sum().backward()
        found.append(toy.module.weight.grad.item())
    return found


toy = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
print("agreed:", gradients(while_all_have(Shard(rank, 4))))
with Join([toy]):
    print("joined:", gradients(Shard(rank, 4)))

# %% [markdown]
# Agreeing loses the rest of the stream (here samples 8 and 9). `Join` loses no sample, but the last step loses *weight*: a rank that
# has finished answers the others' all-reduces with zeros (`_DDPJoinHook` in `torch/nn/parallel/distributed.py`), and the zeros
# count in the mean. The mean over samples 8 and 9 is 1, and the gradient is 0.5: half a step. ([Lesson 05](05_stragglers.ipynb)
# shows the other choice, `divide_by_initial_world_size=False`.) Both ways cost a small all-reduce per step.
#
# A third way is to deal in full rounds of one sample per rank, so that nobody can be ahead: task 5. (Rounds of one
# sample per worker also work, but leave out more at the end.)
#
# > **On GPUs (NCCL).** `backward()` returns as soon as its work is enqueued. A rank at the end of the longer stream blocks
# > later, where the program needs a number from its GPU (`loss.item()`), until the watchdog ends the process
# > ([`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)).
# > `if not have` is such a place, too, if `have` is a CUDA tensor. Ask in a group of gloo's, which
# > `dist.new_group(backend="gloo")` makes, with a CPU tensor. (Read, not run here.)
#
# ## What goes wrong in real life
#
# - **Every epoch the same.** `set_epoch` is missing. Training works, a little worse. Print the first indices of each epoch
#   once, on rank 0.
# - **Four times the GPUs, no speed.** No sampler, or one with `num_replicas=1`. The number of batches per epoch has not
#   gone down: look at `len(loader)`. Or a stream that is split by workers only: every rank reads all of it.
# - **Validation differs with the number of GPUs.** Padding, or a mean of means.
# - **A hang at the end of an epoch.** The ranks have different numbers of batches: a stream, a sampler of your own without padding,
#   files dealt out unevenly.
# - **Samples count twice after every restart.** The checkpoint knows the epoch, but not the place in it.
#
# ## Rule of thumb
#
# > Training: one `DistributedSampler`, one seed for all, `set_epoch` at the top of every epoch. Evaluation: no padding, sum
# > counts. Random numbers inside the step: a seed per rank, mixed from the run's seed and the rank, not added. Streams: split by
# > ranks *times* workers, and let all stop together. Resuming: `set_epoch`, then skip, and every rank's own random state.
#
# ## Your turn
#
# Five tasks wait in [exercises/03_samplers](../exercises/03_samplers.ipynb). Your answers run on 1 to 4 real ranks and are
# judged by what they do.
#
# ## Deeper: killed in the middle of an epoch
#
# Twenty samples: five per rank. The job dies in epoch 1, after three of them. What does the next job have to know?

# %%
p = predict("03.forgotten_epoch")

# %%
# %%ranks --predicted --as out
sampler = DistributedSampler(range(20))
sampler.set_epoch(1)
trained = list(sampler)[:3]  # and the job dies

sampler = DistributedSampler(range(20))  # in the new job
forgot = trained + list(sampler)[3:]
sampler.set_epoch(1)
restarted = trained + list(sampler)
resumed = trained + list(sampler)[3:]

# %%
from course_lib.lab.samplers import draw_resumed

draw_resumed(out)

# %% [markdown]
# The checkpoint needs the epoch, and how many samples of it are done. Call `set_epoch` first, *then* skip. With
# `itertools.islice(loader, 3, None)` the loader would load all that is thrown away, so skip indices:


# %%
# %%ranks
class From(DistributedSampler):
    """Leaves out, once, the first `seen` samples of this rank."""

    seen = 0

    def __iter__(self):
        rest = itertools.islice(super().__iter__(), self.seen, None)
        self.seen = 0  # the next epoch is a whole one
        return rest


sampler = From(range(20))
sampler.set_epoch(1)
sampler.seen = 3
print("the rest:", trained + list(sampler) == resumed, "- the next epoch has", len(list(sampler)), "samples")

# %% [markdown]
# Let the training loop count what is done, not the sampler: a loader with workers asks the sampler ahead
# (`_prefetch_factor` in `torch/utils/data/dataloader.py`).
#
# Can the job resume on *two* ranks? All ranks deal from one deck, card by card, so what is done is the beginning of the deck:


# %%
# %%ranks
def dealt(ranks, rank, epoch=1):
    sampler = DistributedSampler(range(20), num_replicas=ranks, rank=rank)
    sampler.set_epoch(epoch)
    return list(sampler)


deck = dealt(1, 0)
done = [None] * 4
dist.all_gather_object(done, trained)
print("done is the first 12 of the deck:", set(itertools.chain(*done)) == set(deck[:12]))
rest = dealt(2, 0)[6:] + dealt(2, 1)[6:]
print("two ranks that skip 6 each do the rest:", sorted(rest) == sorted(deck[12:]))

# %% [markdown]
# So save the number of samples that *all ranks together* have done, and divide it by the number of ranks that resume.
#
# The random generators must not begin again either, or the new job draws the old masks once more. Save the state of *every* rank:

# %%
# %%ranks
torch.manual_seed(own_seed(0))
mine = torch.get_rng_state()
rank_0s = mine.clone()
dist.broadcast(rank_0s, src=0)  # a checkpoint that rank 0 has written alone

torch.set_rng_state(rank_0s)
print("rank 0's state on all ranks: equal masks?", equal_everywhere(drop(torch.ones(8))))
torch.set_rng_state(mine)
print("each rank's own state:       equal masks?", equal_everywhere(drop(torch.ones(8))))

# %% [markdown]
# A stream needs as many ranks and workers as before: they decided who reads what. What else a checkpoint needs is in
# [lesson 14](14_checkpoints.ipynb).
#
# ## Deeper: the seeds of a loader's workers
#
# You will read that numpy draws the same numbers in all workers of a `DataLoader`. Each sample of `Noise` is three random numbers:

# %%
# %%ranks --as out
from course_lib.lab.deals import Noise

torch.manual_seed(0)
one_for_all = list(DataLoader(Noise(), batch_size=None, num_workers=2))
torch.manual_seed(own_seed(0))
one_per_rank = list(DataLoader(Noise(), batch_size=None, num_workers=2))

# %%
from course_lib.lab.samplers import how_many_differ

print("different numbers in 8 workers, one seed for all:", how_many_differ(out, "one_for_all"))
print("different numbers in 8 workers, a seed per rank: ", how_many_differ(out, "one_per_rank"))

# %% [markdown]
# That is outdated: `_worker_loop` (`torch/utils/data/_utils/worker.py`) seeds all three in every worker, from the worker's number and
# one that the loader draws from *its rank's* torch generator.
#
# ## Deeper: data of another kind on every rank
#
# A sampler shuffles before it deals. Files that are dealt out by folder, clinics or users do not: each rank then sees a
# kind of data of its own (“non-IID”). Here rank *r* has the samples of class *r*, and no others. Is DDP's gradient still that of
# one process with all of them? Once without BatchNorm, and once with it:

# %%
# %%ranks 4
import copy

from torch.nn.parallel import DistributedDataParallel


def gradient(model, x, y):
    torch.nn.functional.cross_entropy(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


y = torch.arange(32) % 4
x = y[:, None] + torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
mine = y == rank
for norm in (torch.nn.Identity(), torch.nn.BatchNorm1d(4)):
    model = torch.nn.Sequential(norm, torch.nn.Linear(4, 4))
    ddp = DistributedDataParallel(model)  # all ranks have rank 0's weights now
    alone = gradient(copy.deepcopy(model), x, y)
    off = (gradient(ddp, x[mine], y[mine]) - alone).norm() / alone.norm()
    told = "the same" if off < 1e-4 else "more than 10 % off" if off > 0.1 else off
    print(f"{type(norm).__name__}: {told}")

# %% [markdown]
# The gradient is a mean over samples, and with the same number on every rank it does not matter who has which: without BatchNorm
# the numbers agree. What breaks is whatever looks at *one rank's* batch as if it stood for all: the statistics of BatchNorm
# (`SyncBatchNorm`, lesson 09, looks at all ranks), a class weight that is computed per batch, a metric that is printed on rank 0. And
# a rank whose kind has fewer samples runs out of them first (lesson 05).
#
# ## Further reading
#
# - `torch/utils/data/distributed.py`: the whole sampler, one short class.
# - PyTorch, `torch.utils.data` in the API reference: samplers, `DataLoader`, worker seeds.
#
# **Next:** [lesson 04](04_buckets.ipynb), when DDP sends what. Or back to the [index](index.ipynb).
