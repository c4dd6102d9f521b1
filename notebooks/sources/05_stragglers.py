# %% [markdown]
# # 05 · When ranks run at different speeds
#
# > *“One of my GPUs is slower than the others. Does DDP wait for it, or go on without its gradient? And can I make the
# > others wait less?”*
#
# In this lesson you make ranks late on purpose, for one step or for all of them, and look at what the others do meanwhile and
# which gradient they get. Then you can say at which speed a job with 64 ranks runs: the average rank's, or another one.
#
# **You will be able to** see who waits for whom, say what many ranks cost before you rent them, synchronise less often
# without training another model, cope with ranks that have different numbers of batches or samples, and read a timeout. 40
# minutes.
#
# **Before this:** lessons 00 and 04.
#
# A word on honesty. This notebook runs four ranks, perhaps on two cores. To make a rank slow, it *sleeps*: a rank that
# sleeps needs no core, so it does not slow down the others, and the delay is the one that was asked for. Times go into
# figures only, for yours will differ.

# %%
# %load_ext course_lib

# %% [markdown]
# ## Who waits, and where
#
# Three steps on four ranks. `course_lib.faults` makes rank 2 oversleep by 0.3 s, once: before its third forward.
#
# The loss is scaled so that one gradient can be read like a ballot paper: on its own, rank *r* would have *r* + 1 in the
# last bias. The mean of all four is 2.5. Without rank 2 it would be 2.33, with zeros in its place 1.75.


# %%
def three_steps():
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    layers = [torch.nn.Linear(256, 256) for _ in range(4)]
    ddp = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001)
    for _ in range(3):
        optimizer.zero_grad()
        outputs = ddp(torch.ones(128, 256))
        loss = (dist.get_rank() + 1) * outputs.sum(1).mean()
        loss.backward()
        optimizer.step()
    return round(ddp.module[-1].bias.grad[0].item(), 3)


from course_lib.lab.stragglers import waited

p = predict(
    "Rank 2 begins its third forward 0.3 s late. What do the other three do?",
    {
        "they wait in backward() until its gradients are there": lambda out: (
            set(out.values.values()) == {2.5} and min(waited(out, rank) for rank in (0, 1, 3)) > 0.1
        ),
        "they go on: a gradient that comes too late is left out": lambda out: out.values[0] < 2.4,
        "they step, and wait at the beginning of the next forward": lambda out: (
            out.values[0] == 2.5 and max(waited(out, rank) for rank in (0, 1, 3)) < 0.1
        ),
    },
)

# %% claims={"36": "holds"}
from course_lib.faults import delay

late = delay(rank=2, seconds=0.3, at="forward", nth=3)
out = run(three_steps, ranks=4, faults=[late], trace=True, expect="predicted")

# %% [markdown]
# 2.5 on every rank: nobody's gradient is thrown away or replaced. “The faster ranks wait for the slower ones”, the forums
# say, and the traced run shows it:

# %% claims={"35": "holds"}
assert set(out.values.values()) == {2.5}
fast = [waited(out, rank) for rank in (0, 1, 3)]
print("ranks 0, 1 and 3 waited longer than rank 2:", min(fast) > waited(out, 2))
assert min(fast) > waited(out, 2)

# %%
from course_lib.lab.stragglers import draw_last_step

draw_last_step(out, "Rank 2 sleeps; the other three wait at the end of backward()")

# %% [markdown]
# Watch it again: all three steps, with the mouse or with the arrow keys. Below the lanes you read what each rank does at that
# moment, and whom it waits for. (`out.replay()` works for every traced run.)

# %% tags=["nbval-ignore-output"]
out.replay("Three steps; rank 2 is late for the third")

