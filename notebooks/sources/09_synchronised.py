# %% [markdown]
# # 09 · What is synchronised, and when
#
# > *“DDP broadcasts parameters and buffers from rank 0 in every forward, doesn't it? So if I change the weights on one rank,
# > for an evolution strategy or some exploration, is that gone with the next step? Or does the all-reduce average it?”*
#
# Three things that DDP might do, and the answer is not the same for weights, buffers and everything else. In this lesson you
# change something on one rank and look at what becomes of it on the others: at once, a step later, at the end. Then you see what
# BatchNorm makes of it.
#
# **You will be able to** say for weights, buffers, gradients, losses, random numbers and running averages whether and when
# DDP makes them equal; change weights on purpose without breaking it; and normalise over the batches of all ranks.
# 65 minutes. **Before this:** lessons 00 and 04.

# %%
# %load_ext course_lib

# %% [markdown]
# ## The map
#
# Four ranks that agree in nothing: each has a seed of its own, so other weights, other data, other dropout. `compare`, on the
# ranks, is a collective that says whether something is the same on all of them, bit by bit. Take it along through two
# training steps. A hook looks *inside* the forward, where the model is about to begin. (This lesson stays on the CPU, with gloo,
# also where there are GPUs.)

# %%
# %%ranks 4 --backend gloo
import copy
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from course_lib.data import load_digits
from course_lib.watch import compare

rank, world = dist.get_rank(), dist.get_world_size()
images, labels = load_digits()
pixels = torch.from_numpy(images).float().flatten(1) / 16
targets = torch.from_numpy(labels).long()
loss_of = nn.functional.cross_entropy


def batch(number, size=16):
    """This rank's share of a batch: other digits on every rank."""
    share = torch.arange(rank, world * size, world) + number * world * size
    return pixels[share % 1400], targets[share % 1400]


# %%
# %%ranks --as out
torch.manual_seed(rank)
net = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
ema, loss, found = copy.deepcopy(net), None, {}


def look(moment):
    """What is the same on all ranks at this moment? None: it is not there yet."""
    parts = compare(model=net, optimizer=optimizer, ema=ema, losses=[loss], rng="rng").parts
    names = {
        "weights": "model parameters",
        "buffers": "model buffers",
        "gradients": "model gradients",
        "momentum": "optimizer state",
        "EMA": "ema parameters",
        "loss": "losses values",
        "random": "rng",
    }
    there = {
        "gradients": loss is not None and net[0].weight.grad is not None,
        "momentum": len(optimizer.state) > 0,
    }
    there["loss"] = loss is not None
    found[moment] = {n: parts[part].equal if there.get(n, True) else None for n, part in names.items()}


look("built")
ddp = DistributedDataParallel(net)
look("wrapped")
ema = copy.deepcopy(net)
look("EMA copied again")
for step in (1, 2):
    inside = net.register_forward_pre_hook(lambda *_, step=step: look(f"forward {step} begins"))
    inputs, answers = batch(step)
    output = loss_of(ddp(inputs), answers)
    inside.remove()
    loss = output.item()
    look(f"forward {step} is over")
    optimizer.zero_grad(set_to_none=False)
    output.backward()
    look(f"backward {step} is over")
    optimizer.step()
    for mine, its in zip(ema.parameters(), net.parameters(), strict=True):
        mine.data.lerp_(its.data, 0.1)
    look(f"step {step} is over")

# %%
found = out["found"][0]
print(f"{'':20}" + "".join(f"{name:>11}" for name in found["built"]))
for moment, row in found.items():
    signs = [{True: "=", False: "≠", None: ""}[same] for same in row.values()]
    print(f"{moment:20}" + "".join(f"{sign:>11}" for sign in signs).rstrip())

# %% [markdown]
# `=`: the same on all ranks, bit by bit. `≠`: not the same. An empty cell: it does not exist yet. Read it by columns:
#
# - **Weights** become equal when the model is wrapped: the constructor broadcasts them from rank 0 (`_sync_module_states`,
#   called in `DistributedDataParallel.__init__`, `torch/nn/parallel/distributed.py`).
# - **Gradients** become equal in the backward that follows a forward: they are the mean over the ranks (lessons 04 and 06).
# - **Buffers** (BatchNorm's running statistics) are equal when the module's own forward *begins*, and different when it is
#   over. Between two training forwards you only ever meet them different.
# - **Momentum** and the **EMA**, a running average of the weights, are equal because what they are computed from is. DDP does
#   not know of them: the EMA that was copied before wrapping stays different, until a new copy takes its place (third row).
# - **Losses** and **random numbers** are each rank's own.
#
# So the weights stay equal for one reason only: equal weights and equal gradients, put into the same optimizer, give equal
# weights. Nothing compares them, and nothing repairs them. That is worth a test.
#
# ## Parameters
#
# You will read that “DDP synchronises gradients and parameters”, or that every forward begins with a broadcast of all
# parameters. Let rank 1 add 0.1 to every weight, once, after five steps. Then train on.

