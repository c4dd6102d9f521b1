# %% [markdown]
# # 10 · Accumulation, clipping and mixed precision
#
# > *“My GPU holds 8 samples and the paper says 256. So I add up gradients over a few batches before I step. It trains, but
# > worse than the big batch. And where do `clip_grad_norm_` and `autocast` go?”*
#
# Between two steps of the optimizer lie a few lines that every training loop writes for itself. A mistake there seldom raises
# an error. So ask two ranks which gradient reaches the optimizer.

# %% [markdown] tags=["two-hours-3"]
# The model has one weight, and its gradient is the input. Rank 0 has four micro-batches whose gradients are 4, 40, 400 and
# 4000; those of rank 1 are three times as large.

# %% [markdown]
# **You will be able to** accumulate so that the big batch's gradient comes out, with one reduction; tell from a wrong
# gradient which line is wrong; clip in the right place; and write one loop with accumulation, 16 bits, clipping and a scaler.
# 50 minutes.
#
# **Before this:** lessons 04 and 05.

# %%
# %load_ext course_lib

# %% tags=["two-hours-3"]
# %%ranks 2
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

share = (1.0, 3.0)[dist.get_rank()]
micro_batches = [torch.tensor([[share * size]]) for size in (4, 40, 400, 4000)]
ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
[x.item() for x in micro_batches]

# %% [markdown] tags=["two-hours-3"]
# A **micro-batch** is what goes through the model at once. The optimizer is to see the mean of all eight, four from each rank:
# together they are the **effective batch**. The mean of 4 and 12 is 8, a quarter of it is 2. So 2222 is right. Each digit is a
# micro-batch, and its value says what happened to it.
#
# ## A loop that has been copied a lot
#
# This is how a much-read article on DDP accumulates, with its lines for apex left out:

# %% tags=["two-hours-3"]
p = predict("10.micro_batches")

# %% tags=["two-hours-3"] claims={"30": "wrong"}
# %%ranks --predicted --as out
K = 4
optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-6)
for i, x in enumerate(micro_batches):
    optimizer.zero_grad()
    loss = ddp(x).sum()
    loss.backward()
    if (i + 1) % K == 0:
        optimizer.step()
ddp.module.weight.grad.item()

# %% [markdown] tags=["two-hours-3"]
# Three zeros: three micro-batches are missing. `zero_grad()` stands inside the loop, so each one wipes out those before it.
# And an 8 instead of a 2: nobody has divided by *K*. Three quarters of the work are thrown away, and three quarters of what is
# sent:

# %% tags=["two-hours-3"]
print(sum(sent.stage == "gradients" for sent in out.collectives[0]), "all-reduces of gradients")

# %% [markdown] tags=["two-hours-3"]
# ## With and without `no_sync`
#
# Move `zero_grad()` before the loop; the division comes next. [Lesson 05](05_stragglers.ipynb) has used `no_sync()` to
# synchronise less often. Leave it out for now: each backward sends the whole `.grad`, also what has been averaged before.

# %% tags=["two-hours-3"]
p = predict("10.without_no_sync")

# %% tags=["two-hours-3"]
# %%ranks --predicted --as without
optimizer.zero_grad()
for x in micro_batches:
    ddp(x).sum().backward()
ddp.module.weight.grad.item()

# %% [markdown] tags=["two-hours-3"]
# All four, once each. DDP's hook runs after a gradient has been added to `.grad`, and it copies all that is there into the bucket
# (`Reducer::mark_variable_ready_dense`, `torch/csrc/distributed/c10d/reducer.cpp`). What has been averaged is the same number on
# all ranks, and the mean of equal numbers is that number. So averaging again does no harm. It only costs time, and `no_sync`
# saves it: around all micro-batches but the last. With each loss divided by *K*:

# %% tags=["two-hours-3"]
# %%ranks --as with_it
from contextlib import nullcontext

optimizer.zero_grad()
for i, x in enumerate(micro_batches):
    with nullcontext() if i == K - 1 else ddp.no_sync():
        loss = ddp(x).sum() / K
        loss.backward()
ddp.module.weight.grad.item()