# %% [markdown]
# The fast ranks compute forward and backward at full speed. They wait at the *end* of `backward()`, where
# `Reducer::finalize_backward` (`torch/csrc/distributed/c10d/reducer.cpp`) waits for every bucket's all-reduce, and an
# all-reduce cannot be done before the last rank has joined.
#
# So the slow rank looks *busy* and the healthy ones look *slow in communication*. A profile of one rank that says “60 % of
# the time in all-reduce” does not tell you that the network is slow. The rank that waits least is the one to look at.
#
# > **On GPUs.** With NCCL the program runs ahead, and it is the GPU that waits, just as long. Python's clock does not
# > see it: hooks run when work is *enqueued*, and `backward()` returns before the GPU is through. Look at the
# > all-reduce kernels in a trace of `torch.profiler` instead: the rank whose kernels are the *shortest* is the slow
# > one. DDP has measured with CUDA events, too: `ddp._get_ddp_logging_data()["avg_backward_comm_time"]`, a prototype
# > interface. (Read in `reducer_cuda.cpp` and `torch/nn/parallel/distributed.py`, not run here.)
#
# ## Does it even out?
#
# Suppose no rank is really slow. Each is late now and then: a garbage collection, a long sentence, a file that is not
# cached. In the next run each of eight steps has one late rank, by turns. Everyone is late twice, 20 ms each time.

# %%
p = predict(
    "Eight steps; in each, another rank is 20 ms late. Every rank loses 40 ms in all. What does the gang lose?",
    {
        "40 ms: all are equally fast, it evens out": lambda out: out["one_by_one"][0] < 0.16,
        "160 ms: every delay is everybody's": lambda out: out["one_by_one"][0] >= 0.16,
    },
)

# %%
# %%ranks 4 --predicted --as out
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, world = dist.get_rank(), dist.get_world_size()
small = DistributedDataParallel(torch.nn.Linear(8, 8))


def seconds_for(is_late, sync_every=1, steps=8):
    """Train for some steps until all are through; a late rank sleeps 20 ms before its forward."""
    dist.barrier()
    begin = time.perf_counter()
    for step in range(steps):
        with nullcontext() if (step + 1) % sync_every == 0 else small.no_sync():
            if is_late(step):
                time.sleep(0.02)
            small(torch.ones(2, 8)).sum().backward()
    seconds = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return seconds.item()


def by_turns(step):
    return step % world == rank


seconds_for(lambda step: False)  # the first steps are slower, for other reasons
one_by_one = seconds_for(by_turns)
print("at least 8 times 20 ms:", one_by_one >= 8 * 0.02)

# %% [markdown]
# A step is over when its *slowest* rank is through. What is averaged is gradients. Times are not averaged, they are
# *maximised*, in every step anew: the gang pays the sum of the maxima, not the maximum of the sums. So a job with 64 ranks runs
# at the speed of whoever is slowest *in this step*.
#
# ## What many ranks cost
#
# Now with chance. Two kinds of ranks, with the same mean: the *steady* ones take 2 to 6 ms for a step, evenly spread. The
# others take 3 ms, but in one step of thirty a *hiccup* of 30 ms more. Both need 4 ms on average.
#
# Run it on single ranks, on pairs and on all four. Each rank notes how long *it* needed, and how long until the step was over
# for its group, after an all-reduce. Every step is done twice and the shorter time counts, so that what else this machine is
# doing stays out of the figure.


# %%
# %%ranks --as jobs
import random

chance = random.Random(20 + rank)
kinds = {
    "steady": lambda: chance.uniform(0.002, 0.006),
    "hiccups": lambda: 0.003 + 0.030 * (chance.random() < 1 / 30),
}


def once(pause, group):
    dist.barrier(group)
    begin = time.perf_counter()
    time.sleep(pause)
    own = time.perf_counter() - begin
    dist.all_reduce(torch.zeros(8), group=group)
    return own, time.perf_counter() - begin


def step(pause, group):
    return tuple(map(min, zip(*(once(pause, group) for _ in range(2)), strict=True)))


times = {}
for size in (1, 2, 4):
    group, _ = dist.new_subgroups(group_size=size)
    for kind, draw_pause in kinds.items():
        times[kind, size] = [step(draw_pause(), group) for _ in range(20)]

# %% [markdown]
# From the times that single ranks needed you can tell how long *n* ranks wait for the slowest of them, without having them.
# Put all *N* measured times in order. Draw *n* of them, with replacement: the chance that none is beyond the *i*-th is
# (*i*/*N*)ⁿ. That gives the expected maximum of such draws. The all-reduce itself comes on top:


# %%
import matplotlib.pyplot as plt


def expected_maximum(times, n):
    """The mean of the largest of n times, drawn from these."""
    ordered, total = sorted(times), len(times)
    return sum(t * ((i / total) ** n - ((i - 1) / total) ** n) for i, t in enumerate(ordered, 1))


figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
at_64 = {}
for kind, line, marker, colour in (("steady", "-", "o", "#0072B2"), ("hiccups", "--", "s", "#D55E00")):
    found = {size: [jobs["times"][r][kind, size] for r in range(4)] for size in (1, 2, 4)}
    times = [1e3 * own for ranks in found.values() for steps in ranks for own, _ in steps]
    sizes = [2**k for k in range(11)]
    mean = sum(times) / len(times)
    axes.plot(
        sizes,
        [expected_maximum(times, n) for n in sizes],
        line,
        color=colour,
        label=f"{kind}: {mean:.1f} ms a rank on average",
    )
    for size, ranks in found.items():
        groups = [zip(*ranks[first : first + size], strict=True) for first in range(0, 4, size)]
        steps = [[max(column) for column in zip(*step, strict=True)] for group in groups for step in group]
        slowest, over = (1e3 * sum(column) / len(steps) for column in zip(*steps, strict=True))
        axes.plot(size, slowest, marker, color=colour, markersize=8)
        axes.plot(size, over, marker, color=colour, markersize=8, markerfacecolor="none")
    at_64[kind] = expected_maximum(times, 64)
axes.plot([], [], "ks", label="really run: the slowest rank")
axes.plot([], [], "ks", markerfacecolor="none", label="... and the all-reduce")
axes.set_xscale("log", base=2)
axes.set_xticks(sizes, sizes)
axes.set(
    title=f"Like means, unlike tails: of 64 ranks the slowest needs {at_64['steady']:.0f} or {at_64['hiccups']:.0f} ms",
    xlabel="ranks",
    ylabel="expected time of the slowest rank (ms)",
    ylim=(0, None),
)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# What you pay for is the *tail*. The steady ranks can never be worse than their slowest time, and that is near. For the
# others, one rank in thirty hiccups in a given step; among 64 ranks somebody nearly always does:

# %%
for n in (1, 4, 16, 64, 256):
    print(f"{n:4} ranks: a step without any hiccup has a chance of {(29 / 30) ** n:6.1%}")

# %% [markdown]
# Three warnings about such curves. They end at the largest time you have *measured*: rarer disasters than yours are not
# in them, so measure long. They assume that ranks are late independently of each other; ranks that share a file server
# are not. And they say nothing of communication: a real step (hollow) also pays for its all-reduce, here with four
# processes on few cores, elsewhere with a network.
#
# This is why a job that scales well to 8 ranks may not scale to 64 on the same hardware with the same network.
#
# ## Synchronise less often
#
# You will read: use `no_sync()` and synchronise only every *n* batches. Inside it, DDP's backward only adds to `.grad`; the
# first forward and backward outside reduce what has piled up. Four batches a rank, one reduction:


# %% claims={"39": "holds"}
# %%ranks --as out
def batch(number, of_rank):
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(100 * number + of_rank))


def loss_of(model, inputs):
    return model(inputs).square().mean()


torch.manual_seed(0)
ddp = DistributedDataParallel(torch.nn.Linear(6, 3))
for number in range(4):
    with nullcontext() if number == 3 else ddp.no_sync():
        (loss_of(ddp, batch(number, rank)) / 4).backward()
got = ddp.module.weight.grad.clone()

ddp.zero_grad()
everything = torch.cat([batch(number, r) for number in range(4) for r in range(world)])
loss_of(ddp.module, everything).backward()
right = ddp.module.weight.grad
print("the gradient of all 16 batches at once:", torch.allclose(got, right, atol=1e-6))

# %%
reductions = [sent for sent in out.collectives[0] if sent.stage == "gradients"]
print(len(reductions), "all-reduce of gradients in 4 backwards")
assert len(reductions) == 1

# %% [markdown]
# Exact, and a quarter of the reductions. But what has to stand inside of the block?

# %%
p = predict(
    "The forward stands before `with ddp.no_sync():`, only backward() stands in it. What is in .grad on rank 0?",
    {
        "1, its own: backward() is inside": lambda out: out["inside"][0] == 1.0,
        "2.5, the mean over all: it is synchronised all the same": lambda out: out["inside"][0] == 2.5,
    },
)

# %%
# %%ranks --predicted --as out
toy = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
mine = torch.full((1, 1), rank + 1.0)  # on its own, rank r has a gradient of r + 1

