# %% [markdown]
# # 09 · What is synchronised, and when
#
# > *“DDP broadcasts parameters and buffers from rank 0 in every forward, doesn't it? So if I change the weights on one rank,
# > for an evolution strategy or some exploration, is that gone with the next step? Or does the all-reduce average it?”*
#
# Ask four ranks. Each builds a model with one weight, from random numbers of its own, and wraps it.
#
# **You will be able to** say for weights, buffers, gradients and everything else whether and when DDP makes them equal; to change
# weights on purpose without breaking that; and to say whose BatchNorm statistics you evaluate and save. 40 minutes.
#
# **Before this:** lessons 00 and 04.

# %%
# %load_ext course_lib

# %% tags=["two-hours-6"]
# %%ranks 4 --backend gloo --as built
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
round(ddp.module.weight.item(), 3)

# %% [markdown]
# The same weight four times: wrapping has made them equal. (The lesson stays on the CPU, with gloo, also where there are GPUs.)
#
# ## One rank changes its weight
#
# Now train for 60 steps towards 3. At step 5, rank 1 adds 0.1 to its weight, once.

# %%
p = predict("09.shifted_weight")

# %% claims={"37": "wrong", "46": "wrong"}
# %%ranks --predicted --as out
for step in range(60):
    if step == 5 and dist.get_rank() == 1:
        with torch.no_grad():
            ddp.module.weight += 0.1
    optimizer.zero_grad()
    (ddp(torch.ones(1, 1)) - 3).square().sum().backward()
    optimizer.step()
round(ddp.module.weight.item(), 3)

# %% [markdown]
# The difference of 0.1 is still there after 55 steps. Nothing has overwritten it, and nothing has averaged it. The gradients are
# averaged, so all ranks take the same step, from different places. And no rank arrives at 3. Each rank computes its gradient at
# its own weight. The mean of these gradients is zero when the *mean* of the weights is 3.
#
# ## An ensemble?
#
# “Then let the ranks be different: the all-reduce ensembles the diversity.” Look for the ensemble:

# %% claims={"49": "wrong"}
# %%ranks
mean = ddp.module.weight.detach().clone()
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
print(f"this rank has {ddp.module.weight.item():.3f}, the mean is {mean.item():.3f}")

# %% [markdown]
# The mean has learned what was asked for, and no rank has it. What looks like one model in your log is four models. A
# checkpoint from rank 0 is one of them. (To average weights now and then is a method of its own, local SGD: lesson 05.)
#
# ## Parameters
#
# Why did nothing repair it? Look at what the two rank cells above have sent, and what wrapping sends with `init_sync=False`:

# %%
# %%ranks --as alike
torch.manual_seed(0)  # equal weights without a message
skipped = DistributedDataParallel(nn.Linear(1, 1, bias=False), init_sync=False)

# %%
from collections import Counter

for name, outcome in {"wrapping": built, "60 steps": out, "init_sync=False": alike}.items():
    print(f"{name}: {len(outcome.collectives[0])} messages")
    for (stage, op), count in Counter((c.stage, c.op) for c in outcome.collectives[0]).items():
        print(f"    {stage:14}{op:12}{count}")

# %% [markdown]
# The constructor compares the shapes of the parameters and sends rank 0's weights (`_sync_module_states`, called in
# `DistributedDataParallel.__init__`, `torch/nn/parallel/distributed.py`). After that come gradients, 60 times in 60 steps, and
# once the order of the new buckets (lesson 04). No forward has sent a parameter. Do your ranks begin equal anyway, from one seed or
# one checkpoint? Then `init_sync=False` saves the first messages, and nothing notices if they did not.
#
# Older answers name `_sync_params`, a method of DDP that ran when a forward began (torch 1.7, the same file). It had two
# purposes. In a process that drove several GPUs, it copied the parameters from the first GPU to the others. Between processes, it
# sent rank 0's buffers. Ask the installed torch what became of it:

# %%
# %%ranks --only 0
print({name: hasattr(DistributedDataParallel, name) for name in ("_sync_params", "_sync_buffers")})
"Parameters are never broadcast between processes" in DistributedDataParallel.__doc__

