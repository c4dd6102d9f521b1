# %% [markdown]
# # 11 · Out of memory on one rank
#
# > *“Once in a while a batch is too long, and **one** of my ranks runs out of memory. I catch the exception and go on with the
# > next batch. One time in ten there is an error about unused parameters. Sometimes it hangs. Mostly it just goes on. Can the
# > failed rank catch up? Can I reset DDP? Does it matter at all?”*
#
# Yes, yes, and yes. Of the three symptoms, “it just goes on” is the worst. Here ranks run out of memory, for real, at each
# place of a step, and you look at what the others see. Then come the ways out. Each is run, compared with one process that never
# failed, and given a price.
#
# **You will be able to** say from the place of a failure what will follow, write a training step that survives it in forward
# and backward, correct the mean afterwards, and choose the cheapest way for *your* failure rate. 100 minutes.
#
# **Before this:** lessons 00, 04 and 06.

# %%
# %load_ext course_lib

# %% [markdown]
# ## A real one
#
# No GPU is needed to run out of memory. The operating system can forbid a process to grow, and then an allocation fails. The
# model reads texts. Like plain attention it builds a table of *n* × *n* numbers for a text of length *n*, so one long text is
# enough. (The lesson stays on the CPU, with gloo, also where there are GPUs. It needs Linux: it reads `/proc` and relies on
# `RLIMIT_AS`.)

# %% claims={"21": "holds"}
# %%ranks 3 --backend gloo
import resource
from contextlib import contextmanager, suppress
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, world = dist.get_rank(), dist.get_world_size()


