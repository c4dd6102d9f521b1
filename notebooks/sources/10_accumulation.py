# %% [markdown]
# # 10 · Accumulation, clipping and mixed precision
#
# > *“My GPU holds 8 samples and the paper says 256. So I add up gradients over a few batches before I step. It trains, but
# > worse than the big batch. And where do `clip_grad_norm_` and `autocast` go?”*
#
# Between `backward()` and `step()` lie a few lines that every training loop writes for itself. Most mistakes there raise no
# error. So this lesson looks at one thing only: *which gradient reaches the optimizer*, compared with that of one big batch
# in one process.
#
# **You will be able to** accumulate so that the big batch's gradient comes out, with one reduction; tell from length and
# direction of a gradient what is wrong; clip the right norm in the right place; and use 16 bits without losing what you have
# accumulated. 75 minutes. **Before this:** lessons 04 and 05.

# %%
# %load_ext course_lib

# %% [markdown]
# ## A loop that has been copied a lot
#
# A **micro-batch** is what goes through the model at once. The optimizer is to see *K* of them from each rank: together they
# are the **effective batch**. Two ranks, the digits, and a communication hook that counts what DDP sends (`allreduce_hook`
# computes what DDP computes without a hook).

# %%
# %%ranks 2 --backend gloo
import warnings
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_, parameters_to_vector

from course_lib.data import load_digits

rank, world = dist.get_rank(), dist.get_world_size()
images, labels = load_digits()
pixels = torch.from_numpy(images).float().flatten(1) / 16
targets = torch.from_numpy(labels).long()
loss_of = nn.functional.cross_entropy
K = 4


def micro_batch(number, of_rank=rank, size=8):
    """Up to 8 digits; another rank or number has others, until all 1400 have been seen."""
    first = ((number * world + of_rank) * 8) % 1400
    return pixels[first : first + size], targets[first : first + size]


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def gradient_of(model):
    return parameters_to_vector(p.grad for p in model.parameters())


def wrap(net, **options):
    """In DDP, with a list of what is sent: (type, bytes) of each all-reduce of gradients."""
    ddp, sent = DistributedDataParallel(net, **options), []

    def note(_, bucket):
        sent.append((bucket.buffer().dtype, bucket.buffer().nbytes))
        return default_hooks.allreduce_hook(None, bucket)

    ddp.register_comm_hook(None, note)
    return ddp, sent


def big_batch(numbers, make=make_net, size=lambda number: 8):
    """The gradient of all these micro-batches of all ranks at once, in one process."""
    net = make()
    parts = [micro_batch(number, r, size(number)) for number in numbers for r in range(world)]
    inputs, answers = (torch.cat(both) for both in zip(*parts, strict=True))
    loss_of(net(inputs), answers).backward()
    return gradient_of(net)


# %% [markdown]
# This is how an article on DDP accumulates, with its apex calls left out. Say what it does before you run it; a hook of the
# optimizer notes the gradient that it is about to use.


# %%
# %%ranks
def as_in_the_article(model, optimizer, micro_batches):
    for i, (inputs, answers) in enumerate(micro_batches):
        optimizer.zero_grad()
        loss = loss_of(model(inputs), answers)
        loss.backward()
        if (i + 1) % K == 0:
            optimizer.step()


# %%
p = predict("10.micro_batches")

# %% claims={"30": "wrong"}
# %%ranks --predicted --as out
ddp, sent = wrap(make_net())
optimizer, used = torch.optim.SGD(ddp.parameters(), lr=0.1), []
optimizer.register_step_pre_hook(lambda *_: used.append(gradient_of(ddp)))
as_in_the_article(ddp, optimizer, [micro_batch(number) for number in range(K)])

right = big_batch(range(K))
candidates = {"the mean of all four": right, "their sum": K * right, "the last one alone": big_batch([K - 1])}
(fits,) = [name for name, gradient in candidates.items() if torch.allclose(used[0], gradient, atol=1e-6)]
print("the optimizer gets:", fits)
print(f"{(used[0] - right).norm() / right.norm():.0%} off, after {len(sent)} all-reduces")
assert len(sent) == K

# %% [markdown]
# `zero_grad()` stands inside the loop, so each micro-batch wipes out the one before. Three quarters of the work, *and of the
# all-reduces*, are thrown away, and the learning rate that was meant for a big batch meets the noise of a small one. No line
# raises.
#
# Nor does one in the next loop. Another article makes its optimizer inside the loop, computes a loss, and ends there. Add
# what is missing, line by line, and train on both ranks:


# %% claims={"45": "wrong"}
# %%ranks --as out
def make_sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(zero=False, backward=False, step=False, anew=False, make_optimizer=make_sgd, steps=80):
    """Train for some steps with these lines in the loop; the loss on digits that were not trained on."""
    ddp, _ = wrap(make_net())
    optimizer = make_optimizer(ddp)
    for number in range(steps):
        if anew:
            optimizer = make_optimizer(ddp)
        inputs, answers = micro_batch(number)
        if zero:
            optimizer.zero_grad()
        loss = loss_of(ddp(inputs), answers)
        if backward:
            loss.backward()
        if step:
            optimizer.step()
    with torch.no_grad():
        return ddp, loss_of(ddp.module(pixels[1400:]), targets[1400:]).item()