# %% [markdown]
# The first purpose is gone: today one process has one replica. The second one is `_sync_buffers`, further down in this lesson.
# Can you rely on that? Yes: the last line has found that sentence in DDP's documentation. DDP “assumes that they will be modified
# by the optimizer in all processes in the same way”, it goes on.
#
# So weights stay equal for one reason: equal weights and equal gradients, put into equal optimizers, give equal weights.
# Nothing compares them, and nothing repairs them.
#
# > **On GPUs (NCCL).** The same messages are sent: what is sent, and when, is decided above the backend, in `distributed.py` and
# > `reducer.cpp`. (With PyTorch's `fake` backend, which sends nothing, wrapping and forwards make the same
# > calls as with gloo.)
#
# ## Change weights on purpose
#
# Evolution, exploration, pruning, a re-initialised layer: all of them work, if the change is the *same* on all ranks. There are
# two ways. All ranks draw it from generators with the same seed, which nothing else draws from. Or one rank makes it, and *all*
# ranks call the broadcast. (If ranks try different mutants, all of them have to know every mutant's fitness, and to choose alike.)

# %%
# %%ranks
from course_lib.watch import compare

together, weight = torch.Generator().manual_seed(7), ddp.module.weight
with torch.no_grad():
    dist.broadcast(weight, src=2)  # what rank 2 has; it also ends the difference from above
    weight += torch.randn(weight.shape, generator=together)  # the same numbers on every rank
compare(ddp)

# %% [markdown]
# `compare`, on the ranks, is the course's collective that says what is the same on all of them, bit by bit.
#
# A third condition is less obvious. Here all ranks put in the same new `Parameter`, a 1. Then each computes a gradient: 1, 2, 3 and 6
# on ranks 0 to 3, with the mean 3. The learning rate is 0.1.

# %%
p = predict("09.new_parameter")

# %%
# %%ranks --predicted
ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
ddp.module.weight = nn.Parameter(torch.ones(1, 1))
share = (1.0, 2.0, 3.0, 6.0)[dist.get_rank()]
ddp(torch.tensor([[share]])).sum().backward()
optimizer.step()
round(ddp.module.weight.item(), 3)

# %%
# %%ranks
ddp.module.weight.grad.item()

# %% [markdown]
# Not averaged, not stepped, and no error. DDP has hung a hook on each parameter that the model had when it was wrapped, and an optimizer
# holds a list of the same ones. Neither knows the new one. So change weights *in place*: under `torch.no_grad()` with `+=`,
# `copy_` or `nn.init`, or with `load_state_dict`. To put in a new layer, do it first and wrap afterwards (lesson 07).
#
# ## Moment by moment
#
# Now everything that a rank has. The model has one weight and a BatchNorm, whose running mean is a *buffer*: it belongs to the
# model and gets no gradient. Every rank begins with a weight, a running mean and data of its own. The numbers are those of four
# real ranks. Step through them: gray is equal on all ranks, and the arrows are what has been sent.

# %%
from course_lib.lessons.synchronised.lab import what_travels

what_travels()

# %% [markdown]
# Three columns, three answers:
#
# - **Weights** are sent once, when the model is wrapped.
# - **Gradients** are averaged in the backward (lessons 04 and 06).
# - **Buffers** are sent when a forward begins ([not every one](#Buffers)), and differ when it is over.
#
# The momentum is in no message. It is equal because it is computed from what is equal.
#
# ## Change something on rank 1
#
# Choose what rank 1 does, and when. Four real ranks train for three steps, with dropout and momentum. The picture shows from
# moment to moment what is the same on all of them. The title says how the weights end.

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.synchronised.lab import explore_changes

explore_changes()

# %% [markdown]
# There are three kinds of change:
#
# - **Undone.** Weights before wrapping, and buffers whose next forward sends rank 0's. A gradient after the step: the next
#   `zero_grad` clears it.
# - **For ever.** What comes between the average and the weights: weights after wrapping, the gradient between backward and step,
#   the momentum, the learning rate.
# - **Shared.** What comes before the average: the loss, dropout's random numbers, `eval()`, a gradient that was not cleared. It
#   goes into the mean, and all ranks learn it alike. `compare` finds no difference in the weights, and the model is another one.
#
# ## Buffers
#
# You will read that buffers are sent in *every* forward. Take six kinds of forward, in all orders. Before a forward, each rank puts
# its own number into a buffer. If rank 3 finds a 0 after it, rank 0's buffers have been sent.

