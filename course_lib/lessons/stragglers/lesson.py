# %% [markdown]
# # 05 · When ranks run at different speeds
#
# > *“One of my GPUs is slower than the others. Does DDP wait for it, or go on without its gradient? And can I make the
# > others wait less?”*
#
# Here you make ranks late on purpose. A rank that is to be slow *sleeps*: that needs no core, so it does not slow down the others.
# In the picture rank 2 is late for its forward. What do the other three do at the question marks?
#
# **You will be able to** see who waits for whom, say what many ranks cost before you rent them, synchronise less often
# without training another model, cope with ranks that have different numbers of batches or samples, and read a timeout. 50
# minutes.
#
# **Before this:** lessons 00 and 04.

# %%
# %load_ext course_lib
from course_lib.lessons.stragglers import lab as stragglers

stragglers.late_rank()

# %% [markdown]
# First something simpler. Four ranks meet in eight all-reduces. Before each of them one rank sleeps 0.1 s, each rank in its turn:

# %% tags=["nbval-ignore-output"]
# %%ranks 4
import time

import torch
import torch.distributed as dist

rank, began = dist.get_rank(), time.perf_counter()
for step in range(8):
    time.sleep(0.1 * (step % 4 == rank))
    dist.all_reduce(torch.zeros(1))
print(f"slept 0.2 s, needed {time.perf_counter() - began:.1f} s")

# %% [markdown]
# Each rank slept 0.2 s, and each needed 0.8 s.
#
# ## Does it even out?
#
# No rank was slow in that run. Each was late now and then, as by a garbage collection, a long sentence or a file that is not cached.
# Here is the same with steps of a training, computed. Red is a rank's own delay, the light bars are its waiting for others:

# %%
stragglers.draw_shadows(stragglers.by_turns(ranks=4, steps=8, milliseconds=20))

# %% [markdown]
# In every step, all ranks wait for the slowest one. No rank gets that time back in a later step. So a job with 64 ranks runs at the
# speed of the rank that is slowest *in this step*.
#
# ## Who waits, and where
#
# Now a DDP model with five layers, each in its own bucket. Rank 2 begins its forward only when the other three have computed all their
# gradients. At that moment, each of them asks its five all-reduces whether they are complete (`lateness.complete_before??`).

# %%
p = predict("05.complete")

# %%
# %%ranks --predicted --as out
from course_lib.lessons.stragglers import lateness
from torch.nn.parallel import DistributedDataParallel

world = dist.get_world_size()
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(5)))
ddp = DistributedDataParallel(model, bucket_cap_mb=0.25)
complete = lateness.complete_before(ddp, late=2)

# %% [markdown]
# None. An all-reduce cannot be complete before the last rank has joined, and rank 2 joins the first one in its backward. So the
# overlap of lesson 04 does not help against a late rank. Where do the others wait? Here is a run with a delay of 0.3 s. (`--trace`
# records what each rank does, and at which time.) Look at the last bias: alone, rank 0 would have a gradient of 1,
# rank 1 of 2, rank 2 of 3, rank 3 of 4:

# %% claims={"36": "holds"}
# %%ranks --trace --as out
ddp = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001)
for step in range(3):
    if (rank, step) == (2, 2):
        time.sleep(0.3)
    optimizer.zero_grad()
    ((rank + 1) * ddp(torch.ones(128, 256)).sum(1).mean()).backward()
    optimizer.step()
round(ddp.module[-1].bias.grad[0].item(), 3)

# %% [markdown]
# 2.5 is the mean of 1, 2, 3 and 4: rank 2's gradient is not left out. “The faster ranks wait for the slower ones”, the forums say:

# %% claims={"35": "holds"}
fast = [stragglers.waited(out, rank) for rank in (0, 1, 3)]
print("ranks 0, 1 and 3 waited longer than rank 2:", min(fast) > stragglers.waited(out, 2))
stragglers.draw_last_step(out)

# %% [markdown]
# Watch all three steps again, with the mouse or with the arrow keys:

# %% tags=["nbval-ignore-output"]
out.replay("Three steps on four ranks")

