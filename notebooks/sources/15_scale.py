# %% [markdown]
# # 15 · How far does it scale?
#
# > *“Eight GPUs made my training 7.6 times faster. How much faster are 64? And does it make sense to ask for 1,000?”*
#
# You cannot try out 1,000 GPUs this afternoon. You can measure a few ranks, find the two numbers that decide, and calculate.
# In this lesson you build such a model, run it into a wall, check it against figures that others have published, and use it:
# for the size of a cluster, of a bucket, of a gradient. At the end DDP itself reaches a limit, and it is not speed.
#
# **You will be able to** fit latency and bandwidth, predict the efficiency of a job that does not exist yet, try DDP on
# 1,024 ranks in one process, send fewer bytes and know what it costs, and say whether a model fits at all. 85 minutes.
#
# **Before this:** lessons 04 and 05.
#
# A word on honesty. Up to 16 ranks share the cores of this machine, perhaps two, and they talk through its loopback. What is
# measured here is processors and memory, **not a network**. The method is the same, the numbers are not. Times go into figures
# only, and yours will differ.

# %%
# %load_ext course_lib

# %% [markdown]
# ## What an all-reduce costs
#
# Groups of 2, 4, 8 and 16 ranks, tensors from 1 KiB to 4 MiB. Of a few runs the fastest counts.

# %%
# %%ranks 16 --as measured
import time

import torch
import torch.distributed as dist