# %%
p = predict("09.buffers_sent")

# %% claims={"48": "refined"}
# %%ranks --predicted --as out
from course_lib.lessons.synchronised.moments import Stamped, pairs

ddp = DistributedDataParallel(Stamped())
sent = pairs(ddp)

# %%
from course_lib.lessons.synchronised.lab import draw_sent

draw_sent(out["sent"][3])

# %% [markdown]
# All places of a row are the same. Buffers are sent when the forward *before* had gradients on and was not under `no_sync`.
# (They are sent in the very first forward, too.) `train()` and `eval()` do not matter, and no backward is needed. You can read
# it: `_pre_forward` asks `will_sync_module_buffers` (`torch/nn/parallel/distributed.py`), which looks at
# `require_forward_param_sync`, and `_post_forward` of the forward before has set that flag. Consequences:
#
# - A forward in `eval()` after a training step is a collective, too. One rank alone must not make it (lesson 06).
# - With accumulation under `no_sync`, buffers are sent once in each cycle, before its first micro-batch.
# - If all ranks evaluate through the wrapper under `no_grad`, the *first* evaluation batch brings rank 0's statistics to everybody.
#   Through `.module`, each rank evaluates with its own.
#
# The other half of the claim holds: without buffers there is no such message. The 60 steps above had none.
#
# ## What that does to BatchNorm
#
# Rank `r` gets data around the value `r`, as from four hospitals with a scanner each. The mean over all ranks is 1.5.

# %%
p = predict("09.running_mean")

# %% claims={"S25": "wrong"}
# %%ranks --predicted
rank, norm = dist.get_rank(), nn.BatchNorm1d(1)
ddp, own = DistributedDataParallel(norm), torch.Generator().manual_seed(rank)
for _ in range(20):
    ddp(torch.randn(64, 1, generator=own) + rank).square().mean().backward()
mean = norm.running_mean.item()
round(mean, 2)

# %% [markdown]
# Every rank moves towards the mean of its own batch, and is put back to rank 0's value when the next forward begins. Only what
# rank 0 has seen survives. After the last step nothing puts the others back, so a *healthy* model ends with statistics that differ
# between ranks. In eval mode BatchNorm uses them. What is in a checkpoint depends on who saves it. And who evaluates?

# %%
# %%ranks
ddp.eval()
with torch.no_grad():
    seen = [model(torch.ones(1, 1)).item() for model in (ddp.module, ddp)]
print(f"through .module: {seen[0]:.3f}, through the wrapper: {seen[1]:.3f}")

# %% [markdown]
# If every rank gets a fair sample of the same data, rank 0's statistics are as good as any, from a quarter of the samples. If
# the ranks get different kinds of data, they are wrong, as here. (Without a BatchNorm, the mean of the gradients does not depend
# on which rank has which data, if all batches have the same size.) You can switch the sending off, average the
# statistics, or normalise over all ranks: the Deeper sections show each.
#
# What does the sending cost? The messages of one forward are two broadcasts, one for each type of number: the running statistics and
# `num_batches_tracked`, a whole number. Here is the time of a training forward of 53 BatchNorms (ResNet-50
# has as many) with 256 features each, on your machine:

# %% tags=["nbval-ignore-output"]
# %%ranks
from course_lib.lessons.synchronised.moments import forward_milliseconds

{name: f"{milliseconds:.1f} ms" for name, milliseconds in forward_milliseconds().items()}

# %% [markdown]
# “It could slow down training”, says the forum of `_sync_params`. With buffers and gloo, each step pays that difference:
# milliseconds here, more over a slow network. Compare it with the time of your own step. Without buffers nothing is paid.
#
# > **On GPUs (NCCL).** The forward queues the same broadcasts on the GPU, and the first layer's kernels wait for them. (Read in
# > `broadcast_coalesced`, `torch/csrc/distributed/c10d/comm.cpp`, not run: a CPU has no queue of kernels.)
#
# ## What goes wrong in real life

# %% [markdown] tags=["two-hours-6"]
# A drift that needs no evolution: rank 0 loads a checkpoint after the model was wrapped. `--watch` (or, for a script,
# `ddp-course doctor train.py`) compares weights during the run:

# %% tags=["two-hours-6"]
# %%ranks --watch
torch.manual_seed(0)
ddp = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
checkpoint = {name: value + 0.01 for name, value in ddp.module.state_dict().items()}
if dist.get_rank() == 0:
    ddp.module.load_state_dict(checkpoint)
for _ in range(10):
    optimizer.zero_grad()
    ddp(torch.ones(4, 8)).square().mean().backward()
    optimizer.step()

# %% [markdown]
# - **Weights changed on one rank**: a checkpoint loaded there, a layer re-initialised with the rank's own seed, noise. Before
#   wrapping, the constructor repairs it, but not the optimizer's state. After it, nothing does.
# - **Validation differs between ranks, though the weights are equal.** Running statistics, evaluated through `.module`. Evaluate
#   on one rank, or send the buffers first.
# - **A queue or a codebook kept in a buffer** loses what all ranks but 0 put in. A plain attribute is left alone, but it is not
#   saved with the model.
#
# ## Rule of thumb
#
# > DDP sends weights and buffers once, in the constructor; it averages gradients in the backward after a forward; and it copies rank
# > 0's buffers before most training forwards. All else is equal only because all ranks did the same with the same. What you change,
# > change on all ranks alike and in place; what you doubt, compare. What you log, reduce in a copy, on all ranks.
#
# ## Your turn
#
# Four tasks wait in [exercises/09_synchronised](../exercises/09_synchronised.ipynb): an alarm that rings on all ranks alike, a
# mutation that keeps DDP true, a BatchNorm over the batches of all ranks that works on a CPU (for this one, read the Deeper
# section on SyncBatchNorm), and early stopping that no rank is left out of.
#
# **Your script.** One of the faults in `exercises/script/train.py` is this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair it; in a terminal, this says whether it is gone:
#
#     ddp-course check --suspect 09 exercises/script/train.py
#
# ## Deeper: drift, and alarms for it
#
# A difference of weights stays, grows or fades. The meter says how far apart any two ranks are where they differ most.


# %%
# %%ranks
def spread(model):
    """The largest difference between two ranks' weights."""
    weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    highest = torch.stack([weights, -weights])  # the largest of -w is minus the smallest of w
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    return highest.sum(0).max().item()


def train(change, lr=0.1, kind=torch.optim.SGD, **options):
    """20 steps; `change(step, parameters)` comes before each. Returns the drift after 5, 10 and 20."""
    torch.manual_seed(0)
    ddp, own = DistributedDataParallel(nn.Linear(8, 1)), torch.Generator().manual_seed(rank)
    optimizer, path = kind(ddp.parameters(), lr=lr, **options), []
    for step in range(20):
        with torch.no_grad():
            change(step, list(ddp.parameters()), own)
        optimizer.zero_grad()
        (ddp(torch.randn(16, 8, generator=own)) - 1).square().mean().backward()
        optimizer.step()
        path.append(round(spread(ddp), 3))
    return path[5], path[10], path[19]


def nothing(step, parameters, own):
    pass


def add_once(step, parameters, own):
    for parameter in parameters if step == 5 and rank == 1 else ():
        parameter += 0.1


def repaired(step, parameters, own):
    add_once(step, parameters, own)
    for parameter in parameters if step == 12 else ():
        dist.broadcast(parameter, src=0)


def noise(step, parameters, own):
    for parameter in parameters:
        parameter += 0.002 * torch.randn(parameter.shape, generator=own)


rank = dist.get_rank()
table = {
    "nothing changes": train(nothing),
    "rank 1 adds 0.1 at step 5": train(add_once),
    "... with Adam": train(add_once, lr=0.01, kind=torch.optim.Adam),
    "... with weight decay": train(add_once, weight_decay=0.2),
    "... and a broadcast at step 12": train(repaired),
    "own noise in each step": train(noise),
    "rank 1 has another learning rate": train(nothing, lr=0.11 if rank == 1 else 0.1),
}
if rank == 0:
    for name, drift in table.items():
        print(f"{name:33}", *drift)

