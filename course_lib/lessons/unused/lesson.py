# %% [markdown]
# # 08 · Unused parameters and changing graphs
#
# > *“Expected to have finished reduction in the prior iteration. Parameter indices which did not receive grad: 2. Which one is
# > that? And everybody says: `find_unused_parameters=True`. Is that all?”*

# %% [markdown] tags=["two-hours-3"]
# Ask two ranks. The model is a body and two heads, one weight each, and every weight is 1. The second argument says which heads are
# used. The sample is 1 on rank 0 and 3 on rank 1, so `.grad` says who was averaged: 2 is the mean, 1 and 3 are what each rank
# computed alone.

# %% [markdown]
# **You will be able to** read the error, find the wrong step before DDP does, choose between three ways out by what your model
# does, and write a mixture of experts for DDP. 45 minutes.
#
# **Before this:** lessons 00, 04 and 06.

# %%
# %load_ext course_lib


# %% tags=["two-hours-3"]
# %%ranks 2
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = (nn.Linear(1, 1, bias=False) for _ in range(3))
        for p in self.parameters():
            nn.init.ones_(p)

    def forward(self, x, heads="both"):
        x = self.body(x)
        used = ("left", "right") if heads == "both" else (heads,)
        return sum(getattr(self, head)(x) for head in used)


def grads(ddp):
    return [None if p.grad is None else p.grad.item() for p in ddp.parameters()]


# %% tags=["two-hours-3"]
# %%ranks --expect raises:RuntimeError
x = torch.tensor([[(1.0, 3.0)[dist.get_rank()]]])
ddp = DistributedDataParallel(TwoHeads())
for step in range(2):
    ddp(x, "left").sum().backward()
    print(f"step {step}: .grad of body, left, right:", grads(ddp))

# %% [markdown] tags=["two-hours-3"]
# Which step was wrong? Step 1 raised, in its forward, before it had computed anything. Step 0 printed what each rank had computed
# alone: 1 and 3, not 2. Step 0 was wrong, and it did not raise.

# %% [markdown]
# ## A box for each parameter
#
# Lesson 06 has drawn what DDP keeps: a flag, and a box for each parameter. Here the first step uses both heads, the second one the
# left head, and then comes a third forward. (As there, the right head counts ten times, and each forward a hundred times as much
# as the one before.)

# %%
from course_lib.lab.reducer import step_through

step_through("FS F(left)S F", heads=True)

# %% [markdown]
# **A gradient that does not come is not an event**: no hook runs, so nothing can complain. A bucket leaves when its last box is
# ticked, not earlier. The next forward is the first to look at the boxes.
#
# ## Read the error

# %% claims={"10": "outdated", "S14": "wrong"}
# %%ranks
ddp = DistributedDataParallel(TwoHeads())
ddp(x, "left").sum().backward()
try:
    ddp(x, "left")
except RuntimeError as error:
    message = str(error)
print(message.partition(" You can")[0])
print(next(line for line in message.splitlines() if line.startswith("Parameter indices")))
print("speaks of the output:", "not used in producing its output" in message)

# %% [markdown]
# You will find this error quoted as “parameters that were not used in producing its *output*”. Older versions said that. Now it
# speaks of the *loss*, and that is more exact: a head whose output you compute and then leave out of the loss gets no gradient,
# either.
#
# **2** is a position in the list of parameters that DDP waits for. Parameters that were frozen *before wrapping* are not in that
# list, so one frozen layer at the front shifts all numbers (`_build_params_for_reducer`, `torch/nn/parallel/distributed.py`). Let
# DDP print names: set `TORCH_DISTRIBUTED_DEBUG=INFO` in the environment, or call `set_debug_level` in a running process.

# %%
# %%ranks
frozen = TwoHeads()
frozen.body.requires_grad_(False)
dist.set_debug_level(dist.DebugLevel.INFO)
ddp = DistributedDataParallel(frozen)
dist.set_debug_level(dist.DebugLevel.OFF)
ddp(x, "left").sum().backward()
try:
    ddp(x, "left")
except RuntimeError as error:
    print(*str(error).splitlines()[-2:], sep="\n")

# %% [markdown]
# The same head, and now its position is 1. The message offers `DETAIL` as well. With gloo, do not follow it: in a group that was
# made at that level, DDP's constructor dies of a segmentation fault ([lesson 13](13_debugging.ipynb) runs it).
#
# ## The last step
#
# The heads of a real model are in other buckets than its body. So give every parameter a bucket of its own. Four steps use both
# heads; the fifth is the last one of the training and uses the right head only.