rank = dist.get_rank()
groups = {n: dist.new_group(list(range(n))) for n in (2, 4, 8)} | {16: dist.group.WORLD}
seconds = {}
for n, group in groups.items():
    if rank < n:
        for size in (2**10, 2**17, 2**22):
            tensor, runs = torch.zeros(size // 4), []
            for _ in range({2: 6, 4: 4, 8: 3, 16: 2}[n]):
                begin = time.perf_counter()
                dist.all_reduce(tensor, group=group)
                runs.append(time.perf_counter() - begin)
            seconds[n, size] = min(runs)
    dist.barrier()

# %% [markdown]
# ## Two numbers
#
# gloo's all-reduce (`gloo/allreduce.cc`) is a **ring** ([lesson 01](01_dataparallel.ipynb)): each of *n* ranks sends a piece
# of 1/*n* to its neighbour, in 2(*n* - 1) rounds: one lap adds up, a second one tells everybody the sums. A round costs a **latency** that does not depend on the size, and then bytes
# at some **bandwidth**:
#
# > seconds = 2(*n* - 1) · latency + 2(*n* - 1)/*n* · bytes / bandwidth
#
# That is for ranks that each have a wire of their own, as in a cluster with a network card per GPU. Where all ranks *share* one wire
# (here: cores and memory), every byte of every rank waits in the same queue, and the second term is *n* times as large.
#
# Both formulas have two unknowns, so least squares finds them. But let errors count as *factors*, not as seconds: else a few
# large tensors drown all small ones, and the latency comes out as anything, even below zero.
#
# Fit both to 2, 4 and 8 ranks, and **predict 16**. First where the truth is known: rings that are simulated message by message, with 50
# microseconds a round and 1 GB/s, once with a wire for each rank, once with one wire for all.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np


def terms(size, n, shared):
    """What latency, and what one second a byte, are multiplied with."""
    rounds = 2 * (n - 1)
    return rounds, rounds * size / (1 if shared else n)


def fit(times, shared=False):
    """Latency (s) and seconds a byte from {(ranks, bytes): seconds}: least squares of log(measured / predicted)."""
    factors = np.array([terms(size, n, shared) for n, size in times], dtype=float)
    seconds, found = np.array(list(times.values())), np.array([1e-4, 1e-9])
    for _ in range(30):  # Gauss-Newton; both numbers are multiplied, so they stay positive
        predicted = factors @ found
        share = factors * found / predicted[:, None]
        step, *_ = np.linalg.lstsq(share, np.log(seconds / predicted), rcond=None)
        found *= np.exp(step.clip(-2, 2))
    return tuple(found)


def fitted(size, n, latency, per_byte, shared=False):
    rounds, bytes_sent = terms(size, n, shared)
    return rounds * latency + bytes_sent * per_byte


def simulated(size, n, shared, latency=50e-6, per_byte=1e-9):
    """Seconds of a ring all-reduce in which a rank passes on what it has received, and a wire carries one piece at a time."""
    ready, free = [0.0] * n, [0.0] * n  # when a rank has something to send, and when a wire is free
    for _ in range(2 * (n - 1)):
        arrives = {}
        for sender in sorted(range(n), key=ready.__getitem__):
            wire = 0 if shared else sender
            free[wire] = max(free[wire], ready[sender]) + size / n * per_byte
            arrives[(sender + 1) % n] = free[wire] + latency
        ready = [arrives[receiver] for receiver in range(n)]
    return max(ready)


sizes = (2**10, 2**17, 2**22)
FORMULAS = {False: "a wire for each rank", True: "all share one wire"}
misses = {}
print("16 ranks, 4 MiB: predicted / true       by the formula for")
print(f"{'the network':24}{FORMULAS[False]:>24}{FORMULAS[True]:>24}")
for truth, name in FORMULAS.items():
    known = {(n, size): simulated(size, n, truth) for n in (2, 4, 8) for size in sizes}
    for shared in FORMULAS:
        predicted = fitted(2**22, 16, *fit(known, shared), shared)
        misses[truth, shared] = predicted / simulated(2**22, 16, truth)
    print(f"{name:24}{misses[truth, False]:24.1f}{misses[truth, True]:24.1f}")
assert all(0.9 < misses[shared, shared] < 1.1 for shared in FORMULAS)
assert misses[False, True] > 3
assert misses[True, False] < 1 / 3

# %% [markdown]
# The right formula predicts 16 ranks, the wrong one misses by about four times, though both were fitted to the same points: from 2 to 16
# ranks, the bytes that *one* rank sends grow by less than two, those of *all* ranks by fifteen. **Extrapolating the wrong term is a common
# way to be wrong about scaling**, and only a measurement beyond the fit shows it. And which is right for this machine?

# %%
times = {
    key: max(of_rank[key] for of_rank in measured["seconds"].values() if key in of_rank)
    for key in measured["seconds"][0]
}
few = {key: t for key, t in times.items() if key[0] < 16}
models = {shared: fit(few, shared) for shared in (False, True)}

smooth = [2**p for p in range(10, 23)]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained", sharey=True)
for panel, shared in zip(axes, (False, True), strict=True):
    for n, marker, colour in (
        (2, "o", "#0072B2"),
        (4, "s", "#E69F00"),
        (8, "^", "#009E73"),
        (16, "D", "#D55E00"),
    ):
        new = n == 16
        panel.loglog(
            sizes,
            [1e3 * times[n, size] for size in sizes],
            marker,
            color=colour,
            markerfacecolor="none" if new else colour,
            label=f"{n} ranks" + (" (not in the fit)" if new else ""),
        )
        curve = [1e3 * fitted(size, n, *models[shared], shared) for size in smooth]
        panel.loglog(smooth, curve, "--" if new else "-", color=colour, linewidth=1)
    off = fitted(2**22, 16, *models[shared], shared) / times[16, 2**22]
    panel.set_title(
        f"{FORMULAS[shared].capitalize()}: predicted for 16 ranks,\n4 MiB: {off:.1f} times the measured",
        fontsize=10,
    )
    panel.set_xticks([2**10, 2**17, 2**22], ["1 KiB", "128 KiB", "4 MiB"])
    panel.minorticks_off()
    panel.set_xlabel("size of the tensor")
low, high = axes[0].get_ylim()
ticks = [t for t in (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000) if low < t < high]
axes[0].set_yticks(ticks, [f"{t:g}" for t in ticks])
axes[0].set_ylabel("one all-reduce (ms)")
figure.legend(
    *axes[0].get_legend_handles_labels(), fontsize=8, ncols=4, loc="outside lower center", frameon=False
)
plt.show()

# %% [markdown]
# Points are measured, lines fitted, hollow points and dashed lines the test; each title says how far the prediction is from the
# measurement. Where ranks outnumber cores, expect both to miss, often even the points they were fitted to: a rank that has its message
# must first get a core, which takes longer the more ranks there are, and neither formula has a term for that. So this machine is neither
# network, and the numbers below are for the method. On a cluster, do the same with two sizes of the cluster you have.
#
# From here on each rank has a wire of its own, with the numbers of two ranks, which share least.

# %%
pair = fit({key: t for key, t in times.items() if key[0] == 2})

# %% [markdown]
# ## Ring against tree
#
# The first term is the trap. A ring of 1,024 ranks has 2,046 rounds, whatever the size. Other algorithms have fewer. Here are
# three, with nothing but `isend` and `recv`, on eight of the ranks. A **tree** adds up pairwise towards rank 0 and comes back.
# **Halving and doubling** also goes in pairs, but only half of what is left changes hands each time, and everybody is busy.


# %%
# %%ranks
world, eight = 8, groups[8]
count = {"rounds": 0, "bytes": 0}  # of this rank


def exchange(give, to, take, source):
    """Send and receive at the same time; either may be None."""
    count["rounds"] += 1
    sending = dist.isend(give.contiguous(), to) if give is not None else None
    count["bytes"] += give.nbytes if give is not None else 0
    if take is not None:
        dist.recv(take, source)
    if sending is not None:
        sending.wait()


def ring(x):
    parts = list(x.chunk(world))
    for lap in (0, 1):  # add up, then tell
        for step in range(world - 1):
            mine, others = (rank - step + lap) % world, (rank - step - 1 + lap) % world
            inbox = torch.empty_like(parts[others])
            exchange(parts[mine], (rank + 1) % world, inbox, (rank - 1) % world)
            parts[others].copy_(inbox if lap else parts[others] + inbox)


def tree(x):
    hops = [2**k for k in range((world - 1).bit_length())]
    for hop in hops:
        if rank % (2 * hop) == hop:
            exchange(x, rank - hop, None, None)
        elif rank % (2 * hop) == 0:
            inbox = torch.empty_like(x)
            exchange(None, None, inbox, rank + hop)
            x += inbox
    for hop in reversed(hops):
        if rank % (2 * hop) == 0:
            exchange(x, rank + hop, None, None)
        elif rank % (2 * hop) == hop:
            exchange(None, None, x, rank - hop)


def halving(x):  # for a power of two
    part, kept, hop = x, [], world // 2
    while hop:
        low, high = part.chunk(2)
        mine, theirs = (low, high) if rank & hop == 0 else (high, low)
        inbox = torch.empty_like(mine)
        exchange(theirs, rank ^ hop, inbox, rank ^ hop)
        mine += inbox
        kept.append((mine, theirs, hop))
        part, hop = mine, hop // 2
    for mine, theirs, hop in reversed(kept):
        inbox = torch.empty_like(theirs)
        exchange(mine, rank ^ hop, inbox, rank ^ hop)
        theirs.copy_(inbox)


# %%
p = predict("15.ring_and_tree")


# %%
# %%ranks --predicted --as raced
def gloo(x):
    dist.all_reduce(x, group=eight)


def race(algorithm, size):
    """The faster of two, in seconds."""
    runs = []
    for _ in range(2):
        x = torch.full((size // 4,), float(rank))
        count.update(rounds=0, bytes=0)
        dist.barrier(eight)
        begin = time.perf_counter()
        algorithm(x)
        runs.append(time.perf_counter() - begin)
        assert x.eq(sum(range(world))).all()
    return min(runs)


sent, took = {}, {}
for algorithm in (ring, tree, halving, gloo) if rank < world else ():
    name = algorithm.__name__
    took |= {(name, size): race(algorithm, size) for size in (2**10, 2**20)}
    sent[name] = count["bytes"]
    if algorithm is not gloo and rank == 0:
        print(f"{name:8} {count['rounds']:3} rounds, rank 0 sends {count['bytes'] / 2**20:.2f} MiB of 1")

# %%
NAMES = {
    "ring": "ring",
    "tree": "tree",
    "halving": "halving and doubling",
    "gloo": "gloo (a ring, in C++)",
}
LOOKS = {
    "ring": ("#0072B2", ""),
    "tree": ("#E69F00", "///"),
    "halving": ("#009E73", ".."),
    "gloo": ("#BBBBBB", "xx"),
}
took = raced["took"][0]
figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained", sharey=True)
for panel, size, name in zip(axes, (2**10, 2**20), ("1 KiB", "1 MiB"), strict=True):
    for row, (algorithm, (colour, hatch)) in enumerate(LOOKS.items()):
        panel.barh(row, 1e3 * took[algorithm, size], color=colour, hatch=hatch, edgecolor="black")
    panel.set_yticks(range(4), [NAMES[algorithm] for algorithm in LOOKS])
    panel.set(title=f"{name} on 8 ranks", xlabel="milliseconds (the better of two)", ylim=(3.6, -0.6))
figure.suptitle(
    f"Few bytes: the ring takes {took['ring', 2**10] / took['tree', 2**10]:.0f} times as long as the tree"
)
plt.show()

# %% [markdown]
# For few bytes rounds are all that counts, and the ring loses. For many bytes it wins where each rank has a wire: the busiest rank of
# this tree sends the whole tensor three times over, and a rank of the ring less than twice, however many ranks there are. The run cannot
# show that, since its ranks share one wire, on which ring and tree move the same 14 MiB. The two numbers can, below. Halving and doubling
# has the few rounds of the one and the few bytes of the other, but its partners are far apart, which real networks mind. Goyal et al.
# (*Accurate, Large Minibatch SGD*, 2017, §4.1) report that it made an all-reduce on 32 servers three times as fast as the ring.
#
# With gloo the choice is not yours: PyTorch calls the one in `gloo/allreduce.cc`, a ring.
#
# > **On GPUs.** NCCL has neither this tree nor halving and doubling for an all-reduce. Its tree is a *double binary tree* (since NCCL
# > 2.4): two trees with half of the data each, in which a rank that has children in one is a leaf of the other, so it has few rounds *and*
# > nearly the ring's bandwidth. NCCL chooses by size and topology: on the 32 GPUs of the table below, `Tree` up to 16 MiB, `Ring` and
# > `NVLSTree` above. So 1,024 ranks do not mean 2,046 rounds. `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING` says what was chosen, and
# > `NCCL_ALGO` overrides it. Read in NCCL's `src/graph/trees.cc` (`ncclGetDtree`) and beside that table, not run here.
# >
# > NCCL also chooses how the bytes travel: from GPU to GPU or through shared memory in one machine, by InfiniBand or
# > TCP between machines. `NCCL_DEBUG=INFO` prints what was chosen, `NCCL_SOCKET_IFNAME` (with gloo `GLOO_SOCKET_IFNAME`) names
# > the network. (NCCL's documentation, *Environment Variables*, and that of `torch.distributed`; not run here.)

# %%
ROUNDS = {
    "ring": lambda n: 2 * (n - 1),
    "halving": lambda n: 2 * math.ceil(math.log2(n)),
}


def all_reduce_seconds(size, n, latency, per_byte, algorithm="ring"):
    """The model from here on; bytes are those of a ring in both cases."""
    return ROUNDS[algorithm](n) * latency + 2 * (n - 1) / n * size * per_byte


def tree_seconds(size, n, latency, per_byte):
    """The tree above: as many rounds as halving and doubling, the whole tensor in each."""
    return ROUNDS["halving"](n) * (latency + size * per_byte)


FAST = (2e-6, 1 / 300e9)  # 2 microseconds a round and 300 GB/s: nearly what the fit to 32 GPUs gives, below
for n in (8, 64, 1024, 16384):
    sizes = (2**p for p in range(10, 40))
    from_here = next(s for s in sizes if all_reduce_seconds(s, n, *FAST) < tree_seconds(s, n, *FAST))
    print(
        f"{n:6} ranks: {ROUNDS['ring'](n):6} rounds in a ring, {ROUNDS['halving'](n):3} by halving and doubling;"
        f" the ring beats the tree from {from_here // 2**20:5} MiB on"
    )

# %% [markdown]
# ## Weak, strong, and the straggler's tax
#
# **Efficiency** is the speed-up divided by the number of ranks. *Weak* scaling keeps the batch of each rank: *n* ranks do *n* times the
# work in a step, so it is *T*₁ / *T*ₙ. *Strong* scaling keeps the whole batch: each rank computes less, and sends as much as ever; it is
# *T*₁ / (*n* · *T*ₙ). Real ranks first (computing is a sleep of 40 ms, so that cores are no matter; then a real all-reduce of 64
# KiB), 1 to 8 of them, beside what the shared-wire fit predicts:

# %%
# %%ranks --as scaling
gradients, took = torch.zeros(2**14), {}
for kind in ("weak", "strong"):
    for n in (1, 2, 4, 8):
        dist.barrier()
        if rank < n:
            runs = []
            for _ in range(3):
                begin = time.perf_counter()
                time.sleep(0.04 / (n if kind == "strong" else 1))
                if n > 1:
                    dist.all_reduce(gradients, group=groups[n])
                runs.append(time.perf_counter() - begin)
            took[kind, n] = min(runs)

# %%
p_late, delay, computing = 0.01, 0.03, 0.04
numbers = fit(few, shared=True)
took = scaling["took"][0]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for kind, marker, colour in (("weak", "o", "#0072B2"), ("strong", "s", "#D55E00")):
    for n in (1, 2, 4, 8):
        work = computing / (n if kind == "strong" else 1)
        axes[0].plot(
            n, 100 * work / took[kind, n], marker, color=colour, label=kind + ", run" if n == 1 else None
        )
    curve = []
    for n in range(1, 9):
        work = computing / (n if kind == "strong" else 1)
        curve.append(100 * work / (work + fitted(2**16, n, *numbers, shared=True)))
    axes[0].plot(range(1, 9), curve, "--", color=colour, label=kind + ", predicted")
axes[0].set(title="Strong scaling gives out first", xlabel="ranks", ylabel="efficiency (%)", ylim=(0, 104))
axes[0].set_xticks([1, 2, 4, 8])
axes[0].legend(fontsize=8)
counts = [2**k for k in range(13)]
for kind, line, colour in (("weak", "-", "#0072B2"), ("strong", "--", "#D55E00")):
    for tax in (False, True):
        curve = []
        for n in counts:
            work = 0.4 / (n if kind == "strong" else 1)
            waiting = delay * (1 - (1 - p_late) ** n) if tax else 0
            curve.append(100 * work / (work + waiting + all_reduce_seconds(1e8, n, 2e-6, 1 / 12e9)))
        label = f"{kind}, {'with' if tax else 'without'} stragglers"
        axes[1].semilogx(counts, curve, line, color=colour, linewidth=1 + 2 * tax, label=label, base=2)
axes[1].set(
    title="Model: 100 MB, 12 GB/s, 0.4 s of computing,\nno sending hidden behind it",
    xlabel="ranks",
    ylim=(0, 104),
)
axes[1].set_xticks([1, 16, 256, 4096], ["1", "16", "256", "4096"])
axes[1].legend(fontsize=7)
plt.show()

# %% [markdown]
# Strong scaling has an end, which a faster network only puts off: the all-reduce stays while the work shrinks. So efficiency
# is not a property of a machine; it belongs to a machine, a model *and* a batch. When somebody says “92 %”, ask: weak or
# strong?
#
# The thick lines also pay the **straggler's tax** ([lesson 05](05_stragglers.ipynb)): each rank is 30 ms late in one step of a
# hundred. The chance that *somebody* is late does not ask how fast the network is:

# %%
for n in (1, 8, 64, 256, 1024):
    late = 1 - (1 - p_late) ** n
    print(
        f"{n:5} ranks: somebody is late in {late:6.1%} of the steps, {1e3 * delay * late:4.1f} ms of tax a step"
    )

# %% [markdown]
# From 256 ranks on you pay nearly all of it, always. It is also where the tax stops growing, for a delay of a fixed length;
# for one with a long tail it never does.
#
# And the question at the top? Eight GPUs that are 7.6 times as fast as one take 5 % longer for a step. What these 5 % are decides what
# becomes of them on 64:

# %%
longer = 8 / 7.6 - 1
for what, grow in (
    ("bytes", (63 / 64) / (7 / 8)),
    ("rounds of a ring", ROUNDS["ring"](64) / ROUNDS["ring"](8)),
    ("rounds by halving", ROUNDS["halving"](64) / ROUNDS["halving"](8)),
):
    print(
        f"if it is all {what:17}: it grows {grow:.1f} times, 64 GPUs are {64 / (1 + longer * grow):.0f} times as fast"
    )

# %% [markdown]
# That holds if the network stays the same. Eight GPUs often share a machine and 64 do not: then measure 16, and fit again.
#
# ## 1,024 ranks in one process
#
# When does which bucket become ready? That needs no network. PyTorch has a process group that talks to nobody: with the
# backend `fake`, this process may call itself rank 0 of 1,024.

# %%
p = predict("15.fake_group")

# %% claims={"62": "refined"}
# %%ranks 1 --no-init --predicted
import time

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
# %%ranks --as thousand
def finished(seen, bucket):
    """Note when which bucket was ready, and send nothing."""
    seen.append((time.perf_counter(), bucket.buffer().nbytes))
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def a_step(**options):
    """The third step: seconds of forward and backward, and of each bucket when it was ready, with its bytes."""
    torch.manual_seed(0)
    ddp = DistributedDataParallel(
        torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(9)]), **options
    )
    seen, inputs = [], torch.randn(32, 1024)
    ddp.register_comm_hook(seen, finished)
    for _ in range(3):
        seen.clear()
        begin = time.perf_counter()
        loss = ddp(inputs).sum()
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
    return middle - begin, end - middle, [(at - middle, size) for at, size in seen]


step, explicit = a_step(), a_step(bucket_cap_mb=25)
for name, (_, _, ready) in (("default:         ", step), ("bucket_cap_mb=25:", explicit)):
    print(name, [round(size / 2**20, 1) for _, size in ready], "MiB")
assert len(step[2]) > len(explicit[2])

# %% [markdown]
# So a thousand ranks can be tried out in a single process, as far as *structure* goes: which collectives, in which order, of
# what size. (Saying `bucket_cap_mb=25` is not saying nothing, as [lesson 04](04_buckets.ipynb) has it.) Values are those of
# one rank, and time is not there at all. That is what the model is for. A bucket is sent when it is ready *and* the one before
# it is through: not with the beginning of backward, not together with the others, and each as an all-reduce of its own, which pays the
# latency of 2(*n* - 1) rounds once more. What is sent while backward computes is hidden behind it; forward hides nothing, because it is
# over by then:


# %%
def replay(step, n, latency, per_byte, algorithm="ring"):
    """When each all-reduce of a step begins and ends, and when the step is over; seconds since backward began."""
    _, backward, ready = step
    free, bars = 0.0, []
    for at, size in ready:
        begin = max(at, free)
        free = begin + all_reduce_seconds(size, n, latency, per_byte, algorithm)
        bars.append((begin, free))
    return bars, max(backward, free)


def efficiency(step, n, *numbers, algorithm="ring"):
    forward, backward, _ = step
    return (forward + backward) / (forward + replay(step, n, *numbers, algorithm)[1])


def computed_in(seconds, step):
    """The same step on a faster computer: all its moments shrink alike."""
    forward, backward, ready = step
    shrink = seconds / (forward + backward)
    return forward * shrink, backward * shrink, [(at * shrink, size) for at, size in ready]


step = thousand["step"][0]
#: What computes and what sends belong together: nobody has the last one.
SYSTEMS = {
    "this CPU, network as here": (step, pair, "o", "#0072B2"),
    "a GPU (1 ms), fast network": (computed_in(1e-3, step), FAST, "^", "#D55E00"),
    "this CPU, fast network": (step, FAST, ".", "#999999"),
}
ranks = [2**k for k in range(1, 15)]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
rows = [(n, algorithm) for n in (8, 1024) for algorithm in ("ring", "halving")]
for row, (n, algorithm) in enumerate(rows):
    bars, _ = replay(step, n, *pair, algorithm)
    axes[0].broken_barh(
        [(0, 1e3 * step[1])], (row - 0.35, 0.35), facecolors="#0072B2", hatch="///", edgecolor="black"
    )
    axes[0].broken_barh(
        [(1e3 * a, 1e3 * (b - a)) for a, b in bars], (row, 0.35), facecolors="#E69F00", edgecolor="black"
    )
axes[0].set_yticks(range(4), [f"{n} ranks\n{'ring' if how == 'ring' else 'halving'}" for n, how in rows])
axes[0].set(ylim=(3.6, -0.6), xlabel="ms since backward began", title="Blue: backward. Orange: all-reduces")
at_1024 = {}
for name, (computed, numbers, style, colour) in SYSTEMS.items():
    for algorithm, line in (("ring", "-"), ("halving", "--")):
        shares = {n: efficiency(computed, n, *numbers, algorithm=algorithm) for n in ranks}
        at_1024[name, algorithm] = shares[1024]
        axes[1].semilogx(
            ranks,
            [100 * share for share in shares.values()],
            style + line,
            color=colour,
            markersize=4,
            label=f"{name}, {algorithm}",
            base=2,
        )
slow, fast, nobodys = (at_1024[name, "ring"] for name in SYSTEMS)
assert fast < 0.5
assert fast < nobodys  # the faster computer hides less
axes[1].set(
    title=f"A ring of 1,024: here {slow:.0%}, with GPUs {fast:.0%}",
    xlabel="ranks",
    ylabel="efficiency (%)",
    ylim=(0, 104),
)
axes[1].set_xticks([2, 16, 128, 1024, 16384], ["2", "16", "128", "1024", "16384"])
figure.legend(
    *axes[1].get_legend_handles_labels(), fontsize=8, ncols=3, loc="outside lower center", frameon=False
)
plt.show()

# %% [markdown]
# Where the ring loses with every doubling of ranks, bandwidth has nothing to do with it: that term stops growing after a few
# ranks. Halving and doubling pays few rounds. With microseconds a round the same ring would last far longer (grey), but such a network
# comes with GPUs, and those compute this step in about a millisecond (an assumption: all moments of the measured step, shrunk). So there is
# less time to hide the sending behind, and the ring of 1,024 loses most of it. **What scales is a ratio: computing to sending.** A faster
# network raises it, a faster GPU lowers it; a larger batch per rank, or accumulation ([lesson 10](10_accumulation.ipynb)), raises it again.
#
# ## What others have measured
#
# **One all-reduce.** Stas Bekman's *Machine Learning Engineering Open Book* (`stas00/ml-engineering`, commit `0cc3de5`) prints the
# bandwidth of all-reduces over 32 B200 GPUs in four nodes (`network/benchmarks/README.md`) and over the eight of one node
# (`network/README.md`). `algbw` is size / time. `busbw`, the other word in every such table, is `algbw` · 2(*n* - 1)/*n*: the bandwidth of
# our formula where latency is nothing. Fit the 32:

# %%
ALGBW = "0.33 0.66 1.21 2.10 3.61 6.44 10.73 16.33 26.12 37.06 73.76 102.07 134.45 146.18 159.95 188.90 191.62 193.37 194.14 194.43"
speeds = [1e9 * float(word) for word in ALGBW.split()]  # bytes/s for 32 KiB, 64 KiB, ... 16 GiB
published = {(32, 2 ** (15 + k)): 2 ** (15 + k) / speed for k, speed in enumerate(speeds)}
latency, per_byte = fit(published)
misses = {size: fitted(size, 32, latency, per_byte) / t for (_, size), t in published.items()}
worst = min(misses, key=misses.get)
print(f"{1e6 * latency:.1f} microseconds a round, {1e-9 / per_byte:.0f} GB/s")
print(
    f"predicted / measured: {misses[2**15]:.2f} at 32 KiB, {misses[2**34]:.2f} at 16 GiB, {misses[worst]:.2f} at its"
)
print(f"worst, which is {worst / 2**20:.0f} MiB")

# %% [markdown]
# Two numbers describe a range of half a million in size to within a factor of two. In the middle, where gradients' buckets live, they
# promise nearly twice the speed that was measured: NCCL changes protocol and algorithm with the size, and a pipeline has to fill before it
# flows. Where you need the middle, measure the middle. And they are a description, not a network: up to 16 MiB NCCL used a tree here, with
# fewer and slower rounds; and no wire carries 323 GB/s: a node has eight cards of 50 GB/s, and several rings leave it side by side.
#
# A fit to one number of ranks says nothing about another. So **predict the eight of one node** with it:

# %%
ONE_NODE = {2**15: 2.17, 2**20: 58.54, 2**24: 294.36, 2**30: 721.37, 2**34: 838.97}  # busbw, GB/s
for size, busbw in ONE_NODE.items():
    measured_there = 2 * 7 / 8 * size / (busbw * 1e9)
    print(
        f"{size / 2**20:10g} MiB: predicted / measured {fitted(size, 8, latency, per_byte) / measured_there:.1f}"
    )

# %% [markdown]
# Near for small tensors, and far too slow for large ones: inside a node the bytes never meet a network card. **One latency and one
# bandwidth are right for one stretch of the way.** From eight ranks to nine both change, and a model that is to cross that border needs the
# numbers of both sides.
#
# **Whole trainings.** Horovod's documentation (`docs/benchmarks.rst`) gives scaling efficiencies on 512 GPUs: 128 servers with
# four Pascal GPUs each, 25 Gbit/s. Goyal et al. (abstract; hardware in §4.3) give about 90 % from 8 to 256 GPUs, in 32
# servers with 50 Gbit/s. What does the model say, with nothing fitted? It cannot know how well sending hides behind
# computing, so it gives **two** numbers: nothing hidden, and all of it.

# %%
PUBLISHED = [  # name, MB of gradients, images a GPU and step, images/s of a GPU, servers, Gbit/s, efficiency
    ("Inception V3", 4 * 23.9, 64, 142, 128, 25, 0.90),
    ("ResNet-101", 4 * 44.7, 64, 1656.82 / 16, 128, 25, 0.90),
    ("VGG-16", 4 * 138.4, 64, 154, 128, 25, 0.68),
    ("ResNet-50, Goyal", 100, 32, 195, 32, 50, 0.90),
]
print("                  nothing hidden  published  all hidden")
for name, megabytes, images, speed, servers, gigabits, reported in PUBLISHED:
    computing = images / speed
    sending = 2 * (servers - 1) / servers * 1e6 * megabytes / (gigabits * 1e9 / 8)
    hidden = max(computing * 2 / 3, sending) + computing / 3  # two thirds of a step are backward
    low, high = computing / (computing + sending), computing / hidden
    print(f"{name:18}{low:13.0%}{reported:11.0%}{high:12.0%}")
    assert low < reported < high

# %% [markdown]
# All four lie in between, which says little: the brackets are wide, and all but VGG-16's hold nearly any number above 88 %.
# **What is explained:** why VGG-16 is so much worse than ResNet-101. It has three times the gradients and a shorter step to hide them in. That is bytes against seconds, and it can be known before anybody rents anything. **What
# is not:** where in its bracket a training lies. Three reach 90 % though everything *could* be hidden. Imperfect overlap
# and waiting for the slowest look alike from here, and latency is left out altogether.
#
# **Where the inputs are from:** a ring that visits one server after the other passes each network card once, however many
# GPUs are in the server. Images per second of one GPU: TensorFlow's published P100 benchmarks (May 2017: synthetic data, batch
# 64 or 32); for ResNet-101 the 16-GPU total that Horovod's page prints. Horovod says “Pascal”, so P100 is a guess, and so is
# the batch of 64 beyond ResNet-101. Parameters: Keras' table of applications; Goyal et al. say 100 MB. That two thirds of a
# step are backward is a rule of thumb. And DDP? Li et al. (VLDB 2020) claim “near-linear scalability using 256 GPUs” in their
# abstract: a word, not a number, so nothing to check.
#
# ## The best bucket, calculated and measured
#
# Small buckets are sent early, but each costs its rounds. The model weighs that: take the moments at which each layer's
# gradient is there (from a backward that sends nothing), put layers into buckets, replay. Then measure real DDP, 2 ranks.

# %%
# %%ranks 2 --as caps
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

inputs = torch.randn(32, 512)


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(512, 512, bias=False) for _ in range(8)])