# %% [markdown]
# A difference stays, or grows; also with Adam, which looks at nothing but gradients. Weight decay (here SGD's) lets it fade
# by the factor `1 - lr * decay` in each step, as it lets all weights fade. Only a broadcast ends it at once.
#
# A check of this kind belongs into long trainings, every few hundred steps. Not this meter: it needs four times the memory of the
# weights. A good check looks at single tensors, and at their bits. Its collectives work in place, so they need copies. And every
# rank learns what any rank has found before somebody raises. A small difference counts, since it is the beginning of a large
# one. A NaN that all ranks share is no difference. Task 1 asks for such a check.
#
# ## Deeper: switch it off, and average when it counts
#
# You will read of `broadcast_buffers=False`. Since torch 2.13 that name is deprecated, in favour of `forward_sync_buffers`. The
# warning says itself that the two are not the same:


# %% claims={"S21": "wrong"}
# %%ranks
import textwrap
import warnings

from course_lib.lessons.synchronised.moments import Stamped, arrives


def stamps_equal(ignore=(), **options):
    """Whether rank 0's stamp is on this rank: after wrapping, and inside a later forward."""
    net = Stamped()
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
if dist.get_rank() == 3:
    print(f"{'rank 0’s buffer arrives':28}when wrapped   in forwards")
    for name, (wrapped, later) in table.items():
        print(f"{name:28}{wrapped!s:15}{later}")
    for warning in told:
        if "broadcast_buffers" in str(warning.message):
            print(f"\n{warning.category.__name__}:", textwrap.fill(str(warning.message), 100))

# %% [markdown]
# The old name also skips the buffers when the model is wrapped; the new one sends them then. If your ranks *load* different
# buffers before wrapping and are to keep them, do what the warning says: stay with the old name until `init_sync_buffers` exists.
# The ignore list is the way to except single buffers, such as a queue that every rank fills with samples of its own. It starts
# with an underscore, so it may change.
#
# Switched off, every rank follows its own data. Then average before you evaluate or save:

# %%
# %%ranks
rank, norm = dist.get_rank(), nn.BatchNorm1d(1)
ddp = DistributedDataParallel(norm, forward_sync_buffers=False)
own = torch.Generator().manual_seed(rank)
for _ in range(20):
    ddp(torch.randn(64, 1, generator=own) + rank).square().mean().backward()
for buffer in ddp.buffers():
    if buffer.is_floating_point():
        dist.all_reduce(buffer, op=dist.ReduceOp.AVG)
if rank == 0:
    print(f"averaged:    mean {norm.running_mean.item():.1f}, variance {norm.running_var.item():.1f}")
    print(f"of all data: mean 1.5, variance {1 + torch.arange(4.0).var(correction=0).item()}")

# %% [markdown]
# (After 20 steps of 0.1, BatchNorm has gone 88 % of the way from its initial 0 and 1.) The mean is on its way. The variance is
# not: a mean of variances knows nothing of the distance between the means. For that you need the statistics of *one big batch*,
# in training as well. (The running variance moves towards the *unbiased* variance of a batch, which divides by `n - 1`; the
# batch itself is normalised with the one that divides by `n`.)
#
# ## Deeper: SyncBatchNorm, and what it needs
#
# “Convert the model with `nn.SyncBatchNorm.convert_sync_batchnorm`, before you wrap it.” Here is what that gives on a CPU:

# %%
# %%ranks
from torch.nn.utils import parameters_to_vector

from course_lib.data import load_digits

rank, world = dist.get_rank(), dist.get_world_size()
images, labels = load_digits()
pixels, targets = torch.from_numpy(images).float().flatten(1) / 16, torch.from_numpy(labels).long()

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
# evaluation works. It needs GPUs. What it is *for* can be measured on a CPU, with a norm of your own:

# %%
# %%ranks
from torch.distributed._functional_collectives import all_reduce as functional_all_reduce


class Norm(nn.Module):
    """BatchNorm in train mode; `over` says over which samples x and x squared are averaged."""

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
    ddp, alone, loss_of = (
        DistributedDataParallel(make_net(over)),
        make_net(WAYS["own batch"]),
        nn.functional.cross_entropy,
    )
    inputs, answers = pixels[: world * size], targets[: world * size]
    loss_of(ddp(inputs[rank::world]), answers[rank::world]).backward()
    loss_of(alone(inputs), answers).backward()
    return 100 * ((gradients(ddp) - gradients(alone)).norm() / gradients(alone).norm()).item()