# %%
p = predict("08.last_step")

# %%
# %%ranks --predicted
ddp = DistributedDataParallel(TwoHeads(), bucket_cap_mb=1e-6)
for heads in ("both", "both", "both", "both", "right"):
    ddp.zero_grad()
    ddp(x, heads).sum().backward()
grads(ddp)

# %% [markdown]
# No error, and nothing was averaged, although body and right had gradients and buckets of their own. Buckets leave in a fixed
# order, so a missing one holds up those behind it. Nor is a bucket that has left copied back into `.grad`: `finalize_backward`
# (`reducer.cpp`) does that, and it is queued with the *last* bucket. After the optimizer's step, the ranks have different bodies,
# and a checkpoint holds rank 0's. (With `gradient_as_bucket_view=True`, `.grad` *is* the bucket; here it would hold half of each rank's own.)
#
# A test that trains for one step and waits for an error finds nothing. An evaluation does not find it, either. Ask DDP right after
# `backward()`, with the private method that lesson 04 ended with:

# %%
# %%ranks
with torch.no_grad():
    ddp(x)
print("an evaluation raises nothing")
try:
    ddp._check_reducer_finalized()
except RuntimeError as error:
    print(str(error).partition(" before")[0])

# %% [markdown]
# It sees boxes of which some are ticked and some are not, and nothing else: not a step through `.module`, not a second backward, not the
# dataclass [below](#Deeper:-four-ways,-twelve-graphs). What sees all of them is to compare gradients between the ranks
# (lesson 06, task 6).

# %% [markdown] tags=["two-hours-3"]
# ## Ranks that disagree
#
# Now the graph differs between the ranks: rank 0's batch has labels for both heads, rank 1's only for the left one.

# %% tags=["two-hours-3"]
p = predict("08.one_rank")

# %% tags=["two-hours-3"]
# %%ranks --predicted
ddp = DistributedDataParallel(TwoHeads())
for _ in range(2):
    ddp(x, ("both", "left")[dist.get_rank()]).sum().backward()

# %% [markdown] tags=["two-hours-3"]
# Rank 0 has all its gradients: in step 0 it sends its bucket and waits. Rank 1 misses one, sends nothing, waits for nothing, and
# raises in step 1. **The rank that did everything right is the one that hangs.** One rank that leaves out a parameter is enough to
# stop the others, though all ranks together use every parameter. If rank 0 also leaves out a head, both ranks raise.

# %% [markdown]
# > **On GPUs (NCCL).** The counting is the same code. Rank 0's `backward()` returns, because the waiting is done on the GPU. Its
# > program stops at the next line that needs a number from the GPU, often `loss.item()`: there it stood on an H200, when the
# > other rank had left out an all-reduce.
#
# (`step_through("FS", "F(left)SF", heads=True)` draws it.) Calling `ddp.module(x)` makes the error go away, and the averages as
# well: it arms nothing.
#
# ## Three ways out
#
# Give each rank a head of its own, and train it in DDP's default mode and in the three ways that people recommend:
# `find_unused_parameters=True`, `static_graph=True`, and a loss that touches every parameter, `loss + 0 * sum(p.sum() for p in
# ddp.parameters())`.

# %%
# %%ranks
WAYS = {
    "default": {},
    "find_unused_parameters": {"find_unused_parameters": True},
    "static_graph": {"static_graph": True},
    "touch": {},
}
for way, flags in WAYS.items():
    ddp = DistributedDataParallel(TwoHeads(), **flags)
    loss = ddp(x, ("left", "right")[dist.get_rank()]).sum()
    if way == "touch":
        loss = loss + 0 * sum(p.sum() for p in ddp.parameters())
    loss.backward()
    print(f"{way:24}", grads(ddp))