def backward_seconds(model):
    loss = model(inputs).sum()
    dist.barrier()
    begin = time.perf_counter()
    loss.backward()
    return time.perf_counter() - begin


alone, notes, runs = layers(), [], []
for parameter in alone.parameters():
    parameter.register_post_accumulate_grad_hook(lambda _: notes.append(time.perf_counter()))
for _ in range(4):
    loss = alone(inputs).sum()
    notes.clear()
    dist.barrier()
    begin = time.perf_counter()
    loss.backward()
    runs.append([at - begin for at in notes])
ready = min(runs, key=max)  # the fastest

models = {cap: DistributedDataParallel(layers(), bucket_cap_mb=cap) for cap in (1, 2, 4, 8)}
runs = [
    {cap: backward_seconds(ddp) for cap, ddp in models.items()} for _ in range(4)
]  # by turns: noise hits all
took = {cap: min(run[cap] for run in runs[1:]) for cap in models}

# %%
MIB = 2**20
ready, took = caps["ready"][0], caps["took"][0]


def backward_with(cap, latency, per_byte):
    """Seconds of a backward whose layers of 1 MiB travel in buckets of `cap` MiB."""
    members = [ready[first : first + cap] for first in range(0, 8, cap)]
    step = 0, ready[-1], [(bucket[-1], len(bucket) * MIB) for bucket in members]
    return replay(step, 2, latency, per_byte)[1]