# %%
p = predict("09.shifted_weights")


# %% claims={"37": "wrong", "46": "wrong"}
# %%ranks --predicted --as out
def flat(model):
    """A copy of all weights, as one vector."""
    return parameters_to_vector(model.parameters()).detach()


def spread(vectors):
    """The drift meter: for each vector, how far apart any two ranks are where they differ most."""
    weights = torch.stack(vectors)
    highest = torch.stack([weights, -weights])  # the largest of -w is minus the smallest of w
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    return highest.sum(0).amax(1).tolist()


def train(changes, lr=0.2, kind=torch.optim.SGD, **options):
    """20 steps; `changes(step, model)` may change the model before each. Returns what the meter says of each."""
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(64, 10))
    optimizer = kind(ddp.parameters(), lr=lr, **options)
    path = []
    for step in range(20):
        with torch.no_grad():
            changes(step, ddp.module)
        inputs, answers = batch(step)
        optimizer.zero_grad()
        loss_of(ddp(inputs), answers).backward()
        optimizer.step()
        path.append(flat(ddp))
    return ddp, spread(path)


def add_once(step, model):
    if step == 5 and rank == 1:
        for parameter in model.parameters():
            parameter += 0.1


ddp, drift = train(add_once)
print([round(drift[step], 3) for step in (0, 4, 5, 10, 15, 19)])
compare(ddp)

# %% [markdown]
# From step 5 on, 0.1 for ever. DDP keeps models equal as a clockmaker does: it sets all clocks once and makes them tick alike,
# and never looks at the time again. The gradients are still equal, so rank 1 takes the same steps as the others, beside them. And
# it has not been told, because in a training step of a model without buffers there is nothing that could tell it:

# %%
from collections import Counter

sent = Counter((c.stage, c.op) for c in out.collectives[0] if c.stage)  # the meter's own have no stage
for (stage, op), count in sent.items():
    print(f"{stage:13} {op:11} {count}")

# %% [markdown]
# In construction, numbers and shapes of the parameters are compared and the weights sent. After that: gradients, 20 times in 20
# steps, and once the new buckets (lesson 04). Now watch the meter over some other accidents.


# %%
# %%ranks --as out
own = torch.Generator().manual_seed(rank)


def noise_in_each_step(step, model):
    for parameter in model.parameters():
        parameter += 0.002 * torch.randn(parameter.shape, generator=own)


def repaired(step, model):
    add_once(step, model)
    if step == 12:
        for parameter in model.parameters():
            dist.broadcast(parameter, src=0)


def nothing(step, model):
    pass


calm, seen = train(nothing)
meter = {
    "nothing": seen,
    "rank 1 adds 0.1 at step 5": drift,
    "... with weight decay": train(add_once, weight_decay=0.2)[1],
    "... and a broadcast at step 12": train(repaired)[1],
    "own noise on each rank, in each step": train(noise_in_each_step)[1],
    "rank 1 has another learning rate": train(nothing, lr=0.22 if rank == 1 else 0.2)[1],
}
print("with Adam, 0.1 at step 5 becomes", round(train(add_once, lr=0.01, kind=torch.optim.Adam)[1][-1], 3))
assert meter["nothing"][-1] == 0 == meter["... and a broadcast at step 12"][-1]

# %%
import matplotlib.pyplot as plt

meter = out["meter"][0]
LOOKS = [
    ("black", "-"),
    ("#D55E00", "-"),
    ("#D55E00", ":"),
    ("#009E73", "--"),
    ("#0072B2", "-."),
    ("#CC79A7", (0, (1, 1))),
]
_, axes = plt.subplots(figsize=(7.4, 3.4), layout="constrained")
for (name, seen), (colour, style), marker in zip(meter.items(), LOOKS, "os^vDx", strict=True):
    axes.plot(seen, color=colour, linestyle=style, marker=marker, markevery=3, markersize=5, label=name)