# %% [markdown]
# The body's 2 is the mean of 1 and 3. The left head's 0.5 is the mean of 1 and nothing, and the right head's 1.5 the mean of
# nothing and 3: a rank without a gradient counts as a zero. That is what one process with all samples would compute, too.
#
# - **`find_unused_parameters`** walks the graph back from the *output* after every forward (`search_unused_parameters`,
#   `reducer.cpp`). The parameters that it does not meet are ticked when the backward's first gradient comes.
# - **`static_graph`** learns in the first backward how often each parameter gets a gradient *on this rank*, and expects the same
#   from then on.
# - **Touching** takes every parameter into the loss: DDP needs no flag.
#
# Take one of them at a time: a parameter that was ticked as unused and is then touched raises “ready only once”. So does
# touching what is behind a reentrant checkpoint, which has a backward of its own.
#
# ## Compose the graph
#
# Press a step to change the heads that it uses. Each change runs on two real ranks.

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.unused.lab import explore_graphs

explore_graphs()

# %% [markdown]
# The default mode is right where every parameter gets a gradient on every rank in every step, and nowhere else.
# `find_unused_parameters` and touching are right for every graph that you can compose here. `static_graph` is right as long as
# each rank repeats its first step. A rank that uses *more* raises at once. For a rank that uses *less* the step is silently wrong,
# and the error comes one step too late again. The other ranks, if they repeat their first step, hang in that step.
#
# ## A head that no rank uses
#
# And an optimizer that has weight decay. Both ways give the body the right gradient.

# %%
p = predict("08.weight_decay")

# %%
# %%ranks --predicted
moved = {}
for way in ("find_unused_parameters", "touch"):
    ddp = DistributedDataParallel(TwoHeads(), **WAYS[way])
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = ddp(x, "left").sum()
        if way == "touch":
            loss = loss + 0 * sum(p.sum() for p in ddp.parameters())
        loss.backward()
        optimizer.step()
    moved[way] = ddp.module.right.weight.item() != 1
    print(f"{way:24} .grad of the right head: {grads(ddp)[2]}")
list(moved.values())

# %% [markdown]
# With the flag, a parameter that *no* rank has used keeps the `.grad` that it had, here `None`, and optimizers skip `None`. Touching
# leaves zeros, and zeros are a gradient: weight decay moves a head that nobody trains, and so would momentum from earlier steps.
# To know that no rank has used it, DDP needs one more all-reduce in every step (`finalize_bucket_dense`, `reducer.cpp`).
#
# ## A mixture of experts
#
# A graph that differs on every rank in every step by design: a router sends each token to an expert. Here are two experts of one
# weight each. Rank 0's two tokens both go to expert 0; rank 1's go to one each.


# %%
# %%ranks
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(2))
        for p in self.parameters():
            nn.init.ones_(p)

    def forward(self, tokens, choice):
        y = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows = (choice == number).nonzero().flatten()
            y = y.index_add(0, rows, expert(tokens[rows]))
        return y


# %% [markdown]
# Nothing is skipped: an expert without tokens is called with a tensor of shape `(0, 1)`. The wrapper is in its default mode.

# %%
p = predict("08.no_rows")

# %%
# %%ranks --predicted
ddp = DistributedDataParallel(Experts())
tokens, choice = x.expand(2, 1), torch.tensor([[0, 0], [0, 1]][dist.get_rank()])
for _ in range(2):
    ddp.zero_grad()
    ddp(tokens, choice).mean().backward()
grads(ddp)

# %% [markdown]
# Right, without a flag. **No token is a batch, too**: a `Linear` that is given no rows returns no rows, it is part of the graph, and
# its gradient is zeros. One process with all four tokens would compute (1 + 1 + 3) / 4 = 1.25 and 3 / 4 = 0.75 as well. So do
# not divide an expert's gradient by the number of ranks that used it: each rank's loss divides by *its* 2 tokens, DDP by 2
# ranks, together by all 4 tokens. That works because both ranks have 2: DDP's mean gives every rank the same weight.
#
# The usual `if len(rows) == 0: continue` saves a call, and makes a flag necessary. (A BatchNorm inside an expert needs more
# than this: it refuses a batch of one sample in train mode.)
#
# ## What goes wrong in real life
#
# A fine-tuning freezes the body, a few lines below the wrapper:

# %%
# %%ranks
ddp = DistributedDataParallel(TwoHeads())
ddp.module.body.requires_grad_(False)
ddp(x).sum().backward()
try:
    ddp._check_reducer_finalized()
except RuntimeError as error:
    print(str(error).partition(" before")[0])

