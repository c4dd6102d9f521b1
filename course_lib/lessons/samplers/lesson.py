# %% [markdown]
# # 03 · Samplers: who gets which sample
#
# > *“The weights are the same, the data are the same. Why is my validation accuracy on four GPUs a little different from the one
# > on one GPU?”*
#
# DDP averages gradients. It does not know which samples they were computed from. A **sampler** decides that, and most mistakes with
# samplers raise no error. In the picture ten samples are dealt to four ranks like cards. What happens at the question marks of
# round 3?
#
# **You will be able to** say which rank sees which sample in which epoch, shuffle properly, seed ranks, compute a metric
# over all ranks that counts every sample once, split a stream, and resume in the middle of an epoch. 50 minutes.
#
# **Before this:** lesson 00.

# %%
# %load_ext course_lib
from course_lib.lessons.samplers.lab import the_deck

the_deck()

# %% [markdown] tags=["two-hours-2"]
# ## Ten samples, four ranks
#
# First choose an answer. The cell below the question runs on four ranks, and `--predicted` says that this run decides. (`--as out`
# keeps what the ranks have in the end: `out["hand"]` is each rank's `hand`.)

# %% tags=["two-hours-2"]
p = predict("03.ten_samples")

# %% tags=["two-hours-2"] claims={"28": "incomplete"}
# %%ranks 4 --predicted --as out
from torch.utils.data import DistributedSampler

hand = list(DistributedSampler(range(10), shuffle=False))
print(hand)
len(hand)

# %% [markdown] tags=["two-hours-2"]
# Twelve. The sampler makes the list of indices longer, until its length is a multiple of the number of ranks: it appends the first
# indices once more. Then each rank takes every fourth index, and starts at its own number (`DistributedSampler.__iter__` in
# `torch/utils/data/distributed.py`). Look at the bottom row of the picture: it counts how often each sample is taken.

# %% tags=["two-hours-2"]
from course_lib.lessons.samplers.lab import draw_deal

draw_deal(out["hand"], 10)

# %% [markdown] tags=["two-hours-2"]
# Why does every rank get the same number of samples? Every batch means collectives. A rank with one batch more than the others
# would wait for them forever (Break it 1 in [lesson 00](00_first_ranks.ipynb)).

# %% [markdown]
# ## drop_last: lose instead of repeat
#
# With `drop_last=True` the incomplete round is left out. Which samples are lost? And what if there are fewer samples than ranks?

# %%
# %%ranks
print("of 10:", list(DistributedSampler(range(10), shuffle=False, drop_last=True)))
print("of  3:", list(DistributedSampler(range(3), shuffle=False, drop_last=True)))

# %% [markdown]
# Samples 8 and 9 are never seen. Three samples on four ranks become *no* samples on any rank, and there is no error: the training
# loop has nothing to do. Without shuffling, the same samples are lost in every epoch.

# %% [markdown] tags=["two-hours-2"]
# ## Shuffling, epoch by epoch
#
# `DistributedSampler` shuffles by default. A rank goes through its sampler twice, as a loop over two epochs does:

# %% tags=["two-hours-2"]
p = predict("03.two_epochs")

# %% tags=["two-hours-2"]
# %%ranks --predicted
sampler = DistributedSampler(range(10))
first, second = list(sampler), list(sampler)
print(first, second)
first == second, set(first) == set(second)

# %% [markdown] tags=["two-hours-2"]
# The same samples in the same order, on every rank. All ranks must shuffle alike without talking to each other. So the order is
# computed from two numbers that they all know: `torch.randperm` with a generator that is seeded with `seed + epoch`. *You* set the
# epoch:

# %% tags=["two-hours-2"] claims={"27": "refined"}
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

# %% [markdown] tags=["two-hours-2"]
# You will read that the sampler must be “reset” in every epoch. There is nothing to reset: `set_epoch` sets one integer.
# `torch.manual_seed` does not change the order.