axes.set(
    title="Drift does not heal: only a broadcast brings the meter back to zero",
    xlabel="training step",
    ylabel="largest difference\nbetween two ranks' weights",
    xticks=range(0, 21, 5),
)
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# A difference stays, or grows; also with Adam, which looks at nothing but gradients. Weight decay (here SGD's) lets it fade,
# by the factor `1 - lr * decay` in each step, as it lets all weights fade. Only what you do by hand ends it. Put a check of this
# kind into long trainings, every few hundred steps. Not this meter, though: it needs four times the memory of the weights (a
# copy, a stack, a stack of both signs). With a large model, go tensor by tensor and broadcast rank 0's; task 1 asks for that.
#
# An alarm like this has traps of its own. Two different tensors can have the same sum, mean or norm, so compare the tensors
# themselves. Compare their bits: `nan == nan` is `False`, and a NaN that all ranks share is no difference. Collectives such as
# `broadcast` work in place: give them a copy, or the alarm changes the model that it looks at. And let every rank learn what any
# rank has found *before* somebody raises. A rank that raises for what it alone has seen leaves the others behind, in a
# collective that it will never join.
#
# ## An ensemble?
#
# “Then let the ranks be different: the all-reduce ensembles the diversity.” Give every rank noise of its own and train on.
# What is left of it at the end?

# %%
p = predict("09.noise")


# %% claims={"49": "wrong"}
# %%ranks --predicted --as out
def diversify(step, model):
    if step == 5:
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=own)
        offsets.append(from_mean(model))


@torch.no_grad()
def from_mean(model):
    """This rank's weights minus the mean over the ranks."""
    mine = flat(model)
    mean = mine.clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mine - mean


def right(weights):
    """How many of 397 test digits these weights get right."""
    torch.nn.utils.vector_to_parameters(weights, judge.parameters())
    return (judge(pixels[1400:]).argmax(1) == targets[1400:]).sum().item()


offsets, judge = [], nn.Linear(64, 10)
ddp, _ = train(diversify)
offsets.append(from_mean(ddp))
left = (offsets[1].norm() / offsets[0].norm()).item()
print("noise left:", round(left, 4), "| all of it in its old place:", torch.allclose(*offsets, atol=1e-5))

# %% [markdown]
# All of it, up to rounding. Every rank walks beside the mean, at its own constant distance, all with the same step. But
# *whose* step is it? Each rank computed its gradient at its own place; the mean of the four is the gradient of none of them.
# Nobody learns to correct its own noise:

# %%
# %%ranks
mine = flat(ddp)
everyones = [torch.empty(()) for _ in range(world)]
dist.all_gather(everyones, torch.tensor(float(right(mine))))
print("right answers of 397, by rank:", [int(n) for n in everyones])
print("the mean of their weights:    ", right(mine - offsets[1]))
print("trained without noise:        ", right(flat(calm)))

# %% [markdown]
# So what looks like one model in your log is four. A checkpoint from rank 0 is one of them, and the mean that somebody hoped
# for is on no rank, unless you compute it. (Averaging weights now and then is a method of its own, local SGD: lesson 05.)
#
# ## Change weights on purpose
#
# Evolution, exploration, pruning, a re-initialised layer: all fine, as long as the change is the *same* on all ranks. Two ways:
# draw it everywhere from a generator that is seeded alike, and kept apart from the global one; or let one rank do it, and
# broadcast.


# %%
# %%ranks
together = torch.Generator().manual_seed(7)  # the same seed on every rank, and nobody else draws from it


def drawn_alike(step, model):
    for parameter in model.parameters():
        parameter += 0.002 * torch.randn(parameter.shape, generator=together)


def by_rank_2(step, model):
    for parameter in model.parameters() if step == 5 else ():
        if rank == 2:
            parameter += 0.1 * torch.randn(parameter.shape, generator=own)
        dist.broadcast(parameter, src=2)


for change in (drawn_alike, by_rank_2):
    print(f"{change.__name__:12} drift at the end: {train(change)[1][-1]}")

# %% [markdown]
# And change it *in place*. DDP has hung a hook on each parameter, and the optimizer holds a list of them. A new `Parameter` is
# known to neither. Here all ranks put the same one in, and the weights are equal. The gradients:

# %%
# %%ranks
torch.manual_seed(0)
ddp = DistributedDataParallel(nn.Linear(64, 10))
ddp.module.weight = nn.Parameter(ddp.module.weight + 0.1)
inputs, answers = batch(0)
loss_of(ddp(inputs), answers).backward()
compare(ddp)