# %% [markdown]
# The second way is what comes to mind first: an `all_reduce` of the statistics. Does it help?

# %%
p = predict("09.detached")

# %%
# %%ranks --predicted --as out
sizes = [4, 8, 32, 128]
errors = {name: [error(over, size) for size in sizes] for name, over in WAYS.items()}
print(f"{'samples per rank':28}", *[f"{size:6}" for size in sizes])
for name, percent in errors.items():
    print(f"{name:28}", *[f"{off:4.0f} %" for off in percent])

# %% [markdown]
# The gradient is off in two ways. With its *own batch*, each rank computes another function than one big process, and the right gradient
# of it; with more samples the two come closer. *Detached*, the forward is that of the big batch, and the gradient is not that of
# this forward; more samples do not help. The optimizer follows it all the same.
#
# Why `MeanOverRanks` has an all-reduce in its backward, too: the mean goes into the loss of *every* rank, so its gradient is
# collected from every rank. DDP then averages the parameters' gradients as always. (`functional` is PyTorch's own: `all_reduce`, with
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
# > **On GPUs (NCCL).** `SyncBatchNorm` gathers mean, inverse deviation and number of samples of every rank, so batches may have
# > different sizes, and its backward is an all-reduce of two sums. (Read in `torch/nn/modules/_functions.py`, not run: it refuses
# > a CPU.)
#
# It is not free. Each of these layers waits for all ranks, twice in a step, and nothing overlaps.
# Often the better answer is another layer. GroupNorm and LayerNorm normalise within a sample. They need neither statistics of
# a batch nor buffers.
#
# ## Deeper: one number for the log
#
# Each rank has a loss of its own. An article logs their mean by a `reduce` to rank 0, which divides. Rank *r* has the loss 10*ʳ*, so
# each number says whose losses are in it:

# %% claims={"51": "refined"}
# %%ranks --as out
rank, world = dist.get_rank(), dist.get_world_size()
loss = torch.tensor(10.0**rank, requires_grad=True)
reduced = loss.clone().detach()
dist.reduce(reduced, dst=0)
reduced = reduced.item()

dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)  # without the clone
print("the loss itself:", loss.item())

# %%
print("after dist.reduce:", [out["reduced"][r] for r in range(4)])
assert out["reduced"][0] == 1111
assert any(out["reduced"][r] != 10**r for r in (1, 2, 3))

# %% [markdown]
# Rank 0 has the sum, as promised. What the others hold is not defined: “only the process with rank `dst` is going to receive the
# final result”, says the docstring. gloo has used their tensors for partial sums; rank 3's happens to be its own loss still.
# `all_reduce` leaves the same number on all ranks, so a scheduler or an early stop decides alike. Reduce a copy: `detach()` alone is
# none, and the loss itself was overwritten.
#
# > **On GPUs (NCCL).** NCCL's documentation lets `ncclReduce` write on the receiving rank only, so the others keep their own loss (read,
# > not run: that is not gloo's code). Code that relies on either is wrong on the other. `.item()` waits for the GPU: log every
# > hundredth step.
#
# A **metric** counts, is logged, and counts on. `answers()` trains on the digits, and gives for 15 logs how many answers of this rank
# were right since the last one, and how many there were.

# %%
p = predict("09.counters")

# %%
# %%ranks --predicted --as out
from course_lib.lessons.synchronised.moments import answers

counts, log = torch.zeros(2, dtype=torch.int64), []  # right, all
for batch in answers():
    counts += batch
    dist.all_reduce(counts)
    log.append((counts[0] / counts[1]).item())
print(f"first {log[0]:.2f}, last {log[-1]:.2f}")

# %% [markdown]
# After the `all_reduce` every rank holds the sum over all ranks. The next one adds four such sums: each log multiplies what was there
# before by four. The log stays near its first value, and looks so reasonable that you go and tune the learning rate. **Reduce
# a copy, never the counter:**

# %%
# %%ranks
counts, log = torch.zeros(2, dtype=torch.int64), []
for batch in answers():
    counts += batch
    dist.all_reduce(total := counts.clone())
    log.append((total[0] / total[1]).item())