# %% [markdown]
# The fast ranks compute forward and backward at full speed. They wait at the *end* of `backward()`, in
# `Reducer::finalize_backward` ([`reducer.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer.cpp)).
#
# So the slow rank looks *busy*, and the healthy ones look *slow in communication*. A profile of one rank that says “60 % of
# the time in all-reduce” does not show that the network is slow. Look at the rank that waits least.
#
# > **On GPUs (NCCL).** The program runs ahead, and the GPU waits, just as long. `time.perf_counter()` does not see that wait, because
# > `backward()` returns before the GPU has finished. Record a `torch.cuda.Event(enable_timing=True)` in the hook of the last gradient
# > and another one after `backward()`, synchronise, and take `elapsed_time` (`torch/cuda/streams.py`). Or compare the all-reduce
# > kernels in traces of `torch.profiler`: the rank whose kernels are the *shortest* is the slow one. (Read in
# > [`reducer_cuda.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer_cuda.cpp), not run: it needs GPUs.)
#
# ## What many ranks cost
#
# Now let chance decide who is late. There are two kinds of ranks with the same mean. The *steady* ones take 2 to 6 ms for a step, evenly spread. The
# others take 3 ms, but in one step of thirty a *hiccup* of 30 ms more. Both need 4 ms on average. They run alone, in pairs
# and all four together (`dist.new_subgroups` makes a group for each). Each rank notes how long *it* needed, and how long until its
# group had finished the step with an all-reduce.

# %%
# %%ranks --as jobs
import random

chance = random.Random(20 + rank)
kinds = {
    "steady": lambda: chance.uniform(0.002, 0.006),
    "hiccups": lambda: 0.003 + 0.030 * (chance.random() < 1 / 30),
}
times = {}
for size in (1, 2, 4):
    group, _ = dist.new_subgroups(group_size=size)
    for kind, draw_pause in kinds.items():
        times[kind, size] = [lateness.timed_step(draw_pause(), group) for _ in range(20)]

# %% [markdown]
# From the times of single ranks you can compute how long *n* ranks wait for the slowest of them, without having them.
# Sort all *N* measured times. Draw *n* of them, with replacement: the chance that none is beyond the *i*-th is
# (*i*/*N*)ⁿ. That gives the expected maximum (`stragglers.expected_maximum??`). The all-reduce itself comes on top:

# %%
stragglers.plot_tails(jobs)

# %% [markdown]
# The dashed line rises far above the mean, the other one does not: you pay for the *tail*. The slowest time of the steady ranks is near
# their mean. Of the others, one in thirty hiccups in a given step; among 64 ranks somebody nearly always does:

# %%
for n in (1, 4, 16, 64, 256):
    print(f"{n:4} ranks: a step without any hiccup has a chance of {(29 / 30) ** n:6.1%}")

# %% [markdown]
# This is why a job that scales well to 8 ranks may not scale to 64 with the same network. Two warnings: such a curve ends at the
# largest time that you have *measured*, so measure for long. And it assumes that ranks are late independently of each other; ranks
# that share a file server are not.
#
# ## Synchronise less often
#
# You will read: use `no_sync()` and synchronise only every *n* batches. Inside it, DDP's backward only adds to `.grad`; the
# first forward and backward outside reduce what has been added up. Four batches per rank, one reduction:

# %% claims={"39": "holds"}
# %%ranks --as out
from contextlib import nullcontext

torch.manual_seed(0)
ddp = DistributedDataParallel(torch.nn.Linear(6, 3))
for number in range(4):
    with nullcontext() if number == 3 else ddp.no_sync():
        (lateness.loss_of(ddp, lateness.batch(number, rank)) / 4).backward()
got = ddp.module.weight.grad.clone()

ddp.zero_grad()
everything = torch.cat([lateness.batch(number, r) for number in range(4) for r in range(world)])
lateness.loss_of(ddp.module, everything).backward()
right = ddp.module.weight.grad
print("the gradient of all 16 batches at once:", torch.allclose(got, right, atol=1e-6))

# %%
reduced = sum(sent.stage == "gradients" for sent in out.collectives[0])
print(reduced, "all-reduce of gradients in 4 backwards")

# %% [markdown]
# The gradient is exact, with a quarter of the reductions. (What has to be inside the block: “Deeper”.)
#
# Does it help against stragglers? In 16 steps, first each rank is 20 ms late with a probability of 1/4 in each step. Then only rank 2 is
# late, in every step.

# %%
p = predict("05.always_late")

# %%
# %%ranks --predicted --as out
late = {
    "late by chance": lateness.by_chance(4, 16, 20),
    "rank 2 is always late": lateness.always(2, 4, 16, 20),
}
took = {
    (who, every): min(lateness.train_late(late[who], every) for _ in range(2))
    for who in late
    for every in (1, 4)
}