# %% [markdown]
# DDP reads `requires_grad` once, in its constructor, and waits for the body in every step. Freeze *before* wrapping, and wrap
# anew when that changes. (Thawed after wrapping raises nothing at all: lesson 07.)
#
# - **The error names a layer that you use.** It is used in the forward, but not in the loss; or it is behind a `detach()`, an
#   `argmax`, a `no_grad`.
# - **It comes after hours.** Random depth, a rare kind of batch: look at the step *before* the error. That one was wrong.
# - **A layer that you forgot to call** is never reported once the flag is on or everything is touched. That is the reason not to
#   take them “to be safe”.
# - **With `static_graph=True` the model trains a little worse.** Compare gradients between ranks once (lesson 06, task 6).
#
# ## Rule of thumb
#
# > Give every parameter a gradient on every rank in every step, if only from a batch of no samples: then DDP needs no flag.
# > Touching what a step leaves out does it, too, but zeros are a gradient: weight decay and momentum move it. Where that matters,
# > take `find_unused_parameters`. Take `static_graph` only where each rank does the same in all steps, and its output is a tensor,
# > or a tuple or dictionary of them, all in the loss. `_check_reducer_finalized()` after `backward()` sees a gradient that did not
# > come, and no other mistake: compare gradients between ranks once.
#
# ## Your turn
#
# Three tasks wait in [exercises/08_unused](../exercises/08_unused.ipynb): name the unused ones before DDP complains, choose the
# way to train for what the ranks are going to do, and a mixture of two experts per token.
#
# ## Deeper: four ways, twelve graphs
#
# The graphs from above and four more: the loss leaves out an output of the model, or the model returns something else than a
# tensor. Each is run for four steps, in each of the four ways.

# %%
# %%ranks --as out
from course_lib.lessons.unused.heads import measure_graphs

found = measure_graphs()

# %%
from course_lib.lessons.unused.lab import draw_graphs

draw_graphs([out["found"][0], out["found"][1]])

# %% [markdown]
# (One place was not measured here, because it hangs: it is the cell under [Ranks that disagree](#Ranks-that-disagree). The rows
# were chosen, so how many are wrong says nothing. The warning is DDP's; what it warns of is counted
# [below](#Deeper:-what-find_unused_parameters-costs).)
#
# **`find_unused_parameters` fails in two rows.** It looks for tensors in lists, tuples, dictionaries and dataclasses
# (`_find_tensors`, `distributed.py`), not in other objects. An output that it cannot see uses nothing: all boxes are ticked,
# and then the gradients come, too. You will read that the flag does not help where an *output* is left out of the loss. For a tuple it
# does, on this torch: all outputs pass one autograd node, `_DDPSink`, so the backward also reaches the ignored output's
# parameters. They get no gradient, but DDP ticks them off. What goes into that node is found by other means
# (`_tree_flatten_with_rref`), and those do not look into a dataclass.
#
# **`static_graph` is silently wrong in the last four rows.** An output that is left out of the loss is counted in the first backward, through
# `_DDPSink`, and missed in all later ones. And it is `_DDPSink` that ends the first backward. Where it finds no tensor in
# the output, that end is never noticed: **with a dataclass as output no gradient is averaged, ever, and nothing raises.**
# Register the dataclass, and both ways are right:

# %%
# %%ranks
from torch.utils import _pytree

from course_lib.lessons.unused.heads import Output, take_steps

if Output not in _pytree.SUPPORTED_NODES:
    _pytree.register_dataclass(Output)
print("static_graph, a dataclass:", *take_steps("static_graph", ["both"] * 2, "dataclass"))
print(
    "find_unused_parameters, one field not in the loss:",
    *take_steps("find_unused_parameters", ["left"] * 2, "dataclass of two"),
)

# %% [markdown]
# Hugging Face's models return dataclasses and are not concerned: `ModelOutput.__init_subclass__` in
# `transformers/utils/generic.py` registers each of them with `torch.utils._pytree`, for this very reason (read, not run:
# the course does not install Transformers).
#
# The same fault as a script; the course's doctor runs it and watches it (in a terminal: `ddp-course doctor scratch/tidy.py`):

# %% tags=["two-hours-1"]
from pathlib import Path

Path("scratch").mkdir(exist_ok=True)
Path("scratch/tidy.py").unlink(missing_ok=True)  # from the last time

# %% tags=["two-hours-1"]
# %%writefile scratch/tidy.py
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


@dataclass
class Prediction:
    scores: torch.Tensor


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return Prediction(self.layer(x))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(Net(), static_graph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).scores.square().mean().backward()
    optimizer.step()