# %% [markdown]
# The last line matters when you compare runs. `seed + epoch` is a *sum*, so runs with the seeds 0, 1 and 2 see the same orders,
# shifted by an epoch. Give the sampler seeds that are farther apart than the number of epochs: 1000, 2000, 3000.
#
# Now deal yourself. Every change is a run on as many real ranks as you choose. Find a deal in which a sample is taken three times,
# one in which nobody gets anything, and one with `drop_last` in which nothing is lost. Then let each rank use its own number as
# the seed:

# %%
from course_lib.lessons.samplers.lab import explore_deals

explore_deals()

# %% [markdown]
# ## Two samplers do not fit into one loader
#
# `shuffle=True` tells the `DataLoader` to make its own sampler. (`--expect` says how a cell is meant to end; here with an error.)

# %%
# %%ranks --expect raises:ValueError
from torch.utils.data import DataLoader

DataLoader(range(10), batch_size=2, sampler=sampler, shuffle=True)

# %% [markdown]
# The tempting way out is to keep `shuffle=True` and to drop the sampler. That raises no error:

# %%
# %%ranks --as out
torch.manual_seed(0)
loader = DataLoader(range(10), batch_size=2, shuffle=True)
seen = [index for batch in loader for index in batch.tolist()]

# %%
draw_deal(out["seen"], 10)

# %% [markdown]
# Every rank sees all ten samples. With one seed for all ranks, as here, the order is the same, too: four processes do the same work
# four times. With different seeds each rank has its own order, and what you call one epoch is four. The loss goes down, the ranks
# stay equal, and no error is raised.
#
# ## A seed of one's own
#
# “Each process should have a different seed.” For the sampler that is wrong:

# %%
# %%ranks --as out
mine = list(DistributedSampler(range(10), seed=rank))

# %%
draw_deal(out["mine"], 10)

# %% [markdown]
# Each rank takes every fourth card of a *different* deck. The sampler needs **one** seed for all ranks.

# %% [markdown] tags=["two-hours-2"]
# For random numbers *inside* the training step it is the other way round. Equal seeds mean equal dropout masks and equal
# augmentation noise on all ranks. So every rank needs its own seed, made from the run's seed and its rank:

# %% tags=["two-hours-2"]
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
# Why mixed? With `seed + rank` the ranks of *one* run differ. But the run with seed 1 draws on rank 0 what the run with seed 0 draws
# on rank 1: the sum is the same. Here are the seeds of three runs, 0, 1 and 2, on four ranks:

# %%
# %%ranks
print("added:", [seed + rank for seed in range(3)], "mixed:", [own_seed(seed) for seed in range(3)])

# %% [markdown]
# Three runs with four ranks need twelve seeds. Adding gives only six, so the “independent” runs share most of their noise. Mix wherever you seed a
# rank: `torch.manual_seed`, `numpy.random.seed`, `random.seed`, an environment's `reset(seed=...)`. A generator that is not seeded
# takes its seed from the system: the ranks draw different numbers, but you cannot repeat the run.
#
# What is a seed per rank worth? In the next run the weights stay fixed and the inputs are noise: 200 gradients with one seed for all
# ranks, and 200 with a seed per rank. The standard deviation says how widely the averaged gradient scatters.

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
# About 1/√4. With one seed, four ranks compute the *same* gradient, and the mean of four equal numbers is one of them. In the
# same way, four environments of reinforcement learning with one seed are one environment.
#
# So now every rank has its own seed, and the script goes on as it did on one GPU: it holds out two of ten samples for validation, at
# random.

# %%
p = predict("03.held_out")

# %%
# %%ranks --predicted
torch.manual_seed(own_seed(0))
training, validation = torch.utils.data.random_split(range(10), [8, 2])
everybodys = [None] * dist.get_world_size()
dist.all_gather_object(everybodys, list(training.indices))
len(set().union(*everybodys))

# %% [markdown]
# Every rank holds out two *other* samples, and other ranks train on them. The validation accuracy is too high, and no error is
# raised. Whatever divides the data needs one seed for all ranks: the sampler, and also `random_split` (pass it a `generator`).
#
# Weights do not need it. DDP's constructor broadcasts rank 0's parameters and buffers, so the model may be built after the ranks
# are seeded differently (`_sync_module_states`, called in `DistributedDataParallel.__init__`, `torch/nn/parallel/distributed.py`):