loss = toy(mine).sum()
with toy.no_sync():
    loss.backward()
inside = toy.module.weight.grad.item()
print("backward inside, forward before:", inside)

toy.zero_grad()
with toy.no_sync():
    loss = toy(mine).sum()
loss.backward()
print("forward inside, backward after: ", toy.module.weight.grad.item())

# %% [markdown]
# The *forward* decides. `no_sync()` only flips `require_backward_grad_sync`, and it is `_post_forward` that reads it
# and readies the reducer (`prepare_for_backward`; all in `torch/nn/parallel/distributed.py`). By the time of
# `backward()`, it has been settled.
#
# Does it help against stragglers? That depends on which kind. First chance: in each of 16 steps, each rank is 20 ms late with a
# probability of 1/4. Then 16 steps in which it is always rank 2 that is late:

# %%
# %%ranks --as out
dice = random.Random(10)  # the same on all ranks: everybody knows who is late, and when
late = {
    "late by chance": [[dice.random() < 1 / 4 for _ in range(16)] for _ in range(world)],
    "rank 2 is always late": [[r == 2] * 16 for r in range(world)],
}
took = {
    (who, every): min(seconds_for(steps_of[rank].__getitem__, every, steps=16) for _ in range(2))
    for who, steps_of in late.items()
    for every in (1, 4)
}
by_chance, always = ([took[who, every] for every in (1, 4)] for who in late)
print("by chance:     faster with every 4th reduction:", by_chance[1] < by_chance[0])
print("always rank 2: still at least 16 times 20 ms:  ", always[1] >= 16 * 0.02)


# %%
def slept(steps_of, every):
    """Milliseconds: the longest sleep of a rank between two reductions, summed up."""
    return 20 * sum(max(sum(late[s : s + every]) for late in steps_of) for s in range(0, 16, every))


figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
whose = list(out["late"][0])
for number, (every, colour, hatch) in enumerate(((1, "#0072B2", ""), (4, "#E69F00", "///"))):
    found = [1e3 * out["took"][0][who, every] for who in whose]
    places = [row + 0.36 * number for row in range(len(whose))]
    label = "reduced in every step" if every == 1 else "reduced in every 4th step"
    axes.barh(places, found, height=0.34, color=colour, hatch=hatch, edgecolor="black", label=label)
    for place, milliseconds, who in zip(places, found, whose, strict=True):
        axes.text(milliseconds + 5, place, f"{milliseconds:.0f} ms", va="center", fontsize=9)
        axes.plot([slept(out["late"][0][who], every)] * 2, [place - 0.17, place + 0.17], "k", linewidth=3)
axes.plot([], [], "k", linewidth=3, label="of which sleep")
axes.set_yticks([row + 0.18 for row in range(len(whose))], whose)
axes.set(
    title="Fewer reductions even out some chance, but no slow rank",
    xlabel="milliseconds for 16 steps",
    ylim=(1.7, -0.3),
)
axes.set_xlim(0, 1.15 * max(1e3 * t for t in out["took"][0].values()))
figure.legend(fontsize=8, ncols=3, loc="outside lower center", frameon=False)
plt.show()

# %% [markdown]
# Between two reductions nobody waits, so a rank's good and bad luck add up before anybody compares, and *some* of it evens out.
# How much? The gang now pays the largest of four sums, and that can be computed:

# %%
from math import comb


def expected_delay(every, ranks=4, chance=1 / 4):
    """Milliseconds lost per step: the largest of the ranks' numbers of late steps, between two reductions."""
    odds = [comb(every, n) * chance**n * (1 - chance) ** (every - n) for n in range(every + 1)]
    more = [1 - sum(odds[: n + 1]) ** ranks for n in range(every)]  # somebody is late more than n times
    return 20 * sum(more) / every


for every in (1, 4, 16, 64):
    print(f"reduced every {every:2} steps: {expected_delay(every):4.1f} ms lost per step")

