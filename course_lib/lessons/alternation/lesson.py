# %% [markdown]
# # 06 · Forward/backward alternation
#
# > *“My GAN calls the discriminator twice before it calls `backward()`. The forum says that cannot work with DDP: it wants
# > forward, backward, forward, backward. But it trains. So is it right?”*

# %% [markdown] tags=["two-hours-6"]
# Ask two ranks. The model has one weight, and its gradient is the input: 1 on rank 0 and 3 on rank 1 for the real batch, 10 and
# 30 for the fake one. So the digits of `.grad` say which losses are in it, and whether they were averaged.

# %% [markdown]
# **You will be able to** say for any order of forwards and backwards what DDP leaves in `.grad`, find the orders that are
# wrong without an error, and repair a GAN step, a loss with two heads and an evaluation in the middle of training. 50 minutes.
#
# **Before this:** lessons 00 and 04.

# %%
# %load_ext course_lib

# %% tags=["two-hours-6"]
# %%ranks 2
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

share = (1.0, 3.0)[dist.get_rank()]
real, fake = torch.tensor([[share]]), torch.tensor([[10 * share]])
ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
ddp(real).sum().backward()
ddp.module.weight.grad.item()

# %% [markdown] tags=["two-hours-6"]
# One forward, one backward: both ranks hold the mean of 1 and 3. That is all that DDP promises: `.grad` is the mean over the
# ranks of what each rank would have computed alone.
#
# ## Two forwards, then two backwards
#
# Now the usual step of a discriminator: a forward of the fake and one of the real batch, two losses, and `backward()` for each.
# For autograd the order does not matter, since gradients add up: alone, rank 0 would hold 11 and rank 1 would hold 33.

# %% tags=["two-hours-6"]
p = predict("06.two_backwards")

# %% tags=["two-hours-6"]
# %%ranks --predicted
ddp.zero_grad()
loss_fake, loss_real = ddp(fake).sum(), ddp(real).sum()
loss_real.backward()
loss_fake.backward()
ddp.module.weight.grad.item()

# %% [markdown] tags=["two-hours-6"]
# No error, no hang, no warning. The gradient of the real loss was averaged: 2. To that, each rank has added its own gradient of
# the fake loss, 10 or 30. After the optimizer's step the ranks have different weights, for ever. The GAN trains, but as two models.

# %% [markdown]
# ## Two forwards, then one backward
#
# A Siamese network sends two images through one model and compares what comes out. The forum's question has a DDP model for each
# part, `A(B(x1), B(x2))`. Here `A` multiplies its two inputs. Alone, rank 0 would hold 10 in `A` and 20 in `B`, rank 1 90 and 180.

# %%
p = predict("06.siamese")

# %% claims={"1": "holds"}
# %%ranks --predicted
A, B = (nn.Bilinear(1, 1, 1, bias=False), nn.Linear(1, 1, bias=False))
for part in (A, B):
    nn.init.ones_(part.weight)
A, B = DistributedDataParallel(A), DistributedDataParallel(B)
A(B(real), B(fake)).sum().backward()
[A.module.weight.grad.item(), B.module.weight.grad.item()]

# %% [markdown]
# Right, in both models. ([Lesson 07](07_wrappers.ipynb) has the wrapper that the forum proposed instead, and says when one
# needs it.) You will read that a BatchNorm makes it worse, since the second forward changes its running statistics. Here is one.
# A copy without DDP makes the same step, and its gradients are averaged by hand:

# %% claims={"5": "refined"}
# %%ranks
import copy

x1, x2 = torch.randn(2, 4, 6)
ddp = DistributedDataParallel(nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)))
alone = copy.deepcopy(ddp.module)
for model in (ddp, alone):
    (model(x1) - model(x2)).exp().mean().backward()
right = []
for p, q in zip(ddp.parameters(), alone.parameters(), strict=True):
    dist.all_reduce(q.grad, dist.ReduceOp.AVG)
    right.append(torch.allclose(p.grad, q.grad, atol=1e-6))
right