predicted = {cap: backward_with(cap, *pair) for cap in took}
best = min(predicted, key=predicted.get), min(took, key=took.get)
figure, axes = plt.subplots(1, 2, figsize=(9, 2.9), layout="constrained")
axes[0].plot(list(predicted), [1e3 * t for t in predicted.values()], "s--", color="#E69F00", label="model")
axes[0].plot(list(took), [1e3 * t for t in took.values()], "o-", color="#0072B2", label="DDP, measured")
axes[0].set(
    title=f"Best: {best[0]} MiB (model), {best[1]} MiB (measured)", ylabel="backward (ms)", ylim=(0, None)
)
for times_latency, style, colour in ((1, "s--", "#E69F00"), (10, "^-.", "#009E73"), (100, "D:", "#CC79A7")):
    curve = {cap: backward_with(cap, times_latency * pair[0], pair[1]) for cap in took}
    label = f"latency x {times_latency}"
    axes[1].semilogy(
        list(curve), [t / min(curve.values()) for t in curve.values()], style, color=colour, label=label
    )
axes[1].set(title="The slower a round, the larger the bucket", ylabel="backward / the best")
axes[1].minorticks_off()
axes[1].set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
for panel in axes:
    panel.set_xticks([1, 2, 4, 8])
    panel.set_xlabel("MiB in a bucket, of 8 in all")