@contextmanager
def memory_left(mib):
    """In this block the process may grow by so many MiB and no further."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + mib * 2**20, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def out_of_memory(error):
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


class Reader(nn.Module):
    def __init__(self, norm=None):
        super().__init__()
        self.weight, self.norm = nn.Parameter(torch.ones(())), norm or nn.Identity()

    def forward(self, text):
        looks = (text[:, None] * text[None, :]).softmax(1)  # n x n: who looks at whom
        return self.weight * self.norm((looks @ text)[:, None]).mean()


try:
    with memory_left(600):
        Reader()(torch.ones(20_000))
except RuntimeError as error:
    print(type(error).__name__, "-", error)
print("a short text after that:", round(Reader()(torch.ones(40)).item(), 3))
print("OutOfMemoryError is a RuntimeError, too:", issubclass(torch.OutOfMemoryError, RuntimeError))

# %% [markdown]
# The process is healthy afterwards: the next, shorter text is read as if nothing had happened. That is what makes it so
# tempting to catch this error. Mind its type: on a GPU it is a `torch.OutOfMemoryError`; on a CPU it is a plain
# `RuntimeError`, and you know it by its text. Where you have a GPU, this is the same experiment on it:

# %% tags=["nbval-ignore-output"]
# %%ranks --only 0
if torch.cuda.is_available():
    torch.cuda.set_per_process_memory_fraction(0.05)  # of the GPU, for this process
    try:
        Reader().cuda()(torch.ones(int((torch.cuda.get_device_properties(0).total_memory / 8) ** 0.5)).cuda())
    except RuntimeError as error:
        print(type(error).__name__, isinstance(error, torch.OutOfMemoryError))
    torch.cuda.set_per_process_memory_fraction(1.0)
else:
    print("no GPU here")

# %% [markdown]
# > **On GPUs.** `torch.OutOfMemoryError` comes from PyTorch's caching allocator. What allocates beside it raises other
# > RuntimeErrors: CUDA itself a `torch.AcceleratorError` (“CUDA error: out of memory”), cuBLAS one with
# > `CUBLAS_STATUS_ALLOC_FAILED` in its text, NCCL a `torch.distributed.DistBackendError`. `out_of_memory` above knows none of
# > these and lets them through. (Read in `CUDAException.cpp`, `ATen/cuda/Exceptions.h` and `NCCLUtils.hpp`, not run here.)
#
# ## Swallowed
#
# Here is the loop of the question. To see whose gradients meet in an all-reduce, make them ballot papers, as in
# [lesson 05](05_stragglers.ipynb): text number *k* has a gradient of *k* on rank 0, 100 *k* on rank 1 and 10,000 *k* on rank
# 2. So a sum of 30,303 says: this is everybody's third text. Rank 0's third one is too long.

# %%
p = predict("11.one_text_less")


# %% claims={"8": "wrong"}
# %%ranks --watch --predicted --as out
def text(number):
    length = 20_000 if (rank, number) == (0, 3) else 40
    return torch.full((length,), number * 100.0**rank)


ledger = []
ddp = DistributedDataParallel(Reader())
optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-9)
for number in range(1, 7):
    try:
        with memory_left(600):
            loss = ddp(text(number))
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        continue  # “tough it out”
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ballots = round(world * ddp.module.weight.grad.item())
    ledger.append([ballots // 100**r % 100 for r in range(world)])

# %%
for step, texts in enumerate(out["ledger"][1], 1):
    print(
        f"step {step}: text {texts[0]} of rank 0 with text {texts[1]} of rank 1 and text {texts[2]} of rank 2"
    )
assert [4, 3, 3] in out["ledger"][1]

# %%
import matplotlib.pyplot as plt

MARKS = (("o", "#D55E00"), ("s", "#0072B2"), ("^", "#009E73"))
_, axes = plt.subplots(figsize=(7, 2.5), layout="constrained")
for texts in out["ledger"][1]:
    mixed = len(set(texts)) > 1
    axes.plot(texts, range(3), "--" if mixed else "-", color="#D55E00" if mixed else "#888888", zorder=1)
for r, (marker, colour) in enumerate(MARKS):
    axes.plot(range(1, 7), [r] * 6, marker, color="white", mec=colour, ms=19, mew=1.5, zorder=2)
    for number in range(1, 7):
        axes.text(number, r, str(number), ha="center", va="center", fontsize=10, zorder=3)
axes.plot(3, 0, "x", color="black", ms=22, mew=1.5, zorder=4)
for r in (1, 2):
    axes.text(6.35, r, "waits", va="center", fontsize=9)
axes.set_yticks(range(3), [f"rank {r}" for r in range(3)])
axes.set(
    title="After the failure, each all-reduce mixes different iterations", ylim=(2.6, -0.6), xlim=(0.5, 7)
)
axes.set_xlabel("number of the text; lines: what was averaged together")
axes.set_xticks([])
plt.show()

# %% [markdown]
# A collective has no name and no step number. The third all-reduce of rank 0 meets the third of the others, whatever they
# mean by it ([lesson 00](00_first_ranks.ipynb)). So rank 0 stays one text ahead. There is no message until the data ends,
# where ranks 1 and 2 wait for an all-reduce that rank 0 will not make: until its process ends, or for half an hour (gloo's
# default). The panel above can name the cause because of `--watch`: with it, the course notes exceptions that your code
# catches. The ranks themselves have printed nothing.
#
# > **On GPUs.** With NCCL, `backward()` returns as soon as the all-reduce is enqueued. The program of a waiting rank runs on and
# > blocks at the next line that needs a number from the GPU, often `loss.item()`: that is the line a stack shows. After ten
# > minutes, NCCL's default, the watchdog thread ends the process. (Read in `ProcessGroupNCCL.cpp`, not run here.)
#
# “Like a slow start”? The others wait for a rank that is late, and then average with the gradient they waited for. Here nobody
# waits, and a different gradient arrives.
#
# To be fair: in this loop the mixture does no harm to the weights. All ranks have taken the same number of steps, so all gradients
# were computed at the same weights; only the pairing differs. The harm begins with the first line that *counts*. Log the mean
# loss at every third text:

# %%
# %%ranks --watch --expect hang --as out
trace, weights = [], []
ddp = DistributedDataParallel(Reader())
optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-9)
for number in range(1, 8):
    try:
        with memory_left(600):
            loss = ddp(text(number))
    except RuntimeError:
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    trace.append((f"gradient of text {number}", ddp.module.weight.grad.item() * world))
    weights.append(ddp.module.weight.item())
    if number % 3 == 0:
        mean_loss = loss.detach().clone()
        dist.all_reduce(mean_loss)
        trace.append((f"loss of text {number}", mean_loss.item()))

# %%
for position, everyones in enumerate(zip(*out["trace"].values(), strict=False), 1):
    named = " | ".join(f"{what:18}" for what, _ in everyones)
    print(f"all-reduce {position}: {named}")
print("weights still equal:", len({seen[3] for seen in out["weights"].values()}) == 1)

# %% [markdown]
# The losses of two ranks have been added to the gradient of the third, which then took a step along the sum. Shapes and types
# happened to fit, so gloo had no reason to object (other shapes may end in an abort). The weights have gone apart, silently.
# An evaluation or a checkpoint “every 1,000 batches” with a collective in it counts as well.
#
# A BatchNorm gives the shift away. Its buffers are broadcast as the next forward begins
# ([lesson 09](09_synchronised.ipynb)), and that meets the others' all-reduce:

# %%
# %%ranks --watch --expect hang
ddp = DistributedDataParallel(Reader(nn.BatchNorm1d(1)))
for number in range(1, 7):
    try:
        with memory_left(600):
            loss = ddp(text(number))
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        continue
    loss.backward()

# %% [markdown]
# All three are blocked in the next step, and again no rank has printed a word about memory.
#
# ## In the middle of backward
#
# Backward needs memory, too. The next model has four layers and a *trap*: an operation that, at a place of your choice, asks
# for scratch memory that no machine has. The allocation fails as before, but at a known place.


# %%
# %%ranks
PETABYTE = 2**50


class Scratch(torch.autograd.Function):
    """The identity, whose backward needs so many bytes for a moment, as many kernels do."""

    @staticmethod
    def forward(ctx, x, needs):
        ctx.needs = needs
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        torch.empty(ctx.needs, dtype=torch.uint8)
        return gradient, None


class Net(nn.Module):
    """64 -> 16 -> 16 -> 16 -> 10. `trap`: how many layers have their gradients when memory runs out, or "forward"."""

    def __init__(self):
        super().__init__()
        sizes = [64, 16, 16, 16, 10]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.trap = None

    def forward(self, x):
        trap, self.trap = self.trap, None  # it springs once
        if trap == "forward":
            torch.empty(PETABYTE, dtype=torch.uint8)
        for number, layer in enumerate(self.layers):
            x = layer(Scratch.apply(x, PETABYTE if trap == 4 - number else 0)).tanh()
        return Scratch.apply(x, PETABYTE if trap == 0 else 0)


def inputs(number, of_rank=rank):
    generator = torch.Generator().manual_seed(100 * number + of_rank)
    return torch.randn(8, 64, generator=generator).requires_grad_()


# %%
p = predict("11.half_a_backward")

# %%
# %%ranks --watch --predicted
ddp = DistributedDataParallel(Net())
for number in range(6):
    ddp.module.trap = 2 if (rank, number) == (0, 2) else None
    try:
        ddp(inputs(number)).square().mean().backward()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise

# %% [markdown]
# There is the error about “parameters that were not used”, and its advice leads away from the cause. All parameters were
# used; a backward was *interrupted*, one step before the line that raises. Read the panel's first line, not the error's.
#
# ## Why it only crashes now and then
#
# The forum's explanation: the error appears when memory ran out before the first bucket was done. Look for the border. Memory
# runs out on rank 0, at six places of the third of six steps: in the forward, in backward with the gradients of 0, 1, 2 or 4
# layers there, and in the optimizer. Each with one bucket for everything, with a bucket for each parameter, and with the
# flag that the error message recommends. Rank 0 catches *everything*. When it is through, it closes its connections, so that
# whoever still waits for it is woken.

# %% claims={"9": "incomplete", "11": "wrong"}
# %%ranks --as out
import gc

PLACES = {
    "forward": "forward",
    "0 of 4": 0,
    "1 of 4": 1,
    "2 of 4": 2,
    "4 of 4": 4,
    "step": "step",
}
KINDS = {
    "one bucket": {"bucket_cap_mb": 25},
    "a bucket for each parameter": {"bucket_cap_mb": 1e-6},
    "find_unused_parameters": {"find_unused_parameters": True},
}


def what_follows(trap, options):
    """What became of this rank's six steps, and its first weight after each step that it took."""
    group = dist.new_group([0, 1])  # rank 2 has a break
    if rank == 2:
        return "", []
    torch.manual_seed(0)
    ddp = DistributedDataParallel(Net(), process_group=group, **options)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    life, weights = "", []
    for number in range(6):
        now = trap if (rank, number) == (0, 2) else None
        ddp.module.trap = None if now == "step" else now
        try:
            optimizer.zero_grad()
            ddp(inputs(number)).square().mean().backward()
            torch.empty(PETABYTE if now == "step" else 0, dtype=torch.uint8)  # Adam makes its state here
            optimizer.step()
        except RuntimeError as error:
            life += "m" if out_of_memory(error) else "E" if rank == 0 else "h"
            if rank == 1:  # it fails only where rank 0 hangs up
                break
        else:
            life += "."
            weights.append(ddp.module.layers[0].weight[0, 0].item())
    del ddp
    gc.collect()
    dist.destroy_process_group(group)
    del group  # the last one who holds its connections
    gc.collect()
    return life, weights


gc.freeze()
found = {
    (kind, place): what_follows(trap, options)
    for kind, options in KINDS.items()
    for place, trap in PLACES.items()
}

# %%
lives = out["found"]
for kind in dict.fromkeys(kind for kind, _ in lives[0]):
    print(f"{kind:28}" + "".join(f"{place:9}" for _, place in lives[0] if _ == kind))
    for r in (0, 1):
        print(f"  rank {r:<21}" + "".join(f"{lives[r][k][0]:9}" for k in lives[r] if k[0] == kind))
print("\n. a step   m out of memory   E another error   h stuck")


def verdict(key):
    life, weights = lives[0][key]
    if "E" in life:
        return "E"
    others = lives[1][key][1]
    return "s" if weights == others[: len(weights)] else "d"


verdicts = {key: verdict(key) for key in lives[0]}
for kind in dict.fromkeys(kind for kind, _ in lives[0]):
    assert [v for (k, _), v in verdicts.items() if k == kind] == ["s", "s", "E", "E", "E", "d"]

