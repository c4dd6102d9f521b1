# %% [markdown]
# # 03 · Samplers: who gets which sample
#
# > *“On four GPUs my validation accuracy is a little different from one GPU. And why does every epoch look the same?”*
#
# DDP averages gradients. It does not care what they were computed from: if all four ranks train on the same quarter of the
# data, it averages that, without a word. Dealing out the samples is the job of a **sampler**, and everything that goes
# wrong with it goes wrong silently. So you look, instead of trusting.
#
# **You will be able to** say which rank sees which sample in which epoch, shuffle properly, seed ranks, compute a metric
# over all ranks that counts nobody twice, split a stream, and resume in the middle of an epoch. 35 minutes.
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
# %%ranks 4 --predicted --as out
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
# Twelve. Each rank takes every fourth index, beginning with its own number, and so that all get the same number, the list is
# continued from its start: samples 0 and 1 come twice. That is `DistributedSampler.__iter__` in
# `torch/utils/data/distributed.py`: pad the indices to a multiple of the number of ranks, then take every
# `num_replicas`-th, beginning at `rank`.
#
# Why the same number? Because every batch means collectives. A rank with one batch more than the others would wait for them
# for ever (you know how that looks from lesson 00). Here is the deal as a picture:

# %%
from course_lib.lab.samplers import draw_deal

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
# Samples 8 and 9 are never seen. And three samples on four ranks with `drop_last` are *no* samples, on any rank, without
# an error: a training loop over nothing, and it is fast. Without shuffling it is always the same samples that are lost;
# with shuffling, others in each epoch, if the order is another one in each epoch.
#
# ## Shuffling, epoch by epoch
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
# %%ranks --predicted
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
# Two consequences, and the batches that come of it:

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
# The second one bites when you compare runs with seeds 0, 1 and 2: they see the *same* orders, shifted by an epoch. Take
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
# Then the model must not be *initialised* differently, surely?

# %%
p = predict(
    "Every rank seeds differently, builds its model, wraps it in DDP. Are the weights equal on all ranks after that?",
    {
        "no: different seeds, different weights": lambda out: not out.values[0],
        "yes: DDP copies rank 0's weights to all": lambda out: out.values[0],
    },
)

# %% claims={"57": "holds"}
# %%ranks --predicted
torch.manual_seed(1000 + rank)
model = torch.nn.Linear(4, 1)
print("before DDP:", equal_everywhere(model.weight.detach()))
ddp = torch.nn.parallel.DistributedDataParallel(model)
equal_everywhere(model.weight.detach())

# %% [markdown]
# The constructor broadcasts parameters and buffers from rank 0 (`_sync_module_states`, called in
# `DistributedDataParallel.__init__`, `torch/nn/parallel/distributed.py`), unless you tell it not to:

# %%
# %%ranks
loose = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1), init_sync=False)
print("with init_sync=False:", equal_everywhere(loose.module.weight.detach()))

# %% [markdown]
# It does so once, and does not look again later. That is the subject of lesson 09.
#
# ## One model, four worlds
#
# This is what reinforcement learning asks for: one agent, and a world of its own on every rank. Ours is sixteen carts on a
# rail. The agent pushes each of them left or right, the wind blows, and the middle is the best place to be. The agent *acts*
# through `.module`, since no other rank has to know, and *learns* through the wrapper.


# %%
# %%ranks
class Windy:
    """Sixteen carts on a rail. The reward is minus the distance from the middle."""

    def __init__(self, seed):
        self.wind = torch.Generator().manual_seed(seed)  # a world draws from a generator of its own

    def reset(self):
        self.x = torch.randn(16, 1, generator=self.wind)
        return self.x

    def step(self, push):
        wind = torch.randn(16, 1, generator=self.wind)
        self.x = (self.x + 0.3 * push + 0.3 * wind).clamp(-2, 2)
        return self.x, -self.x.abs()


def play(policy, world, steps=8):
    """Where the carts were, where they were pushed, and what came of it: rewards from there on."""
    places, pushes, rewards = [], [], []
    x = world.reset()
    for _ in range(steps):
        with torch.no_grad():
            right = torch.bernoulli(policy(x).sigmoid())
        places.append(x)
        pushes.append(right)
        x, reward = world.step(2 * right - 1)
        rewards.append(reward)
    gain = torch.stack(rewards).flip(0).cumsum(0).flip(0)
    return torch.stack(places), torch.stack(pushes), gain - gain.mean(1, keepdim=True)