# %% [markdown]
# Both are wrong, also that of the bias: it waits in a bucket for the old weight's gradient, which never comes (lesson 04).
#
# If the ranks compete, as mutants do in evolution, the choice must be the same everywhere, too. Every rank tries a mutant of its own
# (its noise comes from a generator that is seeded with the rank, too), and all ranks gather everybody's fitness. The largest one
# wins, if it is larger than that of the model as it is: that is a competitor like the others, or the model gets worse. Then
# *all* ranks call the broadcast, those that receive as well, with the winner as `src`. From here on the model's fitness is the
# winner's, whatever a rank's own mutant scored.
#
# ## Buffers
#
# Buffers are tensors that belong to a model and get no gradient: `named_buffers()`. Those are sent from rank 0 in every
# forward, says the forum. In *every* one? Take six kinds of forward, and all pairs of them. Before the second of a pair, each
# rank puts a stamp, its own number, into a buffer. If rank 3 finds a 0 after it, rank 0's buffers have been sent.

# %%
p = predict("09.buffers_sent")


# %% claims={"48": "refined"}
# %%ranks --predicted --as out
class Stamped(nn.Linear):
    def __init__(self):
        super().__init__(1, 1)
        self.register_buffer("stamp", torch.zeros(()))


def forward(ddp, kind):
    """One forward, without a backward, in one of six ways."""
    mode, _, context = kind.partition(", ")
    ddp.train(mode == "train")
    within = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode, "no_sync": ddp.no_sync}
    with within.get(context, torch.enable_grad)():
        ddp(torch.ones(1, 1))


def arrives(ddp, kind):
    """Whether this forward begins with rank 0's buffers."""
    ddp.module.stamp.fill_(rank)
    forward(ddp, kind)
    return ddp.module.stamp.item() == 0


KINDS = ["train", "eval", "train, no_sync", "train, no_grad", "eval, no_grad", "eval, inference_mode"]
ddp = DistributedDataParallel(Stamped())
first, sent = arrives(ddp, "train"), {}
if rank == 3:
    print("the very first forward   ", {True: "sent", False: "not sent"}[first])
for before in KINDS:
    for now in KINDS:
        forward(ddp, before)
        sent[before, now] = arrives(ddp, now)
    if rank == 3:
        print(f"after {before:20}", {True: "sent", False: "not sent"}[sent[before, now]])

# %%
sent = out["sent"][3]
kinds = list(dict.fromkeys(before for before, _ in sent))
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for y, before in enumerate(kinds):
    for x, now in enumerate(kinds):
        colour, hatch = ("#56B4E9", "//") if sent[before, now] else ("white", "")
        axes.add_patch(
            plt.Rectangle(
                (x - 0.5, y - 0.5), 1, 1, facecolor=colour, hatch=hatch, edgecolor="#666666", lw=0.5
            )
        )
        label = axes.text(x, y, "sent" if sent[before, now] else "-", ha="center", va="center", fontsize=8)
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
axes.set(xlim=(-0.5, 5.5), ylim=(5.5, -0.5), xlabel="this forward", ylabel="the forward before")
axes.set_xticks(range(6), [kind.replace(", ", "\n") for kind in kinds], fontsize=8)
axes.set_yticks(range(6), kinds, fontsize=8)
axes.tick_params(length=0)
axes.set_title("Whether buffers are sent depends on the forward before, not on this one", fontsize=10)
plt.show()

# %% [markdown]
# Each row is of one kind. Buffers are sent before the very first forward, and before each one that *follows* a forward which
# had gradients on and was not under `no_sync`. `train()` and `eval()` do not matter, and no backward is needed. You can read
# it: `_pre_forward` asks `will_sync_module_buffers` (`torch/nn/parallel/distributed.py`), which looks at
# `require_forward_param_sync`; and that flag was set by `_post_forward` of the forward before. It makes some sense: buffers
# change in training, so after a training forward there is something to send. But gradients being on is taken for training,
# and that is a guess. Four consequences:
#
# - A forward in `train()` under `no_grad` changes BatchNorm's statistics, and the next forward leaves them as they are.
# - A forward in `eval()` after a training step is a collective, too. (One rank alone must not make it: lesson 06.)
# - With accumulation under `no_sync`, buffers are sent once in each cycle, before its first micro-batch.
# - If you evaluate through the wrapper, on all ranks and under `no_grad`, the *first* evaluation batch brings rank 0's statistics
#   to everybody. Through `.module`, each rank evaluates with its own.
#
# The other half of the claim holds: without buffers, there is no such broadcast. You saw that in the counts above, where the
# new buckets were the only thing that a forward has sent.
#
# ## What that does to BatchNorm
#
# Make it drastic: rank `r` gets data around the value `r`. (Four hospitals with a scanner each; a data set that was never
# shuffled.) Over all ranks the mean is 1.5. Follow BatchNorm's running mean through 20 steps, once when the forward begins and
# once when it is over.

