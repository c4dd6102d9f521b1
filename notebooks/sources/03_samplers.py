# %% [markdown]
# # 03 · Samplers: who gets which sample
#
# > *“On four GPUs my validation accuracy is a little different from one GPU. And why does every epoch look the same?”*
#
# DDP averages gradients. It does not care what they were computed from: if all four ranks train on the same quarter of the
# data, it averages that, without a word. Dealing out the samples is the job of a **sampler**, and everything that goes
# wrong with it goes wrong silently. So you look, instead of trusting.
#
# **You will be able to** say which rank sees which sample in which epoch, shuffle properly, seed ranks, and compute a
# metric over all ranks that counts nobody twice. 20 minutes.
#
# **Before this:** lesson 00.

# %%
# %load_ext course_lib

# %% [markdown]
# ## Ten samples, four ranks
#
# Ten does not divide by four. `DistributedSampler` has to do something about it.

# %%
p = predict(
    "10 samples, 4 ranks, default settings. How many samples are processed in one epoch, over all ranks?",
    {
        "8: the two that do not fit are dropped": lambda out: out.values[0] == 8,
        "10: two ranks get three samples, two get two": lambda out: out.values[0] == 10,
        "12: two samples are processed twice": lambda out: out.values[0] == 12,
    },
)

# %% claims={"28": "incomplete"}
# %%ranks 4 --as out
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

rank = dist.get_rank()
ten = TensorDataset(torch.arange(10))
indices = list(DistributedSampler(ten, shuffle=False))
print(indices)

processed = torch.tensor(len(indices))
dist.all_reduce(processed)
processed.item()

# %% [markdown]
# Twelve. Each rank takes every fourth index, beginning with its own number, and so that all get equally many, the list is
# continued from its start: samples 0 and 1 come twice. That is `DistributedSampler.__iter__` in
# `torch/utils/data/distributed.py`: pad the indices to a multiple of the number of ranks, then `indices[rank::num_replicas]`.
#
# Why equally many? Because every batch means collectives. A rank with one batch more than the others would wait for them
# for ever (you know how that looks from lesson 00). Here is the deal as a picture:

# %%
import matplotlib.pyplot as plt


def draw_deal(per_rank, samples, title):
    """One row a rank, one column a sample; a number says how often the sample is dealt out over all ranks."""
    counts = [[per_rank[r].count(s) for s in range(samples)] for r in sorted(per_rank)]
    _, axes = plt.subplots(figsize=(7, 2.3), layout="constrained")
    axes.imshow(counts, cmap="Blues", vmin=0, vmax=2, aspect="auto")
    total = [sum(column) for column in zip(*counts, strict=True)]
    for r, row in enumerate(counts):
        for s, count in enumerate(row):
            if count:
                axes.text(s, r, "x" if total[s] == 1 else f"{total[s]} times", ha="center", va="center")
    axes.set_yticks(range(len(counts)), [f"rank {r}" for r in sorted(per_rank)])
    axes.set_xticks(range(samples))
    axes.set(title=title, xlabel="index of the sample")
    plt.show()


draw_deal(out["indices"], 10, "Padding: samples 0 and 1 are given to two ranks")

# %% [markdown]
# ## drop_last: lose instead of repeat
#
# With `drop_last=True` the rest is left out. Which samples are lost? And what if there are fewer samples than ranks?

# %%
# %%ranks
print("of 10:", list(DistributedSampler(ten, shuffle=False, drop_last=True)))
three = TensorDataset(torch.arange(3))
print("of  3:", list(DistributedSampler(three, shuffle=False, drop_last=True)))

# %% [markdown]
# Samples 8 and 9 are never seen. And three samples on four ranks with `drop_last` are *no* samples, on any rank, without an
# error: a training loop over nothing, and it is fast. Without shuffling it is always the same samples that are lost; with
# shuffling, others in each epoch.
#
# ## Shuffling, and the call everybody forgets
#
# `DistributedSampler` shuffles by default. Two epochs, one sampler:

# %%
p = predict(
    "A loop over two epochs, sampler with its default shuffle=True, nothing else. Is the order of epoch 1 that of epoch 0?",
    {
        "no, each epoch is shuffled anew": lambda out: not any(out.values.values()),
        "yes, exactly the same": lambda out: all(out.values.values()),
    },
)

# %%
# %%ranks
sampler = DistributedSampler(ten)
first, second = list(sampler), list(sampler)
print(first, second)
first == second