def practise(agent, seed, rounds=100, lr=0.0):
    """REINFORCE: make pushes likelier that went well. Returns the averaged gradient of every round."""
    world = Windy(seed)
    torch.manual_seed(seed + 500)  # the agent's dice
    optimizer = torch.optim.SGD(agent.parameters(), lr=lr)
    gradients = []
    for _ in range(rounds):
        places, pushes, gain = play(agent.module, world)
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(agent(places), pushes, weight=gain).backward()
        optimizer.step()
        gradients.append(agent.module.weight.grad.item())
    return gradients


# %%
p = predict(
    "Weights held fixed, 100 rounds: how much does DDP's averaged gradient scatter with a seed per rank, against one seed?",
    {
        "as much: it is the same agent": lambda out: out.values[0] > 0.8,
        "half as much": lambda out: 0.35 < out.values[0] < 0.65,
        "a quarter as much, with four ranks": lambda out: out.values[0] < 0.3,
    },
)

# %%
# %%ranks --predicted --as out
torch.manual_seed(7)
agent = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
one_seed = practise(agent, seed=0)
seed_per_rank = practise(agent, seed=1 + rank)

torch.manual_seed(500)
cart_one_seed = play(agent.module, Windy(0))[0][:, 0, 0].tolist()
torch.manual_seed(501 + rank)
cart_seed_per_rank = play(agent.module, Windy(1 + rank))[0][:, 0, 0].tolist()
round((torch.tensor(seed_per_rank).std() / torch.tensor(one_seed).std()).item(), 1)

# %%
import matplotlib.pyplot as plt

looks = (("o-", "#0072B2"), ("s--", "#E69F00"), ("^-.", "#009E73"), ("x:", "black"))
_, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
for axis, name, title in (
    (axes[0], "cart_one_seed", "One seed: four ranks, one cart"),
    (axes[1], "cart_seed_per_rank", "A seed per rank: four carts"),
):
    for r, (style, colour) in enumerate(looks):
        axis.plot(out[name][r], style, color=colour, markersize=4, label=f"rank {r}")
    axis.set(title=title, xlabel="step", xticks=range(8), ylabel="place on the rail", ylim=(-2.1, 2.1))
axes[1].legend(fontsize=7, ncols=2)
for row, name in enumerate(("one_seed", "seed_per_rank")):
    axes[2].plot(out[name][0], [row] * 100, "ox"[row], color="#0072B2", alpha=0.5)
axes[2].set_yticks([0, 1], ["one seed", "seed\nper rank"])
axes[2].set(title="... and a steadier gradient", xlabel="averaged gradient", ylim=(-0.6, 1.6))
plt.show()

# %% [markdown]
# With one seed, four ranks compute the *same* gradient, and the mean of four equal numbers is no better than one of them.
# The mean of four independent ones scatters 1/√4 as much. That is what four ranks have to offer here, and a forgotten
# `+ rank` throws it away without a word. Now let the agent learn, every rank in its own wind:

# %% claims={"57": "holds"}
# %%ranks
from course_lib.watch import compare

before = play(agent.module, Windy(rank))[0].abs().mean()
practise(agent, seed=1 + rank, rounds=20, lr=2.0)
after = play(agent.module, Windy(rank))[0].abs().mean()
print("nearer to the middle:", (after < before).item())
compare(agent=agent)

# %% [markdown]
# Every rank has seen other wind and drawn other pushes, and the weights are equal: same start, same averaged gradients.
#
# With `seed + rank` the ranks of *one* run differ. But the next run, with the next seed, gets three of the four worlds again.
# Where you compare runs, mix the two numbers instead of adding them, for `env.reset` as for `torch.manual_seed`:

# %%
# %%ranks --as out
import numpy as np

added = [seed + rank for seed in range(3)]
mixed = [np.random.SeedSequence([seed, rank]).generate_state(1).item() for seed in range(3)]

# %%
for name in ("added", "mixed"):
    worlds = {seed for seeds in out[name].values() for seed in seeds}
    print(f"{name}: {len(worlds)} worlds in 3 runs of 4 ranks")

# %% [markdown]
# Do the `DataLoader`'s workers need seeds, too? You will read that numpy draws the same numbers in all of them:

# %%
# %%ranks --as out
import random