# %% [markdown]
# All four are right. So a Siamese loss needs nothing special: add up what the two outputs contribute, and call `backward()` once.
# If one of the two is detached, or made under `no_grad`, only the other one trains the model. (With buffers, torch before 2026
# raised an error here: [below](#Deeper:-the-guard). With `find_unused_parameters=True`, forwards on *different* paths still do.)
#
# ## The tally sheet
#
# Between two calls DDP remembers one thing: whether it is *armed*. For the backward that follows it has a box for each parameter.
# A hook on the parameter ticks the box when its gradient has been accumulated. Step through the order from above with the buttons
# or the arrow keys.

# %%
from course_lib.lab.reducer import step_through

step_through("FFBB")

# %% [markdown]
# A forward arms; it also empties the boxes. When the last box is ticked, what is in `.grad` is averaged (the arrows), and the
# wrapper is not armed any more. So the second backward ticks nothing and sends nothing. A forward under `no_grad` neither arms
# nor disarms. Now build an order yourself: each change runs on two real ranks.

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.alternation.lab import explore_orders

explore_orders()

# %% [markdown]
# `F` is a forward, `G` one under `no_grad`, `N` one in `no_sync`, `M` one through `.module`; `B` is a backward of the oldest loss
# that waits, `S` one backward of all of them. The first loss counts once, the second ten times, the third a hundred times.
#
# - **The whole `.grad` is averaged, not what was added last.** `F B, F B` is right: the mean of (mean of g1) + g2 is the mean of
#   g1 plus the mean of g2. That is how the DCGAN tutorial writes the discriminator.
# - **A backward does not stop at a model's border.** If the generated samples are not detached, the discriminator's backward goes
#   on into the generator and uses up the generator's average. The generator's own backward is then not averaged.
# - **A loss passes no hook.** Each rank's loss is that of its own samples, until you average it.
# - **The n-th message of one rank meets the n-th of the other,** whatever is in them. If one rank makes fewer averages, the other
#   waits for ever.
# - **On a new wrapper, the first forward after an average is a message, too**: it settles the buckets (lesson 04). So this hangs,
#   without a BatchNorm and without a second backward:

# %%
# %%ranks --expect hang
new = DistributedDataParallel(nn.Linear(1, 1, bias=False))
new(real).sum().backward()
if dist.get_rank() == 0:
    new(fake)

# %% [markdown]
# ## Two heads, a backward for each
#
# Training on several tasks is often written like this: one body, two heads, two losses, `backward()` for each. Every weight is
# 1, and the right head's output counts ten times. The right gradients of body, left and right are 22, 2 and 20.


# %%
# %%ranks
class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = (nn.Linear(1, 1, bias=False) for _ in range(3))
        for p in self.parameters():
            nn.init.ones_(p)

    def forward(self, x):
        x = self.body(x)
        return self.left(x).sum(), 10 * self.right(x).sum()


# %%
p = predict("06.heads")

# %%
# %%ranks --predicted
ddp = DistributedDataParallel(TwoHeads())
left, right = ddp(real)
left.backward(retain_graph=True)
right.backward()
[p.grad.item() for p in ddp.parameters()]

# %% [markdown]
# The left head's backward leaves the right head's box empty, so nothing is averaged. The right head's backward brings the body a
# second gradient, and that raises. (In the explorer: a body and two heads, `FBB`.) The message proposes `static_graph`; people
# set `find_unused_parameters=True`. Follow the advice for two steps:

# %%
# %%ranks
for flag in ("find_unused_parameters", "static_graph"):
    ddp = DistributedDataParallel(TwoHeads(), **{flag: True})
    try:
        for step in range(2):
            ddp.zero_grad()
            left, right = ddp(real)
            left.backward(retain_graph=True)
            right.backward()
            print(f"{flag}, step {step}:", [p.grad.item() for p in ddp.parameters()])
    except RuntimeError as error:
        print(f"{flag}, step {step}:", str(error)[:60])

# %% [markdown]
# With either flag, the first backward averages and disarms, and the second adds each rank's own: 12 and 32 in the body, 10 and
# 30 in the right head. The error comes one step later, and speaks of something else. Now add the losses instead:

# %%
# %%ranks
for flags in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
    ddp = DistributedDataParallel(TwoHeads(), **flags)
    left, right = ddp(real)
    (left + right).backward()
    print([p.grad.item() for p in ddp.parameters()], flags)

# %% [markdown]
# ## One rank evaluates
#
# Only rank 0 logs, so only rank 0 evaluates, in the middle of training and in eval mode. The model has a BatchNorm.

# %%
p = predict("06.evaluates")

# %%
# %%ranks --predicted
net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))
ddp = DistributedDataParallel(net)
for _ in range(3):
    ddp(torch.randn(4, 6)).exp().mean().backward()
    if dist.get_rank() == 0:
        ddp.eval()
        ddp(torch.randn(4, 6))
        ddp.train()

# %% [markdown]
# With buffers, a forward *begins* with a message: rank 0's buffers. `eval()` does not switch that off. Here rank 0's second forward
# is the evaluation:

# %%
step_through("FBFFB", "FBFB", buffers=True)

# %% [markdown]
# The buffers of rank 0's evaluation meet rank 1's *next training* forward, and from then on the ranks are shifted by one message.
# So no rank waits in the evaluation. The doctor still finds it: it names the line, the condition around it, and the way out.
#
# Under `no_grad` the same call often gets through, by accident ([the table](#Deeper:-every-pattern,-in-three-modes) has both).
# Call `ddp.module(x)` instead: no wrapper, no message.
#
# ## The model is equal and the function is not
#
# The evaluation is in eval mode, or BatchNorm mixes the validation samples into its running statistics. But `train()` does not
# undo `eval()`: it sets *every* part, also a BatchNorm that a fine-tuning has frozen. All weights are 1, both ranks have the same
# two samples, and the right gradient is their sum, 4:

# %%
# %%ranks
net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1))
nn.init.ones_(net[0].weight)
ddp = DistributedDataParallel(net)
net[1].eval()  # frozen, on all ranks
if dist.get_rank() == 0:
    net.eval()
    net.train()
ddp(torch.tensor([[1.0], [3.0]])).sum().backward()
print("weight", net[0].weight.item(), "gradient", round(net[0].weight.grad.item(), 3))
print("modes", [part.training for part in net.modules()])

# %% [markdown]
# Weights are equal, and so are the gradients, but they are half of the right ones. Rank 0 has computed another function: it
# normalises with its own batch, and so its gradient is 0. DDP has averaged that with rank 1's 4, without a complaint. What
# differs is a mode, and DDP sends no modes. Dropout has one as well. So evaluate a copy, `copy.deepcopy(net).eval()`, under
# `no_grad`; or keep each part's `training`, and put it back.
#
# > **On GPUs (NCCL).** On an H200 (NCCL 2.28.9), an `all_reduce` that met a `broadcast` of equal size raised nothing, stopped
# > nothing, and left 8.0 on one rank and 4.0 on the other. So do not count on an error where two messages meet that do not belong
# > together. With different sizes gloo aborts a rank; with NCCL anything may come
# > ([its documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/collectives.html)).
#
# ## What goes wrong in real life
#
# A GAN's discriminator step, as many repositories have it. It runs, and its losses go down. The course's doctor runs an
# unchanged script and watches it; in a terminal you type `ddp-course doctor scratch/gan.py`.

# %%
from pathlib import Path

Path("scratch").mkdir(exist_ok=True)
Path("scratch/gan.py").unlink(missing_ok=True)  # from the last time

# %%
# %%writefile scratch/gan.py
import torch
import torch.distributed as dist
from torch.nn.functional import softplus
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
discriminator = DistributedDataParallel(torch.nn.Linear(6, 1))
optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.1)
for _ in range(20):
    optimizer.zero_grad()
    real, fake = discriminator(torch.randn(4, 6)), discriminator(torch.randn(4, 6))
    softplus(-real).mean().backward()
    softplus(fake).mean().backward()
    optimizer.step()
dist.destroy_process_group()

# %%
from course_lib.scripts.examine import examine

examine("scratch/gan.py", ranks=2).outcome