# %% tags=["two-hours-3"]
for name, ended in (("without no_sync", without), ("with no_sync", with_it)):
    print(f"{name:16}", sum(sent.stage == "gradients" for sent in ended.collectives[0]), "all-reduces")

# %% [markdown]
# The forward has to stand under `no_sync`, too: it is the forward that arms DDP ([lesson 06](06_alternation.ipynb)).

# %%
from course_lib.lab.reducer import step_through

step_through("NBNBNBFB", title="Between two steps: one reduction")

# %% [markdown]
# Under `no_sync` nothing is armed, and each rank adds up by itself: 111 and 333 after three. The last forward arms, and its
# backward sends all that is in `.grad`. Whatever looks at the gradient (clipping, the optimizer, a log of its norm) comes after
# it.
#
# How much does that save? This is what four backwards take, computed as in [lesson 04](04_buckets.ipynb):

# %%
from course_lib.lab.network import MODELS, NETWORKS, computed_step

for network in ("100 GbE: 50 us, 10 GiB/s", "10 GbE: 100 us, 1 GiB/s"):
    for name, model in MODELS.items():
        backward = computed_step(None, NETWORKS[network], model).seconds  # with its all-reduces
        once = 3 * model.seconds + backward
        print(f"{name:36}{network:26}{4e3 * backward:5.0f} ms; with no_sync {1e3 * once:3.0f} ms")

# %% [markdown]
# Where the backward hides the sending, there is next to nothing to save. On the slow network it is a third, and of GPT-2 more
# than half.
#
# ## What is left over
#
# Six micro-batches in an epoch, and *K* = 4. Each micro-batch's gradient is 1 here, on both ranks, so every step should see 1.

# %%
p = predict("10.left_over")

# %%
# %%ranks --predicted
ddp.zero_grad()
seen = []
for _ in range(2):
    for i in range(6):
        with nullcontext() if (i + 1) % K == 0 else ddp.no_sync():
            (ddp(torch.ones(1, 1)).sum() / K).backward()
        if (i + 1) % K == 0:
            seen.append(ddp.module.weight.grad.item())
            ddp.zero_grad()
seen

# %% [markdown]
# Two micro-batches are left over. They stay in `.grad`, and the next epoch's first step divides all six by four. Right is a step
# of their own, divided by two. So a loop has to know how long a group is before it begins: collect the group first
# (`itertools.batched`, new in Python 3.12, or a slice), then train on it.
#
# The *sizes* of micro-batches ask the same once more. With 8, 8, 8 and 2 samples, the mean of four means gives each of the last
# two samples four times the weight of any other. In language models it is the number of *tokens* that differs. The remedy is
# that of [lesson 05](05_stragglers.ipynb), for a whole group instead of one batch.
#
# All ranks need the same number of *groups*, too: otherwise some ranks do not join a reduction, and the others wait for them. With
# eight micro-batches on rank 0 and four on rank 1:

# %%
# %%ranks --expect hang
for i in range((8, 4)[dist.get_rank()]):
    with nullcontext() if (i + 1) % K == 0 else ddp.no_sync():
        (ddp(torch.ones(1, 1)).sum() / K).backward()

# %% [markdown]
# > **On GPUs (NCCL).** The rank that has a group more does not stop in `backward()`, but at the next line that needs a number
# > from the GPU ([lesson 05](05_stragglers.ipynb)).
#
# ## Read a wrong gradient
#
# Now break the loop yourself. Each change is computed, and runs on two real ranks. A right step has a 2 for each of its
# micro-batches, also where the group is short. The title says what another digit means.

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.accumulation.lab import explore_loop

explore_loop()

# %% [markdown]
# Real gradients have no digits, but they have a length, a direction and an agreement of the ranks
# ([below](#Deeper:-length,-angle-and-agreement)). And why does nobody notice an undivided loss? With plain SGD it is a learning
# rate *K* times as large, which may even train better. Adam divides each gradient by its running size, so the factor cancels out,
# until something in the loop has an absolute size: a clipping threshold, for instance.
#
# ## Clip after the reduction, all at once
#
# `clip_grad_norm_` shortens a gradient that is longer than `max_norm`. Take two weights, so that a gradient can be drawn. Rank 0
# finds (1.6, 1.2), rank 1 has an outlier, (4, 0). First clip to 1 where DDP has averaged:

# %%
# %%ranks --as after
from torch.nn.utils import clip_grad_norm_

x = torch.tensor([[[1.6, 1.2]], [[4.0, 0.0]]])[dist.get_rank()]
plane = DistributedDataParallel(nn.Linear(2, 1, bias=False))
plane(x).sum().backward()
clip_grad_norm_(plane.parameters(), 1.0)
[round(number, 2) for number in plane.module.weight.grad[0].tolist()]

# %% [markdown]
# The same on both ranks, since both clip the same mean, (2.8, 0.6). Now the clip slips into the inner loop: after a micro-batch
# under `no_sync`, each rank clips what it has found itself. The last micro-batch adds nothing here, but it reduces.

# %%
p = predict("10.clip")

# %%
# %%ranks --predicted --as before
plane.zero_grad()
with plane.no_sync():
    plane(x).sum().backward()
clip_grad_norm_(plane.parameters(), 1.0)
plane(0 * x).sum().backward()
[round(number, 2) for number in plane.module.weight.grad[0].tolist()]

# %%
from course_lib.lessons.accumulation.lab import draw_clips

draw_clips((1.6, 1.2), (4.0, 0.0), before=before.values[0], after=after.values[0])

# %% [markdown]
# (The dashed arrows are what each rank has found.) Each rank's gradient is clipped to 1 by itself: rank
# 0's is divided by 2 and rank 1's by 4, and the direction changes. That bounds what one bad rank can do. But it is not what one
# process with the whole batch does.
#
# You will read that DDP needs an all-reduce of its own for a global norm. It does not. After the reduction all ranks hold the
# same gradient, find the same norm and shorten by the same factor. A message is needed where gradients are *not* equal on all
# ranks ([below](#Deeper:-the-norm-of-a-model-in-parts)).
#
# ## The loop to keep
#
# The article's third sample accumulates and uses apex. Its loop, in short:
#
# ```python
# for i, (images, labels) in enumerate(loader):
#     optimizer.zero_grad()                                     # wipes out the micro-batch before
#     loss = criterion(ddp(images), labels)                     # not divided
#     with amp.scale_loss(loss, optimizer) as scaled_loss:      # apex
#         scaled_loss.backward()                                # reduces each time
#     if (i + 1) % K == 0:
#         optimizer.step()
# ```
#
# What it takes from apex is in PyTorch now. `torch.autocast` around forward and loss takes the place of
# `amp.initialize(model, optimizer, opt_level="O1")`, and `torch.amp.GradScaler` that of `amp.scale_loss`. (What came in between,
# `torch.cuda.amp`, is deprecated.) The same loop today, to copy. It trains on one group:


# %%
# %%ranks
from torch.nn.functional import cross_entropy


