# %% [markdown]
# # 15 · Predict the scaling
#
# > *“Eight GPUs made my training 7.6 times faster. How much faster are 64?”*
#
# You cannot try 64 GPUs this afternoon. You can measure a few, find the two numbers that decide, and calculate. Then comes what a
# calculation needs to be believed: one measurement that it has not seen.
#
# **You will be able to** fit latency and bandwidth, and predict ranks that you do not have; tell rounds from bytes; say what changes
# where a second machine begins; tell weak from strong scaling; and read the numbers that others publish. 30 minutes.
#
# **Before this:** lessons 04 and 05.

# %%
# %load_ext course_lib
from course_lib.lessons.scale.lab import draw_machines

draw_machines()

# %% [markdown]
# This machine has no such network, so here is one made of sleep. The backward of a toy model sleeps 200 ms, as your program does while
# a GPU computes. Its gradients are one bucket, so they are sent when backward is over. They go round a ring, in which each round takes
# 20 ms, and the bytes at 12.5 MiB/s come on top. (A real round takes microseconds. The *shape* of what you see is that of a cluster, its
# numbers are not.) Each rank has a batch of its own:

# %% tags=["nbval-ignore-output"]
# %%ranks 8 --as few
import torch.distributed as dist
from course_lib.lessons.scale.lab import Ring, sleepy_model
from torch.nn.parallel import DistributedDataParallel

ring, seconds = Ring(latency=0.020, bandwidth=12.5), {}
for n in (1, 2, 4, 8):
    group = dist.new_group(range(n))
    if dist.get_rank() < n:
        seconds[n] = ring.step_seconds(DistributedDataParallel(sleepy_model(), process_group=group))
    if dist.get_rank() == 0:
        print(f"n = {n}: {n * seconds[1] / seconds[n]:.1f} times as fast as one rank")

# %% [markdown]
# ## Two numbers
#
# The more ranks, the less each of them adds. Where does the rest go? In a ring ([lesson 01](01_dataparallel.ipynb)), each of
# *n* ranks sends a piece of 1/*n* to its neighbour, in 2(*n* - 1) rounds: one lap adds up, a second one tells everybody the sums. A round
# costs a **latency** that does not depend on the size, and then bytes at some **bandwidth**:
#
# > seconds = 2(*n* - 1) · latency + 2(*n* - 1)/*n* · bytes / bandwidth
#
# The first factor doubles with *n*, the second one never reaches 2. Two unknowns, three measurements (what 2, 4 and 8 ranks take longer than
# one): least squares. Divide each equation by its measured seconds, so that errors count as *parts* of what was measured. Otherwise the slowest
# run decides the fit, because its error in seconds is the largest.

# %% tags=["nbval-ignore-output"]
import numpy as np

seconds = few["seconds"][0]
longer = {n: seconds[n] - seconds[1] for n in (2, 4, 8)}
rows = [[2 * (n - 1) / t, 2 * (n - 1) / n / t] for n, t in longer.items()]
(latency, transfer), *_ = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)
print(f"latency of a round: {1e3 * latency:.0f} ms; all bytes, sent once: {1e3 * transfer:.0f} ms")

# %% [markdown]
# Put *n* = 16 into the formula, on paper: it takes a minute, and 16 real ranks check it. (`measure` is the loop of the first cell.)

# %%
p = predict("15.sixteen")

# %%
# %%ranks 16 --predicted --as many
from course_lib.lessons.scale.lab import Ring

seconds = Ring(latency=0.020, bandwidth=12.5).measure((8, 16))

# %% tags=["nbval-ignore-output"]
found = {n: seconds[1] + 2 * (n - 1) * latency + 2 * (n - 1) / n * transfer for n in (16, 64, 1024)}
print(f"16 ranks, predicted / measured: {found[16] / many['seconds'][0][16]:.2f}")
for n, step in found.items():
    print(f"{n:5} ranks: {n * seconds[1] / step:.1f} times as fast as one")

# %% [markdown]
# Two numbers from 2, 4 and 8 ranks have predicted 16. That test makes the other two lines worth reading. And they hardly differ: each
# further rank brings its computing, and two rounds more. So no number of ranks gets past computing / (2 · latency), about 5 here. (This
# network sleeps by the formula, so the formula had to fit. What the run shows is that a few steps are enough to find its two numbers.
# Whether the formula fits a network is the next question.)
#
# ## The wrong term
#
# The formula holds where each rank has a *wire of its own*, as in a cluster with a network card per GPU. Where all ranks share one wire,
# every byte of every rank waits in the same queue, and the second term is *n* times as large. Both formulas have two unknowns, and you
# can fit either to any measurements. Here both are fitted to 2, 4 and 8 ranks of three networks: two that are simulated message by
# message, and real all-reduces on this machine. Green is within a quarter:

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.scale.lab import draw_terms