printed, loss_printed = train(anew=True)
no_zero, loss_no_zero = train(backward=True, step=True, anew=True)
anew, loss_anew = train(zero=True, backward=True, step=True, anew=True)
whole, loss_whole = train(zero=True, backward=True, step=True)
plain, _ = train(True, True, True, make_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.05))


def moved(model):
    return (parameters_to_vector(model.parameters()) - parameters_to_vector(make_net().parameters())).norm()


print(f"as printed                     loss {loss_printed:3.1f}   weights moved by {moved(printed):.1f}")
print(f"+ backward, step               loss {loss_no_zero:3.1f}   weights moved by {moved(no_zero):.1f}")
print(f"+ zero_grad                    loss {loss_anew:3.1f}   weights moved by {moved(anew):.1f}")
print(f"+ optimizer before the loop    loss {loss_whole:3.1f}   weights moved by {moved(whole):.1f}")
same = torch.equal(parameters_to_vector(anew.parameters()), parameters_to_vector(plain.parameters()))
print("an optimizer made in each step has no momentum:", same)
assert moved(printed) == 0
assert same

# %% [markdown]
# An optimizer that is made anew in each step raises no error either. It has forgotten everything: momentum, and Adam's
# averages. Plain SGD has nothing to forget, so a test with it does not show this.
#
# ## With and without `no_sync`
#
# Now the right loop: `zero_grad()` before the first micro-batch, losses divided by *K*, a step after the last.
# [Lesson 05](05_stragglers.ipynb) has used `no_sync()` to synchronise less often. Must you, for a right result? You will read
# that without it gradients are averaged over and over, and come out wrong. Look at a toy: a weight whose gradient is 1 for
# each micro-batch on rank 0, and 3 on rank 1.

# %%
p = predict("10.without_no_sync")


# %%
# %%ranks --predicted --as out
def after_each(context):
    """What .grad holds after each of four backwards; `context` stands around all but the last."""
    toy, sent = wrap(nn.Linear(1, 1, bias=False))
    seen = []
    for number in range(K):
        with nullcontext() if number == K - 1 else context(toy):
            toy(torch.full((1, 1), 1.0 + 2 * rank)).sum().backward()
        seen.append(toy.module.weight.grad.item())
    return seen, len(sent)


without, reductions = after_each(lambda _: nullcontext())
with_it, fewer = after_each(lambda toy: toy.no_sync())
print(f"without no_sync: {without}  {reductions} all-reduces")
print(f"with no_sync:    {with_it}  {fewer} all-reduce")
assert (reductions, fewer) == (K, 1)

# %% [markdown]
# The same 8. DDP's hook runs *after* a gradient has been added to `.grad`, and what it copies into the bucket is all that is
# there (`Reducer::mark_variable_ready_dense`, `torch/csrc/distributed/c10d/reducer.cpp`). What was reduced before is the same
# number on all ranks, and the mean of equal numbers is that number. So averaging again does no harm. It is only a waste: the
# last all-reduce brings along whatever is new, and the ones before it were for nothing. (With a hook that rounds what it sends,
# as below, each of them rounds once more.)
#
# One flag does not go with it. With `static_graph=True` ([lesson 08](08_unused.ipynb)) the first backward must not be under
# `no_sync()`:

# %%
# %%ranks --expect raises:RuntimeError
toy, sent = wrap(nn.Linear(1, 1, bias=False), static_graph=True)
with toy.no_sync():
    toy(torch.ones(1, 1)).sum().backward()

# %% [markdown]
# The way out: leave `no_sync` out of the whole first step. From the second step on it does what it should.

# %%
# %%ranks
toy, sent = wrap(nn.Linear(1, 1, bias=False), static_graph=True)
for step in range(3):
    toy.zero_grad()
    sent.clear()
    for number in range(K):
        with toy.no_sync() if step > 0 and number < K - 1 else nullcontext():
            toy(torch.full((1, 1), 1.0 + 2 * rank)).sum().backward()
    print(f"step {step}: {toy.module.weight.grad.item()}, all-reduces: {len(sent)}")

# %% [markdown]
# How much of a waste is it to reduce after each micro-batch? Take a layer of 4 MB. First count for 16 micro-batches, then time
# single ones: under `no_sync`, and reduced.


# %%
# %%ranks --as out
import time

wide, sent = wrap(nn.Linear(1024, 1024, bias=False))


def one(context):
    """Milliseconds for a forward and a backward."""
    dist.barrier()
    begin = time.perf_counter()
    with context:
        wide(torch.ones(4, 1024)).square().mean().backward()
    return 1e3 * (time.perf_counter() - begin)


for name, others in (("without no_sync", 0), ("with no_sync", 15)):
    sent.clear()
    for number in range(16):
        one(wide.no_sync() if number < others else nullcontext())
    print(f"{name:15} {len(sent):2} × all-reduce, {sum(size for _, size in sent) / 1e6:4.1f} MB")
milliseconds = {"no_sync": [], "reduced": []}
for _ in range(12):  # by turns, so that whatever else runs here hits both
    milliseconds["no_sync"].append(one(wide.no_sync()))
    milliseconds["reduced"].append(one(nullcontext()))

# %%
import matplotlib.pyplot as plt