axes[0].legend(fontsize=8, loc="lower left")
axes[1].legend(fontsize=8, loc="upper right")
plt.show()

# %% [markdown]
# Run it again. Where the measured curve changes more from run to run than from cap to cap, there is nothing to tune, and that
# is an answer, too. The model also thinks that sending costs the computing nothing; on a CPU both want the same cores. What
# it is good for is the *slope*, on the right: how does the answer move when the network is another? Slow rounds want large
# buckets.
#
# ## Sending less: communication hooks
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
    """Accuracy on digits that were not trained on, bytes reduced in the last step, the losses of rank 0."""
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
    print(f"{name:22}{bytes_sent:8,} bytes a step, 1/{results['none'][1] / bytes_sent:.0f}")

# %%
results = hooks["results"][0]
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for (name, (right, _, losses)), (line, colour) in zip(
    results.items(), (("-", "black"), (":", "#56B4E9"), ("--", "#009E73"), ("-.", "#D55E00")), strict=True
):
    axes.plot(losses, line, color=colour, linewidth=2, label=f"{name}: {right:.0%} right")
axes.set(title="PowerSGD lives on its error feedback", xlabel="step", ylabel="loss of rank 0", ylim=(0, None))
axes.legend(fontsize=8)
plt.show()
assert abs(results["fp16"][0] - results["none"][0]) < 0.02
assert results["PowerSGD"][0] > results["PowerSGD, no feedback"][0] + 0.05