draw_terms()

# %% [markdown]
# The right formula predicts 16 ranks. The wrong one misses by a factor of 2.5 to 5, fitted to the same points: from 8 to 16 ranks the bytes
# that *one* rank sends hardly grow, those of *all* ranks double. The third row is no simulation, and the title says what came of it on this machine. If
# one formula fits there, it is likely the second: 16 processes share a few cores, and a core for which all queue is like one wire. But
# nothing says that either must fit. **Extrapolating the wrong term is the common way to be wrong about scaling**, and only a measurement
# beyond the fit shows it.
#
# ## Rounds or bytes
#
# 2(*n* - 1) rounds are 2,046 on 1,024 ranks, however little is sent. Other ways have fewer. A **tree** adds up in pairs towards rank 0, and the
# sums come back the same way: 6 rounds for 8 ranks, where the ring has 14.

# %%
p = predict("15.ring_and_tree")

# %%
# %%ranks 8 --predicted --as out
import torch
from course_lib.lessons.scale.all_reduces import all_reduce_by

ways = ("ring", "tree", "halving", "double tree", "two levels")
sent = {way: all_reduce_by(way, torch.ones(2**18)) for way in ways}

# %%
from course_lib.lessons.scale.all_reduces import count

for way in out["sent"][0]:
    busiest = max(sent[way] for sent in out["sent"].values()) / 2**20
    print(f"{way:12}{count(way, 8).rounds:3} rounds; the busiest rank sends {busiest:.2f} MiB")

# %% [markdown]
# For few bytes only rounds count, and the ring loses. For many bytes it wins: the busiest rank of the tree sends the whole tensor three
# times, a rank of the ring less than twice, however many ranks there are. The other three have few rounds *and* few bytes. What that costs
# them, step through, by the buttons or the arrow keys. Each way that you choose runs on real ranks first:

# %%
from course_lib.lessons.scale.all_reduces import explore_all_reduces

explore_all_reduces()

# %% [markdown]
# *Halving* (and doubling) goes in pairs, and only half of what is left changes hands each time. But its partners are far apart, and much
# passes the border between machines. The *double tree* is two trees with half of the tensor each, in which a rank that has children in one
# is a leaf of the other. (In small pieces, one behind the other, its rounds overlap. That is not drawn.) With gloo the choice is not yours:
# PyTorch calls the one in `gloo/allreduce.cc`, a ring.
#
# > **On GPUs (NCCL).** For an all-reduce NCCL has, among others, a ring and the double tree (since 2.4; `ncclGetDtree` in its
# > `src/graph/trees.cc`), but no halving. It chooses by size and topology: on the 32 GPUs of the table below, `Tree` up to 16 MiB, `Ring` and `NVLSTree` above. So 1,024
# > ranks do not mean 2,046 rounds. `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING` says what was chosen, and `NCCL_ALGO` overrides it. (Read
# > there and in NCCL's documentation, *Environment Variables*; not run: it needs GPUs.)
#
# ## The ninth rank
#
# Eight GPUs share a machine, 64 do not. Now the network has two levels: inside a machine of eight, a round takes 2.5 ms, and bytes go at
# 100 MiB/s. Between machines there is the cable of before, with 20 ms and 12.5 MiB/s.

# %%
p = predict("15.ninth")

# %%
# %%ranks 9 --predicted
from course_lib.lessons.scale.lab import Ring

ring = Ring(latency=0.0025, bandwidth=100, cable=Ring(latency=0.020, bandwidth=12.5))
seconds = ring.measure((8, 9))

# %% [markdown]
# Fitted to 2, 4 and 8 ranks, the formula is right about eight, and says nothing of nine. **A latency and a bandwidth belong to one
# stretch of the way.** To know what 64 ranks give, measure on both sides of the border: 8 ranks, and 16.
#
# The remedy is the fifth way of the explorer, *two levels*: a reduce-scatter inside each machine, an all-reduce of the parts between ranks
# of the same number, and an all-gather inside. In milliseconds, for 100 MB on the network of the first picture:

# %%
from course_lib.lessons.scale.lab import double_tree, flat_ring, two_levels

print("ranks   flat ring   two levels   double tree")
for n in (8, 16, 64, 1024):
    flat, two, tree = (1e3 * way(1e8, n) for way in (flat_ring, two_levels, double_tree))
    print(f"{n:5}{flat:12.1f}{two:13.1f}{tree:14.1f}")

# %% [markdown]
# One ring uses one card of a machine, two levels use all eight. (NCCL gets there in another way: several rings side by side.) The toy
# exaggerates: here, too, one ring takes more than six times as long as inside a machine, but that is 4 ms, and whether you notice depends
# on how long a step computes.
#
# ## Computing against sending
#
# **Efficiency** is the speed-up divided by the number of ranks. *Weak* scaling keeps the batch of each rank: *n* ranks do *n* times the work
# in a step, so it is *T*₁ / *T*ₙ. *Strong* scaling keeps the whole batch: each rank computes less, and sends as much as ever; it is
# *T*₁ / (*n* · *T*ₙ).
#
# Until now nothing was hidden. DDP sends buckets while backward goes on ([lesson 04](04_buckets.ipynb)). The bars have no buckets, but one
# all-reduce and a slider: how much of backward, two thirds of a step, can hide it. What is not hidden makes the step longer, computed. (100 % is
# too kind: the last bucket is ready only when backward is over. Task 2 calculates with buckets.)

# %%
from course_lib.lessons.scale.lab import explore_efficiency

explore_efficiency()

# %% [markdown]
# Strong scaling has an end, which a faster network only puts off: the all-reduce stays while the work shrinks. **More GPUs
# help as long as computing takes much longer than sending.** A faster network helps, too, and a faster GPU makes it harder; a larger batch per rank or accumulation
# ([lesson 10](10_accumulation.ipynb)) makes up for it. And the question of the beginning? Eight GPUs that are 7.6 times as fast as one take
# 5 % longer for a step. It depends on what these 5 % are:

# %%
from course_lib.lessons.scale.lab import from_eight_to_64

for what, times in from_eight_to_64().items():
    print(f"if it is all {what}: 64 are {times:.0f} times as fast")

# %% [markdown]
# That holds if the network stays the same, and it does not: see the ninth rank. So measure 16.
#
# Efficiency compares with *one rank*, however slow that one is. **MFU** (model FLOPs utilisation) compares with the hardware: for a
# transformer of *N* parameters 6 · *N* · tokens per second / (GPUs · peak FLOP/s), without attention (Chowdhery et al., *PaLM*, 2022,
# appendix B). A training that waits for its data can have an efficiency of 99 % and an MFU of 10 %.
#
# ## What others have measured
#
# Tables of all-reduces have two columns. `algbw` is size / time. `busbw` is `algbw` · 2(*n* - 1)/*n*: the bandwidth of our formula where
# latency is nothing, so it can be compared with that of a wire, and between numbers of ranks. Stas Bekman's *Machine Learning
# Engineering Open Book* (`stas00/ml-engineering`, commit `0cc3de5`, `network/benchmarks/README.md` and `network/README.md`) has 32 B200 GPUs in
# four nodes, from 32 KiB to 16 GiB, and the eight of one node. Fit the 32, then ask for the eight:

# %%
from course_lib.lessons.scale.lab import B200_FOUR_NODES, B200_ONE_NODE, fit

latency, per_byte = fit({(32, size): size / algbw for size, algbw in B200_FOUR_NODES.items()})
print(f"32 GPUs: {1e6 * latency:.1f} microseconds a round, {1e-9 / per_byte:.0f} GB/s")
print("              predicted / measured    four nodes / one")
for size, algbw in B200_ONE_NODE.items():
    four, one = size / B200_FOUR_NODES[size], size / algbw
    of_32, of_8 = (2 * (n - 1) * (latency + size / n * per_byte) for n in (32, 8))
    print(f"{size / 2**20:10g} MiB{of_32 / four:8.1f} (32){of_8 / one:8.1f} (8)", end="")
    print(f"{four / one:10.1f} times")