milliseconds = out["milliseconds"][0]
local, reduced = (min(milliseconds[kind]) for kind in ("no_sync", "reduced"))
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.2), layout="constrained", width_ratios=(2, 3))
looks = {"no_sync": ("#56B4E9", "", "under no_sync"), "reduced": ("#E69F00", "///", "reduced")}
for place, (kind, (colour, hatch, _)) in enumerate(looks.items()):
    left.bar(place, min(milliseconds[kind]), 0.6, color=colour, hatch=hatch, edgecolor="black")
    left.plot([place] * 12, milliseconds[kind], "k_", markersize=12, alpha=0.5)
left.set_xticks([0, 1], [name for _, _, name in looks.values()])
left.set(title="measured", ylabel="milliseconds a micro-batch", ylim=(0, 2.5 * reduced))
counts = [1, 2, 4, 8, 16]
shares = [(reduced - local) / count for count in counts]
right.bar(range(5), local, color="#56B4E9", edgecolor="black", label="forward and backward")
right.bar(
    range(5),
    shares,
    bottom=local,
    color="#E69F00",
    hatch="///",
    edgecolor="black",
    label="share of the all-reduce",
)
right.axhline(reduced, color="black", linestyle="--", label="without no_sync")
right.set_xticks(range(5), counts)
right.set(
    title="computed from that: what K makes of it", xlabel="micro-batches a step (K)", ylim=(0, 1.7 * reduced)
)
right.legend(fontsize=8, loc="upper right")
figure.suptitle("Under no_sync, K micro-batches share one all-reduce")
plt.show()

# %% [markdown]
# (A stroke is a run, a bar the shortest of them.) Computing takes as long as before; *K* micro-batches share the all-reduce.
# Where the network is slow against the model, that saves a lot. With a fast one, and a backward that hides the sending
# ([lesson 04](04_buckets.ipynb)), it saves little.
#
# ## Read a wrong gradient
#
# A mistake leaves marks on the gradient: its length, its angle to the right one, and whether the ranks agree. The right one
# is that of one process with the whole batch.


# %%
# %%ranks --as out
def accumulate(ddp, divisor=K, sync_last=True, before_each=lambda ddp: None, size=lambda number: 8):
    for number in range(K):
        before_each(ddp)
        inputs, answers = micro_batch(number, size=size(number))
        with nullcontext() if sync_last and number == K - 1 else ddp.no_sync():
            (loss_of(ddp(inputs), answers) / divisor).backward()


def with_norm():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 10))


def read(make=make_net, size=lambda number: 8, **how):
    """Length and angle (degrees) against the big batch on this rank, and whether all ranks have the same."""
    ddp, _ = wrap(make())
    accumulate(ddp, size=size, **how)
    mine, right = gradient_of(ddp), big_batch(range(K), make, size)
    everyones = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(everyones, mine)
    length = (mine.norm() / right.norm()).item()
    angle = torch.rad2deg(
        torch.arccos((torch.dot(mine, right) / mine.norm() / right.norm()).clamp(-1, 1))
    ).item()
    return length, angle, all(torch.equal(one, mine) for one in everyones)


MISTAKES = {
    "right": read(),
    "zero_grad inside the loop": read(divisor=1, before_each=lambda ddp: ddp.zero_grad()),
    "loss not divided": read(divisor=1),
    "no_sync around the last one, too": read(sync_last=False),
    "last micro-batch: 2 samples, not 8": read(size=lambda number: 2 if number == K - 1 else 8),
    "a BatchNorm in the model": read(make=with_norm),
}
if rank == 0:
    print(f"{'':36}length   angle   same on all ranks")
    for name, (length, angle, same) in MISTAKES.items():
        print(f"{name:36}{length:5.2f}{angle:7.0f}°   {same}")

# %%
import math

LOOKS = ["#000000", "#E69F00", "#56B4E9", "#D55E00", "#009E73", "#CC79A7"]
_, axes = plt.subplots(figsize=(7.4, 3), layout="constrained")
for (name, *_), colour, marker in zip(out["MISTAKES"][0].items(), LOOKS, "osDX^v", strict=True):
    for r in (0, 1):
        length, angle, same = out["MISTAKES"][r][name]
        x, y = length * math.cos(math.radians(angle)), length * math.sin(math.radians(angle))
        label = name if r == 0 else None
        axes.plot([0, x], [0, y], color=colour, linewidth=1, linestyle="-" if same else ":")
        axes.plot(x, y, marker, color=colour, label=label, markersize=7)
axes.set(
    title="Mistakes differ in length, angle, and agreement (dotted: none)",
    xlabel="along the big batch's gradient",
    ylabel="across it",
    ylim=(-0.1, None),
)
axes.set_aspect("equal")
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# How to read it: the right direction, *K* times too long: the loss was not divided. Different on different ranks: nothing was
# reduced; every rank has the mean of its own samples, and DDP cannot know that you are going to step with it. Equal on all
# ranks, but in another direction: other samples count, or they count differently than in the big batch. With *zero_grad inside
# the loop* a quarter of the samples is left, and their mean is noisier. The last two rows come up below.
#
# First, why does an undivided loss so often go unnoticed? Train with it:


# %%
# %%ranks
def weights_moved(make_optimizer, divisor, steps=6):
    ddp, _ = wrap(make_net())
    before, optimizer = (
        parameters_to_vector(ddp.parameters()).detach().clone(),
        make_optimizer(ddp.parameters()),
    )
    for _ in range(steps):
        optimizer.zero_grad()
        accumulate(ddp, divisor=divisor)
        optimizer.step()
    return parameters_to_vector(ddp.parameters()).detach() - before


OPTIMIZERS = {
    "SGD, lr 0.1": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "SGD, lr 0.4": lambda weights: torch.optim.SGD(weights, lr=0.4),
    "Adam": lambda weights: torch.optim.Adam(weights, lr=0.01),
}
divided = {name: weights_moved(make, K) for name, make in OPTIMIZERS.items()}
undivided = {name: weights_moved(make, 1) for name, make in OPTIMIZERS.items()}
for name in ("SGD, lr 0.1", "Adam"):
    off = (undivided[name] - divided[name]).norm() / divided[name].norm()
    print(f"{name:12} not divided by K: the change of the weights is {off:.0%} off")
same = torch.allclose(undivided["SGD, lr 0.1"], divided["SGD, lr 0.4"], atol=1e-4)
print("SGD, not divided by 4, is SGD with 4 times the learning rate:", same)

# %% [markdown]
# Adam divides each gradient by a running average of its size, so a constant factor cancels out. It comes back as soon as
# something in the loop has an absolute size: a clipping threshold, Adam's `weight_decay` (not AdamW's), a log of the norm.
# And with plain SGD, a forgotten division is a learning rate *K* times as large, which may even be the one you want (see the
# end of this lesson).
#
# ## What is left over
#
# Six micro-batches in an epoch, *K* = 4. Every micro-batch's gradient is exactly 1 here, so every step should see 1.

# %%
p = predict("10.left_over")


# %%
# %%ranks --predicted --as out
def steps_seen(ends, divisor, fresh=False, count=6):
    """What the optimizer sees in two epochs; `ends(i)`: a step after micro-batch i; `divisor(i)`: the loss by what."""
    toy, _ = wrap(nn.Linear(1, 1, bias=False))
    seen = []
    for _ in range(2):
        if fresh:
            toy.zero_grad()
        for i in range(count):
            with nullcontext() if ends(i) else toy.no_sync():
                (toy(torch.ones(1, 1)).sum() / divisor(i)).backward()
            if ends(i):
                seen.append(toy.module.weight.grad.item())
                toy.zero_grad()
    return seen


def every_kth(i):
    return (i + 1) % K == 0


def or_last(i):
    return every_kth(i) or i == 5


