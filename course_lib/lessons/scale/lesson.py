# %% [markdown]
# # 15 · Predict the scaling
#
# > *“Eight GPUs made my training 7.6 times faster. How much faster are 64?”*
#
# You cannot try 64 GPUs this afternoon. You can measure a few ranks, find two numbers, calculate, and check that by one more measurement.
# The first cell measures real all-reduces on this machine.
#
# **You will be able to** fit latency and bandwidth, and predict ranks that you do not have; tell rounds from bytes; say what changes
# where a second machine begins; tell weak from strong scaling; and read the numbers that others publish. 35 minutes.
#
# **Before this:** lessons 04 and 05.

# %%
# %load_ext course_lib

# %% tags=["nbval-ignore-output"]
# %%ranks 16 --as few
import time

import torch
import torch.distributed as dist


def fastest(n, size):
    """Seconds of the fastest of five all-reduces over the first n ranks."""
    group, tensor, took = dist.new_group(range(n)), torch.zeros(size // 4), []
    if dist.get_rank() < n:
        for _ in range(5):
            began = time.perf_counter()
            dist.all_reduce(tensor, group=group)
            took.append(time.perf_counter() - began)
    dist.barrier()  # the others wait here
    return min(took, default=None)


times = {(n, size): fastest(n, size) for n in (2, 4, 8) for size in (2**10, 2**22)}
if dist.get_rank() == 0:
    for (n, size), took in times.items():
        print(f"{n} ranks, {size / 2**10:4.0f} KiB: {1e3 * took:5.2f} ms")

# %% [markdown]
# ## Two numbers
#
# In a ring ([lesson 01](01_dataparallel.ipynb)), each of *n* ranks sends a piece of 1/*n* to its neighbour, in 2(*n* - 1) rounds: one lap
# adds up, a second one tells everybody the sums. A round costs a **latency**, whatever its size, and its bytes pass at some **bandwidth**.
# Does each rank have a wire of its own, as where each GPU has a network card? Or do the bytes of all wait in one queue?
#
# > *own wires:* seconds = 2(*n* - 1) · latency + 2(*n* - 1)/*n* · bytes / bandwidth
# >
# > *one wire:* seconds = 2(*n* - 1) · latency + 2(*n* - 1) · bytes / bandwidth
#
# Each formula has two unknowns, and there are six measurements: no two numbers give all six exactly. *Least squares* takes the two with the
# smallest errors. Count an error as a *part* of what was measured. Otherwise the slowest run decides the fit, because its error in seconds is the
# largest. Dots are measured, lines are fitted and go on to 16 ranks:

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.scale.lab import draw_fits

draw_fits(few["times"][0])

# %%
p = predict("15.sixteen")

# %% tags=["nbval-ignore-output"]
# %%ranks --predicted --as many
seconds = {n: fastest(n, 2**22) for n in (8, 16)}
if dist.get_rank() == 0:
    print({n: f"{1e3 * took:.1f} ms" for n, took in seconds.items()})

# %% [markdown]
# ## The wrong term
#
# The title now says which line has missed the sixteen:

# %% tags=["nbval-ignore-output"]
draw_fits(few["times"][0], many["seconds"][0][16])

# %% [markdown]
# Both lines were fitted to the same points. From 8 to 16 ranks the bytes that *one* rank sends hardly grow, and those of *all* ranks double.
# Where processes share a few cores, a core is like one wire. Neither line has to be right.
# **Extrapolating the wrong term is the common way to be wrong about scaling**, and only a measurement beyond the fit shows it.
#
# ## Rounds or bytes
#
# On 1,024 ranks, 2(*n* - 1) rounds are 2,046, however little is sent. Other ways have fewer. A **tree** adds up in pairs towards rank 0, and the
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
# For few bytes only rounds count, and the ring loses. For many bytes it wins against the tree. The other three have few rounds *and* few
# bytes. Step through what that costs them:

# %%
from course_lib.lessons.scale.all_reduces import explore_all_reduces

explore_all_reduces()

# %% [markdown]
# With gloo the choice is not yours: PyTorch calls the ring in `gloo/allreduce.cc`.
#
# > **On GPUs (NCCL).** NCCL has, among others, a ring and the double tree (`ncclGetDtree` in its `src/graph/trees.cc`), and chooses by
# > size and topology. `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING` says what was chosen, and `NCCL_ALGO` overrides it. (Read there and in
# > NCCL's documentation, *Environment Variables*; not run: it needs GPUs.)
#
# ## The ninth rank
#
# Eight GPUs share a machine, 64 do not:

# %%
from course_lib.lessons.scale.lab import draw_machines

draw_machines()

# %% [markdown]
# This machine has no such network, so here is one made of sleep. Backward sleeps 200 ms, and all gradients are one bucket, sent when backward is
# over. Inside a machine of eight, a round of the ring takes 2.5 ms and bytes go at 100 MiB/s. Between machines there is a cable: 20 ms, and 12.5 MiB/s. (Real
# rounds take microseconds. Only the *shape* is that of a cluster.)

# %%
p = predict("15.ninth")

# %% tags=["nbval-ignore-output"]
# %%ranks 9 --predicted
import torch.distributed as dist
from course_lib.lessons.scale.lab import Ring, sleepy_model
from torch.nn.parallel import DistributedDataParallel

ring = Ring(latency=0.0025, bandwidth=100, cable=Ring(latency=0.020, bandwidth=12.5))
seconds = {}
for n in (1, 8, 9):
    group = dist.new_group(range(n))
    if dist.get_rank() < n:
        seconds[n] = ring.step_seconds(DistributedDataParallel(sleepy_model(), process_group=group))
    if dist.get_rank() == 0:
        print(f"n = {n}: {n * seconds[1] / seconds[n]:.1f} times as fast as one")

# %% [markdown]
# What you fit to 8 ranks says nothing of nine. **A latency and a bandwidth belong to one stretch of the way.** To know what 64 ranks give,
# measure on both sides of the border: 8 ranks, and 16.
#
# *Two levels* pass it with less: a reduce-scatter inside each machine, an all-reduce between ranks of the same number, and an all-gather
# inside. For 100 MB on the network of the picture, computed in milliseconds:

# %%
from course_lib.lessons.scale.lab import double_tree, flat_ring, two_levels

print("ranks   flat ring   two levels   double tree")
for n in (8, 16, 64, 1024):
    flat, two, tree = (1e3 * way(1e8, n) for way in (flat_ring, two_levels, double_tree))
    print(f"{n:5}{flat:12.1f}{two:13.1f}{tree:14.1f}")

# %% [markdown]
# One ring uses one card of a machine, two levels use all eight.
#
# ## Computing against sending
#
# **Efficiency** is the speed-up divided by the number of ranks. *Weak* scaling keeps the batch of each rank: *n* ranks do *n* times the work
# in a step, so it is *T*₁ / *T*ₙ. *Strong* scaling keeps the whole batch: each rank computes less, and sends as much as ever; it is
# *T*₁ / (*n* · *T*ₙ).
#
# DDP sends buckets while backward goes on ([lesson 04](04_buckets.ipynb)). The bars calculate with buckets of one size. Each is ready after
# its share of backward, which is two thirds of a step. It is sent when the one before it is through, and pays all its rounds again. The last
# one is ready when backward is over, so it is never hidden; a single bucket is such a last one.

# %%
from course_lib.lessons.scale.lab import explore_efficiency

explore_efficiency()

# %% [markdown]
# Strong scaling has an end: sending stays while the work shrinks. **More GPUs help as long as computing takes much longer than sending.** A
# larger batch per rank helps, and so does accumulation ([lesson 10](10_accumulation.ipynb)). Buckets help until their rounds are the trouble: try 8
# and 64 of them, and look at 1,024 ranks. And the question of the beginning? Eight GPUs that are 7.6 times as fast as one take 5 % longer for a
# step. It depends on what these 5 % are:

# %%
from course_lib.lessons.scale.lab import from_eight_to_64

for what, times in from_eight_to_64().items():
    print(f"if it is all {what}: 64 are {times:.0f} times as fast")

# %% [markdown]
# That holds on one network, and the ninth rank brings another. So measure 16.
#
# Efficiency compares with *one rank*, however slow that one is. **MFU** (model FLOPs utilisation) compares with the hardware: for a
# transformer of *N* parameters 6 · *N* · tokens per second / (GPUs · peak FLOP/s), without attention (Chowdhery et al., *PaLM*, 2022,
# appendix B).
#
# ## What others have measured
#
# Tables of all-reduces have two columns. `algbw` is size / time. `busbw` is `algbw` · 2(*n* - 1)/*n*: the bandwidth of *own wires* where
# latency is nothing, so it can be compared between numbers of ranks. Stas Bekman's *Machine Learning
# Engineering Open Book* (`stas00/ml-engineering`, commit `0cc3de5`, `network/benchmarks/README.md` and `network/README.md`) has 32 B200 GPUs in
# four nodes, and the eight of one node. Fit the 32, then ask for the eight:

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
# For 32 GPUs the two numbers are never wrong by more than a factor of two. They are worst at 16 MiB, about the size of a bucket. They describe the
# whole, and are not the speed of any cable: a node has eight cards of 50 GB/s. For 8 GPUs and large tensors they are wrong by more than two,
# because inside a node no byte meets a card.
#
# ## What goes wrong in real life
#
# - **“We doubled the GPUs, and an epoch takes as long as before.”** Strong scaling: too little computing was left to hide the sending.
# - **“It scales to 8, not to 16.”** The ninth rank. Fit each stretch by itself.
# - **“92 % on 64, so 92 % on 512.”** Rounds grow with the ranks, bytes do not.
# - **Steps per second scale, the loss does not.** Weak scaling makes a larger batch ([lesson 10](10_accumulation.ipynb)).
#
# ## Rule of thumb
#
# > Measure a few ranks, fit latency and bandwidth, and believe it as far as one measurement beyond the fit agrees; fit again where a second
# > machine begins. Rounds kill small messages, bytes large ones, stragglers everything. What scales is computing against sending: keep the
# > work per rank large. Of a published number ask: weak or strong, `algbw` or `busbw`, how many nodes, and
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
# PyTorch has a process group that talks to nobody: with the backend `fake`, this process may call itself rank 0 of 1,024.

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
# So a thousand ranks can be tried out in a single process, as far as *structure* goes: which collectives, in which order, of what size
# (and `bucket_cap_mb=25` is not the default: [lesson 04](04_buckets.ipynb)). Values are those of one rank, and times say nothing.
#
# ## Deeper: sending less
#
# Hooks of PyTorch send fewer bytes (`torch/distributed/algorithms/ddp_comm_hooks`). `fp16_compress_hook` halves them. **PowerSGD** sends,
# instead of a matrix, two thin ones whose product is near it, and adds what was lost to the next gradient (*error feedback*). `all_reduce` is
# wrapped to count bytes, and *off* compares with the mean that DDP gives:

# %%
# %%ranks 2
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

really, sent = dist.all_reduce, [0]


def counting(tensor, *args, **kwargs):
    sent[0] += tensor.nbytes
    return really(tensor, *args, **kwargs)


def gradient(state, hook):
    """The mean gradient of the fourth backward; `sent` has its bytes."""
    torch.manual_seed(dist.get_rank())
    ddp = DistributedDataParallel(torch.nn.Linear(256, 256, bias=False))
    ddp.register_comm_hook(state, hook)
    for _ in range(4):
        ddp.zero_grad()
        sent[0] = 0
        ddp(torch.rand(64, 256)).square().mean().backward()
    return ddp.module.weight.grad.clone()


dist.all_reduce = counting
state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
right = gradient(None, default_hooks.allreduce_hook)
for name, found in {
    "none": lambda: right,
    "fp16": lambda: gradient(None, default_hooks.fp16_compress_hook),
    "PowerSGD": lambda: gradient(state, powerSGD_hook.powerSGD_hook),
}.items():
    off = (found() - right).norm() / right.norm()
    print(f"{name:10}{sent[0]:8,} bytes, {off:.1%} off")
dist.all_reduce = really

# %% [markdown]
# What PowerSGD leaves out comes in later steps, so it is *another* optimizer, to be tuned like one. (`bf16_compress_hook` raises a TypeError on
# a torch that has neither NCCL nor XCCL: `_check_comm_hook`, `distributed.py`.)
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
# The more ranks, the more of the gradient is rounded to nothing, silently. Multiply by a factor first, and divide by it afterwards. All ranks
# must take the *same* factor, or no division brings their sum back. And the sum must stay below 65504, where fp16 ends. (Or take bf16,
# which has the range of fp32 and fewer digits.)
#
# ## Further reading
#
# - `torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py`: its docstrings are the best manual there is.
# - Goyal et al., *Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour*, 2017: §4 is this lesson, on 256 GPUs.
# - Thakur, Rabenseifner and Gropp, *Optimization of Collective Communication Operations in MPICH*, 2005: ring, tree, halving.
#
# **Next:** [lesson 16](16_cluster.ipynb), *From laptop to cluster*. Or back to the [index](index.ipynb).