# %% [markdown]
# The same, on every rank. All ranks must shuffle alike without talking to each other, so the order is a function of two
# numbers they all know: `torch.randperm` with a generator seeded by `seed + epoch`. The epoch is a number that *you* set:

# %%
# %%ranks
for epoch in range(3):
    sampler.set_epoch(epoch)
    print(f"epoch {epoch}:", list(sampler))

# %% [markdown]
# You will read that the sampler must be “reset” in every epoch. There is nothing to reset: `set_epoch` sets one integer.
# Three consequences, each in a line:

# %% claims={"27": "refined"}
# %%ranks
sampler.set_epoch(0)
before = list(sampler)
torch.manual_seed(12345)
print("torch.manual_seed changes the order:", list(sampler) != before)

by_seed, by_epoch = DistributedSampler(ten, seed=1), DistributedSampler(ten, seed=0)
by_epoch.set_epoch(1)
print("seed 1, epoch 0 equals seed 0, epoch 1:", list(by_seed) == list(by_epoch))

loader = DataLoader(ten, batch_size=2, sampler=sampler)
print("batches:", [batch.tolist() for (batch,) in loader])

# %% [markdown]
# The middle one bites when you compare runs with seeds 0, 1 and 2: they see the *same* orders, shifted by an epoch. Take
# seeds that are far apart.
#
# ## Two samplers do not fit into one loader
#
# `shuffle=True` tells the `DataLoader` to make a sampler of its own:

# %%
# %%ranks --expect raises:ValueError
DataLoader(ten, batch_size=2, sampler=sampler, shuffle=True)

# %% [markdown]
# An error, at least. The tempting way out of it, to keep `shuffle=True` and drop the sampler, has none:

# %%
# %%ranks --as out
torch.manual_seed(0)
seen = [index for (batch,) in DataLoader(ten, batch_size=2, shuffle=True) for index in batch.tolist()]
seen

# %%
draw_deal(out["seen"], 10, "No DistributedSampler: every rank gets everything")

# %% [markdown]
# Every rank sees all ten samples (with equal seeds even in the same order). The loss goes down, the ranks stay equal, and
# four processes do the work of one, four times. Nothing ever complains.
#
# ## A seed of one's own
#
# “Each process should have a different seed.” For the sampler that is wrong:

# %%
# %%ranks --as out
wrong = DistributedSampler(ten, seed=rank)
mine = list(wrong)
mine

# %%
everything = [index for indices in out["mine"].values() for index in indices]
print("never seen:", sorted(set(range(10)) - set(everything)))
print("seen more than once:", sorted({index for index in everything if everything.count(index) > 1}))
draw_deal(out["mine"], 10, "A seed per rank: each rank deals from a deck of its own")

# %% [markdown]
# Each rank takes every fourth card of a *different* deck. So the sampler needs **one** seed for all ranks.
#
# For random numbers *inside* the training step it is the other way round. Equal seeds mean equal dropout masks and equal
# augmentation noise on all ranks: four ranks, one quarter of the randomness you think you have. Reinforcement learning
# makes it plain: four environments with one seed are one environment.

# %%
# %%ranks
drop = torch.nn.Dropout(0.5)

torch.manual_seed(0)
same_mask = drop(torch.ones(8))
torch.manual_seed(1000 + rank)
own_mask = drop(torch.ones(8))


def equal_everywhere(tensor):
    others = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(others, tensor)
    return all(torch.equal(tensor, other) for other in others)


print("one seed for all:  equal masks on all ranks?", equal_everywhere(same_mask))
print("a seed per rank:   equal masks on all ranks?", equal_everywhere(own_mask))

# %% [markdown]
# Then the model must not be *initialised* differently, surely? It may:

# %%
p = predict(
    "Every rank seeds differently, builds its model, wraps it in DDP. Are the weights equal on all ranks after that?",
    {
        "no: different seeds, different weights": lambda out: not out.values[0],
        "yes: DDP copies rank 0's weights to all": lambda out: out.values[0],
    },
)

# %% claims={"57": "holds"}
# %%ranks
torch.manual_seed(1000 + rank)
model = torch.nn.Linear(4, 1)
print("before DDP:", equal_everywhere(model.weight.detach()))
ddp = torch.nn.parallel.DistributedDataParallel(model)
equal_everywhere(model.weight.detach())

# %% [markdown]
# The constructor broadcasts parameters and buffers from rank 0 (`_sync_module_states`, called in
# `DistributedDataParallel.__init__`, `torch/nn/parallel/distributed.py`). Once. It does not look again later, which is the
# subject of lesson 09.
#
# ## An accuracy that counts nobody twice
#
# Now the question from the top. Train a classifier on the digits, then evaluate on 397 of them with a
# `DistributedSampler`. 397 is odd, so the sampler pads: 400 answers for 397 questions.