class Noise(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.rand(()).item(), float(np.random.rand()), random.random()


torch.multiprocessing.set_start_method("fork", force=True)  # else they cannot find a cell's class
torch.manual_seed(0)
one_for_all = list(DataLoader(Noise(), batch_size=None, num_workers=2))
torch.manual_seed(1000 + rank)
one_per_rank = list(DataLoader(Noise(), batch_size=None, num_workers=2))

# %%
for name in ("one_for_all", "one_per_rank"):
    draws = [draw for per_rank in out[name].values() for draw in per_rank]
    kinds = zip(("torch", "numpy", "random"), zip(*draws, strict=True), strict=True)
    found = ", ".join(f"{len(set(numbers))} from {kind}" for kind, numbers in kinds)
    print(f"{name}, different numbers in 8 workers: {found}")

# %% [markdown]
# Outdated: on this torch `_worker_loop` (`torch/utils/data/_utils/worker.py`) seeds all three in every worker, from a number
# that the loader draws from *its rank's* torch generator, and the worker's number. So the two workers of one rank always
# differ, and the ranks differ as soon as `torch.manual_seed` does. In the ranks themselves nobody does that for you: torch, numpy
# and Python's `random` each have a global generator, and what an unseeded one draws cannot be repeated.
#
# ## An accuracy that counts nobody twice
#
# Now the question from the top. Train a classifier on the digits, then evaluate on 397 of them with a
# `DistributedSampler`. 397 does not divide by four, so the sampler pads: 400 answers for 397 questions.

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
# *depends on the number of ranks*: one GPU pads nothing, so the same model can score differently on one and on four.
#
# The exact way is two lines: let the ranks have unequal shares (evaluation has no gradient collectives, so nobody waits for
# anybody), and sum **counts**, not averages. The mean of the four ranks' accuracies would again be wrong as soon as the
# shares differ. And use `net.module`, not `net`: a forward through the wrapper may broadcast buffers, which is a collective,
# and with unequal batch counts somebody would wait. For the same reason, reduce the counts once, after the loop: `all_reduce` gives
# the sums to every rank, `reduce` to one of them only.
#
# How wrong can padding get, and in which direction? Try all test sets of up to 60 samples at once, with two classifiers that
# are wrong on every seventh sample: one begins with sample 0, the other with sample 3.

# %%
# %%ranks 4 --as out
errors = {}
for first_mistake in (0, 3):
    right = (torch.arange(60) - first_mistake) % 7 != 0
    errors[first_mistake] = []
    for n in range(1, 61):
        indices = list(DistributedSampler(TensorDataset(right[:n]), shuffle=False))
        answers = torch.tensor([right[indices].sum().item(), len(indices)])
        dist.all_reduce(answers)
        errors[first_mistake].append(100 * (answers[0] / answers[1] - right[:n].float().mean()).item())
(
    "exact for both:",
    [n for n, pair in enumerate(zip(*errors.values(), strict=True), 1) if max(map(abs, pair)) < 1e-4],
)

# %%
_, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for (first, found), (colour, marker) in zip(
    out["errors"][0].items(), (("#D55E00", "s"), ("#0072B2", "o")), strict=True
):
    lines = axes.stem(range(1, 61), found, basefmt=" ", linefmt=colour, markerfmt=marker)
    lines.markerline.set(color=colour, markersize=4, label=f"the first mistake is sample {first}")
axes.axhline(0, color="black", linewidth=0.8)
axes.set(
    title="Padding bends the accuracy, up or down, most where test sets are small",
    xlabel="number of test samples",
    ylabel="error (percentage points)",
)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# Multiples of four need no padding, and one or two samples are all repeated equally often. For all others at least one of the
# two is off. Which way depends on the samples that vote twice, which are always the first ones: a classifier that fails on
# them looks worse than it is, one that knows them looks better.
#
# ## A stream has no sampler
#
# Large data often come as a stream: many files, a socket, a tokenizer's output. An `IterableDataset` has no indices, so
# there is nothing that a sampler could deal out.

# %%
p = predict(
    "A stream of 10 samples, 4 ranks, each with a DataLoader of 2 workers. How many samples are processed in an epoch?",
    {
        "10: the loaders share them": lambda out: out.values[0] == 10,
        "40: every rank reads the whole stream": lambda out: out.values[0] == 40,
        "80: every worker of every rank reads it": lambda out: out.values[0] == 80,
    },
)

# %%
# %%ranks --predicted --as out
from torch.utils.data import IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(10)


def total(numbers):
    length = torch.tensor(len(numbers))
    dist.all_reduce(length)
    return length.item()


seen = list(DataLoader(Stream(), batch_size=None, num_workers=2))
total(seen)

# %%
draw_deal(out["seen"], 10, "An unsplit stream: eight workers read everything")

# %% [markdown]
# Each worker has a copy of the data set and calls its `__iter__`. So `__iter__` itself has to leave out what is not its own:
# `get_worker_info()` says which worker of how many this is, and is `None` in the rank's own process.

# %%
# %%ranks --as out
import itertools


class Shard(Stream):
    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks  # given by the rank: only a forked worker has its process group

    def __iter__(self):
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        first, step = self.rank + self.ranks * number, self.ranks * workers
        yield from itertools.islice(super().__iter__(), first, None, step)


by_worker = list(DataLoader(Shard(0, 1), batch_size=None, num_workers=2))
by_both = list(DataLoader(Shard(rank, 4), batch_size=None, num_workers=2))
print("split by workers alone:    ", total(by_worker), "samples")
print("split by ranks and workers:", total(by_both), "samples")
by_both

# %% [markdown]
# `get_worker_info()` knows the workers of *its* loader, not the other ranks. The example in `IterableDataset`'s own docstring
# splits by it alone; under DDP that is the whole stream once for every rank. There are ranks × workers readers, and each
# needs a number of its own: `rank + ranks * worker.id`. With `rank + worker.id`, rank 0's worker 1 would read what rank 1's
# worker 0 reads.
#
# The `DataLoader` calls `__iter__` in every epoch, so open the stream there: one that was opened before is used up after the first
# epoch. And hand out samples while you read. A stream has no length, and a list of all its samples may not fit into memory.
#
# ## Streams end when they like
#
# Ten samples for four ranks: ranks 0 and 1 have three, ranks 2 and 3 have two. `DistributedSampler` would have padded. A
# stream does not know its length, so nobody does. This is how an epoch hangs at its end:

# %%
# %%ranks --expect hang
for number in DataLoader(Shard(rank, 4), batch_size=None):
    net(torch.full((2, 64), float(number))).sum().backward()

# %% [markdown]
# The doctor names the ranks that are *done*: the others wait for them. Two ways out, if you cannot count beforehand.
# Ask around before every step whether all have a batch, or let `Join` take the place of those that have none:

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


def steps(numbers):
    done = 0
    for number in numbers:
        net(torch.full((2, 64), float(number))).sum().backward()
        done += 1
    return done


print("agreed:", steps(while_all_have(Shard(rank, 4))))
with Join([net]):
    print("joined:", steps(Shard(rank, 4)))

# %% [markdown]
# Agreeing costs a small all-reduce a step and loses the rest (here samples 8 and 9). `Join` leaves no sample out: a
# rank that is done answers the others' all-reduces with zeros (`_DDPJoinHook` in `torch/nn/parallel/distributed.py`).
# But the zeros count in the mean, so the last step here is only half as large (lesson 05 shows the other choice). A
# third way is to deal in full rounds of one sample per rank, so that nobody can be ahead: task 5. (Rounds of one
# sample per worker do as well, but leave out more at the end.)
#
# ## Killed in the middle of an epoch
#
# Forty samples, batches of two: five batches a rank. The job dies in epoch 1, after three of them. What does the next job
# have to know?

# %%
from collections import Counter
from itertools import chain


def times_seen(out, name):
    count = Counter(chain(*out[name].values()))
    return [count[sample] for sample in range(40)]


p = predict(
    "The new job makes a new sampler, skips three batches, but forgets set_epoch(1). What becomes of the epoch's samples?",
    {
        "each is seen once: what does the order matter": lambda out: set(times_seen(out, "forgot")) == {1},
        "none is seen twice, some are never seen": lambda out: set(times_seen(out, "forgot")) == {0, 1},
        "some are seen twice, others never": lambda out: set(times_seen(out, "forgot")) == {0, 1, 2},
    },
)

# %%
# %%ranks --predicted --as out
forty = TensorDataset(torch.arange(40))
sampler = DistributedSampler(forty)
sampler.set_epoch(1)
trained = list(sampler)[:6]  # three batches of two, and the job dies

sampler = DistributedSampler(forty)  # in the new job
forgot = trained + list(sampler)[6:]
sampler.set_epoch(1)
restarted = trained + list(sampler)
resumed = trained + list(sampler)[6:]

# %%
ways = {
    "restarted": "epoch 1 again",
    "forgot": "skip 3 batches,\nno set_epoch",
    "resumed": "set_epoch(1),\nskip 3 batches",
}
grid = [times_seen(out, name) for name in ways]
_, axes = plt.subplots(figsize=(7, 2.2), layout="constrained")
axes.imshow(grid, cmap="Blues", vmin=0, vmax=2.5, aspect="auto")
for row, counts in enumerate(grid):
    for sample, count in enumerate(counts):
        if count != 1:
            color = "white" if count else "black"
            axes.text(sample, row, count, ha="center", va="center", fontsize=8, color=color)
axes.set_yticks(range(3), ways.values())
axes.set(title="Only one way sees every sample once (2: twice, 0: never)", xlabel="sample")
plt.show()

# %% [markdown]
# The order is a function of seed and epoch. With the same seed, two numbers in the checkpoint bring it back: the epoch,
# and how far it had come. Call `set_epoch` first, *then* skip.
#
# Skipping with `itertools.islice(loader, 3, None)` is right, but loads all that it throws away. Skip indices instead:


# %%
# %%ranks
class Counting(TensorDataset):
    loads = 0

    def __getitem__(self, index):
        self.loads += 1
        return super().__getitem__(index)


class From(DistributedSampler):
    """Leaves out, once, the first `seen` samples of this rank."""

    seen = 0

    def __iter__(self):
        rest = itertools.islice(super().__iter__(), self.seen, None)
        self.seen = 0  # the next epoch is a whole one
        return rest


slow = Counting(torch.arange(40))
sampler = DistributedSampler(slow)
sampler.set_epoch(1)
loader = itertools.islice(DataLoader(slow, batch_size=2, sampler=sampler), 3, None)
late = [index for (batch,) in loader for index in batch.tolist()]

quick = Counting(torch.arange(40))
sampler = From(quick)
sampler.set_epoch(1)
sampler.seen = 6
loader = DataLoader(quick, batch_size=2, sampler=sampler)
early = [index for (batch,) in loader for index in batch.tolist()]
print("the same samples:", early == late, "- samples loaded:", slow.loads, "and", quick.loads)

# %% [markdown]
# Let the training loop count what is done, not the sampler. With workers, the loader asks ahead:

# %%
# %%ranks --only 0
given = []


class Noting(DistributedSampler):
    def __iter__(self):
        for index in super().__iter__():
            given.append(index)
            yield index


ahead = iter(DataLoader(forty, batch_size=2, num_workers=1, sampler=Noting(forty)))
next(ahead)
print("trained on 2 samples, the sampler has given out", len(given))
del ahead

# %% [markdown]
# A checkpoint with the sampler's own count would lose what was under way. And can the job resume on *two* ranks? All ranks
# deal from one deck, card by card, so what is done is the beginning of the deck:

# %%
# %%ranks
deck = DistributedSampler(forty, num_replicas=1, rank=0)
deck.set_epoch(1)
deck = list(deck)
done = [None] * 4
dist.all_gather_object(done, trained)
print("done is the first 24 of the deck:", set(itertools.chain(*done)) == set(deck[:24]))

rest = []
for r in range(2):
    sampler = DistributedSampler(forty, num_replicas=2, rank=r)
    sampler.set_epoch(1)
    rest += list(sampler)[24 // 2 :]
print("two ranks that skip 12 each do the rest:", sorted(rest) == sorted(deck[24:]))

# %% [markdown]
# So save the number of samples that *all ranks together* have done, and divide it by the number of ranks that resume (if it
# divides).
#
# The random generators are the other thing that must not begin again: seeded as at the start, the new job draws the old
# masks and pushes once more. Save their state too, but that of *every* rank:

# %%
# %%ranks
torch.manual_seed(1000 + rank)
mine = torch.get_rng_state()
rank_0s = mine.clone()
dist.broadcast(rank_0s, src=0)  # a checkpoint that rank 0 has written alone

torch.set_rng_state(rank_0s)
print("rank 0's state on all: equal masks?", equal_everywhere(drop(torch.ones(8))))
torch.set_rng_state(mine)
print("each its own:           equal masks?", equal_everywhere(drop(torch.ones(8))))

# %% [markdown]
# `StatefulDataLoader` of the package torchdata (not needed here) is a loader with a `state_dict()`; it also collects the
# states of its workers, but not those of other ranks. A stream has to find its place again by itself, with as many ranks and
# workers as before: they decided who reads what. What else a checkpoint needs is lesson 14.
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
# > counts. Random numbers inside the step: one seed per rank. Streams: split by ranks *times* workers, and let all stop
# > together. Resuming: `set_epoch`, then skip, and every rank's own random state.
#
# ## Your turn
#
# Five tasks wait in [exercises/03_samplers](../exercises/03_samplers.ipynb). Your answers run on 1 to 4 real ranks and are
# judged by what they do.
#
# ## Further reading
#
# - `torch/utils/data/distributed.py`: the whole sampler, one short class.
# - PyTorch, `torch.utils.data` in the API reference: samplers, `DataLoader`, worker seeds.
#
# **Back to:** the [index](index.ipynb).