# %% [markdown]
# Sizes go from 32 KiB to 16 GiB, and the two numbers are never wrong by more than a factor of two. They are worst at 16 MiB, about the size of a
# bucket: NCCL changes protocol and algorithm with the size. They describe the whole, and are not the speed of any cable: a node has eight
# cards of 50 GB/s, and several rings leave it side by side. And what 32 say of 8 is wrong by more than two for large tensors: inside a node, bytes never meet a card. Leaving the
# node costs 2.2 to 2.5 times the time from a gibibyte on, and about four to five times from 32 KiB to 16 MiB.
#
# ## What goes wrong in real life
#
# - **“We doubled the GPUs, and an epoch takes as long as before.”** Strong scaling: the batch per rank was halved until
#   nothing was left to hide the sending behind. Compare with a run whose batch per rank is unchanged.
# - **“It scales to 8, not to 16.”** The ninth rank. Fit each stretch by itself.
# - **“92 % on 64, so 92 % on 512.”** Of what, and which term? Rounds grow with the ranks, bytes do not.
# - **Steps per second scale, the loss does not.** Weak scaling makes a larger batch. Fewer, larger steps are another training
#   (learning rate, warm-up: [lesson 10](10_accumulation.ipynb)). Time *to a given loss* is what you pay for.
#
# ## Rule of thumb
#
# > Measure a few ranks, fit latency and bandwidth, and believe it as far as one measurement beyond the fit agrees; fit again where a second
# > machine begins. Rounds kill small messages, bytes large ones, stragglers everything. What scales is computing against sending: keep the
# > work per rank large. Send fp16 only with a scale. Of a published number ask: weak or strong, `algbw` or `busbw`, how many nodes, and
# > compared with what.
#
# ## Your turn
#
# Four tasks wait in [exercises/15_scale](../exercises/15_scale.ipynb): fit the two numbers, predict an efficiency, read the
# measurements of others, and send halves that survive a thousand ranks (read [Deeper: half the bytes](#Deeper:-half-the-bytes) first).
# What a rank must *hold* is the question of [lesson 17](17_sharding.ipynb).
#
# ## Deeper: 1,024 ranks in one process
#
# When does which bucket become ready? That needs no network. PyTorch has a process group that talks to nobody: with the
# backend `fake`, this process may call itself rank 0 of 1,024.

# %%
p = predict("15.fake_group")

# %% claims={"62": "refined"}
# %%ranks 1 --no-init --predicted
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("fake", rank=0, world_size=1024)
x = torch.ones(3)
dist.all_reduce(x)
print("all_reduce over", dist.get_world_size(), "ranks:", x.tolist())
ddp = DistributedDataParallel(torch.nn.Linear(4, 4))
ddp(torch.ones(1, 4)).sum().backward()

# %% [markdown]
# An all-reduce of the fake group leaves the tensor alone, and its future holds nothing. DDP wants a gradient out of it
# (`parseCppCommHookResult`, `torch/csrc/distributed/c10d/comm.cpp`), and finds none. A communication hook ([lesson
# 04](04_buckets.ipynb)) that returns a finished future gives it one. Then all else is real: autograd, buckets, their order,
# their rebuild.


# %% claims={"62": "refined", "S17": "wrong"}
# %%ranks
def finished(seen, bucket):
    """Note the size of each bucket, and send nothing."""
    seen.append(round(bucket.buffer().nbytes / 2**20, 1))
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


for options in ({}, {"bucket_cap_mb": 25}):
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(9)])
    ddp, seen = DistributedDataParallel(model, **options), []
    ddp.register_comm_hook(seen, finished)
    for _ in range(3):
        seen.clear()
        ddp(torch.randn(32, 1024)).sum().backward()
    print(options or "default", seen, "MiB")

# %% [markdown]
# So a thousand ranks can be tried out in a single process, as far as *structure* goes: which collectives, in which order, of
# what size. (Saying `bucket_cap_mb=25` is not saying nothing, as [lesson 04](04_buckets.ipynb) has it.) Values are those of
# one rank, and time is not there at all. That is what the model is for.
#
# ## Deeper: the best bucket, by ranks
#
# Small buckets leave early, but each one pays its rounds, and the rounds of a ring grow with the ranks. Lesson 04's `computed_step` with a ring
# of 10 microseconds a round and 50 GB/s, for a ResNet-50 whose backward takes 60 ms:

# %%
from course_lib.lab.network import MODELS, computed_step
from course_lib.lessons.scale.lab import Ring

wire = Ring(latency=10e-6, bandwidth=50e9 / 2**20)
model = MODELS["ResNet-50 (97 MiB, backward 60 ms)"]
print("ms of a step with bucket_cap_mb")
print("ranks" + "".join(f"{cap:8}" for cap in (1, 5, 25, 100)))
for n in (8, 64, 256, 1024):
    steps = [computed_step(cap, wire.network(n), model).seconds for cap in (1, 5, 25, 100)]
    print(f"{n:5}" + "".join(f"{1e3 * step:8.1f}" for step in steps))