print(f"first {log[0]:.2f}, last {log[-1]:.2f}")

# %% [markdown]
# And which numbers may be reduced at all? All ranks have 48 samples:

# %%
# %%ranks
drawn = torch.Generator().manual_seed(0)
all_answers = torch.randint(0, 4, (192,), generator=drawn)
all_scores = torch.randn(192, 4, generator=drawn) + 2 * torch.eye(4)[all_answers]
mine = slice(48 * rank, 48 * (rank + 1))


def accuracy(scores, answers):
    return (scores.argmax(1) == answers).double().mean()


def perplexity(scores, answers):
    return torch.nn.functional.cross_entropy(scores.double(), answers).exp()


def mean_recall(scores, answers):
    """The mean over the classes there are of: how many of them were found."""
    found = scores.argmax(1) == answers
    return torch.stack([found[answers == kind].double().mean() for kind in answers.unique()]).mean()


for metric in (accuracy, perplexity, mean_recall):
    mean = metric(all_scores[mine], all_answers[mine])
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    exact = metric(all_scores, all_answers)
    print(f"{metric.__name__:12} mean of ranks {mean:.4f}   exact {exact:.4f}")
print("one more than 16777216 in float32:", int(torch.tensor(2.0**24) + 1))

# %% [markdown]
# Only the accuracy is right, and only because the shares are equal. A mean of exponentials is not the exponential of a mean; a class
# that is rare on one rank weighs more there. Find the *ingredients* that can be added (counts for each class, sums of losses, numbers of
# samples), reduce those, and compute the metric **afterwards**. A class of which nobody has seen a sample has no recall: leave it
# out. A rank with an empty batch adds zeros and joins the collective, or the others wait for it. A median or a ROC curve needs the
# values themselves: `all_gather`. And count in `int64`: a `float32` counter that goes up by one stops at 2²⁴ without a word. (Lesson 14's
# first task asks for such a metric.)
#
# ## Deeper: what DDP never touches
#
# **The decision.** A scheduler waits for a plateau, early stopping for a better loss. If each rank decides by its own loss, one
# lowers its learning rate or leaves the loop before the others. Then the ranks drift apart, or the others wait for ever (lesson 00).
# Task 4 asks for such a decision.
#
# **The EMA.** Equal as long as it is fed equal weights, and from an equal start. A copy taken *before* wrapping, by a script
# that seeds each rank differently, has no equal start (the teacher of lesson 07, once more):

# %%
# %%ranks
import copy

torch.manual_seed(rank)
net = nn.Linear(1, 1, bias=False)
early = copy.deepcopy(net)
ddp = DistributedDataParallel(net)
late = copy.deepcopy(net)
for ema in (early, late):
    distance = [round(ema.weight.item() - net.weight.item(), 3)]
    for _ in range(3):
        for _ in range(10):
            with torch.no_grad():
                ema.weight.lerp_(net.weight, 0.1)
        distance.append(round(ema.weight.item() - net.weight.item(), 3))
    if rank == 1:
        print("copied", "before" if ema is early else "after ", "wrapping: off by", distance)

# %% [markdown]
# (After 0, 10, 20 and 30 updates, on rank 1.) It fades with the decay: 0.9 per update here. With 0.9999, 37 % of it are left after 10,000 updates. Copy after wrapping.
#
# **Random numbers.** Every rank should draw dropout masks of its own (lesson 03). Shared ones are needed wherever a draw
# decides about *weights* or about *which collectives come next*: mutations, pruning, a layer that is skipped at random (lesson 08).
#
# **Everything else**: learning rates, optimizer settings, step counters, plain attributes. Equal because the same code ran on
# all ranks; different as soon as it did not.
#
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `_sync_buffers` and `will_sync_module_buffers`, and the docstring of `forward_sync_buffers`.
# - `torch/nn/modules/_functions.py`: the real `SyncBatchNorm`, with unequal batches and a backward written by hand.
# - Ioffe and Szegedy, *Batch Normalization*, 2015; Wu and He, *Group Normalization*, ECCV 2018, on small batches.
#
# **Next:** [lesson 10](10_accumulation.ipynb), *Accumulation, clipping and mixed precision*. Or back to the [index](index.ipynb).