# %%
p = predict("09.running_mean")


# %% claims={"S25": "wrong"}
# %%ranks --predicted --as out
def train_norm(**options):
    """20 steps on data of this rank's own; returns the model and the running mean on its way."""
    ddp = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1)), **options)
    norm, path = ddp.module[0], []
    norm.register_forward_pre_hook(lambda *_: path.append(norm.running_mean.item()))
    generator = torch.Generator().manual_seed(rank)
    for _ in range(20):
        ddp(torch.randn(64, 1, generator=generator) + rank).square().mean().backward()
        path.append(norm.running_mean.item())
    return ddp, path


ddp, path = train_norm()
compare(ddp).parts["buffers"].equal

# %%
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for r, (colour, marker) in enumerate(zip(["black", "#0072B2", "#009E73", "#D55E00"], "osD^", strict=True)):
    places = [step + over for step in range(20) for over in (0, 0.7)]
    axes.plot(
        places,
        out["path"][r],
        color=colour,
        marker=marker,
        markersize=3.5,
        lw=1,
        label=f"rank {r}, data around {r}",
    )
axes.axhline(1.5, color="#666666", linestyle="--", label="mean over all ranks")
axes.set_xticks(range(0, 21, 5))
axes.set(
    title="Each forward throws away what ranks 1 to 3 have seen",
    xlabel="training step",
    ylabel="BatchNorm's running mean",
)
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# Every rank moves a tenth of the way to the mean of its own batch, and is put back to rank 0's value before the next forward.
# Only what rank 0 has seen survives. (The running variance moves in the same way, towards the *unbiased* variance of the batch,
# which divides by `n - 1`; the batch itself is normalised with the one that divides by `n`. A third buffer,
# `num_batches_tracked`, counts the batches: a whole number. In eval mode, the running statistics are used in place of the batch's.)
#
# After the last step nobody puts anything back, so a *healthy* model ends with statistics
# that differ between ranks (`False` above). What is in the checkpoint depends on who saves it. And who evaluates?

# %%
# %%ranks
ddp.eval()
x = torch.ones(1, 1)
with torch.no_grad():
    for name, model in {".module": ddp.module, "wrapper": ddp, ".module again": ddp.module}.items():
        seen = [torch.empty(1, 1) for _ in range(world)]
        dist.all_gather(seen, model(x))
        same = all(torch.equal(one, seen[0]) for one in seen)
        print(f"evaluated through {name:14} the same output on all ranks: {same}")

# %% [markdown]
# How bad is it? If every rank gets a fair sample of the same data, rank 0's statistics are as good as anybody's, only from a
# quarter of the samples. If ranks get different kinds of data, they are wrong, as here. (Without a BatchNorm, gradients do not
# mind which rank has which data: with batches of the same size, their mean over ranks is the mean over all samples.)
#
# ### Switch it off, and average when it counts
#
# You will read of `broadcast_buffers=False`. Since torch 2.13 that name is deprecated, in favour of `forward_sync_buffers`. The
# warning says itself that the two are not the same:


# %% claims={"S21": "wrong"}
# %%ranks
import textwrap


def stamps_equal(ignore=(), **options):
    """Whether rank 0's stamp is on this rank: after wrapping, and inside a later forward."""
    net = Stamped()
    net.stamp.fill_(rank)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ignore)
    ddp = DistributedDataParallel(net, **options)
    wrapped = net.stamp.item() == 0
    return wrapped, arrives(ddp, "train")


with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    table = {
        "default": stamps_equal(),
        "forward_sync_buffers=False": stamps_equal(forward_sync_buffers=False),
        "broadcast_buffers=False": stamps_equal(broadcast_buffers=False),
        "stamp ignored": stamps_equal(ignore=["stamp"]),
    }