seen = {
    "every K-th": steps_seen(every_kth, lambda i: K),
    "every K-th, zeroed before each epoch": steps_seen(every_kth, lambda i: K, fresh=True),
    "every K-th or last": steps_seen(or_last, lambda i: K),
    "every K-th or last, divided by the group": steps_seen(or_last, lambda i: min(K, 6 - i // K * K)),
}
for name, steps in seen.items():
    print(f"{name:42}{steps}")

# %% [markdown]
# Two micro-batches are left over. The first loop carries them into the next epoch's first step, which adds up six and divides
# by four. The second never trains on them. The third makes a step half as long of them. The last one takes the mean of the
# group that there is. It must know at the beginning of a group how long it will be: collect the group first
# (`itertools.batched` in Python 3.12, `islice` before), then train on it.
#
# The *size* of micro-batches is the same question once more: with 8, 8, 8 and 2 samples, the mean of four means gives each of
# the last two four times the weight of any other (*last micro-batch* in the table). Language models meet that all the time,
# because each micro-batch has another number of *tokens*. The remedy is that of [lesson 05](05_stragglers.ipynb), for a whole
# group instead of a batch: *sum* the losses, multiply by the number of ranks, divide by the samples of **all micro-batches of
# the group on all ranks**.
#
# The BatchNorm in the table has another reason. It normalises each micro-batch by itself, so accumulation cannot give you the
# big batch's statistics, whatever you divide by. (Nor does DDP: [lesson 09](09_synchronised.ipynb).)
#
# And if the ranks have different numbers of micro-batches? With nine and eight, “or last” comes three times on one rank and
# twice on the other:

# %%
# %%ranks --expect hang
toy = DistributedDataParallel(nn.Linear(1, 1, bias=False))
count = 9 if rank == 0 else 8
for i in range(count):
    with nullcontext() if (i + 1) % K == 0 or i == count - 1 else toy.no_sync():
        (toy(torch.ones(1, 1)).sum() / K).backward()

# %% [markdown]
# All ranks need the same number of *groups*. With nine and twelve micro-batches both have three, and nothing hangs; the rank with
# the shorter last group waits for the other one.
#
# > **On GPUs.** With NCCL the rank that has a group more does not stop in `backward()`, but at the next line that needs a number
# > from the GPU ([lesson 08](08_unused.ipynb)).
#
# ## Clip after the reduction, all at once
#
# `clip_grad_norm_` shortens a gradient that is longer than `max_norm`. Where does it go? Two weights, so that the gradient
# can be drawn: rank 0 finds (1.6, 1.2), rank 1 has an outlier, (4, 0). Clip to 1, in different places:


# %%
# %%ranks --as out
class Plane(nn.Module):
    """Two weights; the gradient is the mean of the inputs."""

    def __init__(self):
        super().__init__()
        self.east, self.north = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return (x[:, 0] * self.east + x[:, 1] * self.north).mean()


def arrow(clip):
    ddp, _ = wrap(Plane())
    if clip == "hook":
        for weight in ddp.parameters():
            weight.register_hook(lambda gradient: gradient / gradient.norm().clamp(min=1.0))
    with ddp.no_sync():
        ddp(mine).backward()
    local = gradient_of(ddp)
    if clip == "before":
        clip_grad_norm_(ddp.parameters(), 1.0)
    ddp(mine * 0.0).backward()  # nothing new, but it reduces
    if clip == "after":
        clip_grad_norm_(ddp.parameters(), 1.0)
    if clip == "each":
        for weight in ddp.parameters():
            clip_grad_norm_(weight, 1.0)
    return [round(x, 3) for x in gradient_of(ddp).tolist()], local.tolist()


mine = torch.tensor([[[1.6, 1.2]], [[4.0, 0.0]]][rank])
arrows = {clip: arrow(clip)[0] for clip in ("not at all", "after", "before", "hook", "each")}
local = arrow("not at all")[1]
arrows

# %%
arrows, local = out["arrows"][0], out["local"]
figure, axes = plt.subplots(figsize=(7.4, 3.2), layout="constrained")
shown = [
    ("rank 0 alone", local[0], "#999999", ":", "o"),
    ("rank 1 alone", local[1], "#999999", ":", "s"),
    ("mean of both", arrows["not at all"], "#000000", "--", "D"),
    ("clipped after the reduction", arrows["after"], "#0072B2", "-", "^"),
    ("clipped before it", arrows["before"], "#D55E00", "-", "v"),
    ("before it, in hooks", arrows["hook"], "#E69F00", "-", "P"),
    ("after it, each weight by itself", arrows["each"], "#CC79A7", "-", "X"),
]
for label, (x, y), colour, line, marker in shown:
    axes.plot([0, x], [0, y], line, color=colour, marker=marker, markevery=[1], markersize=7, label=label)
corner = [math.radians(angle) for angle in range(0, 91, 5)]
axes.plot([math.cos(a) for a in corner], [math.sin(a) for a in corner], color="black", linewidth=0.6)
figure.suptitle("Only clipping the whole, after the reduction, keeps the direction")
axes.set(
    xlabel="gradient of the first weight",
    ylabel="of the second",
    xlim=(-0.05, 4.2),
    ylim=(-0.1, 1.35),
)
axes.set_aspect("equal")
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# *Before* the reduction, each rank is cut to 1 by itself: the direction is another one, and the length is only *up to* 1. A
# `hook` on a parameter runs before DDP's own and sees that parameter alone, so every parameter is cut by itself, on each rank:
# here (1, 0.5) is left, and even the length is above 1. All of it bounds what one bad rank can do, but it is not what one process
# with the big batch does. Clipping after *every* micro-batch cuts what has been added up so far.
#
# You will read that DDP needs an all-reduce of its own to clip by a global norm. Count:

# %%
# %%ranks --as out
ddp = DistributedDataParallel(make_net())
accumulate(ddp)
norms = [clip_grad_norm_(ddp.parameters(), 0.5).item(), big_batch(range(K)).norm().item()]
print(f"norm: {norms[0]:.4f}, and of the big batch in one process: {norms[1]:.4f}")

# %%
sent = [(c.stage, c.op) for c in out.collectives[0] if c.stage != "construction"]
print("sent:", sent)
assert sent == [("gradients", "all_reduce")]

# %% [markdown]
# The gradients *are* global after the reduction. All ranks find the same norm by themselves and shorten by the same factor.
# An all-reduce is needed where gradients are *not* equal on all ranks. With sharded parameters it is made for you: the gradients
# of `fully_shard` are DTensors, and `clip_grad_norm_` on them gives the norm of the whole. (The older
# `FullyShardedDataParallel` has a `clip_grad_norm_` of its own.)

# %%
# %%ranks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

sharded = fully_shard(make_net(), mesh=init_device_mesh("cpu", (world,)))
inputs, answers = micro_batch(0)
loss_of(sharded(inputs), answers).backward()
norm = clip_grad_norm_(sharded.parameters(), 0.5)
print(type(norm).__name__, torch.allclose(norm.full_tensor(), big_batch([0]).norm(), rtol=1e-4))

# %% [markdown]
# With an expert that each rank keeps for itself beside a shared part, nobody makes it. The norms differ, so do the factors, and
# the shared part drifts:

# %%
# %%ranks
shared = DistributedDataParallel(nn.Linear(1, 1, bias=False))
own = nn.Linear(1, 1, bias=False)  # every rank has another one, and nobody averages it
(shared(torch.full((1, 1), 3.0)) + own(torch.full((1, 1), [4.0, 0.0][rank]))).sum().backward()
both = [*shared.parameters(), *own.parameters()]
norm = clip_grad_norm_(both, 1.0).item()
print(f"norm on this rank {norm:.0f}, shared gradient {shared.module.weight.grad.item():.1f}")

squares = torch.tensor([4.0, 0.0][rank]).square()
dist.all_reduce(squares)
print(f"norm of all: √(3² + {squares.item():.0f}) = {(9 + squares.item()) ** 0.5:.0f}")

# %% [markdown]
# Shared parameters count once, own ones are summed over ranks, as squares. All ranks have to call that all-reduce, also one that has
# no parameters of its own and adds 0: if it is missing, the others wait for it. Task 3 is about that.
#
# ## Mixed precision: what became of apex
#
# Old articles do `from apex import amp`. What they use it for is in PyTorch now:
#
# | apex | today |
# | --- | --- |
# | `amp.initialize(model, optimizer, opt_level="O1")` | nothing: the model stays as it is |
# | `with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()` | `scaler = torch.amp.GradScaler("cuda")`, `scaler.scale(loss).backward()` |
# | casts inside | `with torch.autocast("cuda", torch.float16):` around forward and loss |
# | `apex.parallel.DistributedDataParallel` | `torch.nn.parallel.DistributedDataParallel` |
# | `amp.master_params(optimizer)` | `model.parameters()` |
#
# (apex's documentation asks for `amp.initialize` *before* the model is wrapped. With `autocast` there is no such order to keep: it
# leaves the model as it is.) What came in between, `torch.cuda.amp`, is deprecated. `autocast` works on a CPU as well, so you can
# see under DDP what it does:

# %%
p = predict("10.autocast")

# %% claims={"31": "outdated"}
# %%ranks --predicted --as out
import importlib.util

ddp, sent = wrap(make_net())
inputs, answers = micro_batch(0)
with torch.autocast("cpu", torch.bfloat16):
    outputs = ddp(inputs)
    loss = loss_of(outputs, answers)
loss.backward()
bytes_each = sent[0][1] / sum(weight.numel() for weight in ddp.parameters())
kinds = {
    "weights": ddp.module[0].weight,
    "outputs": outputs,
    "loss": loss,
    "gradients": ddp.module[0].weight.grad,
}
print(
    "  ".join(f"{name}: {str(tensor.dtype)[6:]}" for name, tensor in kinds.items()),
    f" sent: {str(sent[0][0])[6:]}",
)

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    torch.cuda.amp.autocast(enabled=False)
print("apex is here:", importlib.util.find_spec("apex") is not None)
print("torch.cuda.amp:", *{warning.category.__name__ for warning in told})

# %% [markdown]
# Weights and gradients stay in 32 bits. `autocast` (`torch/amp/autocast_mode.py`) makes 16-bit copies of weights for matrix
# products and the like, and backward turns a copy's gradient into one of the original. (Forward and loss stand under it,
# backward does not.) So it saves memory for activations, and time where hardware is made for it, but *not one byte* in the
# all-reduce of gradients. That is what communication hooks are for: `fp16_compress_hook` sends each bucket in 16 bits.

# %%
# %%ranks --as out
packed = DistributedDataParallel(make_net())
packed.register_comm_hook(None, default_hooks.fp16_compress_hook)
accumulate(packed)
off = (gradient_of(packed) - big_batch(range(K))).norm() / big_batch(range(K)).norm()
print(f"sent in 16 bits: {off:.2%} off; in .grad: {str(packed.module[0].weight.grad.dtype)[6:]}")
try:
    DistributedDataParallel(make_net()).register_comm_hook(None, default_hooks.bf16_compress_hook)
    refused = False
except TypeError:
    refused = True
assert refused is (
    torch.version.cuda is torch.version.hip is None
)  # the build of torch decides, not your network

# %%
print("sent as:", *{c.dtypes[0] for c in out.collectives[0] if c.op == "all_reduce"})

# %% [markdown]
# (`bf16_compress_hook` asks how torch was built, before anything is sent: a build for CPUs refuses it with a TypeError.
# See `_check_comm_hook` in `torch/nn/parallel/distributed.py`.)
#
# ### A model that *is* in 16 bits
#
# `model.bfloat16()` is another matter: then `.grad` has 16 bits, too. 400 micro-batches, each with a gradient of 1:

# %%
p = predict("10.bfloat16_sum")


# %%
# %%ranks --predicted --as out
def added_up(dtype, autocast=False, count=400):
    """What .grad holds after each of so many micro-batches, each with a gradient of 1."""
    toy = DistributedDataParallel(nn.Linear(1, 1, bias=False, dtype=dtype))
    seen = []
    for number in range(count):
        with nullcontext() if number == count - 1 else toy.no_sync():
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                output = toy(torch.ones(1, 1, dtype=dtype))
            output.sum().backward()
        seen.append(toy.module.weight.grad.item())
    return seen


pure, mixed = added_up(torch.bfloat16), added_up(torch.float32, autocast=True)
summed = pure[-1]
print("bfloat16 model:", summed, "   float32 model under autocast:", mixed[-1])

# %%
_, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.plot(range(1, 401), out["mixed"][0], "-", color="#0072B2", label="float32 model under autocast")
axes.plot(range(1, 401), out["pure"][0], "--", color="#D55E00", linewidth=2, label="bfloat16 model")
axes.set(
    title="In bfloat16, 256 + 1 is 256: the sum stops growing",
    xlabel="micro-batches",
    ylabel="in .grad",
)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# bfloat16 has 8 significant bits. The next number after 256 is 258, and 257 is rounded back. Real gradients have no such
# sharp edge: the more you have added up, the more of each new micro-batch is rounded away. So accumulate in 32 bits: keep the
# weights there and use `autocast`.
#
# ### float16 needs a scaler
#
# float16 has more significant bits than bfloat16 and far less range: small gradients become 0. `GradScaler` multiplies the
# loss by a large number and divides the gradients by it before the step. If there is an `inf` or `nan` among them, it skips
# the step and continues with half the number. With CUDA it is `GradScaler("cuda")`; here the same class works with
# `"cpu"`. (bfloat16 has about the range of float32 and needs none.)


# %%
# %%ranks
def tiny_gradient(scale):
    """Its true size is 1e-8."""
    torch.manual_seed(0)
    toy = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    optimizer = torch.optim.SGD(toy.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    with torch.autocast("cpu", torch.float16):
        output = toy(torch.ones(1, 1))
    scaler.scale(output.float().sum() * 1e-8).backward()
    scaler.unscale_(optimizer)
    return toy.module.weight.grad.item()


print(f"scale 1: {tiny_gradient(1.0):.0e}   scale 65536: {tiny_gradient(65536.0):.0e}")

# %% [markdown]
# Now too large instead of too small. Every rank has a scaler of its own:

# %%
p = predict("10.overflow")


# %%
# %%ranks --predicted --as out
def scaled_step(reduced=True):
    """One step with a scaler; rank 1's loss is large enough to overflow in float16. Returns the scale after it."""
    ddp, _ = wrap(make_net())
    optimizer, scaler = (
        torch.optim.SGD(ddp.parameters(), lr=0.1),
        torch.amp.GradScaler("cpu", init_scale=1024.0),
    )
    inputs, answers = micro_batch(0)
    with nullcontext() if reduced else ddp.no_sync():
        with torch.autocast("cpu", torch.float16):
            loss = loss_of(ddp(inputs).float() * (1e3 if rank == 1 else 1.0), answers)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale()


scale = scaled_step()
print("scale, gradients reduced:    ", scale)
print("scale, gradients not reduced:", scaled_step(reduced=False))

# %% [markdown]
# Both, though the scalers never talk (`GradScaler._unscale_grads_`, `torch/amp/grad_scaler.py`, looks at this rank's
# gradients only). The all-reduce has told them: a mean with an `inf` in it is `inf` or `nan` on all ranks. Where nothing is
# reduced (the mistake from above, or parameters that are not DDP's), rank 1 skips alone, and from then on neither weights nor
# scales agree.
#
# Accumulation, scaler and clipping go together in one order only: one scale for the whole group, then, once a step, unscale,
# clip, step, update.


# %%
# %%ranks
def clipped_norm(unscale):
    ddp, _ = wrap(make_net())
    optimizer, scaler = (
        torch.optim.SGD(ddp.parameters(), lr=0.1),
        torch.amp.GradScaler("cpu", init_scale=1024.0),
    )
    for number in range(K):
        with nullcontext() if number == K - 1 else ddp.no_sync():
            inputs, answers = micro_batch(number)
            with torch.autocast("cpu", torch.float16):
                loss = loss_of(ddp(inputs), answers) / K
            scaler.scale(loss).backward()
    if unscale:
        scaler.unscale_(optimizer)
    clip_grad_norm_(ddp.parameters(), 0.2)
    before = parameters_to_vector(ddp.parameters()).detach().clone()
    scaler.step(optimizer)
    scaler.update()
    return ((parameters_to_vector(ddp.parameters()) - before).norm() / 0.1).item()


print(f"unscale, clip to 0.2, step: the step's gradient has length {clipped_norm(True):.4f}")
print(f"         clip to 0.2, step: the step's gradient has length {clipped_norm(False):.4f}")

# %% [markdown]
# Without `unscale_` the norm of the *scaled* gradient is clipped, and the step is 1024 times too short: training hardly
# moves, without an error. `unscale_` and `update()` belong to the step: in the inner loop, the second `unscale_` raises, and
# so does an `update()` without one (`No inf checks were recorded prior to update`).
#
# ## Effective batch size and learning rate
#
# The optimizer sees *micro-batch × K × ranks* samples a step. You can make their gradient right. Is it good, too? Each run
# below takes 2048 samples (1400 digits, some of them twice) in the same order, with micro-batches of 8 on two ranks, and ends with
# a loss on other digits. First keep the learning rate, and let *K* grow:

# %%
p = predict("10.same_rate")


# %%
# %%ranks --predicted --as out
def loss_after(count, lr, samples=2048):
    ddp = DistributedDataParallel(make_net())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for step in range(samples // (count * world * 8)):
        optimizer.zero_grad()
        for number in range(step * count, (step + 1) * count):
            inputs, answers = micro_batch(number)
            with nullcontext() if number == (step + 1) * count - 1 else ddp.no_sync():
                (loss_of(ddp(inputs), answers) / count).backward()
        optimizer.step()
    with torch.no_grad():
        return loss_of(ddp.module(pixels[1400:]), targets[1400:]).item()


counts = [1, 2, 4, 8, 16, 32]
same_rate = [loss_after(count, lr=0.1) for count in counts]
linear = same_rate[:1] + [loss_after(count, lr=0.1 * count) for count in counts[1:]]
for count, a, b in zip(counts, same_rate, linear, strict=True):
    print(f"{16 * count:3} samples a step: lr 0.1 gives {a:.2f}, lr 0.1 × {count:2} gives {b:.2f}")

# %%
samples = [16 * count for count in out["counts"][0]]
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(samples, out["same_rate"][0], "s--", color="#D55E00", label="learning rate 0.1 for all")
axes.plot(samples, out["linear"][0], "o-", color="#0072B2", label="learning rate 0.1 × K")
axes.axhline(math.log(10), color="black", linewidth=0.6, linestyle=":")
axes.text(16, math.log(10) + 0.06, "guessing", fontsize=8)
axes.set_xscale("log", base=2)
axes.set_xticks(samples, samples)
axes.minorticks_off()
axes.set(
    title="Fewer steps need longer ones, as long as they can be longer",
    xlabel="effective batch: samples a step",
    ylabel="loss on held-out digits",
    ylim=(0, 2.6),
)
axes.legend(fontsize=8, loc="lower right")
plt.show()

# %% [markdown]
# A larger batch makes *fewer* steps, and at the same learning rate they are hardly longer, so the model does not come as far.
# With *K* times the learning rate, one step goes about as far as *K* small ones: the **linear scaling rule**, for SGD. (Adam
# divides by the size of its gradients, and the rule proposed for it is the *square root* of *K*: Malladi et al., below.) It holds
# while the gradient hardly changes over those *K* steps. Here that goes well up to 128 samples, and no further; where the border
# is, depends on model, data and phase of the training. So when the number of ranks changes, change *K* so that their product
# stays, or know that you have another training.
#
# ## What goes wrong in real life
#
# `no_sync` around the whole inner loop, after somebody has moved a line. No error. `--watch`, or `ddp-course doctor
# train.py`, tells:

# %%
# %%ranks --watch
ddp = DistributedDataParallel(make_net())
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for step in range(10):
    optimizer.zero_grad()
    with ddp.no_sync():
        for number in range(step * K, (step + 1) * K):
            inputs, answers = micro_batch(number)
            (loss_of(ddp(inputs), answers) / K).backward()
    optimizer.step()

# %% [markdown]
# And the opposite, `no_sync` that sends after all. It is the forward that prepares the all-reduces
# (`DistributedDataParallel._post_forward`), and what it has prepared waits for the next backward, whoever's that is. A
# validation batch whose loss was never meant to be reduced, without `no_grad`, is enough:

# %%
# %%ranks
toy, sent = wrap(nn.Linear(1, 1, bias=False))
mine = torch.full((1, 1), 1.0 + 2 * rank)
seen = []
for thrown_away in (False, True):
    if thrown_away:
        toy(mine)  # no no_grad, no backward
    with toy.no_sync():
        toy(mine).sum().backward()
    seen.append((len(sent), toy.module.weight.grad.item()))
    toy.zero_grad()
print("all-reduces and .grad under no_sync, then the same after a forward that was thrown away:", seen)
assert [count for count, _ in seen] == [0, 1]

# %% [markdown]
# As long as all ranks do it, the result is right all the same. If one does it alone, it has issued one all-reduce more than the
# others, and theirs no longer belong together.
#
# - **The loss curve is fine, the result is worse than the paper's.** `zero_grad` inside the loop, or an effective batch that
#   is not what you think. Print the number of samples between two steps, over all ranks, once.
# - **It trains until clipping is switched on.** An undivided loss under Adam, or a missing `unscale_`.
# - **The learning rate is at its end after 1/K of the training.** `scheduler.step()` stands beside `backward()`; it belongs
#   beside `optimizer.step()`.
# - **It hangs at the end of an epoch.** The ranks have different numbers of groups. Let all agree on one number first.
# - **More ranks, worse model.** The effective batch has grown with them. Divide *K* by as much.
# - **`unscale_() has already been called on this optimizer`**: the call is in the inner loop.
#
# ## Rule of thumb
#
# > Between two steps: zero once; sum the losses of all micro-batches, times the ranks, divided by the samples of the whole
# > group on all ranks; `no_sync` around all but the last (with `static_graph=True`, not in the first step); then unscale, clip
# > everything by one norm, step, update. Keep sums in 32 bits. The all-reduce comes before whatever looks at a gradient. Compare
# > with one big batch, once: length, angle and agreement of the ranks tell what is wrong.
#
# ## Your turn
#
# Three tasks wait in [exercises/10_accumulation](../exercises/10_accumulation.ipynb): a loop with several things wrong in it,
# an `accumulate()` that equals one big batch whatever is left over, and the norm of a model that is not the same on all
# ranks.
#
# ## Further reading
#
# - PyTorch's notes: *Automatic Mixed Precision examples* (gradient accumulation, clipping, several GPUs), and the docstring
#   of `DistributedDataParallel.no_sync`.
# - Goyal et al., *Accurate, Large Minibatch SGD*, 2017: the linear rule, warm-up, and a list of pitfalls like this one.
#   McCandlish et al., *An Empirical Model of Large-Batch Training*, 2018: how to measure where the rule ends. Malladi et al.,
#   *On the SDEs and Scaling Rules for Adaptive Gradient Algorithms*, 2022: why it is the square root for Adam.
# - *Fixing Gradient Accumulation*, Hugging Face's blog, 2024: the mean of means, found in the `Trainer` of Transformers.
#
# **Next:** [lesson 11](11_out_of_memory.ipynb), *Out of memory on one rank*. Or back to the [index](index.ipynb).