# %% [markdown]
# The order within the step matters, too. The generator's backward also leaves gradients in the discriminator: clear them before
# the discriminator's next backward. And the generator's loss is computed after the discriminator's step, because it is to meet
# the new discriminator.
#
# - **Loss curves that differ a little more between ranks every hour.** Two backwards, `.module` or `autograd.grad` in the
#   training path. Compare gradients on all ranks once, before the first step of the optimizer: task 5.
# - **“Expected to mark a variable ready only once.”** A backward for each head: add the losses. Reentrant checkpointing: take
#   `use_reentrant=False`. `find_unused_parameters=True` with forwards on different paths: take the flag away. (Lessons 07 and
#   08 have more causes.)
# - **A hang or, with gloo, an abort at the first evaluation**, with “Connection closed by peer” on the rank that did nothing
#   wrong. One rank called the wrapper alone.
# - **It works until somebody adds a BatchNorm.** Then nearly every forward is a collective.
#
# ## Rule of thumb
#
# > A forward through the wrapper arms; arming twice is arming once. The next backward averages what is in `.grad`, and disarms.
# > In the default mode that backward must reach every parameter. So add the losses, and call `backward()` once. A forward around
# > the wrapper does not arm. What only one rank does must go around it, and leave all modes as they were.
#
# ## Your turn
#
# Five tasks wait in [exercises/06_alternation](../exercises/06_alternation.ipynb): a tally sheet of your own, a GAN step, two
# heads with one backward, an evaluation during training, and the check that finds silent divergence.
#
# **Your script.** One of the faults in `exercises/script/train.py` is this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair it; in a terminal, this says whether it is gone:
#
#     ddp-course check --suspect 06 exercises/script/train.py
#
# ## Deeper: a reducer in 25 lines
#
# The sheet as a program.