if rank == 3:
    print(f"{'rank 0’s buffer arrives':28}when wrapped   in forwards")
    for name, (wrapped, later) in table.items():
        print(f"{name:28}{wrapped!s:15}{later}")
    for warning in told:
        if "broadcast_buffers" in str(warning.message):
            print(f"\n{warning.category.__name__}:", textwrap.fill(str(warning.message), 100))

# %% [markdown]
# The old name also skips the buffers when the model is wrapped; the new one sends them then. If your ranks *load* different
# buffers before wrapping and are to keep them, do what the warning says: stay with the old name until `init_sync_buffers` exists.
# (The ignore list is the way to except single buffers, such as a queue that every rank fills with samples of its own. It starts
# with an underscore, so it may change.)
#
# Switched off, every rank follows its own data. Then average before you evaluate or save:

# %%
# %%ranks
ddp, _ = train_norm(forward_sync_buffers=False)
norm = ddp.module[0]
own_mean = norm.running_mean.item()
for buffer in ddp.buffers():
    if buffer.is_floating_point():
        dist.all_reduce(buffer, op=dist.ReduceOp.AVG)
print(f"averaged: mean {norm.running_mean.item():.1f}, variance {norm.running_var.item():.1f}")
print("of all data: mean 1.5, variance", 1.0 + torch.arange(4.0).var(correction=0).item())
assert rank == 0 or own_mean > 0.5

# %% [markdown]
# (After 20 steps of 0.1, BatchNorm has gone 88 % of the way from its initial 0 and 1.) The mean is on its way. The variance is
# not: a mean of variances knows nothing of the distance between the means. For that you need the statistics of *one big batch*,
# in training as well.
#
# ## SyncBatchNorm, and what it needs
#
# “Convert the model with `nn.SyncBatchNorm.convert_sync_batchnorm`, before you wrap it.” Here is what that gives on a CPU:

# %% claims={"50": "not runnable here"}
# %%ranks --expect raises:ValueError
net = nn.SyncBatchNorm.convert_sync_batchnorm(
    nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Linear(32, 10))
)
print("in eval mode:", tuple(net.eval()(pixels[:4]).shape))
try:
    net.train()(pixels[:4])
except ValueError as error:
    print("in train mode:", str(error).partition(" or")[0])
DistributedDataParallel(net)

# %% [markdown]
# It refuses, in the wrapper (`_passing_sync_batchnorm_handle`) and in its own forward (`torch/nn/modules/batchnorm.py`); only
# evaluation works. It needs GPUs, so this lesson cannot run it for you. What it is *for* can be measured, with a norm of your own:

# %%
# %%ranks
from torch.distributed._functional_collectives import all_reduce as functional_all_reduce


class Norm(nn.Module):
    """BatchNorm in train mode; `over` says over which samples the mean of x and of x squared is taken."""

    def __init__(self, over):
        super().__init__()
        self.over = over

    def forward(self, x):
        mean, square = self.over(torch.stack([x.mean(0), x.square().mean(0)]))
        return (x - mean) / (square - mean.square() + 1e-5).sqrt()


class MeanOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        mean = x.clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        return mean

    @staticmethod
    def backward(ctx, gradient):
        mean = gradient.clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        return mean


def detached(x):
    mean = x.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean


WAYS = {
    "own batch": lambda x: x,
    "all batches, detached": detached,
    "all batches, MeanOverRanks": MeanOverRanks.apply,
    "all batches, functional": lambda x: functional_all_reduce(x, "sum", dist.group.WORLD) / world,
}


def make_net(over):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), Norm(over), nn.ReLU(), nn.Linear(32, 10))


def gradients(model):
    return parameters_to_vector(p.grad for p in model.parameters())


def error(over, size):
    """How far DDP's gradient is from that of one process with the whole batch (percent)."""
    inputs, answers = batch(0, size)
    ddp = DistributedDataParallel(make_net(over))
    loss_of(ddp(inputs), answers).backward()
    alone = make_net(lambda x: x)
    loss_of(alone(pixels[: world * size]), targets[: world * size]).backward()
    return 100 * ((gradients(ddp) - gradients(alone)).norm() / gradients(alone).norm()).item()


# %% [markdown]
# The second way is what comes to mind first: an `all_reduce` of the statistics. Does it help?

# %%
p = predict("09.detached")

# %%
# %%ranks --predicted --as out
sizes = [4, 8, 32, 128]
errors = {name: [error(over, size) for size in sizes] for name, over in WAYS.items()}
for name, percent in errors.items():
    print(f"{name:28}{percent[1]:6.1f} % off with 8 samples a rank")