# %%
# %%ranks
from course_lib.data import load_digits

images, labels = load_digits()
pixels = torch.from_numpy(images).float().flatten(1) / 16
targets = torch.from_numpy(labels).long()
train_set = TensorDataset(pixels[:1400], targets[:1400])
test_set = TensorDataset(pixels[1400:], targets[1400:])

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


@torch.no_grad()
def count(indices):
    """How many of these test samples the model gets right, and how many there are."""
    inputs, answers = test_set.tensors[0][indices], test_set.tensors[1][indices]
    return torch.tensor([(net.module(inputs).argmax(1) == answers).sum().item(), len(indices)])


truth = count(list(range(len(test_set))))
print("one process, all samples: {} of {}".format(*truth.tolist()))

# %%
# %%ranks --as out
padded = count(list(DistributedSampler(test_set, shuffle=False)))
dist.all_reduce(padded)

exact = count(list(range(rank, len(test_set), dist.get_world_size())))
dist.all_reduce(exact)

print("DistributedSampler:       {} of {}".format(*padded.tolist()))
print("indices[rank::4]:         {} of {}".format(*exact.tolist()))
assert torch.equal(exact, truth)

# %% [markdown]
# The sampler's count is of 400: three samples vote twice. The effect is small here and large for small test sets, and it
# *depends on the number of ranks*, which is why the same model scores differently on 4 and on 8 GPUs.
#
# The exact way is two lines: let the ranks have unequal shares (evaluation has no gradient collectives, so nobody waits for
# anybody), and sum **counts**, not averages. The mean of the four ranks' accuracies would again be wrong as soon as the
# shares differ. And use `net.module`, not `net`: a forward through the wrapper may broadcast buffers, which is a collective,
# and with unequal batch counts somebody would wait.
#
# How many of how many do the two ways count, and how wrong can it get? Try all small test sets at once:

# %%
# %%ranks 4 --as out
right = torch.arange(60) % 7 != 0  # a made-up classifier: every seventh sample is wrong
errors = []
for n in range(1, 61):
    indices = list(DistributedSampler(TensorDataset(right[:n]), shuffle=False))
    answers = torch.tensor([right[indices].sum().item(), len(indices)])
    dist.all_reduce(answers)
    errors.append(100 * (answers[0] / answers[1] - right[:n].float().mean()).item())
"exact for", [n for n, error in enumerate(errors, 1) if abs(error) < 1e-4]

# %%
_, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.stem(range(1, 61), out["errors"][0], basefmt=" ")
axes.axhline(0, color="black", linewidth=0.8)
axes.set(
    title="Padding bends the accuracy most where test sets are small",
    xlabel="number of test samples",
    ylabel="error (percentage points)",
)
plt.show()

# %% [markdown]
# Multiples of four need no padding and are exact. The others are right only by luck.
#
# ## What goes wrong in real life
#
# - **Every epoch the same.** `set_epoch` is missing. Training works, a little worse. Print the first indices of each epoch
#   once, on rank 0.
# - **Four times the GPUs, no speed.** No sampler, or one with `num_replicas=1`. The number of batches per epoch has not
#   gone down: look at `len(loader)`.
# - **Validation differs with the number of GPUs.** Padding, or a mean of means.
# - **A hang at the end of an epoch.** The ranks have different numbers of batches (an own sampler without padding, files
#   dealt out unevenly). The rank that has finished is the one the others wait for:

# %%
# %%ranks --expect hang
batches = 3 if rank == 0 else 4
for _ in range(batches):
    net(torch.ones(2, 64)).sum().backward()

# %% [markdown]
# ## Rule of thumb
#
# > Training: one `DistributedSampler`, one seed for all, `set_epoch` at the top of every epoch. Evaluation: no padding, sum
# > counts. Random numbers inside the step: one seed per rank.
#
# ## Your turn
#
# Four tasks wait in [exercises/03_samplers](../exercises/03_samplers.ipynb). Your answers run on 1 to 4 real ranks and are
# judged by what they do.
#
# ## Further reading
#
# - `torch/utils/data/distributed.py`: the sampler is 60 lines of Python, worth reading once.
# - PyTorch, `torch.utils.data` in the API reference: samplers, `DataLoader`, worker seeds.
#
# **Back to:** the [index](index.ipynb).