# %% [markdown]
# fp16 changes nothing that can be seen. PowerSGD of rank 2 sends a small part, and is somewhat behind: it is *another*
# optimizer, to be tuned like one. Without error feedback it falls far behind. (It pays where bandwidth is the trouble. It
# costs computing, and more rounds: latency gets *worse*. `bf16_compress_hook` raises a TypeError on a torch that has neither
# NCCL nor XCCL: `_check_comm_hook`, `distributed.py`.)
#
# ### Half the bytes for free?
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
# ## Where DDP ends: memory
#
# With fp32 and Adam a parameter needs 4 bytes of weight, 4 of gradient and 8 of Adam's two
# means: 16 (plus 4 for buckets, unless `gradient_as_bucket_view=True`; [lesson 04](04_buckets.ipynb)). Mixed precision as in
# the ZeRO paper is no cheaper: 2 + 2, and 12 for fp32 weights and Adam. And activations come on top. Do more ranks help?

# %%
p = predict("15.thousand_ranks")

# %%
# %%ranks 1 --no-init --predicted --as out
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def held(world_size):
    """Bytes a parameter that this rank of `world_size` holds after a step."""
    dist.init_process_group("fake", rank=0, world_size=world_size)
    ddp = DistributedDataParallel(torch.nn.Linear(256, 256, bias=False), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(ddp.parameters())

    def finished(state, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    ddp.register_comm_hook(None, finished)
    ddp(torch.ones(1, 256)).sum().backward()
    optimizer.step()
    (weight,) = ddp.parameters()
    state = optimizer.state[weight]
    total = weight.nbytes + weight.grad.nbytes + state["exp_avg"].nbytes + state["exp_avg_sq"].nbytes
    dist.destroy_process_group()
    return total / weight.numel()


before, after = held(8), held(1024)
print(before, "bytes a parameter on 8 ranks,", after, "on 1024")

# %% [markdown]
# Each rank of DDP holds everything: all of it is there 1,024 times. **ZeRO** (Rajbhandari et al., 2020) cuts up what need not be everywhere, in three steps: the
# optimizer's state; the gradients as well; the weights as well. Does this function agree with the paper's Figure 1 (7.5
# billion parameters, 64 ranks, mixed precision: 120, 31.4, 16.6 and 1.9 GB)?


# %%
def bytes_a_parameter(ranks, weights, gradients, optimizer, cut=""):
    """`cut` names what is divided among the ranks: any of w, g, o."""
    parts = {"w": weights, "g": gradients, "o": optimizer}
    return sum(size / (ranks if part in cut else 1) for part, size in parts.items())


STAGES = {"DDP": "", "ZeRO 1": "o", "ZeRO 2": "og", "ZeRO 3, FSDP": "ogw"}
for name, cut in STAGES.items():
    print(f"{name:13}{7.5 * bytes_a_parameter(64, 2, 2, 12, cut):6.1f} GB")

# %%
ranks = [2**k for k in range(11)]
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for (name, cut), (style, colour) in zip(
    STAGES.items(),
    (("o-", "#D55E00"), ("s--", "#E69F00"), ("^-.", "#56B4E9"), ("D:", "#009E73")),
    strict=True,
):
    axes.loglog(
        ranks, [7 * bytes_a_parameter(n, 4, 4, 8, cut) for n in ranks], style, color=colour, label=name
    )
axes.axhline(80, color="black", linewidth=1, label="a GPU of 80 GB")
axes.set_xticks([1, 8, 64, 1024], ["1", "8", "64", "1024"])
axes.set_yticks([1, 10, 100], ["1", "10", "100"])
axes.minorticks_off()
axes.set(
    title="7 billion parameters: more ranks never help DDP", xlabel="ranks", ylabel="GB a rank (fp32, Adam)"
)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## What comes next, for real
#
# The first step is in PyTorch as `ZeroRedundancyOptimizer`, beside DDP; all three as **FSDP2** (`fully_shard`), in its place.
# The same model, data and Adam, three ways, on two ranks:

# %%
# %%ranks 2 --as three
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

rank = dist.get_rank()


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])