# %%
_, axes = plt.subplots(figsize=(7.4, 3.2), layout="constrained")
looks = [("#0072B2", "o-"), ("#D55E00", "s--"), ("#009E73", "^-."), ("black", "x:")]
for (name, percent), (colour, style) in zip(out["errors"][0].items(), looks, strict=True):
    axes.plot(out["sizes"][0], percent, style, color=colour, label=name)
axes.set_xscale("log", base=2)
axes.set_xticks(out["sizes"][0], out["sizes"][0])
axes.set(
    title="Statistics of all ranks need gradients through all ranks",
    xlabel="samples a rank",
    ylabel="gradient: off by (%)",
)
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# Two kinds of being off. With its *own batch*, each rank computes another function than one big process, and the right gradient
# of it; with more samples the two come closer. *Detached*, the forward is that of the big batch, and the gradient is not that of
# this forward; more samples do not help. The optimizer follows it all the same.
#
# Why `MeanOverRanks` has an all-reduce in its backward, too: the mean goes into the loss of *every* rank, so what one rank's `x`
# does to the losses comes back from every rank. Summed over the losses, the gradient of a mean over ranks is the mean over ranks
# of the gradients. DDP's division then makes the mean of the losses of it. (`functional` is PyTorch's own: `all_reduce`, with
# `all_reduce_backward` in `torch/distributed/_functional_collectives.py`. The module's name has an underscore, too.)
#
# Two shortcuts of `Norm` are not for copying. A mean over ranks is the mean over samples only if all batches have the same size.
# And the mean of squares minus the square of the mean loses its digits where the mean is large against the spread. BatchNorm
# sums squared distances from the mean (`batch_norm_kernel.cpp` in `aten/src/ATen/native/cpu`):

# %%
# %%ranks --only 0
x = torch.randn(64, generator=torch.Generator().manual_seed(0)) + 10_000
norm = nn.BatchNorm1d(1, momentum=1.0)
norm(x[:, None])
print("BatchNorm1d finds the variance:", torch.allclose(norm.running_var, x.var(), rtol=0.01))
shortcut, exact = x.square().mean() - x.mean().square(), x.var(correction=0)
print("the shortcut is off by more than half of it:", ((shortcut - exact).abs() > exact / 2).item())

# %% [markdown]
# It is not free. Each layer now waits for all ranks, twice in a step, and nothing overlaps:

# %%
# %%ranks --as out
deep = nn.Sequential(*[part for _ in range(10) for part in (nn.Linear(64, 64), Norm(MeanOverRanks.apply))])
deep(pixels[:8]).sum().backward()

# %%
print("all-reduces in one step of ten layers:", len(out.collectives[0]), "(not counting the gradients')")

# %% [markdown]
# Often the better answer is another layer. GroupNorm and LayerNorm normalise within a sample. They need neither statistics of
# a batch nor buffers.
#
# ## What DDP never touches
#
# **The loss.** Each rank has its own (the map's `loss` column). The usual advice for the log is `dist.reduce` to rank 0, then
# a division by the number of ranks. Four ranks whose losses are 1, 2, 3 and 4:

# %% claims={"51": "refined"}
# %%ranks --as out
loss = torch.tensor(rank + 1.0)
dist.reduce(loss, dst=0)
loss = loss.item()

mean = torch.tensor(rank + 1.0)
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
print("all_reduce with AVG:", mean.item())

wrong, samples = torch.tensor([2.0, 2.0] if rank == 3 else [0.0, 8.0])  # rank 3 has the short last batch
rates, sums = wrong / samples, torch.stack([wrong, samples])
dist.all_reduce(rates, op=dist.ReduceOp.AVG)
dist.all_reduce(sums)
print(
    f"2 errors in 26 samples, all on rank 3: mean of rates {rates:.3f}, rate of sums {sums[0] / sums[1]:.3f}"
)

# %%
print("after dist.reduce:", [out["loss"][r] for r in range(4)])
assert out["loss"][0] == 10
assert any(out["loss"][r] != r + 1 for r in (1, 2, 3))