# %% [markdown]
# The 5 ms that each rank is late on average remain, however seldom you reduce, and what is on top of them shrinks slowly. (By
# turns, as in the run before, all of that would even out. But turns are a schedule, not chance.)
#
# A rank that is always slow adds up as well, to the same delay as before (the black marks; what the bar has lost is
# the price of twelve all-reduces). For that one there are only plain remedies: find out why (heat, a busy neighbour,
# a slow disk, longer samples), give it less work, or leave it out.
#
# And the price: four batches a rank now make *one* step of the optimizer. That is a batch four times as large, with all
# that it means for the learning rate. Lesson 10 has the details of accumulation.
#
# How often is often enough? A round is *k* steps and one reduction, so the share of the reductions is one of both together: round
# *k* up, or they take more. Four traps lie in the measurements. The first step of a run takes many times longer, which spoils a
# mean. The step of the gang is that of its slowest rank. What a fast rank measures as reduction is mostly waiting, and that stays.
# And all ranks need the same *k*: where each decides from its own measurements, one reduces while another goes on, and waits for
# ever. Nor is rank 0's decision good for all, unless it happens to be the slowest rank.
#
# ## “Make a smaller group, then they synchronise less often”
#
# `new_group` is the other advice. A group says *who* takes part, not *how often*: DDP in two groups of two trains two models,
# as lesson 02 has shown. Here they are again, beside what the advice wants:

# %% claims={"40": "incomplete"}
# %%ranks --as out
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

pair, _ = dist.new_subgroups(group_size=2)  # ranks 0 and 1, ranks 2 and 3