# %%
stragglers.plot_less_often(out)

# %% [markdown]
# A rank that is always late is late by the sum of its delays (the black marks), whenever the others wait for it. Find out why it is
# slow (heat, a busy neighbour, a slow disk, longer samples), give it less work, or leave it out.
#
# Chance is different. Between two reductions nobody waits, so a rank that was late in one step may be on time in the next, and *some*
# of it evens out. How much? The gang waits for the largest of four sums, whose mean follows from the binomial distribution:

# %%
for every in (1, 4, 16, 64):
    print(f"reduced every {every:2} steps: {stragglers.expected_delay(every):4.1f} ms lost per step")

# %% [markdown]
# Each rank is late by 5 ms on average, and no interval gets below that.
#
# When does reducing in every 16th step save nearly everything, and when nothing? The lanes are computed, and each change also trains on
# real ranks:

# %%
stragglers.explore_lateness()

# %% [markdown]
# The price: four batches per rank now make *one* step of the optimizer, a batch four times as large
# ([lesson 10](10_accumulation.ipynb)).
#
# How often is often enough? A round is *k* steps of *s* seconds and one reduction of *r* seconds. The reduction's share of the round is
# *r* / (*k s* + *r*). You want it below 10 %, so *k* must be at least 9 *r* / *s*; round up. When you measure *s* and *r*:
#
# - Leave out the first steps, which take many times longer.
# - Take *s* from the slowest rank, and *r* too: what a fast rank measures as a reduction is mostly waiting, and *k* does not change it.
# - All ranks need the same *k*. If each decides from its own measurements, one reduces while another goes on, and waits forever.
#
# ## A rank runs out of batches
#
# When some ranks have fewer batches than others, an epoch hangs (lesson 03). `ddp.join()` is PyTorch's answer: a rank that leaves the
# block early stays behind as a *shadow*, which joins every all-reduce of the others with zeros. Rank *r* has *r* + 1 batches here, and
# every batch has a gradient of exactly 1. The optimizer has momentum.

# %%
p = predict("05.after_join")

# %%
# %%ranks --predicted --as out
from course_lib.lab.deals import equal_everywhere