# %% [markdown]
# Rank 0 has the sum, as promised. What the others hold is not defined: “only the process with rank `dst` is going to receive the
# final result”, says the docstring. gloo has used their tensors for partial sums; rank 3's happens to be its own loss still.
# Whoever prints such a number, or feeds it to a scheduler, goes astray. `all_reduce` leaves the same on all ranks, and
# `ReduceOp.AVG` divides for you, on gloo too. With shares of different sizes, sum counts (lesson 03).
#
# > **On GPUs.** NCCL writes the result on rank 0 only, and the others keep their own loss (`ncclReduce` in NCCL's documentation;
# > not run here). Code that relies on either is wrong on the other.
#
# If a decision hangs on the loss (a scheduler that waits for a plateau, early stopping), use the reduced one *on all ranks*.
# Otherwise one rank lowers its learning rate or leaves the loop, and you know both pictures: the rising line of the meter, and the
# hang of lesson 00.
#
# **The EMA.** Equal as long as it is fed equal weights, and from an equal start. A copy taken *before* wrapping, by a script
# that seeds each rank differently, has no equal start (the teacher of lesson 07, once more):

# %%
# %%ranks
for when in ("after", "before"):
    torch.manual_seed(rank)
    net = nn.Linear(64, 10)
    early = copy.deepcopy(net)
    ddp = DistributedDataParallel(net)
    ema = early if when == "before" else copy.deepcopy(net)
    path = [flat(ema)]
    for _ in range(3):
        for _ in range(10):
            for average, weight in zip(ema.parameters(), net.parameters(), strict=True):
                average.data.lerp_(weight.data, 0.1)
        path.append(flat(ema))
    print(
        f"copied {when:6} wrapping: {[round(value, 3) for value in spread(path)]}  after 0, 10, 20, 30 updates"
    )

# %% [markdown]
# It fades with the decay: 0.9 per update here. With 0.9999, 37 % of it are left after 10,000 updates. Copy after wrapping.
#
# **Random numbers.** Own dropout masks on every rank are what you want (lesson 03). Shared ones are needed wherever a draw
# decides about *weights* or about *which collectives come next*: mutations, pruning, a layer that is skipped at random (lesson 08).
#
# **Everything else**: learning rates, optimizer settings, step counters, plain attributes. Equal because the same code ran on
# all ranks; different as soon as it did not.
#
# ## What goes wrong in real life
#
# A drift that needs no evolution: rank 0 loads a checkpoint, after the model was wrapped. `--watch` (or, for a script,
# `ddp-course doctor train.py`) compares weights during the run:

# %%
# %%ranks --watch
torch.manual_seed(0)
ddp = DistributedDataParallel(nn.Linear(64, 10))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
checkpoint = {name: value + 0.01 for name, value in ddp.module.state_dict().items()}
if rank == 0:
    ddp.module.load_state_dict(checkpoint)
for step in range(10):
    inputs, answers = batch(step)
    optimizer.zero_grad()
    loss_of(ddp(inputs), answers).backward()
    optimizer.step()

# %% [markdown]
# - **Weights changed on one rank**: a checkpoint loaded there, a layer re-initialised with the rank's own seed, noise. Before
#   wrapping, the constructor makes up for it (not for the optimizer's state). After it, nobody does.
# - **Validation differs between ranks, though the weights are equal.** Running statistics, evaluated through `.module`. Evaluate
#   on one rank, or send the buffers first.
# - **A queue or a codebook kept in a buffer** loses what all ranks but 0 put in. A plain attribute is left alone, but
#   not saved with the model; a buffer on the ignore list is both left alone and saved.
# - **SyncBatchNorm in a test that runs on a CPU** raises. Convert only where there are GPUs.
#
# ## Rule of thumb
#
# > DDP sets the clocks once (weights and buffers, in the constructor), averages gradients in the backward after a forward, and
# > copies rank 0's buffers before most training forwards. All else is equal only because all ranks did the same with the same.
# > What you change, change everywhere alike, in place; what you doubt, compare.
#
# ## Your turn
#
# Three tasks wait in [exercises/09_synchronised](../exercises/09_synchronised.ipynb): an alarm that rings on all ranks alike, a
# mutation that keeps DDP true, and a BatchNorm over the batches of all ranks that works on a CPU.
#
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `_sync_buffers` and `will_sync_module_buffers`, and the docstring of `forward_sync_buffers`.
# - `torch/nn/modules/_functions.py`: the real `SyncBatchNorm`, with unequal batches and a backward written by hand.
# - Ioffe and Szegedy, *Batch Normalization*, 2015; Wu and He, *Group Normalization*, ECCV 2018, on small batches.
#
# **Next:** [lesson 10](10_accumulation.ipynb), *Accumulation, clipping and mixed precision*. Or back to the [index](index.ipynb).