# %%
LOOKS = {
    "s": ("#E69F00", "///", "silent: iterations are mixed, then a hang"),
    "E": ("#56B4E9", "...", "rank 0 raises in every later forward, the others hang"),
    "d": ("#D55E00", "xxx", "silent: rank 0 misses a step, weights differ for ever"),
}
kinds = list(dict.fromkeys(kind for kind, _ in verdicts))
places = list(dict.fromkeys(place for _, place in verdicts))
figure, axes = plt.subplots(figsize=(7.4, 2.7), layout="constrained")
for (kind, place), letter in verdicts.items():
    colour, hatch, _ = LOOKS[letter]
    corner = (places.index(place) - 0.5, kinds.index(kind) - 0.45)
    axes.add_patch(plt.Rectangle(corner, 1, 0.9, facecolor=colour, hatch=hatch, edgecolor="#444444", lw=0.6))
axes.set(
    xlim=(-0.5, 5.5),
    ylim=(2.5, -0.5),
    xlabel="where in the step memory runs out: gradients of so many layers are there",
)
axes.set_xticks(range(6), [place.replace("step", "optimizer") for place in places])
axes.set_yticks(
    range(3), [kind.replace(" for ", "\nfor ").replace("_unused_", "_unused_\n") for kind in kinds]
)
axes.set_title("It only “crashes” where the backward was cut short after its first gradient", fontsize=11)
patches = [
    plt.Rectangle((0, 0), 1, 1, facecolor=colour, hatch=hatch, edgecolor="#444444", label=label)
    for colour, hatch, label in LOOKS.values()
]
figure.legend(handles=patches, fontsize=8, loc="outside lower center", frameon=False)
plt.show()

# %% [markdown]
# The border is the first *gradient*, not the first bucket: the two upper rows are the same. When the first gradient arrives,
# `Reducer::mark_variable_ready` sets `require_finalize_`, and `finalize_backward` takes it back at the end of a complete
# backward. A later forward finds it set and raises (`ensure_prior_reduction_finished`; all in
# `torch/csrc/distributed/c10d/reducer.cpp`). Before the first gradient, nothing has been noted, and the next forward prepares
# the reducer anew (`prepare_for_backward`), as after any forward that was thrown away. The flag from the message changes
# nothing: it looks for parameters outside the graph, and all of these were in it.
#
# That can explain the “one time in ten”. Activations pile up in the forward and are freed in backward: memory is often
# fullest around the turn, where nothing has been noted yet. What you *see* as crashes are the failures that come later. The
# times that “worked” were the shift.
#
# And the last two columns are the worst. With all gradients reduced, rank 1 takes its third step and rank 0 does not. If that
# is in the optimizer (Adam allocates its state in its *first* step), there is no message at all: the weights differ for the
# rest of the training. The optimizer's step must never be inside that `try`.
#
# ## Half-reduced is worth nothing
#
# What do the gradients look like that such a backward leaves behind? Once more two of four layers, a bucket for each
# parameter, and gradients that are views into the buckets (`gradient_as_bucket_view=True`, which saves memory):


# %%
# %%ranks --as out
def photograph():
    """What is in each layer's .grad when rank 0 has failed with the gradients of two of four layers."""
    group = dist.new_group([0, 1])
    if rank == 2:
        return []
    torch.manual_seed(0)
    net = Net()
    ddp = DistributedDataParallel(net, process_group=group, bucket_cap_mb=1e-6, gradient_as_bucket_view=True)
    for number in range(2):
        ddp(inputs(number)).square().mean().backward()
    own = torch.autograd.grad(net(inputs(2)).square().mean(), [layer.weight for layer in net.layers])
    mean = [gradient / 2 for gradient in own]
    for gradient in mean:
        dist.all_reduce(gradient, group=group)
    net.zero_grad(set_to_none=False)
    net.trap = 2 if rank == 0 else None
    with suppress(RuntimeError):
        ddp(inputs(2)).square().mean().backward()
    names = []
    for layer, one, all_ in zip(net.layers, own, mean, strict=True):
        likely = {"the mean": all_, "half its own": one / 2, "its own": one, "zeros": 0 * one}
        fits = [name for name, value in likely.items() if torch.allclose(layer.weight.grad, value, atol=1e-7)]
        names.append(fits[0] if fits else "something else")
    del ddp
    gc.collect()
    dist.destroy_process_group(group)
    return names


photo = photograph()

# %%
print("rank 1: " + ", ".join(f"layer {n}: {what}" for n, what in enumerate(out["photo"][1])))

# %% [markdown]
# Rank 1, which did nothing wrong, holds a gradient that belongs to no batch: two layers are averaged, two are its own,
# divided by the number of ranks already. (Rank 0's changes from run to run: its buckets may still be under way while you
# look.) Whatever you do after a failed backward, on *every* rank: throw the gradients away, or fill in what is missing before
# anybody steps. Both follow.
#
# ## A bench for ways out
#
# From here on, a way out is a function that does one training step. The bench trains for four steps on three ranks; in the
# third, rank 1's trap springs. At the end it asks: are the weights equal on all ranks, bit by bit? And which single process,
# without DDP and without a failure, ends with the same weights, up to rounding?


# %%
# %%ranks
def loss_of(model, x):
    return (model(x) - 0.5).square().mean()


def train(step, place):
    """Four steps, with a failure at this place of the third on rank 1; the weights."""
    torch.manual_seed(0)
    ddp = DistributedDataParallel(Net(), bucket_cap_mb=1e-6)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.5, momentum=0.9)
    for number in range(4):
        ddp.module.trap = place if (rank, number) == (1, 2) else None
        step(ddp, optimizer, inputs(number))
    return nn.utils.parameters_to_vector(ddp.parameters()).detach()


def alone(third):
    """The same in one process; `third`: whose batches count in the third step."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    for number in range(4):
        if members := third if number == 2 else range(world):
            optimizer.zero_grad()
            sum(loss_of(net, inputs(number, r)) / len(members) for r in members).backward()
            optimizer.step()
    return nn.utils.parameters_to_vector(net.parameters()).detach()


REFERENCES = {
    "one in which nothing failed": alone([0, 1, 2]),
    "one without that batch": alone([0, 2]),
    "one without that step": alone([]),
}


def same(weights):
    low, high = weights.clone(), weights.clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    return torch.equal(low, high)


def check(step, *places, train=train):
    for place in places:
        weights = train(step, place)
        fits = [
            name for name, right in REFERENCES.items() if torch.allclose(weights, right, rtol=0, atol=1e-6)
        ]
        equal = "equal on all ranks" if same(weights) else "DIFFERENT WEIGHTS"
        print(f"{place!s:8} {equal}, the weights of {fits[0] if fits else 'no such process'}")


# %% [markdown]
# ## Way 1: agree before backward, and skip together
#
# The smallest change. After the forward all ranks say whether they are fine: an all-reduce of one number. If somebody is not,
# all skip the batch.


# %% claims={"12": "incomplete"}
# %%ranks
def agree(ddp, optimizer, x):
    loss = None
    try:
        loss = loss_of(ddp, x)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
    fine = torch.tensor(float(loss is not None), device=x.device)
    dist.all_reduce(fine, dist.ReduceOp.MIN)
    if fine:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


check(agree, "forward")

# %% [markdown]
# “DDP cannot recover by itself”: true, but a few lines around it can. What they cost: a tiny all-reduce in each step; in a
# failure, everybody's forward: the samples of the good ranks are lost with those of the one that failed. And they cover the
# *model's* forward only. For a failure in backward they come too early: the rank raises, and the job ends.
#
# DDP has a part of its own in the forward, inside the same `try`. As the second forward begins, it rebuilds its buckets; as any
# forward begins, it packs the buffers into one tensor, if there are any. Both allocate, and both are collectives. Rank 1 gets
# no memory for the rebuilding:

# %%
# %%ranks --expect hang
from contextlib import nullcontext

from torch.utils._python_dispatch import TorchDispatchMode


class FirstFails(TorchDispatchMode):
    """In this block PyTorch's first operation gets no memory."""

    needs = PETABYTE

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        needs, self.needs = self.needs, 0
        torch.empty(needs, dtype=torch.uint8)
        return operation(*args, **(kwargs or {}))