def spreads(model, average=lambda: None, steps=16):
    """Train on other data on each rank; how far weights are apart within a pair, and between pairs, after each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, batch(step, rank) + rank).backward()
        optimizer.step()
        average()
        mine = model.module.weight.detach()
        all_ranks = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(all_ranks, mine)
        apart = [(all_ranks[a] - all_ranks[b]).abs().max().item() for a, b in ((0, 1), (0, 2))]
        found.append(apart)
    return found


torch.manual_seed(0)
two_pairs = DistributedDataParallel(torch.nn.Linear(6, 3), process_group=pair)
pairs_only = spreads(two_pairs)

torch.manual_seed(0)
local = DistributedDataParallel(torch.nn.Linear(6, 3))
local.register_comm_hook(PostLocalSGDState(None, pair, start_localSGD_iter=4), post_localSGD_hook)
averager = PeriodicModelAverager(period=4, warmup_steps=4)
averaged = spreads(local, average=lambda: averager.average_parameters(local.parameters()))

print("groups of two:        equal within a pair:", all(within == 0 for within, _ in pairs_only))
print("                      pairs ever equal:   ", any(between == 0 for _, between in pairs_only))
print(
    "with model averaging: pairs equal after steps",
    [n for n, (_, between) in enumerate(averaged) if between == 0],
)

# %%
_, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for name, line, colour in (("pairs_only", "s--", "#D55E00"), ("averaged", "o-", "#0072B2")):
    label = {
        "pairs_only": "new_group alone",
        "averaged": "reduced in pairs, weights averaged every 4th step",
    }[name]
    axes.plot([between for _, between in out[name][0]], line, color=colour, label=label)
axes.set_xticks(range(0, 16, 2))
axes.set(
    title="Two groups are two models, unless somebody brings them together",
    xlabel="step",
    ylabel="largest difference\nbetween the pairs' weights",
)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# What the advice wants is **local SGD**. Two parts of PyTorch make it: `post_localSGD_hook` reduces gradients among all
# in the first steps and only inside the small group later; `PeriodicModelAverager` averages the *weights* over all
# ranks, here every fourth step (`torch/distributed/algorithms/`). The pair, on one machine, is reduced in every step;
# the slow link between machines is used once in four. In between there are two models, so it is not the training you
# would have had without it. How long they may stay apart is the **staleness** you allow.
#
# ## A rank runs out of batches
#
# Lesson 03 showed a hang: some ranks had a batch fewer. `ddp.join()` is PyTorch's answer: a rank that leaves the
# block early stays behind as a *shadow*, and the others go on. Rank *r* has *r* + 1 batches here, and every batch gives a
# gradient of exactly 1.

# %%
p = predict(
    "In the fourth round only rank 3 is left. Its batch has a gradient of 1. What is in .grad after backward()?",
    {
        "1: it is alone": lambda out: out["default"][3][3] == 1.0,
        "0.25: three zeros take part in the mean": lambda out: out["default"][3][3] == 0.25,
        "nothing: backward() waits for the three that are gone": "hang",
    },
)

# %%
# %%ranks --predicted --as out


def rounds(**options):
    """The gradients of this rank's rounds; the model and its optimizer."""
    torch.manual_seed(0)
    ddp = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    gradients = []
    with ddp.join(**options):
        for _ in range(rank + 1):
            optimizer.zero_grad()
            ddp(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            gradients.append(round(ddp.module.weight.grad.item(), 2))
    return gradients, ddp, optimizer


default, joined, joined_optimizer = rounds()
by_those_left, _, _ = rounds(divide_by_initial_world_size=False)
print("default:", default, " divide_by_initial_world_size=False:", by_those_left)

# %%
figure, both = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained", sharey=True)
titles = {"default": "default", "by_those_left": "divide_by_initial_world_size=False"}
for axes, (name, title) in zip(both, titles.items(), strict=True):
    longest = out[name][3]  # rank 3 takes part in all rounds
    for number, gradient in enumerate(longest):
        left = [r for r in range(4) if len(out[name][r]) > number]
        for r in left:
            weight = gradient / len(left)
            axes.barh(
                r, 0.9, left=number - 0.45, height=0.8, color=plt.cm.Blues(0.8 * weight), edgecolor="black"
            )
            axes.text(
                number,
                r,
                f"{weight:.2f}",
                ha="center",
                va="center",
                color="white" if weight > 0.7 else "black",
            )
    axes.set_yticks(range(4), [f"rank {r}" for r in range(4)])
    axes.set_xticks(range(4))
    axes.set(xlabel="round", xlim=(-0.6, 3.6), ylim=(3.6, -0.6), title=title)
    axes.title.set_fontsize(9)
figure.suptitle("What a batch weighs: always 1/4, or more the fewer are left")
plt.show()

# %% [markdown]
# A shadow joins every all-reduce with zeros. By default every batch weighs the same in the whole epoch, and the last steps are
# *small* ones. Divided by those who
# are left, the last steps are full ones, made from fewer data. Neither is an error; know which one you have.
#
# At the end of the block the last rank's weights are sent to all (`_sync_final_model`, `distributed.py`). The weights, yes:

# %%
# %%ranks
from course_lib.watch import compare

compare(model=joined, optimizer=joined_optimizer)

# %% [markdown]
# (The gradients are left over from each rank's last round.) A shadow takes no steps, so its optimizer knows nothing of
# the rounds it has missed. From the next step on, momentum makes different models of equal weights, and nothing says
# so. With an optimizer that has a memory (momentum, Adam), broadcast its state after every joined epoch, or give all
# ranks the same number of batches in the first place: padding with `DistributedSampler` is cheap.
#
# `throw_on_early_termination=True` is the strict way: when one rank runs out, all stop at the same step.

# %%
# %%ranks --expect raises:RuntimeError
with joined.join(throw_on_early_termination=True):
    for _ in range(rank + 1):
        joined(torch.ones(1, 1)).sum().backward()

# %% [markdown]
# And `join()` shadows DDP's collectives, not yours. An `all_reduce` of the loss in that loop, just for the log, meets
# something else on a rank that is through:

# %%
# %%ranks 2 --expect died
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, world = dist.get_rank(), dist.get_world_size()
ddp = DistributedDataParallel(torch.nn.Linear(4, 4))
with ddp.join():
    for _ in range(3 + rank):
        loss = ddp(torch.ones(2, 4)).square().mean()
        loss.backward()
        for_the_log = loss.detach().reshape(1).clone()
        dist.all_reduce(for_the_log)

# %% [markdown]
# ## A rank has fewer samples
#
# Equal numbers of batches, but the last one is short on one rank. “Uneven data make the ranks' models diverge”, you will
# read. Here rank 0 has 8 samples, and rank 1 has fewer.

# %%
p = predict(
    "Samples 8 and 2; each rank takes the mean loss of its own. After backward(), the gradient is",
    {
        "another one on each rank: the models diverge": lambda out: not out["same"][0],
        "the same on all ranks, and right": lambda out: out["same"][0] and out["errors"][0][2][0] < 0.01,
        "the same on all ranks, and wrong": lambda out: out["same"][0] and out["errors"][0][2][0] > 0.01,
    },
)

# %% claims={"29": "incomplete"}
# %%ranks 2 --predicted --as out
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.watch import compare

rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
ddp = DistributedDataParallel(torch.nn.Linear(6, 3))


def samples(of_rank, short):
    size = short if of_rank == 1 else 8
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(of_rank))[:size] + of_rank