dist.destroy_process_group()

# %% tags=["two-hours-1"]
from course_lib.scripts.examine import examine

examine("scratch/tidy.py", ranks=2).outcome

# %% [markdown] tags=["two-hours-1"]
# The weights differ from the second step on, and no backward was averaged. Return a tuple or a dictionary, register the
# dataclass, or leave the flag out.

# %% [markdown]
# And two of the ways together? The right head is not in the *output's* graph, so its box is ticked, and then the touch gives it a
# gradient:

# %%
# %%ranks --expect raises:RuntimeError
ddp = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
(ddp(x, "left").sum() + 0 * sum(p.sum() for p in ddp.parameters())).backward()

# %% [markdown]
# ## Deeper: accumulation
#
# Where gradients are added up over several backwards (lesson 10), the first backward must not be under `no_sync()`: with
# `static_graph=True` it raises, and asks you to report that. (It has been reported: issue 143580 of `pytorch/pytorch`.)

# %%
# %%ranks --expect raises:RuntimeError
ddp = DistributedDataParallel(TwoHeads(), static_graph=True)
with ddp.no_sync():
    ddp(x).sum().backward()

# %% [markdown]
# Leave `no_sync` out of the whole first step. From the second step on, the two go together. Four micro-batches with
# gradients of 1, 10, 100 and 1000 times the sample, so that 2222 is right for a head:

# %%
# %%ranks
from contextlib import nullcontext

ddp = DistributedDataParallel(TwoHeads(), static_graph=True)
for step in range(3):
    ddp.zero_grad()
    for number in range(4):
        with ddp.no_sync() if step > 0 and number < 3 else nullcontext():
            ddp(x * 10**number).sum().backward()
    print(f"step {step}:", grads(ddp))

# %% [markdown]
# Without `static_graph`: two micro-batches, of which one leaves out the right head. Right is 6, 4 and 2.

# %%
# %%ranks
for way in ("default", "find_unused_parameters"):
    for first, last in (("left", "both"), ("both", "left")):
        ddp = DistributedDataParallel(TwoHeads(), **WAYS[way])
        with ddp.no_sync():
            ddp(x, first).sum().backward()
        ddp(x, last).sum().backward()
        print(f"{way:24}{first}, then {last}: {grads(ddp)}")

# %% [markdown]
# In the default mode the last micro-batch decides: where it reaches every parameter, everything in `.grad` is averaged, and
# where it does not, nothing is. `find_unused_parameters` is right in both orders, also for a head that only an earlier micro-batch
# has used.
#
# ## Deeper: what find_unused_parameters costs
#
# A warning of DDP's tells you that the flag “can adversely affect performance”. What do you pay for? Count, in one step after the
# warm-up, in which everything is used:

# %%
# %%ranks
import warnings

from torch.profiler import profile

warnings.simplefilter("ignore", UserWarning)
models = {way: DistributedDataParallel(TwoHeads(), **WAYS[way]) for way in WAYS if way != "touch"}
for ddp in models.values():
    for _ in range(3):
        ddp(x).sum().backward()


def walks_in_a_step(way):
    with profile() as profiler:
        models[way](x).sum().backward()
    return sum(e.count for e in profiler.key_averages() if "search_unused_parameters" in e.key)


# %%
# %%ranks --as plain
walks_in_a_step("default")

# %%
# %%ranks --as searching
walks_in_a_step("find_unused_parameters")

# %%
# %%ranks --as static
walks_in_a_step("static_graph")

# %% claims={"58": "refined"}
outcomes = {"default": plain, "find_unused_parameters": searching, "static_graph": static}
for name, outcome in outcomes.items():
    sent = ", ".join(f"{c.op} of {c.sizes[0][0]} x {c.dtypes[0]}" for c in outcome.collectives[0])
    print(f"{name:24}{outcome.values[0]} walks through the graph; {sent}")

# %% [markdown]
# Two things, in every step, whether anything is unused or not. One **walk** through the whole graph, in the forward, on every
# rank. And one more **all-reduce**, of a whole number for each parameter: who has used what? A third price is not visible here:
# buckets stay as the constructor made them, and their order never follows that of the gradients (lesson 04). `static_graph`
# pays for neither after its first backward. Touching pays in another way: it reads every weight and adds zeros to every gradient,
# in every step. Touch only what a step has left out, and you pay for that much.
#
# ## Deeper: send less where nothing was used
#
# With `skip_all_reduce_unused_params=True`, a rank does not send a bucket of which it has used no parameter. The left
# head of this model has a weight of 64 numbers, the right one of 4,096, and the right one is never used:


# %%
# %%ranks
class Uneven(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left = torch.nn.Linear(64, 1, bias=False)
        self.right = torch.nn.Linear(64, 64, bias=False)

    def forward(self, x):
        return self.left(x)


def uneven(**options):
    ddp = DistributedDataParallel(Uneven(), bucket_cap_mb=1e-6, find_unused_parameters=True, **options)
    for _ in range(2):
        ddp(torch.ones(1, 64)).sum().backward()
    return ddp


all_sent, skips = uneven(), uneven(skip_all_reduce_unused_params=True)

# %%
# %%ranks --as whole
all_sent(torch.ones(1, 64)).sum().backward()

# %%
# %%ranks --as less
skips(torch.ones(1, 64)).sum().backward()

# %%
for name, outcome in {"without": whole, "with": less}.items():
    print(f"{name:8}", ", ".join(f"{c.sizes[0][0]} x {c.dtypes[0]}" for c in outcome.collectives[0]))

# %% [markdown]
# The 4,096 numbers are not sent. But each rank decides that from its own graph: DDP's docstring requires that unused parameters
# are the same “across all ranks throughout the entire training process”, and warns of a hang. With a bucket for each
# parameter and a head of its own for each rank, there is no hang:

# %%
# %%ranks
options = {"find_unused_parameters": True, "bucket_cap_mb": 1e-6}
for skip in (False, True):
    ddp = DistributedDataParallel(TwoHeads(), skip_all_reduce_unused_params=skip, **options)
    ddp(x, ("left", "right")[dist.get_rank()]).sum().backward()
    print(f"skip {skip}:", grads(ddp))

# %% [markdown]
# Rank 0 sent the bucket of its left head, rank 1 that of its right head, and the two met in one all-reduce: 2 is the mean of
# gradients of two different weights. (With gloo. The two buckets have the same size here.)
#
# ## Deeper: the part of the loss that is no mean
#
# Many mixtures of experts add a term that keeps the load even: the share of tokens that an expert *got*, times the mean
# probability the router *gave* it, summed over experts. DDP averages gradients, so it is right for losses that are means over
# tokens. This is a product of two means. The router here gives expert 0 a probability of sigmoid(w times the token), and w is 0.

# %%
# %%ranks
tokens = [torch.tensor([1.0, 1.0, 2.0, -1.0]), torch.tensor([-1.0, -2.0, 3.0, 1.0])]


def balance(x, all_ranks):
    share = torch.stack([(x > 0).float().mean(), (x <= 0).float().mean()])
    if all_ranks:
        dist.all_reduce(share, dist.ReduceOp.AVG)  # one number for each expert
    logit = router(x[:, None])
    given = torch.stack([torch.sigmoid(logit).mean(), torch.sigmoid(-logit).mean()])
    return 2 * (share * given).sum()


for all_ranks in (False, True):
    router = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(router.weight)
    balance(torch.cat(tokens), False).backward()
    alone, router = router.weight.grad.item(), DistributedDataParallel(router)
    router.zero_grad()
    balance(tokens[dist.get_rank()], all_ranks).backward()
    print(f"shares of all ranks {all_ranks}: {grads(router)[0]:.4f}; one process {alone:.4f}")

# %% [markdown]
# Shares are counts and have no gradient, so a plain `all_reduce` before the loss is allowed, and what remains is linear in
# each rank's probabilities: a mean again. (The mean of the ranks' shares is the share of all tokens here, because both ranks
# have four.) The wrong one trains all the same, only that each rank evens out its own part of the
# batch, and what that does depends on how many ranks there are.
#
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `_post_forward` and `_DDPSink` explain most of the picture of twelve graphs in 100 lines.
# - PyTorch, *Distributed Data Parallel* (design note in the documentation), section on the internal design.
# - Fedus, Zoph and Shazeer, *Switch Transformers*, JMLR 2022: routing to one expert, and the balance term.
#
# **Next:** [lesson 09](09_synchronised.ipynb), *What is synchronised, and when*. Or back to the [index](index.ipynb).