ddp = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.5)
for number in range(4):
    x = inputs(number)
    with FirstFails() if (rank, number) == (1, 1) else nullcontext():
        agree(ddp, optimizer, x)

# %% [markdown]
# The failed rank has left a collective out, and its flag meets the one that the others are in. The rule behind it: **a `try` with
# a collective in it does not protect.** It is no rare place either: new buckets are made before the old ones go (a comment in
# `_pre_forward` says so), so memory is short there.
#
# > **On GPUs.** NCCL carries GPU tensors only ([lesson 02](02_process_groups.ipynb)), so the flag is made on the device of the
# > batch, and `if fine:` waits for the GPU in each step. An allocation fails on the host, though, so nobody needs to ask the GPU:
# > with `init_process_group("cpu:gloo,cuda:nccl")`, or in a group of its own from `dist.new_group(backend="gloo")`, a flag on the
# > CPU is reduced by gloo. (Not run here.)
#
# ## Way 2: take part with zeros
#
# The forum's idea: the failed rank contributes zeros, so the others lose nothing. Run something tiny that fits, and multiply
# its loss by zero. DDP gets its gradients, and all is well?

# %%
p = predict("11.zeros")

# %%
# %%ranks --predicted --as out
torch.manual_seed(0)
net = Net()
right = torch.autograd.grad(sum(loss_of(net, inputs(2, r)) / 2 for r in (0, 2)), net.layers[0].weight)[0]
ddp = DistributedDataParallel(net)
((rank != 1) * loss_of(ddp, inputs(2))).backward()
ratio = (net.layers[0].weight.grad.norm() / right.norm()).item()

# %% [markdown]
# DDP divides by the number of *ranks*, not by that of contributions. A zero gradient is a vote for standing still. The whole
# way, without a correction and with one:


# %%
# %%ranks
def zeros(ddp, optimizer, x, corrected=True):
    loss, good = None, torch.ones((), device=x.device)
    try:
        loss = loss_of(ddp, x)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
    if loss is None:
        ddp.require_forward_param_sync = False  # this step's buffers have been sent
        loss, good = 0 * loss_of(ddp, x[:2]), torch.zeros_like(good)
    optimizer.zero_grad()
    loss.backward()
    dist.all_reduce(good)
    if good == 0:  # nobody has a gradient; with momentum, zeros would be a step as well
        return
    for parameter in ddp.parameters():
        if parameter.grad is not None:  # a frozen one has none
            parameter.grad *= world / good if corrected else 1
    optimizer.step()


from functools import partial

print("not corrected:")
check(partial(zeros, corrected=False), "forward")
print("times ranks / good ranks:")
check(zeros, "forward")

# %% [markdown]
# So multiply by *ranks / good ranks* after backward, where gradients are means already, and before clipping. (Unequal batches:
# weigh by samples, as in [lesson 05](05_stragglers.ipynb).) Three traps: 0 × infinity is NaN, so the tiny batch must be
# harmless. A BatchNorm takes the tiny batch into its statistics, and refuses a single sample (`BatchNorm1d` in train mode needs
# two): hence two samples. Its buffers are broadcast before a forward that follows a training one
# ([lesson 09](09_synchronised.ipynb)): hence the line before the second forward of a step, which only the failed rank makes.
#
# With buffers, the hole of way 1 stays: if DDP's own part of the forward gets no memory, their broadcast is left out, and the
# ranks are stuck.
# And a rank that fails with some of its gradients reduced cannot do this: a failure in backward ends the job.
#
# **`Join`** is often named here, because it replaces missing ranks by zeros ([lesson 05](05_stragglers.ipynb)). It does so
# for a rank that has *left* the block:


# %% claims={"14": "wrong"}
def swallow_inside_join():
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Hungry(torch.nn.Linear):
        def forward(self, x):
            torch.empty(2**50 if needs_much else 1)
            return super().forward(x)

    ddp = DistributedDataParallel(Hungry(4, 4))
    with ddp.join():
        for number in range(5):
            needs_much = (dist.get_rank(), number) == (1, 2)
            try:
                ddp(torch.ones(2, 4)).sum().backward()
            except RuntimeError as error:
                if "can't allocate memory" not in str(error):
                    raise


out = run(swallow_inside_join, ranks=2, expect="died", watch=True)

# %% [markdown]
# Under `join()`, each forward begins with an all-reduce of one number that says “I am still here”
# (`Join.notify_join_context`, `torch/distributed/algorithms/join.py`). Rank 1 said so, failed, and said it again: that meets
# a bucket, and gloo aborts the process. `Join` does not help a loop that swallows errors.
#
# ## Way 3: reduce by hand
#
# Now backward, too. The plan: no collective inside the `try`, so nothing can be left out or half-reduced. `no_sync` keeps the
# gradients at home (buckets too are not rebuilt then), and one line more the buffers, if there are any. Then one single
# all-reduce carries all gradients and, as one number more, how many ranks are good. What can fail must not stand between the
# `try` and that all-reduce: its memory is made in the first step, and kept.


# %% claims={"12": "incomplete"}
# %%ranks
ANYWHERE = ["forward", 0, 2, 4]


def by_hand(ddp, optimizer, x):
    parameters = [p for p in ddp.parameters() if p.requires_grad]
    if not hasattr(ddp, "flat"):  # in the first step, once: room for one number and all gradients
        ddp.flat = torch.zeros(1 + sum(p.numel() for p in parameters), device=x.device)
    count, *parts = ddp.flat.split([1, *(p.numel() for p in parameters)])
    ddp.flat.zero_()
    optimizer.zero_grad()
    ddp.require_forward_param_sync = False  # this forward sends no buffers
    try:
        with ddp.no_sync():
            loss_of(ddp, x).backward()
        for part, p in zip(parts, parameters, strict=True):
            if p.grad is not None:
                part.view_as(p).copy_(p.grad)
        count.fill_(1)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        ddp.flat.zero_()  # half a gradient is none
    dist.all_reduce(ddp.flat)
    optimizer.zero_grad()
    good = count.item()
    if good:
        ddp.flat /= good
        for part, p in zip(parts, parameters, strict=True):
            p.grad = part.view_as(p)
        optimizer.step()