def gradient(model, inputs, scale=1.0):
    model.zero_grad()
    (scale * model(inputs).square().mean()).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


errors, same = {}, True
for short in range(1, 9):
    mine = samples(rank, short)
    right = gradient(ddp.module, torch.cat([samples(r, short) for r in range(world)]))
    mean_of_means = gradient(ddp, mine)
    same &= compare(ddp).equal

    total = torch.tensor(float(len(mine)))
    dist.all_reduce(total)
    weighted = gradient(ddp, mine, scale=len(mine) * world / total.item())
    errors[short] = [((g - right).norm() / right.norm()).item() for g in (mean_of_means, weighted)]

print("equal on all ranks, always:", same)
print("with 2 samples on rank 1: mean of means {:.0%} off, weighted {:.0%}".format(*errors[2]))

# %%
assert out["same"][0]
assert out["errors"][0][2][0] > 0.05 > 1e-5 > out["errors"][0][2][1]
_, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for number, (label, line, colour) in enumerate(
    (
        ("each rank's mean, averaged by DDP", "s--", "#D55E00"),
        ("loss × own samples × ranks / all samples", "o-", "#0072B2"),
    )
):
    axes.plot(
        range(1, 9), [100 * out["errors"][0][n][number] for n in range(1, 9)], line, color=colour, label=label
    )
axes.set(
    title="The shorter the short batch, the louder each of its samples",
    xlabel="samples on rank 1 (8 on rank 0)",
    ylabel="gradient is off by (%)",
)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# Nothing diverges: all ranks get the same gradient and stay equal. It is the gradient of another problem. DDP averages
# over *ranks* (`Reducer::mark_variable_ready_dense` divides by their number, whatever they had), so a sample in a batch
# of 2 weighs four times as much as one in a batch of 8. Once in an epoch this rarely matters. With sentences of
# different lengths, and a loss that is a mean over *tokens*, it is every step.
#
# The repair is to multiply the loss by *own samples × ranks ÷ all samples*, for one tiny all-reduce. The factor is 1
# where all have the same number. It is exact where each sample has a loss of its own; where samples meet (BatchNorm, a
# contrastive loss), no factor makes two half batches one (lesson 07). The loss you log is weighted in the same way: add up
# sums and counts, as in lesson 03, and divide once.
#
# ## When waiting becomes an error
#
# Nobody waits for ever. Every process group has a timeout: 30 minutes with gloo, 10 with NCCL (`kProcessGroupDefaultTimeout`,
# `kProcessGroupNCCLDefaultTimeout` in the headers that come with torch). A limit on what: on one wait, or on a whole step?
# Here, with gloo, it is 0.6 seconds, and rank 1 is late four times.

# %%
p = predict(
    "timeout=0.6 s. Rank 1 comes 0.2 s late to each of four all-reduces. Rank 0 waits 0.8 s in all. Then?",
    {
        "rank 0 raises: it has waited for more than 0.6 s": "raises",
        "nothing: the clock starts anew in each wait": "ok",
    },
)

# %% claims={"61": "wrong"}
# %%ranks --predicted
impatient = dist.new_group(timeout=timedelta(seconds=0.6))
dist.barrier()
begin, x = time.perf_counter(), torch.ones(1)
for _ in range(4):
    if rank == 1:
        time.sleep(0.2)
    dist.all_reduce(x, group=impatient)
print(x.item(), "- longer than the timeout:", time.perf_counter() - begin > 0.6)

# %% [markdown]
# The timeout is for *one wait*, not for a step or an epoch. A rank that is a little late in every step never trips it,
# however much time that costs. Now one delay that is longer, and a look at what each of the two has to say about it:

# %%
# %%ranks --as out
if rank == 1:
    dist.recv(torch.empty(1), src=0)  # comes when rank 0 has given up
try:
    dist.all_reduce(x, group=impatient)
    said = "nothing"
except RuntimeError as error:
    said = str(error)
if rank == 0:
    dist.send(torch.ones(1), dst=1)