# %%
# %%ranks
class TinyDDP(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module, self.armed, self.ready = module, False, set()
        for p in module.parameters():
            dist.broadcast(p.detach(), src=0)
            p.register_post_accumulate_grad_hook(self.hook)

    def forward(self, *args, **kwargs):
        if torch.is_grad_enabled() and self.ready:  # a sheet was begun and never got full
            raise RuntimeError("Expected to have finished reduction in the prior iteration")
        y = self.module(*args, **kwargs)
        self.armed = self.armed or torch.is_grad_enabled()
        return y

    def hook(self, p):
        if not self.armed:
            return  # nobody asked for an average: the gradient stays as this rank computed it
        if id(p) in self.ready:
            raise RuntimeError("Expected to mark a variable ready only once")
        self.ready.add(id(p))
        if len(self.ready) == len(list(self.module.parameters())):  # the sheet is full
            torch.autograd.Variable._execution_engine.queue_callback(self.average)

    def average(self):  # at the end of the whole backward
        for p in self.module.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        self.armed, self.ready = False, set()


# %%
# %%ranks
from course_lib.lab.reducer import make_calls

for order in ("FFBB", "FFS", "FBFB", "FFBBFB"):
    tiny = make_calls((order, order), wrap=TinyDDP)
    real_one = make_calls((order, order), wrap=DistributedDataParallel)
    print(f"{order:8} TinyDDP {tiny}   DDP {real_one}")

# %% [markdown]
# The same numbers, order by order. *Two forwards, one backward:* autograd sums both paths *before* it accumulates into a
# parameter, so each hook fires once. *Two backwards:* in the second, the hooks return at once.
#
# TinyDDP's lines have names in the real one: `_post_forward` (`torch/nn/parallel/distributed.py`) calls
# `reducer.prepare_for_backward` if gradients are enabled and `require_backward_grad_sync` is set, which `no_sync()` clears.
# In `torch/csrc/distributed/c10d/reducer.cpp` that sets `expect_autograd_hooks_` and empties the sheet; `autograd_hook` asks
# for it; `mark_variable_ready` ticks a parameter off and raises at its second gradient; the last bucket queues
# `finalize_backward`, which writes the averages into `.grad` and disarms. The next forward's error comes from
# `ensure_prior_reduction_finished`.
#
# ## Deeper: every pattern, in three modes
#
# What people do with a wrapped model: twenty-two patterns, three ways to make the wrapper, without and with buffers.
# (`course_lib.lab.patterns` holds them: `F` is a forward, `B` a backward.) In three more rows rank 0 alone evaluates in the
# middle of training. Some of those are going to hang or to kill a rank, so each gets two ranks of its own.

# %%
# %%ranks --as out
from course_lib.lab.patterns import PATTERNS, measure, measure_all

found = measure_all()
tiny = {name: measure(name, TinyDDP) for name in PATTERNS}

# %% claims={"7": "refined"}
from course_lib.lessons.alternation.lab import draw_matrix, matrix, same

found = matrix(out["found"][0])
print(
    "TinyDDP and DDP agree:",
    all(same(end, found[name, "default", False]) for name, end in out["tiny"][0].items()),
)
draw_matrix(found)

# %% [markdown]
# (How many are wrong and how many raise says nothing: the rows were chosen.) Rest the mouse on a place of the picture to see how
# far it is off, or the error's first words. `≠ !` is the worst: an error that comes after a step that was
# wrong without a word.
#
# - **`F F, then B B` is wrong in every mode.** Two lines in another order, `F B, F B`, are right, where each backward reaches
#   every parameter. With another head in each `F B`, only `find_unused_parameters` is right.
# - **In the default mode, a forward that is thrown away does no harm**, nor does one under `no_grad` in between. You will read
#   that it does. It can where the next backward is meant to send nothing, as under `no_sync`
#   ([lesson 10](10_accumulation.ipynb)), and with `find_unused_parameters`, where it takes another path than the forward whose
#   backward comes: that step raises, or is not averaged and says so one step later.
# - **`retain_graph`** is the mistake of two backwards with one forward. With `autograd.grad` or `.module` nothing is averaged
#   at all.
# - **`static_graph=True` makes the reentrant checkpoint right and the gradient penalty wrong.** No setting is right everywhere.
# - **Checkpointing.** Which of its two variants you take decides whether the gradients are still right. `use_reentrant=False`:
#   always. Reentrant, in the default mode: as long as each parameter is used once. It runs a backward of its own in the middle
#   of the outer one, so a hook fires once for each use. Used twice it raises, or is silently wrong if the *whole* model is
#   inside.
# - **One rank alone** is fine without buffers (with gradients on, as long as the others make another step). With buffers it
#   hangs, or it is right by accident: under `no_grad` rank 0's own next forward sends no buffers, so the count is even again.
#   With gloo it kills a rank where rank 1's next forward has something else to send first, the new buckets.
#
# And the other two columns? `find_unused_parameters` walks the graph *of the last forward* from its output
# (`search_unused_parameters`) and declares ready what it does not meet. With different paths, or behind a reentrant
# checkpoint, a parameter that was declared unused gets a gradient after all: “ready only once”. `static_graph` learns from
# the first backward how often each hook fires. It takes the first call that reaches `_DDPSink.backward` for the first backward.
# In a gradient penalty that is the inner `autograd.grad`, in a generator's turn the backward through the frozen model. No hook
# fires in those, so `static_graph` learns to wait for nothing. In orders of plain forwards and of backwards that reach every
# parameter, DDP arms and disarms with both flags as it does without; with `static_graph`, from the second step on.
#
# And does checkpointing save memory under DDP, as you will read? The most that a step of 16 layers has in new tensors at one
# time, with a checkpoint around every four layers; a layer's output is 1 MB:

# %% claims={"34": "refined"}
# %%ranks
from course_lib.lab.patterns import CHECKPOINTS, peak_of_step

print({name: f"{peak_of_step(call):.1f} MB" for name, call in CHECKPOINTS.items()})

# %% [markdown]
# It does: what is kept are the parts' inputs. The other outputs are computed again in the backward, one part at a time.
#
# ## Deeper: what is sent, and when
#
# The real collectives of a model with buffers. Each line of the second cell is one forward or one backward:

# %%
# %%ranks
from course_lib.lab.patterns import Net, batch, loss

# %%
# %%ranks --as out
m = DistributedDataParallel(Net(buffers=True))
y1 = m(batch(0))
y2 = m(batch(1))
loss(y1).backward()
loss(y2).backward()
y3 = m(batch(2))
with torch.no_grad():
    m(batch(3))
y4 = m(batch(4))
(loss(y3) + loss(y4)).backward()

# %%
from course_lib.lessons.alternation.lab import list_messages

# What the lines of the cell call.
calls = {2: "F", 3: "F", 4: "B", 5: "B", 6: "F", 8: "no_grad F", 9: "F", 10: "B of both"}
print(list_messages(out.collectives[0], calls))

# %% [markdown]
# The second backward sends nothing: its gradients stay with their ranks. And a second kind of message shows up: a forward
# *begins* with a broadcast of rank 0's buffers. (Which forwards do, and what that does to BatchNorm, is lesson 09.)
#
# The third kind, `rebuild`, comes once, here in the first forward after the first average: rank 0 broadcasts in which buckets
# gradients are going to travel from now on (`rebuild_buckets` and `sync_bucket_indices` in `reducer.cpp`; lesson 04).
#
# ## Deeper: the guard
#
# So the second forward overwrites the BatchNorm's statistics in place, and the first forward's backward has not run yet.
# Autograd counts the changes to tensors that it has saved, and refuses when the count is off. `_sync_buffers` therefore puts
# a guard around the broadcast, `torch.autograd._unsafe_preserve_version_counter`: change the values, but do not count. That
# is harmless here, since in train mode BatchNorm's backward does not use the running statistics. Take the guard away:

# %% claims={"S2": "outdated"}
# %%ranks --expect raises:RuntimeError
from contextlib import nullcontext
from unittest.mock import patch

with patch.object(torch.autograd, "_unsafe_preserve_version_counter", lambda buffers: nullcontext()):
    m = DistributedDataParallel(Net(buffers=True))
    total = loss(m(batch(0))) + loss(m(batch(1)))
    total.backward()

# %% [markdown]
# These are the two forwards that were right above: the error behind much of the old advice. It was reported in 2019
# (issue 22095 of `pytorch/pytorch`); the guard came with pull request 175851, in 2026.
#
# ## Deeper: two models, two process groups?
#
# `A(B(x))` was right, with both models in the default group. As long as every rank makes the same calls in the same order,
# groups of their own change nothing. They are recommended all the same: “if it hangs, give each model its own process group,
# and they are decoupled.” Try it on the order of calls: rank 1 takes the models in another order (a `set` of losses, a
# dictionary filled in another order).

# %% claims={"3": "incomplete", "S24": "incomplete"}
from course_lib.lessons.alternation.lab import swapped_orders

print(swapped_orders())

# %% [markdown]
# In one group nothing hangs. It is worse: the first all-reduce of rank 0 meets the first of rank 1, model A's gradient against
# model B's. The average is nonsense, and both models train on it. With other shapes (the last line) gloo aborts a rank: the
# lucky case.
#
# Groups of their own repair one case out of four. `backward()` does not return before its own reduction is done, so ranks
# that take models one by one wait for each other in different groups for ever. With one backward for both the all-reduces
# may start in any order, but the rebuilding of the buckets is a broadcast that *blocks in the forward*, and there the order
# counts again. After it, and without buffers, the two no longer wait for each other. That holds for gloo.
#
# > **On GPUs.** Not even this case is safe with NCCL. The documentation of `new_group` (“Safe concurrent usage”)
# > demands “a globally consistent execution order of collectives across ranks”, *over all groups*: without it,
# > kernels of two groups may wait for each other. (Read there, not run: gloo has no kernels, only threads.)
#
# So they are no cure: they turn a silent mixture into a deadlock. Make the order the same on all ranks.
#
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `_pre_forward` and `_post_forward`, together 140 lines, hold most of this lesson.
# - PyTorch, *Distributed Data Parallel* (design note in the documentation), section on the internal design.
# - PyTorch, `torch.utils.checkpoint` in the API reference: what the two variants of checkpointing do differently.
#
# **Next:** [lesson 07](07_wrappers.ipynb), *Wrapper modules*. Or back to the [index](index.ipynb).