check(by_hand, *ANYWHERE)

# %% [markdown]
# Four places, one reference: the mean over the ranks that were good, as if the batch had never been drawn. The good ranks'
# work is kept, and nobody has to know beforehand. The price: the all-reduce no longer overlaps with backward
# ([lesson 04](04_buckets.ipynb)), and all gradients take up twice the memory. Where *no* rank is good, all
# must leave out the step: dividing by 0 gives NaN, and with momentum a gradient of zeros is a step, too. (Frozen parameters stay
# out of it: zeros would let weight decay move them, [lesson 08](08_unused.ipynb). A parameter that no rank has used does get
# zeros here, not None.)
#
# What is left is the optimizer. If Adam gets no memory for its state, the rank raises, and the job ends: rightly so, for some
# weights may have been moved already.
#
# And the line about buffers? Without it, the way fails for a model with a BatchNorm, if the *first* forward is the one that runs
# out of memory: the first forward after wrapping sends buffers, under `no_sync` as well ([lesson 09](09_synchronised.ipynb)).
# `_post_forward` clears the flag for that under `no_sync`, but a forward that raises does not get there:


# %%
# %%ranks
class Normed(Net):
    """With a BatchNorm in front, so with buffers."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x):
        return super().forward(self.norm(x))


ddp = DistributedDataParallel(Normed())
ddp.module.trap = "forward" if rank == 1 else None
with suppress(RuntimeError), ddp.no_sync():
    ddp(inputs(0))
print("the next forward would send buffers:", ddp.require_forward_param_sync)

ddp = DistributedDataParallel(Normed())
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.5, momentum=0.9)
for number in range(3):
    ddp.module.trap = "forward" if (rank, number) == (1, 0) else None
    by_hand(ddp, optimizer, inputs(number))
weights = nn.utils.parameters_to_vector(ddp.parameters()).detach()
print("with the line in by_hand, equal weights on all ranks:", same(weights))

# %% [markdown]
# Rank 1 alone would begin its second forward with a broadcast. Where no forward sends buffers, each rank keeps its own: average
# a BatchNorm's before you evaluate or save ([lesson 09](09_synchronised.ipynb)). A failed forward may have moved them before it
# failed, and `by_hand` does not take that back.
#
# ## Way 4: catch up
#
# “Could the failed rank not re-run just the missing buckets?” *Tricky if not impossible*, the thread says. But think of what
# the others see: they wait in an all-reduce. They do not know why. If the missing buckets come before the timeout,
# by whatever means, that was a slow rank and nothing else.
#
# So: a communication hook notes which buckets have left. After a failure, compute the batch again, in halves, without DDP;
# fill the buckets that have *not* left; send these; take the means from all.


# %% claims={"13": "incomplete"}
# %%ranks
def noting(sent, bucket):
    work = dist.all_reduce(bucket.buffer().div_(world), async_op=True)
    sent[bucket.index()] = work.get_future().then(lambda done: done.value()[0])
    return sent[bucket.index()]


def catch_up(ddp, optimizer, x, again=True):
    if not hasattr(ddp, "sent"):
        ddp.sent = {}
        ddp.register_comm_hook(ddp.sent, noting)
    ddp.sent.clear()
    optimizer.zero_grad()
    good = torch.ones((), device=x.device)
    try:
        loss_of(ddp, x).backward()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        good = torch.zeros_like(good)
    if not good:
        parameters = [p for p in ddp.module.parameters() if p.requires_grad]
        mine = {p: torch.zeros_like(p) for p in parameters}
        for half in x.detach().chunk(2) if again else ():
            loss = loss_of(ddp.module, half) * len(half) / len(x)
            for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                mine[p] += gradient
        buckets = ddp.reducer._get_zeros_like_grad_buckets()
        for bucket in buckets:
            if bucket.index() not in ddp.sent:
                for p, place in zip(bucket.parameters(), bucket.gradients(), strict=True):
                    place.copy_(mine[p])
                noting(ddp.sent, bucket)
        for bucket in buckets:
            mean = ddp.sent[bucket.index()].wait().clone()  # the reducer uses this memory again
            sizes = [p.numel() for p in bucket.parameters()]
            for p, part in zip(bucket.parameters(), mean.split(sizes), strict=True):
                p.grad = part.view_as(p)
    dist.all_reduce(good, dist.ReduceOp.MIN)
    if not good:
        ddp.reducer._reset_state()  # on every rank, or the next forward hangs
    optimizer.step()


check(catch_up, *ANYWHERE)

# %% [markdown]
# **As if nothing had failed**, at each of these places. No batch is lost, and while it happens no other rank does anything but
# wait. “Train through it, like a slow start” is what the forum wanted, and here it is. Warnings come with it:
#
# - `_get_zeros_like_grad_buckets` and `_reset_state` begin with an underscore (they exist for `Join` and for changing groups),
#   so pin your torch version. The second try must fit.
# - A BatchNorm or a dropout does not compute the same twice, and a BatchNorm sees halves here. All ranks still end with equal
#   weights, but with others than if nothing had failed.
# - With `find_unused_parameters=True`, the flag of the forum's author, the good ranks also all-reduce a map of the parameters
#   they have used. The failed rank does not, so its next collective meets that map, and gloo aborts a process.
# - DDP's own part of the forward is inside the `try`, as in way 1: a failure there is a hang.
#
# If it cannot fit, send zeros in the missing buckets: the thread's other idea, thought to be the feasible one.

# %%
# %%ranks
check(partial(catch_up, again=False), "forward", 2, 4)

# %% [markdown]
# Feasible, too: equal on all ranks. But no process would have these weights. After a failure in the forward, the factor of
# way 2 would put that right. After one in backward, some layers have averaged three batches and some two, and no single
# factor does. (At 4 of 4 everything had left, and nothing was missing.) Of the two ideas it is the weaker one.
#
# ## Way 5: throw away and rebuild
#
# Suppose the ranks do *not* agree on anything in time: rank 1 failed, the others wait in an all-reduce. “Wrap the model
# again, that resets DDP.” On the rank that failed:

# %% claims={"15": "incomplete"}
# %%ranks --expect hang
torch.manual_seed(0)
ddp = DistributedDataParallel(Net())
for number in range(5):
    ddp.module.trap = 2 if (rank, number) == (1, 2) else None
    failed = False
    try:
        loss_of(ddp, inputs(number)).backward()
    except RuntimeError as error:
        failed = out_of_memory(error)
    if failed:
        ddp = DistributedDataParallel(ddp.module)

# %% [markdown]
# The constructor makes collectives, too, and the others are in another one. All must do it, so all must *notice*. “Issue the
# failed collective again”, then? Rank 1 comes to this one after rank 0 has given up:

# %% claims={"17": "wrong"}
# %%ranks --as out
from datetime import timedelta

impatient = dist.new_group([0, 1], timeout=timedelta(seconds=0.4))
said = []
if rank == 1:
    dist.recv(torch.empty(1), src=0)
for attempt in range(2 if rank < 2 else 0):
    try:
        dist.all_reduce(torch.ones(1), group=impatient)
        said.append("ok")
    except RuntimeError as error:
        said.append(str(error).rpartition("] ")[2].partition(". This")[0])
    if (rank, attempt) == (0, 0):
        dist.send(torch.ones(1), dst=1)

# %%
print("rank 0:", [text.partition(" 400ms")[0].partition(" [")[0] for text in out["said"][0]])
print("rank 1:", out["said"][1].count("ok"), "of", len(out["said"][1]), "succeeded")
assert "ok" not in out["said"][0] + out["said"][1]

# %% [markdown]
# After a timeout gloo has closed the connection, and the group does not open it again. A *new* group is needed. With gloo there
# is a fast way to tell the others: destroy the group, and their connections break. No timeout has to pass.

# %% claims={"16": "holds", "15": "incomplete"}
# %%ranks --as rebuilt
import os
import time

ddp = None  # any older wrapper would hold on to the connections
master = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
seconds = []


def cut_off(error):
    """Whether another rank has closed the connection."""
    return "gloo/transport" in str(error)


def train_rebuilding(step, place):
    torch.manual_seed(0)
    net, ddp = Net(), None
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    for number in range(4):
        ddp = ddp or DistributedDataParallel(net)
        net.trap = place if (rank, number) == (1, 2) else None
        optimizer.zero_grad()
        failed = False
        try:
            loss_of(ddp, inputs(number)).backward()
            dist.all_reduce(torch.ones(()))  # everybody is through: only now may anybody step
        except RuntimeError as error:
            if not (out_of_memory(error) or cut_off(error)):
                raise
            failed = True
        if not failed:
            optimizer.step()
            continue
        begin = time.perf_counter()
        ddp = None  # after the except block, see below
        gc.collect()
        dist.destroy_process_group()  # closes the connections: the others raise, and come here, too
        store = dist.PrefixStore(f"attempt {len(seconds)}", master)  # no addresses of earlier attempts
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
        seconds.append(time.perf_counter() - begin)
    return nn.utils.parameters_to_vector(net.parameters()).detach()


check(None, "forward", 2, 4, train=train_rebuilding)

# %% [markdown]
# All of DDP's state and all half-reduced buckets go, the step is lost on all ranks, and the weights are right. Note the
# all-reduce before the step: without it, a failure at 4 of 4 lets the others step alone. (Give such a group a timeout that
# you can afford, as a second net: its destructor, `~ProcessGroupGloo`, waits for its threads, and so for collectives that are
# still under way. And give up after a few attempts: a rank that is gone for good would let the others rebuild for ever.)
#
# > **On GPUs.** This way is gloo's. With NCCL the other ranks receive no exception when a group is destroyed: they wait on their
# > GPUs, until their watchdog threads find an error of NCCL's or the timeout. By default a watchdog then ends its *process*
# > (`TORCH_NCCL_ASYNC_ERROR_HANDLING`, 3 by default, in PyTorch's documentation, *ProcessGroupNCCL Environment Variables*), so
# > the `except` above is never reached. (Not run here.) With NCCL, take way 3 or way 6.
#
# Note also *where* the repair stands:

# %%
# %%ranks
import weakref

ddp = DistributedDataParallel(Net())
ddp.module.trap = "forward"
still_there = weakref.ref(ddp)
try:
    ddp(inputs(0))
except RuntimeError:
    del ddp
    gc.collect()
    print("inside the except block, after del:", "alive" if still_there() else "gone")
print("after the except block:           ", "alive" if still_there() else "gone")

# %% [markdown]
# Inside `except`, the traceback holds the frames of the forward, these hold the wrapper, and the wrapper holds the
# connections. Destroy the group there, and the others wait for their timeout all the same. (On GPUs the same frames hold
# activations, too: retry inside `except`, and you may be out of memory again.)

# %% [markdown]
# ## Way 6: fail fast, and let the launcher restart
#
# No `try` at all: the rank ends, and whoever started the ranks ends the others and starts all of them again from the last
# checkpoint. `torchrun` does that, if you ask for it:
#
#     TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node=2 --max-restarts=3 train.py
#
# The variable belongs to it. Without it, the new ranks may read the addresses of the dead ones and never meet
# ([lesson 12](12_elastic.ipynb), *The store, the second time*; seen with gloo). Here the notebook plays the launcher. Once memory is
# short for a moment, in the first attempt only; once it is the batch that is too long:


# %%
def from_checkpoint(folder, attempt, too_long):
    """Ten steps, a checkpoint after every fourth; step 7 fails in the first attempt, or in each."""
    import os
    import time

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    rank, saved, first = dist.get_rank(), os.path.join(folder, "checkpoint"), 0
    ddp = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    if os.path.exists(saved):
        state = torch.load(saved, weights_only=True)
        ddp.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    for step in range(first, 10):
        with open(os.path.join(folder, "log"), "a") as log:
            log.write(f"{attempt} {step} {time.time()}\n" * (rank == 0))
        if (rank, step) == (1, 6) and (attempt == 1 or too_long):
            torch.empty(2**50)
        batch = torch.randn(8, 64, generator=torch.Generator().manual_seed(100 * step + rank))
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
        if (step + 1) % 4 == 0 and rank == 0:
            state = {"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, saved + ".new")
            os.replace(saved + ".new", saved)


import tempfile
from pathlib import Path

from course_lib import run_quietly


def launch(too_long):
    """Up to three attempts; what rank 0 has logged."""
    with tempfile.TemporaryDirectory() as folder:
        for attempt in range(1, 4):
            out = run_quietly(from_checkpoint, folder, attempt, too_long, ranks=2)
            print(f"attempt {attempt}: {'finished' if out.kind == 'ok' else 'failed'}")
            if out.kind == "ok":
                break
        return [line.split() for line in (Path(folder) / "log").read_text().splitlines()]


logs = {}
for too_long, what in ((False, "memory is short once"), (True, "the batch is too long")):
    print(what)
    logs[what] = launch(too_long)
    steps = [int(step) for _, step, _ in logs[what]]
    print("  steps:", *steps, "| done again:", len(steps) - len(set(steps)))
log = logs["memory is short once"]
restart = next(float(t) for n, _, t in log if n == "2") - max(float(t) for n, _, t in log if n == "1")

# %% [markdown]
# Little to get wrong, and one answer to every failure that does not come back. The price is a restart (here of processes that
# have torch loaded already; a real job loads libraries, data and weights again) and the steps since the checkpoint.
#
# A batch that is too long does come back: the job resumes, its sampler deals the same batch again, and it dies again, until
# `torchrun`'s `--max-restarts` is used up. There a restart repairs nothing. Cap the batches (below), or take a way that gets past
# this one.
#
# ## What each way costs
#
# First the ordinary steps, in which nothing fails: what is sent, and how long they take. The `all_reduce` of seven numbers in
# between is only a marker.


# %%
# %%ranks --as out
def plain(ddp, optimizer, x):
    optimizer.zero_grad()
    loss_of(ddp, x).backward()
    optimizer.step()


WAYS = {"plain DDP": plain, "agree": agree, "zeros": zeros, "by hand": by_hand, "catch up": catch_up}
for step in WAYS.values():
    torch.manual_seed(0)
    ddp = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for number in range(2):
        step(ddp, optimizer, inputs(number))
    dist.all_reduce(torch.zeros(7))
    step(ddp, optimizer, inputs(2))
    dist.all_reduce(torch.zeros(7))

# %%
sent = [c.sizes[0] for c in out.collectives[0]]
marks = [place for place, sizes in enumerate(sent) if sizes == (7,) or sizes == [7]]
for name, begin, end in zip(
    ("plain DDP", "agree", "zeros", "by hand", "catch up"), marks[::2], marks[1::2], strict=True
):
    numbers = [sizes[0] if len(sizes) else 1 for sizes in sent[begin + 1 : end]]
    print(f"{name:10} {len(numbers)} all-reduce(s) in a step, of {' and '.join(map(str, numbers))} numbers")


# %%
# %%ranks --as out
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
        self.trap = None

    def forward(self, x):
        trap, self.trap = self.trap, None
        if trap:
            torch.empty(PETABYTE, dtype=torch.uint8)
        return self.layers(x)


def milliseconds(repeat=15):
    """Of each way: its ordinary steps, and those in which rank 1 fails in its forward."""
    wrapped = {name: DistributedDataParallel(Wide()) for name in WAYS}
    taken = {}
    for number in range(2 * repeat):
        for name, ddp in wrapped.items():  # by turns: what else this machine does hits all of them
            fails = number % 2 == 1 and name != "plain DDP"
            ddp.module.trap = fails and rank == 1
            optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
            dist.barrier()
            begin = time.perf_counter()
            WAYS[name](ddp, optimizer, torch.ones(32, 256))
            dist.barrier()
            taken.setdefault((name, fails), []).append(1e3 * (time.perf_counter() - begin))
    return taken


taken = milliseconds()

# %%
taken = out["taken"][0]
best = {key: min(times) for key, times in taken.items()}
ordinary = {name: ms for (name, fails), ms in best.items() if not fails}
step = ordinary["plain DDP"]
kept = {"agree": 0, "zeros": 2 / 3, "by hand": 2 / 3, "catch up": 1}  # of the work of a step
price = {name: max(0.1, best[name, True] - share * ordinary[name]) for name, share in kept.items()}
price["rebuild"] = 1e3 * min(rebuilt["seconds"][1]) + step
price["restart"] = 1e3 * restart + 3 * step  # three steps are done again
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 2.9), layout="constrained")
left.barh(list(ordinary), list(ordinary.values()), color="#56B4E9", hatch="//", edgecolor="black")
for place, name in enumerate(ordinary):
    left.plot(taken[name, False], [place] * len(taken[name, False]), "k|", markersize=14, alpha=0.6)
left.set(title="an ordinary step", xlabel="milliseconds", ylim=(4.6, -0.6), xlim=(0, 3 * step))
right.barh(list(price), list(price.values()), color="#E69F00", hatch="..", edgecolor="black")
right.set(title="time lost in one failure", xlabel="milliseconds", xscale="log", ylim=(5.6, -0.6))
right.minorticks_off()
figure.suptitle("In an ordinary step the ways hardly differ, in a failure they do", fontsize=11)
plt.show()

# %% [markdown]
# (A small model, three ranks on few cores: look at the shape, not at the numbers. A stroke is one step, a bar the shortest of them:
# two ways differ less than two steps of the same way. On the right the scale is logarithmic. *Time lost* counts work that is
# thrown away, a third of a step for one rank's batch.) With a failure in one of *n* steps, a way costs *its overhead in each step +
# its price ÷ n*. A restart costs nothing but checkpoints until a failure happens: it is cheap where failures are rare, and
# expensive where they are frequent. And mind what is lost:
#
# | way | survives a failure in | and where not | what is lost | in each step |
# | --- | --- | --- | --- | --- |
# | agree, skip together | the model's forward | DDP's own part of the forward: stuck. Backward: all end | everybody's batch | one all-reduce of 1 number |
# | zeros, corrected | the model's forward | DDP's own part of the forward, with buffers: stuck. Backward: all end | one batch | one all-reduce of 1 number |
# | by hand | forward and backward | the optimizer: all end | one batch | no overlap, gradients twice in memory |
# | catch up | the model's forward, backward | DDP's own part of the forward: stuck. `find_unused_parameters`: a rank is aborted | nothing (a BatchNorm: other weights) | one all-reduce of 1 number; private functions |
# | rebuild (gloo only) | forward and backward | the optimizer: all end | everybody's batch | one all-reduce of 1 number |
# | restart | any place, if it does not come back | | all steps since the checkpoint | a checkpoint now and then |
#
# “All end” is what you want of a failure that cannot be repaired: with `torchrun`, it is way 6. “Stuck” is not.
#
# Some of it is easily miscounted. A step goes wrong when **any** rank fails. If ranks fail independently, with the chances *p₀*, *p₁*
# and so on, it goes well with the product of all (1 - *p*). An average rank fails less often than the gang, and added up, the chances
# count a step twice in which two ranks fail. All ranks must decide by the same number, too: one that decides by its own failures takes
# a different code path, and the others wait for it. With a checkpoint after every *k* steps, a failure throws away 1 to *k* of them,
# the failed one among them: (*k* + 1) / 2 on average, about half of the interval. These are done again at what a step costs, with the
# overhead of the way, after a repair that takes its time as well: a rebuild, a restart. (What fails while they are done again comes on top. It is left out of account here: where failures are rare, it
# is little.)
#
# ## Prevention
#
# The best failure is the one that does not come. The *longest* text of a batch decides how much memory it takes, for all
# others are padded to it. Here are the lengths of 512 texts, and three ways to put them into batches. (For plain attention, a
# batch needs texts × longest².)

# %%
import random

chance = random.Random(0)
lengths = [min(2000, int(chance.lognormvariate(5, 0.8))) for _ in range(512)]


def needs(batch):
    return len(batch) * max(batch) ** 2


def capped(lengths, cap):
    """As many texts as fit, longest first."""
    batches = [[]]
    for length in sorted(lengths, reverse=True):
        if batches[-1] and needs([*batches[-1], length]) > cap:
            batches.append([])
        batches[-1].append(length)
    return batches


in_order = sorted(lengths, reverse=True)
policies = {
    "16 at random": [lengths[i : i + 16] for i in range(0, 512, 16)],
    "16 of like length": [in_order[i : i + 16] for i in range(0, 512, 16)],
    "capped by size": capped(lengths, max(lengths) ** 2),
}
_, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for (name, batches), (marker, colour) in zip(policies.items(), MARKS, strict=True):
    sizes = sorted((needs(batch) / 1e6 for batch in batches), reverse=True)
    label = f"{name}: {len(batches)} batches, {sum(sizes):.0f} in all"
    where = [100 * i / len(sizes) for i in range(len(sizes))]
    axes.plot(where, sizes, marker, ms=5, mfc="none", color=colour, label=label)
axes.set(
    title="Same texts: sorting saves work, only a cap bounds the worst batch",
    xlabel="% of the batches, the largest first",
    ylabel="table entries (millions)",
    yscale="log",
)
axes.minorticks_off()
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# Batches of like length waste less padding, but the largest is as large as before: the longest text, sixteen times. A **cap
# by size** bounds it, with fewer texts in long batches (so weigh ranks by samples, [lesson 05](05_stragglers.ipynb)).
#
# And run the largest batch first, *twice*: what does not fit should fail in step 2, not on the third day. Once is not enough: Adam
# allocates its state in its first *step*, so the first backward still finds that memory free.

# %%
# %%ranks --only 0
net = Net()
optimizer = torch.optim.AdamW(net.parameters())
for number in range(2):
    loss_of(net, inputs(number)).backward()
    held = sum(
        tensor.numel() for state in optimizer.state.values() for tensor in state.values() if tensor.dim()
    )
    print(
        f"backward {number + 1}: {sum(p.numel() for p in net.parameters())} weights, {held} numbers in AdamW's state"
    )
    optimizer.step()

# %% [markdown]
# (DDP's own second step differs from its first, too: the buckets are rebuilt as its forward begins, `_rebuild_buckets` in
# `_pre_forward`.)
#
# When a batch does not fit all the same, compute it in pieces. Under `no_sync`, gradients of pieces add up, and no other rank
# needs to know; only the last reduction is common. This is a way out of its own, with nothing lost:


# %%
# %%ranks
def in_pieces(ddp, optimizer, x):
    pieces, fits = 1, False
    while not fits:
        optimizer.zero_grad()  # what a failed attempt has left is thrown away
        ddp.require_forward_param_sync = False
        try:
            with ddp.no_sync():
                for piece in x.detach().chunk(pieces):
                    (loss_of(ddp, piece.requires_grad_()) * len(piece) / len(x)).backward()
            fits = True
        except RuntimeError as error:
            if not out_of_memory(error) or pieces >= len(x):
                raise
        pieces *= 2
    parameters = [p for p in ddp.parameters() if p.requires_grad]
    flat = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(flat, dist.ReduceOp.AVG)
    for p, mean in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        p.grad = mean.view_as(p)
    optimizer.step()


check(in_pieces, "forward", 2)

# %% [markdown]
# (A BatchNorm sees smaller batches then. The rank is late for one step: [lesson 05](05_stragglers.ipynb). And where not even a
# single sample fits, it raises alone, while the others wait in the all-reduce: for that, add the flag of way 3.)
#
# ## What goes wrong in real life
#
# **The log is clean.** Somebody caught the error far away from the loop. Ask the doctor (on the command line: `ddp-course
# doctor train.py`):

# %%
from course_lib.scripts.examine import examine, verdict_text

TRAIN = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Hungry(torch.nn.Linear):
    def forward(self, x):
        if len(x) > 1000:
            torch.empty(2**50)
        return super().forward(x)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(Hungry(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    size = 2000 if (dist.get_rank(), step) == (1, 3) else 8
    try:
        loss = model(torch.randn(size, 4)).square().mean()
    except RuntimeError:
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder) / "train.py"
    script.write_text(TRAIN)
    print(verdict_text(examine(str(script), ranks=2)))

# %% [markdown]
# - **`except RuntimeError: continue`** swallows everything: shape errors, lost connections, DDP's own complaint. Test for out
#   of memory, and raise the rest.
# - **`torch.cuda.empty_cache()` in the handler** gives cached blocks back. It repairs no reducer.
# - **Linux's OOM killer** (`exit code -9`) is another matter: no exception, nothing to catch. Restart, or go on without
#   that rank.
# - **It hangs until the timeout, and then ranks fail** with a message about a collective. Look for the rank that is *not* in
#   the same one, and read its log from the beginning ([lesson 13](13_debugging.ipynb)).
# - **The failure was in `no_sync`.** Part of a micro-batch is in `.grad`, and stays there. Zero it, all of it.
#
# ## Rule of thumb
#
# > Never catch an out-of-memory error on one rank and go on: not even when it works. Either let it crash and restart from a
# > checkpoint (unless the same batch comes again), or have no collective inside the `try`, not even DDP's own, and make every
# > rank *know* before anybody steps, by an all-reduce that a failed rank makes, too. Then throw half gradients away, divide by
# > the ranks that were good, and repair after the `except` block. And cap your batches by size.
#
# ## Your turn
#
# Three tasks wait in [exercises/11_out_of_memory](../exercises/11_out_of_memory.ipynb): correct the mean, write the step that
# survives an out-of-memory error on any rank at any place, and choose a way by its cost.
#
# ## Deeper: a rank that leaves, and comes back
#
# “Whether ranks may leave and come back is up to the backend; it may not allow it.” A gloo group cannot change its members.
# The *model* can change its group. Rank 1 leaves for steps 2 and 3; the others do not lose a step:

# %% claims={"18": "incomplete"}
# %%ranks
torch.manual_seed(0)
net = Net()
ddp = DistributedDataParallel(net, bucket_cap_mb=1e-6)
optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
for number in range(5):
    if number == 2 and rank != 1:
        ddp._update_process_group(
            dist.new_group([0, 2], use_local_synchronization=True)
        )  # rank 1 is not asked
    if number == 4:  # it is back: all its state comes from rank 0
        ddp._update_process_group(dist.group.WORLD)
        for p in net.parameters():
            momentum = optimizer.state[p]["momentum_buffer"]
            dist.broadcast(p.data, src=0)
            dist.broadcast(momentum, src=0)
    if rank == 1 and number in (2, 3):
        continue
    optimizer.zero_grad()
    loss_of(ddp, inputs(number)).backward()
    optimizer.step()
weights = nn.utils.parameters_to_vector(net.parameters()).detach()
try:
    dist.shrink_group([1])
except TypeError as error:
    print(error)
everyones = [torch.empty_like(weights) for _ in range(world)]
dist.all_gather(everyones, weights)
print("equal on all ranks:", all(torch.equal(one, weights) for one in everyones))

# %% [markdown]
# `_update_process_group` (`torch/nn/parallel/distributed.py`) resets the reducer in place; wrapper and optimizer stay as they
# are. (It begins with the `_reset_state` of way 4, so after an unplanned failure it can replace the new wrapper of way 5: on all
# ranks, with a new group. A communication hook keeps the old one: give it the new group yourself, says the docstring.)
#
# So a rank may leave and return on gloo, too, if the others *know*. (`dist.shrink_group` makes a smaller group out of one that is
# in use, for backends that can; as you see, gloo cannot. NCCL has not been tried here. Workers of `torch.distributed.rpc` are not
# in step with each other and may join and leave: `init_rpc` without a `world_size` makes such a group,
# `torch/distributed/rpc/backend_registry.py`. Read, not run.)
#
# ## Further reading
#
# - `torch/csrc/distributed/c10d/reducer.cpp` in PyTorch's repository: `prepare_for_backward`, `mark_variable_ready`,
#   `ensure_prior_reduction_finished` and `reset_state`.
# - `torch/nn/parallel/distributed.py`: `_update_process_group` and its note on shrinking and growing.
# - PyTorch, *Frequently Asked Questions* (in the notes of the documentation): why recovery belongs outside the `except` block.
#
# **Next:** [lesson 12](12_elastic.ipynb), *Elastic training*. Or back to the [index](index.ipynb).