# %%
for rank in (0, 1):
    print(
        f"rank {rank}:",
        next(words for words in ("Timed out waiting", "Connection") if words in out["said"][rank]),
        "...",
    )

# %% [markdown]
# Rank 0 had waited long enough and closed its connections. Rank 1, which was only late, then found nobody there; its
# full message talks of a “remote worker crashing”. Nothing has crashed. The *first* error in time is the true one, and
# the rank it waited for is the one to look at. This group is now useless: what failed in it cannot be called again
# (lesson 11).
#
# > **On GPUs.** With NCCL nothing is raised in your program, by default. A watchdog thread counts from the moment at
# > which a collective is *enqueued*, and then ends the process: of a rank that waited, not of the one that is late
# > ([lesson 13](13_debugging.ipynb)). Its log says “Watchdog caught collective operation timeout”. (Read in
# > `ProcessGroupNCCL.cpp`, not run here.)
#
# If you only want to *know* whether somebody is late, do not let the group time out: ask the work. `is_completed()` does not
# wait, and harms nothing. Here rank 1 does not come before rank 0 has given up:

# %%
# %%ranks
y = torch.ones(1)
if rank == 1:
    dist.recv(torch.empty(1), src=0)
work = dist.all_reduce(y, async_op=True)
if rank == 0:
    patience = time.perf_counter() + 0.1
    while not work.is_completed() and time.perf_counter() < patience:
        time.sleep(0.01)
    print("Done:", work.is_completed())
    try:
        work.wait(timedelta(seconds=0.1))
    except RuntimeError as error:
        print(error)
    dist.send(torch.ones(1), dst=1)
work.wait()
print(y.item())

# %% [markdown]
# `wait(timeout)`, the second attempt, gives up waiting and not the all-reduce: it was done in the end. But only with gloo.
#
# > **On GPUs.** With NCCL a `wait(timeout)` that runs out *aborts* the group's communicators before it raises
# > (`WorkNCCL::wait`, `ProcessGroupNCCL.cpp`; read, not run here): the question whether somebody is late ends the
# > group. Poll `is_completed()`, or ask with `monitored_barrier` in a gloo group.

# %% [markdown]
# ## What goes wrong in real life
#
# - **“All-reduce takes 60 % of the time, I need a faster network.”** Perhaps. First find the rank with the *least* time in
#   all-reduce. If there is one, and always the same, it is a slow rank, not a slow network.
# - **The timeout strikes at the end of an epoch.** Rank 0 evaluates or writes a checkpoint for longer than the timeout,
#   and the others wait in their next step. Raise the timeout (`init_process_group(timeout=...)`; a `new_group` wants
#   its own), or share the work.
# - **Slower with every hour.** A straggler by heat or memory pressure. Log the *waiting* of each rank, not only the
#   step time, which is the same for all. The first task is to measure it, with gloo; on GPUs, by the means in the box above.
# - **“It hangs.”** Or is it slow? The course's doctor tells the two apart. This cell gets half a second, and rank 1
#   wants more:

# %%
# %%ranks --timeout 0.5 --expect hang
if rank == 1:
    time.sleep(60)
dist.barrier()

# %% [markdown]
# ## Rule of thumb
#
# > The gang is as fast as its slowest rank of the moment, so cut the tail before you add ranks. `no_sync()` around
# > forward *and* backward evens out some of the chance, nothing of a slow machine. Deal out the same number of batches; where sizes
# > differ, weight by samples. A timeout limits one wait; set it above your longest honest pause.
#
# ## Your turn
#
# Three tasks wait in [exercises/05_stragglers](../exercises/05_stragglers.ipynb): measure who waits and how long, train
# an epoch with uneven batches exactly, and choose how often to synchronise.
#
# ## Further reading
#
# - `torch/distributed/algorithms/join.py`: the shadow's loop is `Join.__exit__`, forty lines.
# - PyTorch tutorial, *Distributed Training with Uneven Inputs Using the Join Context Manager*: several joinables, and
#   your own.
# - Lin et al., *Don't Use Large Mini-Batches, Use Local SGD*, ICLR 2020: what `post_localSGD_hook` implements.
# - Dean and Barroso, *The Tail at Scale*, CACM 2013: the same arithmetic, for web servers.
#
# **Back to:** the [index](index.ipynb).