# %% [markdown]
# On 8 ranks there is nothing to tune, on 1,024 a cap of 1 MiB would be ruin. With a tree's rounds the lines would hardly differ: that is
# why it matters little with NCCL.
#
# ## Deeper: the straggler's tax
#
# Ranks also wait for the slowest one ([lesson 05](05_stragglers.ipynb)). Say that each rank is 30 ms late in one step of a hundred. The chance
# that *somebody* is late does not ask how fast the network is:

# %%
for n in (1, 8, 64, 256, 1024):
    late = 1 - (1 - 0.01) ** n
    tax = 30 * late
    print(f"{n:5} ranks: somebody is late in {late:6.1%} of the steps, {tax:4.1f} ms of tax per step")

# %% [markdown]
# From 256 ranks on you pay nearly all of it, always. There the tax stops growing, for a delay of a fixed length; for one with a long tail
# it never does.
#
# ## Deeper: whole trainings
#
# Horovod's documentation (`docs/benchmarks.rst`) gives scaling efficiencies on 512 GPUs: 128 servers with four Pascal GPUs each, 25 Gbit/s.
# Goyal et al. (abstract; hardware in §4.3) give about 90 % from 8 to 256 GPUs, in 32 servers with 50 Gbit/s. What does the model say, with
# nothing fitted? It cannot know how well sending hides behind computing, so it gives **two** numbers:

# %%
from course_lib.lessons.scale.lab import TRAININGS

print("                  nothing hidden  published  all hidden")
for training in TRAININGS:
    low, high = training.bracket()
    print(f"{training.name:18}{low:13.0%}{training.reported:11.0%}{high:12.0%}")

# %% [markdown]
# All four lie in between, which says little: the brackets are wide. **What is explained:** why VGG-16 is so much worse than ResNet-101. It has three times the gradients and a shorter step to hide them in. That is bytes
# against seconds, and it can be known before anybody rents anything. **What is not:** where in its bracket a training lies. Imperfect overlap
# and waiting for the slowest look alike from here, and latency is left out altogether.
#
# **Where the inputs are from:** a ring that visits one server after the other passes each network card once, however many GPUs are in the
# server. Images per second of one GPU: TensorFlow's published P100 benchmarks (May 2017: synthetic data, batch 64 or 32); for ResNet-101 the
# 16-GPU total that Horovod's page prints. Horovod says “Pascal”, so P100 is a guess, and so is the batch of 64 beyond ResNet-101. Parameters:
# Keras' table of applications; Goyal et al. say 100 MB. That two thirds of a step are backward is a rule of thumb. And DDP? Li et al. (VLDB
# 2020) claim “near-linear scalability using 256 GPUs” in their abstract: a word, not a number, so nothing to check.
#
# ## Deeper: sending less
#
# If bytes are the trouble, send fewer. PyTorch brings hooks that do (`torch/distributed/algorithms/ddp_comm_hooks`):
# `fp16_compress_hook` halves them. **PowerSGD** sends, instead of a matrix, two thin ones whose product is near it, and adds
# what was lost to the next gradient (*error feedback*). To count, `all_reduce` is wrapped.

# %%
# %%ranks 2 --as hooks
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from course_lib.data import load_digits

rank, world = dist.get_rank(), dist.get_world_size()
images, labels = load_digits()
inputs, targets = torch.from_numpy(images).float().flatten(1) / 16, torch.from_numpy(labels).long()
really, sent = dist.all_reduce, [0]


def counting(tensor, *args, **kwargs):
    sent[0] += tensor.nbytes
    return really(tensor, *args, **kwargs)


def train(state, hook, steps=30):
    """Accuracy on digits that were not trained on, bytes reduced in the last step, rank 0's losses."""
    torch.manual_seed(0)
    linear = [torch.nn.Linear(a, b) for a, b in ((64, 256), (256, 256), (256, 10))]
    ddp = DistributedDataParallel(
        torch.nn.Sequential(linear[0], torch.nn.ReLU(), linear[1], torch.nn.ReLU(), linear[2])
    )
    ddp.register_comm_hook(state, hook)
    optimizer, losses = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9), []
    shuffled = torch.Generator().manual_seed(0)
    for _ in range(steps):
        mine = torch.randint(0, 1500, (64,), generator=shuffled)[rank::world]
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(ddp(inputs[mine]), targets[mine])
        sent[0] = 0
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    right = ddp.module(inputs[1500:]).argmax(1) == targets[1500:]
    return right.float().mean().item(), sent[0], losses