# %% claims={"57": "holds"}
# %%ranks
model = torch.nn.Linear(4, 1)
print("before DDP, equal weights:", equal_everywhere(model.weight.detach()))
ddp = torch.nn.parallel.DistributedDataParallel(model)
print("after DDP, equal weights: ", equal_everywhere(model.weight.detach()))

# %% [markdown]
# ## An accuracy that counts nobody twice
#
# Now the question from the top. First train a classifier on the digits, with everything that this lesson has said so far:

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
# Then evaluate it on the other 397 digits, in three ways: on one rank alone, with the indices of a `DistributedSampler`, and with
# `range(rank, n, world)`, which gives every index to exactly one rank. Each rank counts, and the counts are added up.

# %%
# %%ranks
from torch.utils.data import Subset


def score(indices):
    """Of the samples of all ranks: how many the model gets right, and how many there are."""
    device = next(net.parameters()).device
    counts = torch.zeros(2, dtype=torch.int64, device=device)
    net.eval()
    with torch.no_grad():
        for inputs, answers in DataLoader(Subset(test_set, indices), batch_size=64):
            counts[0] += (net.module(inputs.to(device)).argmax(1) == answers.to(device)).sum()
            counts[1] += len(answers)
    dist.all_reduce(counts)  # once, after the loop; also on a rank without samples
    return "{} of {}".format(*counts.tolist())


n, world = len(test_set), dist.get_world_size()
print("one rank:          ", score(range(n) if rank == 0 else []))
print("DistributedSampler:", score(list(DistributedSampler(test_set, shuffle=False))))
print("range(rank, n, 4): ", score(range(rank, n, world)))

# %% [markdown]
# 397 is not a multiple of four, so `DistributedSampler` pads: 400 answers to 397 questions, because three samples count twice. The
# effect is small here and large for small test sets. It *depends on the number of ranks*, so the same model scores differently on
# one GPU and on four.
#
# The third line is exact, for two reasons. The ranks may have shares of different sizes, because evaluation has no gradients to
# average. And the ranks add up **counts** (whole numbers), not averages: a mean of four accuracies is wrong as soon as the shares
# differ.
#
# Two traps. First, use `net.module`, not `net`: a forward through the wrapper may broadcast buffers, which is a collective, and with
# different numbers of batches one rank would wait. Second, reduce once, after the loop, for the same reason.
#
# > **On GPUs (NCCL).** NCCL carries CUDA tensors only. Keep the counts on the rank's GPU, or use a process group that has gloo for CPU
# > tensors beside it: `init_process_group("cpu:gloo,cuda:nccl")` (its docstring in `torch/distributed/distributed_c10d.py`; read,
# > not run: it needs GPUs).
#
# ## A stream has no sampler
#
# Large data often come as a stream: many files, a socket, a tokenizer's output. An `IterableDataset` has no indices, so
# a sampler has nothing to deal out.

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
draw_deal(out["seen"], 10)

# %% [markdown]
# Each worker has a copy of the data set and calls its `__iter__`. There are ranks × workers readers, and all of them read everything.
# So `__iter__` has to leave out what belongs to other readers. `get_worker_info()` says which worker of how many this is; in the
# rank's own process it is `None`.

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
draw_deal(out["by_both"], 10)

# %% [markdown]
# `get_worker_info()` knows the workers of *its* loader, not the other ranks. The example in `IterableDataset`'s docstring
# splits by workers alone; under DDP every rank then reads the whole stream. Each reader needs its own number,
# `rank + ranks * worker.id`. (With `rank + worker.id`, rank 0's worker 1 and rank 1's worker 0 would have the same number.)
#
# The `DataLoader` calls `__iter__` in every epoch, so open the stream there: one that is opened earlier is used up after the first
# epoch. And yield samples while you read: a list of the whole stream may not fit into memory.
#
# ## Streams end when they like
#
# In the last picture ranks 0 and 1 have three samples, ranks 2 and 3 have two. `DistributedSampler` would have padded, but a
# stream does not know its length. So an epoch hangs at its end:

# %%
# %%ranks --expect hang
for number in DataLoader(Shard(rank, 4), batch_size=None):
    net(torch.full((2, 64), float(number))).sum().backward()

# %% [markdown]
# The course's doctor names the ranks that have *finished*: the others wait for them. There are three remedies. Deal in full rounds
# of one sample per rank, so that no rank gets more than another (task 5). Let the ranks agree before every step that all of them have
# a batch. Or let `Join` answer for those that have none. The last two are run under “Deeper”.
#
# > **On GPUs (NCCL).** `backward()` returns as soon as its work is enqueued. A rank at the end of the longer stream blocks
# > later, where the program needs a number from its GPU (`loss.item()`), until the watchdog ends the process
# > ([`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)).
# > (Read, not run: it needs GPUs.)
#
# ## What goes wrong in real life
#
# - **Every epoch the same.** `set_epoch` is missing. Print the first indices of each epoch once, on rank 0.
# - **Four times the GPUs, no speed.** No sampler, or one with `num_replicas=1`. The number of batches per epoch has not
#   gone down: look at `len(loader)`.
# - **Validation differs with the number of GPUs.** Padding, or a mean of means.
# - **A hang at the end of an epoch.** The ranks have different numbers of batches.
# - **“Tried to step 1001 times. The specified number of total steps is 1000.”** The schedule was made from `len(dataset)`, and the
#   sampler's padding makes one step more. Make it from `len(loader)`.
# - **Validation is too good.** `random_split` with a seed per rank: other ranks train on what this one holds out.
# - **Samples count twice after every restart.** The checkpoint knows the epoch, but not the place in it.
#
# ## Rule of thumb
#
# > Training: one `DistributedSampler`, one seed for all, `set_epoch` at the top of every epoch. Evaluation: no padding, sum
# > counts. Random numbers inside the step: a seed per rank, mixed from the run's seed and the rank, not added. Streams: split by
# > ranks *times* workers, and let all stop together. Resuming: `set_epoch`, then skip, and restore every rank's random state.
#
# ## Your turn
#
# Five tasks wait in [exercises/03_samplers](../exercises/03_samplers.ipynb). Your answers run on 1 to 4 real ranks and are
# judged by what they do.
#
# **Your script.** Two of the faults in `exercises/script/train.py` are this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair them; in a terminal, this says whether they are gone:
#
#     ddp-course check --suspect 03 exercises/script/train.py
#
# ## Deeper: streams that end at different times
#
# Two remedies for the hang above. In this run the gradient of every single sample is 1:

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
# With the first remedy all ranks stop when the first one has no batch left, so samples 8 and 9 are not trained on. With `Join` every
# sample is trained on, but the last step is too small: a rank that has finished sends zeros to the others' all-reduces (`_DDPJoinHook`
# in `torch/nn/parallel/distributed.py`), and DDP still divides by four. Samples 8 and 9 have a mean gradient of 1, and the step
# uses 0.5. ([Lesson 05](05_stragglers.ipynb) shows the other choice, `divide_by_initial_world_size=False`.) Both remedies cost a
# small all-reduce per step.
#
# > **On GPUs (NCCL).** `if not have` makes the program wait for the GPU if `have` is a CUDA tensor. Ask in a gloo group, which
# > `dist.new_group(backend="gloo")` makes, with a CPU tensor. (Read, not run: it needs GPUs.)
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
from course_lib.lessons.samplers.lab import draw_resumed

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
print("the rest:", trained + list(sampler) == resumed)
print("the next epoch has", len(list(sampler)), "samples")

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
from course_lib.lessons.samplers.lab import how_many_differ

print("different numbers in 8 workers, one seed for all:", how_many_differ(out, "one_for_all"))
print("different numbers in 8 workers, a seed per rank: ", how_many_differ(out, "one_per_rank"))