def train_on(group, ddp, optimizer, scaler, max_norm):
    optimizer.zero_grad()
    device = next(ddp.parameters()).device.type
    for number, (inputs, labels) in enumerate(group):
        last = number == len(group) - 1  # with static_graph=True: True throughout the first group
        with nullcontext() if last else ddp.no_sync():
            with torch.autocast(device, torch.float16):
                loss = cross_entropy(ddp(inputs), labels) / len(group)
            scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(ddp.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


# %% [markdown]
# Run it on ten micro-batches of digits, in groups of 4, 4 and 2. (`micro_batch` and `make_net` are the course's.)

# %%
# %%ranks --as out
from course_lib.lessons.accumulation.micro_batches import make_net, micro_batch

ddp = DistributedDataParallel(make_net())
optimizer = torch.optim.AdamW(ddp.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
ten = [micro_batch(number) for number in range(10)]
for first in range(0, 10, K):
    norm = train_on(ten[first : first + K], ddp, optimizer, scaler, max_norm=0.3)
    print(f"norm {norm:.2f}")

# %%
gradients = [sent.dtypes[0] for sent in out.collectives[0] if sent.stage == "gradients"]
print(len(gradients), "all-reduces of gradients, in", *set(gradients))

# %% [markdown]
# The same norms on both ranks, and one reduction per step. The order is the only one that works. One scale holds for the whole
# group; then, once per step, unscale, clip, step, update. Without `unscale_` the *scaled* gradient is clipped, and
# what is left is 1024 times too short, without an error ([below](#Deeper:-what-is-in-16-bits)).
#
# Gradients travel in 32 bits, since weights and `.grad` stay in 32 bits under `autocast`. It saves memory for activations, and
# time on hardware that is made for it, but not one byte in the all-reduce. (That is what communication hooks are for.)
#
# > **On GPUs (NCCL).** Write `GradScaler("cuda")`. `scaler.step` asks the GPU for a number, so there the program waits for the
# > reduction. (`GradScaler._maybe_opt_step`, `torch/amp/grad_scaler.py`; read, not run: with gloo, `backward()` has waited.)
#
# ## float16 needs a scaler
#
# float16 has little range: small gradients become 0. `GradScaler` multiplies the loss by its scale and divides the gradients by
# it before the step. If it finds an `inf` or `nan` among them, it skips the step and halves its scale. (bfloat16 has about the
# range of float32 and needs no scaler.) Every rank has a scaler of its own, now at 1024. Let the inputs of rank 1 overflow:

# %%
p = predict("10.overflow")

# %%
# %%ranks --predicted
inputs, labels = micro_batch(10)
if dist.get_rank() == 1:
    inputs = inputs * 1e6
train_on([(inputs, labels)], ddp, optimizer, scaler, max_norm=0.3)
scaler.get_scale()

# %% [markdown]
# Both have skipped the step, though the scalers never talk: `GradScaler.unscale_` looks at this rank's gradients only. The
# all-reduce has told them. A mean with an `inf` or a `nan` in it is not finite on any rank. Where nothing is reduced (`no_sync` around
# the last micro-batch, or parameters outside of DDP), rank 1 skips alone. From then on neither weights nor scales agree.
#
# ## What goes wrong in real life
#
# Somebody has moved a line, and `no_sync` stands around the whole inner loop. No error. `--watch`, or `ddp-course doctor
# train.py`, finds it:

# %%
# %%ranks --watch
ddp = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
for _ in range(10):
    optimizer.zero_grad()
    with ddp.no_sync():
        for _ in range(K):
            (ddp(torch.randn(8, 4)).square().mean() / K).backward()
    optimizer.step()

# %% [markdown]
# - **The loss curve is fine, the result is worse than the paper's.** `zero_grad` inside the loop, or an effective batch that
#   is not what you think. Print the number of samples between two steps, over all ranks, once.
# - **It trains until clipping is switched on.** An undivided loss under Adam, or a missing `unscale_`.
# - **The learning rate is at its end after 1/K of the training.** `scheduler.step()` stands beside `backward()`; it belongs
#   beside `optimizer.step()`.
# - **It hangs at the end of an epoch.** The ranks have different numbers of groups. Let all agree on one number first.
# - **More ranks, worse model.** The effective batch has grown with them ([below](#Deeper:-effective-batch-and-learning-rate)).
# - **`unscale_() has already been called on this optimizer`**: the call is in the inner loop.
#
# ## Rule of thumb
#
# > Between two steps: zero once; divide each loss by the length of its group; `no_sync` around all micro-batches but the last
# > (with `static_graph=True`, not in the first step); then unscale, clip everything by one norm, step, update. Keep sums in 32
# > bits. The all-reduce comes before whatever looks at a gradient. Compare with one big batch, once: length, angle and
# > agreement of the ranks tell what is wrong.
#
# ## Your turn
#
# Three tasks wait in [exercises/10_accumulation](../exercises/10_accumulation.ipynb): an `accumulate()` that equals one big batch
# whatever is left over, the norm of a model that is not the same on all ranks, and the article's third sample, with a
# scheduler in it and an overflow on one rank.
#
# **Your script.** Three of the faults in `exercises/script/train.py` are this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair them; in a terminal, this says whether they are gone:
#
#     ddp-course check --suspect 10 exercises/script/train.py
#
# ## Deeper: length, angle and agreement
#
# On real gradients a mistake leaves three marks: the length, the angle to the gradient of one process with the whole batch, and
# whether the ranks agree.

# %%
# %%ranks --as out
from course_lib.lessons.accumulation.micro_batches import last_has_two, length_angle_agreement

MISTAKES = {
    "right": length_angle_agreement(),
    "zero_grad inside the loop": length_angle_agreement(1, zero_inside=True),
    "loss not divided": length_angle_agreement(1),
    "no_sync around the last one, too": length_angle_agreement(sync_last=False),
    "last micro-batch: 2 samples, not 8": length_angle_agreement(size=last_has_two),
    "a BatchNorm in the model": length_angle_agreement(norm=True),
}
if dist.get_rank() == 0:
    print(f"{'':36}length   angle   same on all ranks")
    for name, (length, angle, same) in MISTAKES.items():
        print(f"{name:36}{length:5.2f}{angle:7.0f}°   {same}")

# %% [markdown]
# The right direction, *K* times too long: the loss was not divided. Different on different ranks: nothing was reduced. Equal on
# all ranks, but in another direction: other samples count, or they count differently than in the big batch. A BatchNorm
# normalises each micro-batch by itself, so accumulation cannot give you the big batch's statistics, whatever you divide by.
# (Nor does DDP: [lesson 09](09_synchronised.ipynb).)
#
# And what does an undivided loss do to the weights, in six steps?


# %%
# %%ranks
from functools import partial

from torch.nn.utils import parameters_to_vector

from course_lib.lessons.accumulation.micro_batches import accumulate


def change(make_optimizer, divisor):
    ddp = DistributedDataParallel(make_net())
    before = parameters_to_vector(ddp.parameters()).detach().clone()
    optimizer = make_optimizer(ddp.parameters())
    for _ in range(6):
        optimizer.zero_grad()
        accumulate(ddp, divisor)
        optimizer.step()
    return parameters_to_vector(ddp.parameters()).detach() - before


for optimizer_class in (torch.optim.SGD, torch.optim.Adam):
    divided, undivided = (change(partial(optimizer_class, lr=0.01), divisor) for divisor in (K, 1))
    off = (undivided - divided).norm() / divided.norm()
    print(f"{optimizer_class.__name__:4} the change of the weights is {off:.0%} off")

# %% [markdown]
# ## Deeper: an optimizer in the loop
#
# Another article makes its optimizer inside the loop, computes a loss, and ends there. Add what is missing, line by line:


# %% claims={"45": "wrong"}
# %%ranks
from course_lib.lessons.accumulation.micro_batches import held_out_loss


def train(zero=False, backward=False, step=False, anew=False, momentum=0.9):
    """Train for 80 steps with these lines in the loop."""
    ddp = DistributedDataParallel(make_net())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=momentum)
    for number in range(80):
        if anew:
            optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=momentum)
        inputs, labels = micro_batch(number)
        if zero:
            optimizer.zero_grad()
        loss = cross_entropy(ddp(inputs), labels)
        if backward:
            loss.backward()
        if step:
            optimizer.step()
    return ddp.module