def power(feedback):
    return powerSGD_hook.PowerSGDState(
        None,
        matrix_approximation_rank=2,
        start_powerSGD_iter=2,
        min_compression_rate=1,
        use_error_feedback=feedback,
    )


dist.all_reduce = counting
results = {
    "none": train(None, default_hooks.allreduce_hook),
    "fp16": train(None, default_hooks.fp16_compress_hook),
    "PowerSGD": train(power(True), powerSGD_hook.powerSGD_hook),
    "PowerSGD, no feedback": train(power(False), powerSGD_hook.powerSGD_hook),
}
dist.all_reduce = really
for name, (_, bytes_sent, _) in results.items():
    print(f"{name:22}{bytes_sent:8,} bytes per step, 1/{results['none'][1] / bytes_sent:.0f}")

# %%
import matplotlib.pyplot as plt

results = hooks["results"][0]
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
looks = ("-", "black"), (":", "#56B4E9"), ("--", "#009E73"), ("-.", "#D55E00")
for (name, (right, _, losses)), (line, colour) in zip(results.items(), looks, strict=True):
    axes.plot(losses, line, color=colour, linewidth=2, label=f"{name}: {right:.0%} right")
axes.set(xlabel="step", ylabel="loss of rank 0", ylim=(0, None))
axes.set_title("What is sent, and what is learned from it")
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# PowerSGD is *another* optimizer, to be tuned like one. (It pays where bandwidth is the trouble. It
# costs computing, and more rounds: latency gets *worse*. `bf16_compress_hook` raises a TypeError on a torch that has neither
# NCCL nor XCCL: `_check_comm_hook`, `distributed.py`.)
#
# ## Deeper: half the bytes
#
# “Gradients are small numbers, fp16 has small numbers.” The hook divides by the number of ranks *before* it sends,
# in fp16, so that the sum does not overflow (`_compress_hook`, `default_hooks.py`). A gradient of 10⁻⁷ on every rank:

# %%
p = predict("15.fp16")

# %%
# %%ranks 4 --predicted --as out
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

pair = dist.new_group([0, 1])
means = {}
for n, group in ((2, pair), (4, dist.group.WORLD)):
    if dist.get_rank() < n:
        ddp = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False), process_group=group)
        ddp.register_comm_hook(group, fp16_compress_hook)
        (1e-7 * ddp(torch.ones(1, 1))).sum().backward()
        means[n] = ddp.module.weight.grad.item()
if dist.get_rank() == 0:
    print({n: float(f"{mean:.1g}") for n, mean in means.items()})

# %%
# %%ranks
for n in (2, 64, 1024, 16384):
    power = next(k for k in range(40) if torch.tensor(2.0**-k).half().div(n) == 0)
    if dist.get_rank() == 0:
        print(f"{n:6} ranks: 2**-{power} = {2.0**-power:.0e} is sent as zero")

# %% [markdown]
# The more ranks, the more of the gradient is rounded to nothing, silently: on 1,024 ranks all that is below 3·10⁻⁵. A test on
# two ranks hardly shows it. The cure is a factor that lifts gradients first and is
# divided out afterwards; it must be the *same* factor on all ranks: where each multiplies with its own, the sum is one of different things,
# and no division takes that back. The other end is near, too: above 65504, fp16 is infinite, and the sum over the ranks must stay
# below it. (Or bf16, which has the range of fp32 and fewer digits.)
# That is one of your tasks.
#
# ## Further reading
#
# - `torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py`: its docstrings are the best manual there is.
# - Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB 2020.
# - Goyal et al., *Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour*, 2017: §4 is this lesson, on 256 GPUs; halving made an
#   all-reduce on 32 servers three times as fast as the ring (§4.1).
# - Thakur, Rabenseifner and Gropp, *Optimization of Collective Communication Operations in MPICH*, 2005: ring, tree, halving.
# - Chowdhery et al., *PaLM: Scaling Language Modeling with Pathways*, 2022: MFU, in appendix B.
#
# **Next:** [lesson 16](16_cluster.ipynb), *From laptop to cluster*. Or back to the [index](index.ipynb).