# %% [markdown]
# That is outdated: `_worker_loop` (`torch/utils/data/_utils/worker.py`) seeds all three in every worker, from the worker's number and
# one that the loader draws from *its rank's* torch generator.
#
# > **On GPUs.** `torch.manual_seed` also seeds the generators of all GPUs (`_manual_seed_impl` in `torch/random.py`), and what a
# > GPU draws comes from its own generator: `torch.cuda.get_rng_state()` is a state of its own (`torch/cuda/random.py`). The sampler
# > shuffles on the CPU, so its order is the same there. (Read, not run: it needs GPUs.)
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
# ## Deeper: samplers that know no ranks
#
# `WeightedRandomSampler` draws rare samples more often. A `BatchSampler` makes batches out of another sampler's indices. Here are two
# epochs of each. Sample 9 weighs as much as the nine others together, and each rank draws five:

# %%
# %%ranks
from torch.utils.data import BatchSampler, WeightedRandomSampler

weights = [1.0] * 9 + [9.0]
for name, seed in (("one seed for all:", 0), ("a seed per rank: ", own_seed(0))):
    weighted = WeightedRandomSampler(weights, 5, generator=torch.Generator().manual_seed(seed))
    print(name, *[list(weighted) for epoch in range(2)])

batches = BatchSampler(DistributedSampler(range(16)), batch_size=2, drop_last=False)
for epoch in range(2):
    batches.sampler.set_epoch(epoch)
    print(f"batches, epoch {epoch}:", list(batches))
loader = DataLoader(range(16), batch_sampler=batches)
print("loader.sampler has set_epoch:", hasattr(loader.sampler, "set_epoch"))

# %% [markdown]
# Every rank draws from the *whole* set. With one seed all ranks draw the same five, and four ranks do the work of one. This sampler is
# the exception to “one seed for all”. It divides nothing, and draws with replacement are independent, so a seed per rank and
# `num_samples` ÷ ranks give what one process would draw. It needs no `set_epoch`: its generator goes on. (After a restart it begins
# again: save its state, or seed it from run, rank and epoch.)
#
# A `BatchSampler` passes on what the sampler *in* it gives. So put a `DistributedSampler` into it, and set the epoch there:
# `loader.sampler` is another one. Batches that are made first, by length for example, are dealt like samples: one seed for all, as many
# batches on every rank, `batches[rank::world]`.
#
# ## Deeper: settings of the loader
#
# - **Workers.** Each rank starts its own, so there are ranks × `num_workers` processes per machine. The `DataLoader` warns when the
#   workers of *one* loader exceed the cores (`check_worker_number_rationality`, `torch/utils/data/dataloader.py`); it does not know of
#   the other ranks. Start with cores ÷ ranks − 1.
# - **`persistent_workers=True`** keeps the workers between epochs. They keep their copy of the data set, too, so what the rank
#   changes in its own copy does not reach them:

# %%
# %%ranks 1
from torch.utils.data import DataLoader, IterableDataset


class Epochs(IterableDataset):
    epoch = 0

    def __iter__(self):
        yield self.epoch


for persistent in (False, True):
    data = Epochs()
    settings = {"num_workers": 1, "persistent_workers": persistent, "multiprocessing_context": "fork"}
    loader = DataLoader(data, batch_size=None, **settings)
    seen = []
    for epoch in range(3):
        data.epoch = epoch
        seen += list(loader)
    print(f"persistent_workers={persistent!s:5}  epochs that the worker saw:", seen)

# %% [markdown]
# - A `DistributedSampler` is safe: it lives in the rank, so `set_epoch` works with persistent workers.
# - **`pin_memory=True`** puts batches into page-locked memory, from which `.to(device, non_blocking=True)` can copy while the GPU
#   computes (`torch/utils/data/_utils/pin_memory.py`; read, not run: it needs a GPU). It changes nothing on CPUs.
# - **Resuming a loader with workers.** `StatefulDataLoader` of the package `torchdata` has `state_dict()` and `load_state_dict()`, and
#   counts what its workers have read. Save one state per rank. (Read in its documentation, not run: the course does not install it.)
#
# ## Further reading
#
# - `torch/utils/data/distributed.py`: the whole sampler, one short class.
# - PyTorch, `torch.utils.data` in the API reference: samplers, `DataLoader`, worker seeds.
#
# **Next:** [lesson 04](04_buckets.ipynb), when DDP sends what. Or back to the [index](index.ipynb).