def moved(net):
    before, now = (parameters_to_vector(each.parameters()) for each in (make_net(), net))
    return (now - before).norm()


TRAINED = {
    "as printed": train(anew=True),
    "+ backward, step": train(False, True, True, anew=True),
    "+ zero_grad": train(True, True, True, anew=True),
    "+ optimizer before the loop": train(True, True, True),
    "without momentum": train(True, True, True, momentum=0.0),
}
for name, net in TRAINED.items():
    print(f"{name:30} loss {held_out_loss(net):4.1f}   weights moved by {moved(net):4.1f}")

# %% [markdown]
# As printed, the weights do not move. An optimizer that is made anew in each step raises no error either. But it has forgotten
# everything, momentum and Adam's averages: the third line is the last one, training without momentum. Plain SGD has nothing
# to forget, so a test with it does not show this.
#
# ## Deeper: when `no_sync` raises, and when it sends
#
# With `static_graph=True` ([lesson 08](08_unused.ipynb)) the first backward must not be under `no_sync()`:

# %%
# %%ranks --expect raises:RuntimeError
toy = DistributedDataParallel(nn.Linear(1, 1, bias=False), static_graph=True)
with toy.no_sync():
    toy(torch.ones(1, 1)).sum().backward()

# %% [markdown]
# The way out: leave `no_sync` out of the whole first step. From the second step on it does what it should.