def rounds(**options):
    """The gradients of this rank's rounds; the model and its optimizer."""
    ddp = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    gradients = []
    with ddp.join(**options):
        for _ in range(rank + 1):
            optimizer.zero_grad()
            ddp(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            gradients.append(round(ddp.module.weight.grad.item(), 2))
    return gradients, ddp, optimizer


default, joined, joined_optimizer = rounds()
weight = joined.module.weight
equal_everywhere(weight.detach()), equal_everywhere(joined_optimizer.state[weight]["momentum_buffer"])

# %% [markdown]
# The weights are equal: at the end of the block the last rank's weights are sent to all (`_sync_final_model`, `distributed.py`). The
# momenta are not: a shadow takes no steps, so its optimizer has missed rounds. From the next step on, different momenta make
# different models, without any message. With momentum or Adam, broadcast the optimizer's state after every joined epoch, or give all
# ranks the same number of batches: padding with `DistributedSampler` is cheap.
#
# How large is a step in which shadows take part? Compare the default with `divide_by_initial_world_size=False`:

# %%
# %%ranks --as out
by_those_left, _, _ = rounds(divide_by_initial_world_size=False)
print("default:", default, " divide_by_initial_world_size=False:", by_those_left)

# %%
stragglers.plot_weights(out)

# %% [markdown]
# By default every batch has the same weight in the whole epoch, and the last steps are *small*. Divided by those who are left, the last
# steps are full ones, made from fewer data. Neither is an error.
#
# `join()` answers for DDP's collectives, not for yours: an `all_reduce` of the loss in that loop meets something else on a rank that
# has finished. (“Deeper” shows what happens.)
#
# ## A rank has fewer samples
#
# Equal numbers of batches, but the last one is short on one rank. “Uneven data make the ranks' models diverge”, you will
# read. Here rank 0 has 8 samples, and rank 1 has fewer.

# %%
p = predict("05.short_batch")

# %% claims={"29": "incomplete"}
# %%ranks 2 --predicted --as out
import torch
import torch.distributed as dist
from course_lib.lessons.stragglers import lateness
from course_lib.watch import compare
from torch.nn.parallel import DistributedDataParallel

rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
ddp = DistributedDataParallel(torch.nn.Linear(6, 3))
errors, same = {}, True
for short in range(1, 9):
    first, second = lateness.batch(0, of_rank=0), 1 + lateness.batch(0, of_rank=1)[:short]
    right = lateness.gradient(ddp.module, torch.cat([first, second]))
    mine = (first, second)[rank]
    mean_of_means = lateness.gradient(ddp, mine)
    same &= compare(ddp).equal
    weighted = lateness.gradient(ddp, mine, scale=len(mine) * world / (8 + short))
    errors[short] = [((g - right).norm() / right.norm()).item() for g in (mean_of_means, weighted)]
print("with 2 samples on rank 1: mean of means {:.0%} off, weighted {:.0%}".format(*errors[2]))

# %%
stragglers.plot_errors(out["errors"][0])

# %% [markdown]
# All ranks get the same gradient and stay equal. But it is not the gradient of the mean loss over all samples. DDP
# averages over *ranks* (`Reducer::mark_variable_ready_dense` divides by their number, whatever they had), so a sample in a batch
# of 2 weighs four times as much as one in a batch of 8. Once in an epoch this rarely matters. With sentences of
# different lengths, and a loss that is a mean over *tokens*, it is every step.
#
# To repair it, multiply the loss by *own samples × ranks ÷ all samples*; one tiny all-reduce counts them all. The factor is 1
# where all have the same number. It is exact where each sample has a loss of its own; where samples meet (BatchNorm, a
# contrastive loss), no factor makes two half batches one (lesson 07). Weight the loss that you log in the same way.
#
# ## When waiting becomes an error
#
# Every process group has a timeout: 30 minutes with gloo, 10 with NCCL (`kProcessGroupDefaultTimeout`,
# `kProcessGroupNCCLDefaultTimeout` in the headers that come with torch). Here, with gloo, it is 0.6 seconds, and rank 1 is late four times.

# %%
p = predict("05.timeout")

# %% claims={"61": "wrong"}
# %%ranks --predicted
import time
from datetime import timedelta

impatient = dist.new_group(timeout=timedelta(seconds=0.6))
dist.barrier()
begin, x = time.perf_counter(), torch.ones(1)
for _ in range(4):
    if rank == 1:
        time.sleep(0.2)
    dist.all_reduce(x, group=impatient)
print(x.item(), "- longer than the timeout:", time.perf_counter() - begin > 0.6)

# %% [markdown]
# The timeout is for *one wait*, not for a step or an epoch. A rank that is a little late in every step never reaches it,
# however much time that costs. When a wait does run out, both ranks report an error: see “Deeper”.
#
# > **On GPUs (NCCL).** Nothing is raised in your program, by default. A watchdog thread counts from the moment at
# > which a collective is *enqueued*, and then ends the process: of a rank that waited, not of the one that is late
# > ([lesson 13](13_debugging.ipynb)). Its log says “Watchdog caught collective operation timeout”. (Read in
# > [`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp),
# > not run: it needs GPUs.)
#
# ## What goes wrong in real life
#
# - **“All-reduce takes 60 % of the time, I need a faster network.”** Perhaps. First find the rank with the *least* time in
#   all-reduce. If there is one, and always the same, it is a slow rank, not a slow network.
# - **The timeout strikes at the end of an epoch.** Rank 0 evaluates or writes a checkpoint for longer than the timeout,
#   and the others wait in their next step. Raise the timeout (`init_process_group(timeout=...)`; a `new_group` does not inherit
#   it), or share the work.
# - **Slower with every hour.** A straggler by heat or memory pressure. Log the *waiting* of each rank, not only the
#   step time, which is the same for all. (Task 1 measures it with gloo; on GPUs, see the first box above.)
#
# ## Rule of thumb
#
# > In every step all ranks wait for the slowest one, so cut the tail before you add ranks. `no_sync()` around forward *and* backward
# > evens out some of the chance, and nothing of a rank that is always slow. Give all ranks the same number of batches. Where sizes
# > differ, weight by samples. Set the timeout above the longest pause that is not a fault.
#
# ## Your turn
#
# Three tasks wait in [exercises/05_stragglers](../exercises/05_stragglers.ipynb): measure who waits and how long, train
# an epoch with uneven batches exactly, and choose how often to synchronise.
#
# **Your script.** Two of the faults in `exercises/script/train.py` are this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair them; in a terminal, this says whether they are gone:
#
#     ddp-course check --suspect 05 exercises/script/train.py
#
# ## Deeper: who reports a timeout
#
# Now one delay that is longer than the timeout, and what each of the two ranks reports. (`recv` waits for a message of
# one rank, and `send` sends it: rank 1 comes after rank 0 has given up.)

# %%
# %%ranks
impatient = dist.new_group(timeout=timedelta(seconds=0.6))
dist.barrier()
if rank == 1:
    dist.recv(torch.empty(1), src=0)  # comes when rank 0 has given up
    time.sleep(0.2)  # gloo's own thread hears of it a moment later
try:
    dist.all_reduce(x, group=impatient)
    said = "nothing"
except RuntimeError as error:
    said = lateness.gloos_reason(str(error))
if rank == 0:
    dist.send(torch.ones(1), dst=1)
print(said)

# %% [markdown]
# Rank 0 had waited long enough and closed its connections. Rank 1, which was only late, then found nobody there; its
# full message talks of a “remote worker crashing”. Nothing has crashed. The *first* error in time is the true one, and
# the rank it waited for is the one to look at. This group is now useless: what failed in it cannot be called again
# (lesson 11).
#
# ## Deeper: ask whether somebody is late, and harm nothing
#
# If you only want to *know* whether somebody is late, do not let the group time out: ask the work. `is_completed()` does not
# wait, and harms nothing. Rank 1 comes only after rank 0 has given up:

# %%
# %%ranks
y = torch.ones(1)
if rank == 1:
    dist.recv(torch.empty(1), src=0)
work = dist.all_reduce(y, async_op=True)
if rank == 0:
    print("completed:", work.is_completed())
    try:
        work.wait(timedelta(seconds=0.1))
    except RuntimeError as error:
        print(error)
    dist.send(torch.ones(1), dst=1)
work.wait()
print(y.item())

# %% [markdown]
# `wait(timeout)` gives up waiting, not the all-reduce: it was completed in the end. But only with gloo.
#
# > **On GPUs (NCCL).** A `wait(timeout)` that runs out *aborts* the group's communicators before it raises
# > (`WorkNCCL::wait`,
# > [`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp);
# > read, not run: it needs GPUs): the question whether somebody is late ends the
# > group. Poll `is_completed()`, or ask with `monitored_barrier` in a gloo group.
#
# ## Deeper: a hang, or slow?
#
# This cell gets half a second, and rank 1 wants more:

# %%
# %%ranks --timeout 0.5 --expect slow
if rank == 1:
    time.sleep(60)
dist.barrier()

# %% [markdown]
# ## Deeper: all stop together
#
# `throw_on_early_termination=True` is the strict way: when one rank runs out, all stop at the same step.

# %%
# %%ranks --expect raises:RuntimeError
ddp = DistributedDataParallel(torch.nn.Linear(1, 1))
with ddp.join(throw_on_early_termination=True):
    for _ in range(rank + 1):
        ddp(torch.ones(1, 1)).sum().backward()

# %% [markdown]
# ## Deeper: a collective of your own inside join()
#
# An `all_reduce` of the loss, just for the log, in a loop with `join()`. Rank 0 has three batches, rank 1 has four:

# %%
# %%ranks --expect died
ddp = DistributedDataParallel(torch.nn.Linear(4, 4))
with ddp.join():
    for _ in range(3 + rank):
        loss = ddp(torch.ones(2, 4)).square().mean()
        loss.backward()
        for_the_log = loss.detach().reshape(1).clone()
        dist.all_reduce(for_the_log)

# %% [markdown]
# Rank 0 has left the loop, and `join()` answers for it, first with the all-reduce that counts who still trains
# (`Join.__exit__`). Rank 1's `all_reduce` for the log meets an all-reduce that was meant for something else, and from there on every
# call meets the wrong one. The verdict names the line that nobody answers, which is the last one. Put your own collectives behind the block, or sum up locally and reduce once.
#
# ## Deeper: “Make a smaller group, then they synchronise less often”
#
# `new_group` is the other advice. A group says *who* takes part, not *how often*: DDP in two groups of two trains two models,
# as lesson 02 has shown. Here they are again, beside what the advice wants:

# %% claims={"40": "incomplete"}
# %%ranks 4 --as out
import torch
import torch.distributed as dist
from course_lib.lessons.stragglers import lateness
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local_sgd
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(dist.get_rank())
pair, _ = dist.new_subgroups(group_size=2)  # ranks 0 and 1, ranks 2 and 3
two_pairs = DistributedDataParallel(torch.nn.Linear(6, 3), process_group=pair)
pairs_only = lateness.spreads(two_pairs)

local = DistributedDataParallel(torch.nn.Linear(6, 3))
state = local_sgd.PostLocalSGDState(None, pair, start_localSGD_iter=4)
local.register_comm_hook(state, local_sgd.post_localSGD_hook)
averager = PeriodicModelAverager(period=4, warmup_steps=4)
averaged = lateness.spreads(local, average=lambda: averager.average_parameters(local.parameters()))

print("groups of two:        equal within a pair:", all(within == 0 for within, _ in pairs_only))
print("                      pairs ever equal:   ", any(between == 0 for _, between in pairs_only))
equal_after = [n for n, (_, between) in enumerate(averaged) if between == 0]
print("with model averaging: pairs equal after steps", equal_after)

# %%
stragglers.plot_spreads(out)

# %% [markdown]
# What the advice wants is **local SGD**. Two parts of PyTorch make it: `post_localSGD_hook` reduces gradients among all
# ranks in the first steps and only inside the small group later; `PeriodicModelAverager` averages the *weights* over all
# ranks, here every fourth step (`torch/distributed/algorithms/`). The pair, on one machine, is reduced in every step;
# the slow link between machines is used once in four. In between there are two models, so it is not the training you
# would have had without it. How long they may stay apart is the **staleness** you allow.
#
# ## Deeper: what no_sync() has to contain
#
# Which calls have to be inside the block: forward, backward, or both?

# %%
p = predict("05.forward_outside")

# %%
# %%ranks --predicted --as out
rank = dist.get_rank()
toy = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
mine = torch.full((1, 1), rank + 1.0)  # on its own, rank r has a gradient of r + 1

loss = toy(mine).sum()
with toy.no_sync():
    loss.backward()
print("backward inside, forward before:", toy.module.weight.grad.item())

toy.zero_grad()
with toy.no_sync():
    loss = toy(mine).sum()
loss.backward()
after = toy.module.weight.grad.item()
print("forward inside, backward after: ", after)

# %% [markdown]
# The *forward* decides. `no_sync()` only sets `require_backward_grad_sync`. `_post_forward` reads it and prepares the reducer
# (`prepare_for_backward`; all in `torch/nn/parallel/distributed.py`), so it is decided when `backward()` begins.
#
# ## Deeper: four batches, one step, as it is copied
#
# The third sample of the article on DDP problems, whose first one is in [lesson 02](02_process_groups.ipynb): `torch.autocast` and `GradScaler`
# take the place of apex, and nothing else is changed. The gradients of the four batches are 1, 2, 4 and 8, so a right step has 3.75.

# %% claims={"30": "wrong"}
# %%ranks --as out
model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
weight, accumulation_steps = model.module.weight, 4
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
before = weight.item()
for i, inputs in enumerate(torch.tensor([1.0, 2.0, 4.0, 8.0]).view(4, 1, 1)):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = model(inputs).sum()
    scaler.scale(loss).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
print(f"the weight has moved by {before - weight.item():.0f}")

# %%
print(sum(sent.stage == "gradients" for sent in out.collectives[0]), "all-reduces of gradients")

# %% [markdown]
# That is the last batch's gradient, times 1,024. `zero_grad()` wipes out the other three, nobody divides by four, and `optimizer.step()` does not know of the
# scale (`scaler.step(optimizer)` does). All four backwards were reduced, and three of these reductions thrown away. [Lesson
# 10](10_accumulation.ipynb) has the loop to keep.
#
# ## Further reading
#
# - `torch/distributed/algorithms/join.py`: the shadow's loop is `Join.__exit__`, forty lines.
# - PyTorch tutorial, *Distributed Training with Uneven Inputs Using the Join Context Manager*: several joinables, and
#   your own.
# - Lin et al., *Don't Use Large Mini-Batches, Use Local SGD*, ICLR 2020: what `post_localSGD_hook` implements.
# - Dean and Barroso, *The Tail at Scale*, CACM 2013: the same arithmetic, for web servers.
#
# **Next:** [lesson 06](06_alternation.ipynb), forward and backward in any order. Or back to the [index](index.ipynb).