def mine(tensor):
    """What this rank holds of it."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def steps(model, optimizer, count=3):
    for step in range(count):
        batch = torch.randn(8, 256, generator=torch.Generator().manual_seed(10 * step + rank))
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def held(model, state):
    parameters = list(model.parameters())
    means = [value for entry in state.values() for name, value in entry.items() if name != "step"]
    found = (parameters, [p.grad for p in parameters], means)
    return [
        round(sum(mine(t).nbytes for t in part) / sum(p.numel() for p in parameters), 2) for part in found
    ]


ddp = DistributedDataParallel(net(), gradient_as_bucket_view=True)
adam = torch.optim.Adam(ddp.parameters(), lr=1e-3)
zero = DistributedDataParallel(net(), gradient_as_bucket_view=True)
cut_adam = ZeroRedundancyOptimizer(zero.parameters(), torch.optim.Adam, lr=1e-3)
fsdp = net()
mesh = init_device_mesh("cpu", (2,))  # without it, FSDP2 takes a GPU where there is one
for layer in fsdp:
    fully_shard(layer, mesh=mesh)
fully_shard(fsdp, mesh=mesh)
shard_adam = torch.optim.Adam(fsdp.parameters(), lr=1e-3)
for model, optimizer in ((ddp, adam), (zero, cut_adam), (fsdp, shard_adam)):
    steps(model, optimizer)

print("bytes a parameter on this rank: weights, gradients, optimizer")
print("  DDP                    ", held(ddp, adam.state))
print("  ZeroRedundancyOptimizer", held(zero, cut_adam.optim.state))
print("  FSDP2                  ", held(fsdp, shard_adam.state))
right = list(ddp.parameters())
for name, found in (
    ("ZeRO", list(zero.parameters())),
    ("FSDP2", [p.full_tensor() for p in fsdp.parameters()]),
):
    same = all(torch.allclose(a, b, atol=1e-6) for a, b in zip(right, found, strict=True))
    print(f"same weights as DDP, {name}: {same}")

# %% [markdown]
# Three times the same training, and just the bytes that the function says (for two ranks: 4 + 4 + 8, 4 + 4 + 4, 2 + 2 + 4).
# ZeRO 1 cuts between whole parameters, so the shares are equal only where parameters can be dealt out equally. Nothing is
# free, and one step of each shows what is sent for it:

# %%
# %%ranks --as sent_ddp
steps(ddp, adam, 1)

# %%
# %%ranks --as sent_zero
steps(zero, cut_adam, 1)

# %%
# %%ranks --as sent_fsdp
steps(fsdp, shard_adam, 1)

# %%
from collections import Counter

for name, outcome in (("DDP", sent_ddp), ("ZeRO 1", sent_zero), ("FSDP2", sent_fsdp)):
    print(f"{name:7}", dict(Counter(item.op for item in outcome.collectives[0])))

# %% [markdown]
# DDP: one bucket. ZeRO 1: the same, and every rank broadcasts the weights that it has stepped. FSDP2: weights are gathered
# before each layer's forward and again before its backward, and gradients are reduced and scattered. (`ProcessGroupGloo` makes
# the reduce-scatter of an all-reduce, and keeps a part. So what is listed as `all_reduce` moves twice the bytes that a real
# reduce-scatter would.) Each lap of a ring all-reduce is a scatter or a gather, (*n* - 1)/*n* of the bytes. Two gathers and a
# scatter are three laps instead of two: one and a half times the bytes (ZeRO paper, §7). In return, only a few layers are
# whole at any time.
#
# Sharding has an end, too. By default FSDP2 cuts each parameter along its first dimension. Again 1,024 ranks in one process,
# and layers of 512 rows; as rank 0 and as rank 1,000:

# %%
# %%ranks 1 --no-init
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

for rank in (0, 1000):
    dist.init_process_group("fake", rank=rank, world_size=1024)
    model = torch.nn.Linear(512, 512)
    fully_shard(model, mesh=init_device_mesh("cpu", (1024,)))
    print(f"rank {rank:4} holds", [tuple(p.to_local().shape) for p in model.parameters()])
    dist.destroy_process_group()

# %% [markdown]
# Half of the ranks hold a row, the others nothing. Long before that, one shards within a node or a few, and replicates between
# them (*hybrid* sharding: a mesh of two dimensions); and beyond that, one splits the layers' arithmetic itself. That is
# another course.
#
# ## What goes wrong in real life
#
# - **“We doubled the GPUs, and an epoch takes as long as before.”** Strong scaling: the batch per rank was halved until
#   nothing was left to hide the sending behind. Compare with a run whose batch per rank is unchanged.
# - **“It scales to 8, not to 16.”** Eight fit into one machine. The ninth rank needs the network: another latency, another
#   bandwidth. Fit each stretch by itself. Between the B200 of the table, leaving the node makes an all-reduce of a gibibyte and more
#   twice as slow, and one below 32 MiB three to five times.
# - **Steps per second scale, the loss does not.** Weak scaling makes a larger batch. Fewer, larger steps are another training
#   (learning rate, warm-up: [lesson 10](10_accumulation.ipynb)). Time *to a given loss* is what you pay for.
# - **Compression measured on two ranks.** What is sent as zero grows with the ranks: see above.
# - **“DDP needs 16 bytes a parameter, so it fits.”** Activations are not in it, nor fragments, nor the peak while a checkpoint is
#   gathered. And the first optimizer step allocates Adam's state: a job may run out of memory *after* its first backward.
#
# ## Rule of thumb
#
# > Measure a few ranks, fit latency and bandwidth, and believe it as far as one measurement beyond the fit agrees. Rounds kill
# > small messages, bytes large ones, stragglers everything. Keep the work per rank large. Send fp16 only with a scale. 16 bytes a
# > parameter must fit beside the activations; where they do not, cut the optimizer first, then all (FSDP2).
#
# ## Your turn
#
# Three tasks wait in [exercises/15_scale](../exercises/15_scale.ipynb): fit the two numbers, predict an efficiency, and send
# halves that survive a thousand ranks. What a rank must hold is a task of [lesson 17](17_sharding.ipynb).
#
# ## Further reading
#
# - `torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py`: its docstrings are the best manual there is.
# - Rajbhandari et al., *ZeRO: Memory Optimizations Toward Training Trillion Parameter Models*, SC 2020.
# - Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB 2020.
# - Goyal et al., *Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour*, 2017: §4 is this lesson, on 256 GPUs.
# - Thakur, Rabenseifner and Gropp, *Optimization of Collective Communication Operations in MPICH*, 2005: ring, tree, halving.
#
# **Next:** [lesson 16](16_cluster.ipynb), *From laptop to cluster*. Or back to the [index](index.ipynb).