# %%
# %%ranks --as out
toy = DistributedDataParallel(nn.Linear(1, 1, bias=False), static_graph=True)
for step in range(3):
    toy.zero_grad()
    for number in range(K):
        with toy.no_sync() if step > 0 and number < K - 1 else nullcontext():
            toy(torch.full((1, 1), share)).sum().backward()
    print(f"step {step}: {toy.module.weight.grad.item()}")

# %%
gradients = [sent for sent in out.collectives[0] if sent.stage == "gradients"]
gradients = [sent for sent in gradients if sent.dtypes == ("Float",)]
print(len(gradients), "all-reduces in three steps: 4 + 1 + 1")

# %% [markdown]
# (In its first step, `static_graph` also sends which parameters were used, as integers.)
#
# And the opposite, `no_sync` that sends after all. An armed wrapper averages at the next backward, also under `no_sync`. A
# validation batch without `no_grad`, whose loss nobody uses, is enough:

# %%
# %%ranks
toy = DistributedDataParallel(nn.Linear(1, 1, bias=False))
toy(torch.ones(1, 1))  # no no_grad, no backward
with toy.no_sync():
    toy(torch.full((1, 1), share)).sum().backward()
toy.module.weight.grad.item()

# %% [markdown]
# 2 on both ranks, under `no_sync`: the mean of 1 and 3. As long as all ranks do it, the result is right all the same. If one does it
# alone, it has issued one all-reduce more than the others, and theirs no longer belong together.
#
# ## Deeper: the norm of a model in parts
#
# With sharded parameters the all-reduce for the norm is made for you. The gradients of `fully_shard` are DTensors, and
# `clip_grad_norm_` on them gives the norm of the whole. (The older `FullyShardedDataParallel` has a `clip_grad_norm_` of its own.)

# %%
# %%ranks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from course_lib.lessons.accumulation.micro_batches import big_batch

sharded = fully_shard(make_net(), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
inputs, labels = micro_batch(0)
cross_entropy(sharded(inputs), labels).backward()
norm = clip_grad_norm_(sharded.parameters(), 0.5)
print(type(norm).__name__, torch.allclose(norm.full_tensor(), big_batch([0]).norm(), rtol=1e-4))

# %% [markdown]
# With an expert that each rank keeps for itself beside a shared part, no library makes that all-reduce. The norms differ, so do
# the factors, and the shared part drifts:

# %%
# %%ranks
shared = DistributedDataParallel(nn.Linear(1, 1, bias=False))
own = nn.Linear(1, 1, bias=False)  # every rank has another one, and nobody averages it
mine = torch.full((1, 1), [4.0, 0.0][dist.get_rank()])
(shared(torch.full((1, 1), 3.0)) + own(mine)).sum().backward()
norm = clip_grad_norm_([*shared.parameters(), *own.parameters()], 1.0).item()
print(f"norm on this rank {norm:.0f}, shared gradient {shared.module.weight.grad.item():.1f}")

# %% [markdown]
# The norm of the whole is 5 here, the root of 3² + 4² + 0²: what all ranks share counts once, what each has for itself counts for
# each. Task 2 is about that.
#
# ## Deeper: what is in 16 bits
#
# See what `autocast` changes under DDP, and what has become of the article's import:

# %% claims={"31": "outdated"}
# %%ranks --as out
import importlib.util
import warnings

ddp = DistributedDataParallel(make_net())
inputs, labels = micro_batch(0)
with torch.autocast("cpu", torch.bfloat16):
    outputs = ddp(inputs)
    loss = cross_entropy(outputs, labels)
loss.backward()
weight = ddp.module[0].weight
kinds = {"weights": weight, "outputs": outputs, "loss": loss, "gradients": weight.grad}
print("  ".join(f"{name}: {str(tensor.dtype)[6:]}" for name, tensor in kinds.items()))

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    torch.cuda.amp.autocast(enabled=False)
print("apex is here:", importlib.util.find_spec("apex") is not None)
print("torch.cuda.amp:", *{warning.category.__name__ for warning in told})

# %% [markdown]
# `autocast` (`torch/amp/autocast_mode.py`) makes 16-bit copies of weights for matrix products and the like, and backward turns a
# copy's gradient into one of the original. To *send* in 16 bits, register a communication hook:

# %%
# %%ranks --as out
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from course_lib.lessons.accumulation.micro_batches import gradient_of

packed = DistributedDataParallel(make_net())
packed.register_comm_hook(None, default_hooks.fp16_compress_hook)
accumulate(packed)
off = (gradient_of(packed) - big_batch()).norm() / big_batch().norm()
print(f"sent in 16 bits: {off:.2%} off; in .grad: {str(packed.module[0].weight.grad.dtype)[6:]}")

# %%
print("sent as:", *{c.dtypes[0] for c in out.collectives[0] if c.op == "all_reduce"})

# %% [markdown]
# (With the hook, leave `no_sync` in place: without it what has been accumulated is rounded in each reduction. `bf16_compress_hook`
# asks how torch was built, before anything is sent: a build for CPUs refuses it with a TypeError. See `_check_comm_hook` in
# `torch/nn/parallel/distributed.py`.)
#
# What becomes of the gradient where `unscale_` is missing before the clip:

# %%
# %%ranks
for unscale in (True, False):
    ddp = DistributedDataParallel(make_net())
    optimizer = torch.optim.SGD(ddp.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with torch.autocast("cpu", torch.float16):
        loss = cross_entropy(ddp(inputs), labels)
    scaler.scale(loss).backward()
    if unscale:
        scaler.unscale_(optimizer)
    clip_grad_norm_(ddp.parameters(), 0.2)
    scaler.step(optimizer)  # unscales, if nobody has
    length = gradient_of(ddp).norm()
    print(f"unscaled before the clip: {unscale}; the step's gradient has length {length:.4f}")

# %% [markdown]
# `model.bfloat16()` is another matter: then `.grad` has 16 bits, too. Add up 400 micro-batches, each with a gradient of 1:

# %%
# %%ranks
for dtype in (torch.float32, torch.bfloat16):
    toy = nn.Linear(1, 1, bias=False, dtype=dtype)
    for _ in range(400):
        toy(torch.ones(1, 1, dtype=dtype)).sum().backward()
    print(f"{str(dtype)[6:]:9}", toy.weight.grad.item())

# %% [markdown]
# bfloat16 has 8 significant bits. The next number after 256 is 258, and 257 is rounded back to 256: the sum stops growing. Real
# gradients have no such sharp edge: the more you have added up, the more of each new micro-batch is rounded away. So keep the
# weights in 32 bits, and use `autocast`.
#
# ## Deeper: effective batch and learning rate
#
# The optimizer sees *micro-batch × K × ranks* samples per step. You can make their gradient right. Is it good, too? Each run
# takes 2048 samples (1400 digits, some of them twice) in the same order, with micro-batches of 8 on two ranks, and ends with
# a loss on other digits.


# %%
# %%ranks
def loss_after(count, lr, samples=2048):
    ddp = DistributedDataParallel(make_net())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for step in range(samples // (count * dist.get_world_size() * 8)):
        optimizer.zero_grad()
        for number in range(step * count, (step + 1) * count):
            inputs, labels = micro_batch(number)
            with nullcontext() if number == (step + 1) * count - 1 else ddp.no_sync():
                (cross_entropy(ddp(inputs), labels) / count).backward()
        optimizer.step()
    return held_out_loss(ddp.module)


for count in (1, 2, 4, 8, 16, 32):
    same, linear = loss_after(count, lr=0.1), loss_after(count, lr=0.1 * count)
    print(f"{16 * count:3} samples per step: lr 0.1 gives {same:.2f}, ", end="")
    print(f"lr 0.1 × {count:2} gives {linear:.2f}")

# %% [markdown]
# A larger batch makes *fewer* steps, and at the same learning rate they are hardly longer, so the model does not come as far.
# With *K* times the learning rate, one step goes about as far as *K* small ones: the **linear scaling rule**, for SGD. (Adam
# divides by the size of its gradients, and the rule proposed for it is the *square root* of *K*: Malladi et al., below.) It holds
# while the gradient hardly changes over those *K* steps. Here that goes well up to 128 samples, and no further; where the border
# is, depends on model, data and phase of the training. So when the number of ranks changes, change *K* so that their product
# stays, or know that you have another training.
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
