# %% [markdown]
# # 11 · Out of memory on one rank
#
# > *“A detection model, images of every size. Now and then one GPU runs out of memory, so I put forward and backward into a
# > try and catch the error. It mostly works. One time in ten it dies with an error about unused parameters. Can I reset DDP
# > inside my except?”*
#
# Here is that loop, with its author's flags, a dictionary of losses, and a head that no image uses. The lab's detector has four layers
# of one weight each. Its gradient tells whose images are in it: image *k* counts *k* on rank 0, 100 *k* on rank 1 and 10,000 *k* on
# rank 2. A sum of 30,303 is everybody's third image. Rank 0's third image is too large: its forward asks for a petabyte.
# (`--watch` notes exceptions that your code catches.)
#
# **You will be able to** say what a swallowed out-of-memory error does on all ranks, choose batches that fit, and write a training
# step that survives one that does not. 45 minutes.
#
# **Before this:** lessons 00, 04 and 06.

# %%
# %load_ext course_lib

# %%
p = predict("11.one_image_less")

# %% claims={"8": "wrong", "21": "holds"}
# %%ranks 3 --watch --predicted --as out
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.lessons.out_of_memory.detector import Detector, image, who_met

net = Detector(heads=True)
ddp = DistributedDataParallel(net, find_unused_parameters=True, forward_sync_buffers=False)
met = []
for number in range(1, 7):
    ddp.zero_grad()
    try:
        losses = ddp(image(number))
        sum(losses.values()).backward()
    except Exception:
        continue  # “tough it out”
    met.append(who_met(ddp))

# %%
from course_lib.lessons.out_of_memory.lab import draw_zip

draw_zip(out["met"][1])

# %% [markdown]
# A zip, closed one tooth off. The upper teeth are rank 0's images, and each line joins the images of one average. A collective has no
# name and no step number: the third all-reduce of rank 0 meets the third of the others, whatever they mean by it
# ([lesson 00](00_first_ranks.ipynb)). So rank 0 stays one image ahead, and no message says so. When the data end, ranks 1 and 2 wait
# for an all-reduce that rank 0 will not make: until its process ends, or for half an hour, gloo's default.
#
# A slow rank does no such harm: the others wait for its gradient. Here nobody waits, and a different gradient arrives. (Older code
# says `broadcast_buffers=False`; torch 2.13 warns of that name, [lesson 09](09_synchronised.ipynb).)
#
# > **On GPUs (NCCL).** `backward()` returns as soon as the all-reduce is enqueued. A waiting rank blocks at the next line that needs a
# > number from the GPU, often `loss.item()`. After ten minutes, NCCL's default, the watchdog thread ends the process. (Read in
# > `ProcessGroupNCCL.cpp`: NCCL needs GPUs.)
#
# ## The first line that counts
#
# The pairs are wrong, and the weights are still equal: all ranks take the same steps along the same averages. Real harm begins with the
# first line that *counts* steps. Here the loss is logged at every third image. (From here on the author's flags and heads are left out
# where they change nothing. Each parameter has a bucket of its own.)

# %%
# %%ranks --watch --expect hang --as out
weights = []
ddp = DistributedDataParallel(Detector(), bucket_cap_mb=1e-6)
optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
for number in range(1, 8):
    optimizer.zero_grad()
    try:
        loss = ddp(image(number))
        loss.backward()
    except RuntimeError:
        continue
    optimizer.step()
    weights.append(ddp.module.weights[0].item())
    if number % 3 == 0:
        dist.all_reduce(loss.detach())

# %%
for step, each in enumerate(zip(*out["weights"].values(), strict=True), 1):
    print(f"after step {step} the ranks have", "equal" if len({*each}) == 1 else "different", "weights")

# %% [markdown]
# The others log after their third step. Rank 0 is in the backward of its fourth, so their losses meet its first bucket. Both are one
# number, and gloo has no reason to object. From then on the ranks train different models. An evaluation or a checkpoint “every
# 1,000 batches” with a collective in it counts as well. So does DDP where it broadcasts buffers: the author has switched that off.
#
# ## In the middle of backward
#
# Backward needs memory, too. Now rank 0's third image fits in the forward, and fails in backward, when two of four layers have
# their gradients. And this loop catches nothing but errors about memory. On a GPU that is a `torch.OutOfMemoryError`, on a CPU a plain
# `RuntimeError` that you know by its text.

# %%
p = predict("11.half_a_backward")


# %%
# %%ranks --watch --predicted
def out_of_memory(error):
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


ddp = DistributedDataParallel(Detector(), find_unused_parameters=True)
for number in range(1, 7):
    try:
        ddp(image(number, place=2)).backward()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise

# %% [markdown]
# There is the error about unused parameters, and its advice leads away from the cause. All parameters were used. A backward was
# *interrupted*, one step before the line that raises.
#
# ## The border
#
# Why only one time in ten? A forum explains: the error appears when memory ran out before the first bucket was done. Look for that
# border. Rank 0 runs out of memory in the third of six steps: in the forward, in backward with the gradients of so many layers there,
# or in the optimizer. It catches *everything*. Two ranks run each case with one bucket for all parameters, with a bucket for each, and
# with the flag that the author has set.

# %% claims={"9": "incomplete", "11": "wrong"}
# %%ranks --as out
from course_lib.lessons.out_of_memory.detector import what_follows

WRAPPERS = {
    "one bucket": {},
    "a bucket each": {"bucket_cap_mb": 1e-6},
    "find_unused": {"find_unused_parameters": True},
}
found = {
    (name, str(place)): what_follows(place, **options)
    for name, options in WRAPPERS.items()
    for place in ("forward", 0, 1, 2, 4, "optimizer")
}

# %%
from course_lib.lessons.out_of_memory.lab import draw_border

draw_border(out["found"])

# %% [markdown]
# The three rows are the same, however large the buckets are. So the border is the first *gradient*, not the first bucket. When that
# gradient arrives, `mark_variable_ready` sets `require_finalize_`, and only a complete backward takes it back. A later forward finds it
# set, and raises (`ensure_prior_reduction_finished`; all in `torch/csrc/distributed/c10d/reducer.cpp`). The author's flag changes
# nothing: it looks for parameters outside the graph, and all of these were in it.
#
# That can explain the “one time in ten”. Memory is often fullest at the turn from forward to backward, before the first gradient. The
# crashes are the failures that came later. The other nine times “worked”, and were the shift.
#
# The last column is the worst: an optimizer that gets no memory leaves its rank with different weights for good, and nothing ever says so.
# The optimizer's step must never stand inside that `try`.
#
# A better `except` does not help. Backward holds an all-reduce for each bucket, and the forward may hold collectives of DDP's own. A
# rank that fails between two of them leaves one out, and what it sends next meets that of the others. Hence the rule: **a `try` with a
# collective in it does not protect.** Even the usual advice, to *agree* after the forward, comes too late for a failure in
# backward ([below](#Deeper:-agree,-and-skip-together)).
#
# ## End loudly, and restart
#
# So have no `try` at all. The rank ends, whoever started the ranks ends the others, and all start again from the last checkpoint.
# `scratch/resume.py`, in the cell below, takes ten steps and saves a checkpoint after every fourth ([lesson 12](12_elastic.ipynb) takes
# such a script apart). Its arguments name the attempts in which rank 1's batch of step 6 is too long. In a terminal, this starts it, and
# restarts it twice at most:
#
#     TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node=2 --max-restarts=2 scratch/resume.py 0 1 2
#
# The variable belongs to the command. Without it, the new ranks may read the addresses of the dead ones, and never meet ([lesson
# 12](12_elastic.ipynb), *The store, the second time*; seen with gloo).

# %% tags=["hide-input"] jupyter={"source_hidden": true}
from pathlib import Path

Path("scratch").mkdir(exist_ok=True)
for name in ("resume.py", "checkpoint.pt"):
    Path("scratch", name).unlink(missing_ok=True)  # from the last time

# %% tags=["hide-input"] jupyter={"source_hidden": true}
# %%writefile scratch/resume.py
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
attempt, saved, first = os.environ["TORCHELASTIC_RESTART_COUNT"], "scratch/checkpoint.pt", 0
ddp = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.AdamW(ddp.parameters())
if os.path.exists(saved):
    state = torch.load(saved, weights_only=True, map_location="cpu")
    ddp.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
for step in range(first, 10):
    if dist.get_rank() == 1:
        print(json.dumps({"attempt": attempt, "step": step}), flush=True)
        if step == 6 and attempt in sys.argv[1:]:
            torch.empty(2**50)
    optimizer.zero_grad()
    ddp(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    if (step + 1) % 4 == 0 and dist.get_rank() == 0:
        state = {"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
        torch.save(state, saved + ".new")
        os.replace(saved + ".new", saved)

# %%
p = predict("11.too_long_each_time")

# %%
from course_lib.lessons.out_of_memory.lab import restarted

out = run(restarted, "scratch/resume.py", 2, "0", "1", "2", ranks=1, init=False, expect="predicted")

# %%
for number, steps in enumerate(out.values[0]["steps"], 1):
    print(f"attempt {number} begins steps", *steps)
print("the job ends", "well" if out.values[0]["ok"] else "with an error")

# %% [markdown]
# (`restarted` starts torchrun's agent on processes that have torch loaded already, with 2 restarts and the same arguments.) Each attempt
# loads the checkpoint of step 3, draws the same batch, and fails again, until the restarts are used up. Where memory was short only
# once, a restart is the simplest answer, and the only one to a failure in the optimizer. It costs the restart, and the steps since the
# checkpoint. A batch that is too long comes again.
#
# And “can I reset DDP inside my except?” Not inside it, and not on one rank. On all ranks, after the `except` block, with a new
# group, and with gloo: yes ([below](#Deeper:-reset-DDP-in-place)).
#
# > **On GPUs.** `torch.OutOfMemoryError` comes from PyTorch's caching allocator. CUDA itself raises a `torch.AcceleratorError`, cuBLAS a
# > RuntimeError with `CUBLAS_STATUS_ALLOC_FAILED` in its text, NCCL a `torch.distributed.DistBackendError`. `out_of_memory` lets
# > these through: the rank ends loudly. (Read in `CUDAException.cpp`, `ATen/cuda/Exceptions.h` and `NCCLUtils.hpp`: no CPU raises them.)
#
# ## Memory that suffices
#
# So far this lesson has asked *why*. From here on it has recipes, in the order in which you would try them. The best failure is the one
# that does not come.
#
# **What takes the memory?** Let the rank that fails write it down, and raise:
#
#     torch.cuda.memory._record_memory_history(max_entries=100_000)
#     try:
#         train()
#     except torch.OutOfMemoryError:
#         torch.cuda.memory._dump_snapshot(f"memory-of-rank-{dist.get_rank()}.pickle")
#         raise
#
# https://pytorch.org/memory_viz shows what is allocated, and the line that did it. Where much is reserved and little allocated,
# memory is in pieces that are too small: `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` helps (newer name: `PYTORCH_ALLOC_CONF`).
# `torch.utils.checkpoint` keeps fewer activations, and computes them again in backward. (Read in PyTorch's notes *Understanding CUDA
# Memory Usage*, which documents the two functions with the underscore, and *CUDA semantics*: they are about CUDA's allocator.)
#
# **Which batch is the largest?** All texts of a batch are padded to the longest, and all images to the largest. So the longest one
# decides. Here are the lengths of 512 texts, and three ways to put them into batches. For plain attention, a batch needs
# texts × longest².

# %%
import random

from course_lib.lessons.out_of_memory.lab import draw_batches


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


chance = random.Random(0)
lengths = [min(2000, int(chance.lognormvariate(5, 0.8))) for _ in range(512)]
in_order = sorted(lengths, reverse=True)
draw_batches(
    {
        "16 at random": [lengths[i : i + 16] for i in range(0, 512, 16)],
        "16 of like length": [in_order[i : i + 16] for i in range(0, 512, 16)],
        "capped by size": capped(lengths, max(lengths) ** 2),
    },
    needs,
)

# %% [markdown]
# Batches of like length waste less padding, but the largest is as large as before: the longest text, sixteen times. Only a **cap by
# size** bounds it, with fewer texts in long batches. So deal
# out whole batches, as many to each rank, and weigh ranks by samples ([lesson 05](05_stragglers.ipynb)).
#
# **When do you find out?** In the first minute, if you run the largest batch first, and run it *twice*:

# %%
# %%ranks
from course_lib.lessons.out_of_memory.detector import inputs, loss_of, new

net, optimizer = new(heads=False)
for number in range(2):
    loss_of(net, inputs(number, dist.get_rank())).backward()
    kept = [tensor for state in optimizer.state.values() for tensor in state.values()]
    held = sum(tensor.numel() for tensor in kept if tensor.dim())
    trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
    print(f"backward {number + 1}: {trained} weights to train, {held} numbers in AdamW's state")
    optimizer.step()

# %% [markdown]
# Once is not enough. Adam makes its state in its first *step*, so the first backward still finds that memory free. (DDP rebuilds its
# buckets in its second forward, too.)
#
# ## No collective inside the `try`
#
# **And a batch that does not fit all the same?** Leave the wrapper out, and average by hand. Before training, all ranks take rank 0's
# weights, and each makes room for one row of numbers. In each step, one all-reduce adds that row up over all ranks:
#
#     good: 1 | used: 1 for each parameter that has a gradient | all gradients, one after the other
#
# A rank that has failed sends zeros. So the sums say how many ranks are good, and how many have used each parameter.


# %% claims={"12": "incomplete"}
# %%ranks
def by_hand(net, optimizer, batches, backward=lambda net, x: loss_of(net, x).backward()):
    for tensor in [*net.parameters(), *net.buffers()]:
        dist.broadcast(tensor.detach(), src=0)
    trained = [p for p in net.parameters() if p.requires_grad]
    flat = torch.zeros(1 + sum(1 + p.numel() for p in trained), device=trained[0].device)
    good, used, *parts = flat.split([1, len(trained), *(p.numel() for p in trained)])
    for x in batches:
        optimizer.zero_grad()
        flat.zero_()
        try:
            backward(net, x)
            for p, part, uses in zip(trained, parts, used, strict=True):
                if p.grad is not None:
                    part.view_as(p).copy_(p.grad)
                    uses.fill_(1)
            good.fill_(1)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            flat.zero_()  # half a gradient is none
        dist.all_reduce(flat)
        for p, part, users in zip(trained, parts, used.tolist(), strict=True):
            p.grad = part.div_(good).view_as(p) if users else None
        optimizer.step()


# %%
# %%ranks
from course_lib.lessons.out_of_memory.detector import check, check_loop, loss_of

check_loop(by_hand)

# %% [markdown]
# `check_loop` is the course's bench: three ranks, five steps, AdamW with weight decay, and what detectors have: frozen layers, a frozen
# BatchNorm beside one that is not, a head that is never used, and one that some images use. In one step, one allocation fails on rank 1,
# at the place that the line names. At the end all ranks must have the same weights, bit by bit. They are compared with one process that
# never failed: at every place it is as if that batch had never been drawn.
#
# Three things are easily forgotten. A parameter that nobody has used gets None, not zeros: with zeros, weight decay and momentum would
# move it ([lesson 08](08_unused.ipynb)). The sum is divided by the *good* ranks. And nothing allocates between the `try` and the
# all-reduce, so nothing can fail there.
#
# The price: the all-reduce no longer overlaps with backward ([lesson 04](04_buckets.ipynb)). Gradients take up twice the memory, as with
# DDP, whose buckets are the second copy. Each rank keeps its own BatchNorm statistics, also those of a forward that failed: average
# them before you evaluate or save ([lesson 09](09_synchronised.ipynb)).
#
# What is left is the optimizer. AdamW makes its state in the first step, and temporary tensors in *every* step. If it gets no memory,
# the rank raises, and it should: some weights may have moved already. (On GPUs the default, `foreach`, needs about as much as all
# parameters for a moment; `foreach=False` does not. Read in the optimizers' docstring: a CPU has no such default.)

# %%
# %%ranks --watch --expect raises:1
check_loop(by_hand, "optimizer, later")

# %% [markdown]
# **Must the batch be lost?** Compute it in pieces: gradients of pieces add up, and no other rank needs to know. One line of `by_hand`
# becomes a function:


# %%
# %%ranks
from functools import partial


def in_pieces(net, x, pieces=1):
    try:
        for piece in x.chunk(pieces):
            (loss_of(net, piece) * len(piece) / len(x)).backward()
        return
    except RuntimeError as error:
        if not out_of_memory(error) or pieces >= len(x):
            raise
    net.zero_grad()  # what a failed attempt has left is thrown away
    in_pieces(net, x, 2 * pieces)


check_loop(partial(by_hand, backward=in_pieces), "forward, last", "backward, middle", norm=False)

# %% [markdown]
# Where not even a single sample fits, `in_pieces` raises, and `by_hand` counts this rank out. (No BatchNorm here: it would see smaller
# batches. The other ranks wait for the one that computes twice, [lesson 05](05_stragglers.ipynb).)
#
# ## What goes wrong in real life
#
# - **`except RuntimeError: continue`** swallows everything: shape errors, lost connections, DDP's own complaint. Test for out
#   of memory, and raise the rest.
# - **The log is clean.** Somebody caught the error far away from the loop. `ddp-course doctor train.py` notes errors that a script
#   swallows, as `--watch` does here.
# - **`torch.cuda.empty_cache()` in the handler** gives cached blocks back. It repairs no reducer.
# - **Linux's OOM killer** (`exit code -9`) is another matter: no exception, nothing to catch. Restart.
# - **The failure was in `no_sync`.** Part of a micro-batch is in `.grad`, and stays there. Zero it, all of it.
#
# ## Rule of thumb
#
# > Never catch an out-of-memory error on one rank and go on: not even when it works. Let it end the job, and restart from a checkpoint. Cap
# > your batches by size, and run the largest one twice before you train. If a batch may still not fit, have no collective inside the
# > `try`, not even DDP's own: average by hand, with one all-reduce that also says who is good. Then throw half gradients away, divide by
# > the good ranks, and keep the optimizer's step out of the `try`.
#
# ## Your turn
#
# Four tasks wait in [exercises/11_out_of_memory](../exercises/11_out_of_memory.ipynb): repair the loop of the question, judged by
# launches in which memory runs out anywhere; correct the mean; write the step that survives with batches of any size; and decide alike
# on all ranks.
#
# **Your script.** One of the faults in `exercises/script/train.py` is this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair it; in a terminal, this says whether it is gone:
#
#     ddp-course check --suspect 11 exercises/script/train.py
#
# ## Deeper: agree, and skip together
#
# The smallest change. After the forward all ranks say whether they are fine, by an all-reduce of one number. If somebody is not,
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


check(agree, "forward, first", "forward, last")

# %% [markdown]
# “DDP cannot recover by itself”: true, but a few lines around it can. The cost is a tiny all-reduce in each step and, in a failure,
# everybody's forward. The agreement protects the *model's* forward, not DDP's own part of it. When the second forward begins, DDP
# rebuilds its buckets, unless it has to find unused parameters. Here rank 1 gets no memory for that:

# %%
# %%ranks --watch --expect hang
check(agree, "rebuild", heads=False)

# %% [markdown]
# It is no rare place: new buckets are made before the old ones go (a comment in `_pre_forward` says so), so memory is short there.
#
# Now place the failure yourself. Rank 0 goes on, or all agree. Each choice runs on two real ranks.

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.out_of_memory.lab import explore_failures

explore_failures()

# %% [markdown]
# > **On GPUs.** NCCL carries GPU tensors only ([lesson 02](02_process_groups.ipynb)), so the flag is made on the device of the
# > batch, and `if fine:` waits for the GPU in each step. An allocation fails on the host, though. With
# > `init_process_group("cpu:gloo,cuda:nccl")`, or in a group of its own from `dist.new_group(backend="gloo")`, gloo reduces a flag on
# > the CPU, and nobody waits for the GPU. (NCCL needs GPUs.)
#
# ## Deeper: take part with zeros
#
# The forum's idea: the failed rank contributes zeros, so the others lose nothing. Run something tiny that fits, and multiply
# its loss by zero. DDP gets a gradient of zero from that rank.

# %%
p = predict("11.zeros")

# %%
# %%ranks --predicted
rank, world = dist.get_rank(), dist.get_world_size()
ddp = DistributedDataParallel(Detector())
((rank != 1) * ddp(image(1, bad=()))).backward()
round(ddp.module.weights[0].grad.item(), 1)

# %% [markdown]
# Two thirds of the mean over ranks 0 and 2. DDP divides by the number of *ranks*, not by that of contributions. A zero gradient
# is a vote for standing still. The whole way, with the correction:


# %%
# %%ranks
def zeros(ddp, optimizer, x):
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
            parameter.grad *= world / good
    optimizer.step()


check(zeros, "forward, first", "forward, last", heads=False)

# %% [markdown]
# So multiply by *ranks / good ranks*, after backward and before clipping. (Unequal batches: weigh by samples, as in
# [lesson 05](05_stragglers.ipynb).) There are four traps:
#
# - A head that only the failed batch has used gets zeros, not None, so weight decay moves it. Hence a model in which no head is unused.
# - 0 × infinity is NaN. The tiny batch must be harmless.
# - A BatchNorm takes the tiny batch into its statistics, and refuses a single sample in train mode. Hence two samples.
# - DDP broadcasts buffers before a forward that follows a training one ([lesson 09](09_synchronised.ipynb)). Only the failed rank makes
#   a second forward. Hence the line before it. (No document mentions that attribute.)
#
# The hole stays: if DDP's own part of the forward gets no memory, the ranks are stuck. A failure in backward ends the job, because some
# gradients have been reduced already.
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
# (`Join.notify_join_context`, `torch/distributed/algorithms/join.py`). Rank 1 said so, failed, and said it again. That meets a
# bucket of rank 0, and gloo aborts the process. `Join` does not help a loop that swallows errors.
#
# ## Deeper: catch up
#
# “Could the failed rank not re-run just the missing buckets?” *Tricky if not impossible*, a forum says. But think of what
# the others see: they wait in an all-reduce, and do not know why. If the missing buckets come before the timeout, by whatever means,
# that was a slow rank and nothing else.
#
# So: a communication hook notes which buckets have left. After a failure, compute the batch again, in halves, without DDP.
# Fill the buckets that have *not* left, send them, and take the means from all. Here on a model without a BatchNorm, in which all
# heads are used:


# %% claims={"13": "incomplete"}
# %%ranks
def noting(sent, bucket):
    work = dist.all_reduce(bucket.buffer().div_(world), async_op=True)
    sent[bucket.index()] = work.get_future().then(lambda done: done.value()[0])
    return sent[bucket.index()]


def catch_up(ddp, optimizer, x):
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
        for part in x.chunk(2):
            loss = loss_of(ddp.module, part) * len(part) / len(x)
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


places = "forward, last", "backward, first", "backward, middle", "backward, last"
check(catch_up, *places, norm=False, heads=False)

# %% [markdown]
# **As if nothing had failed**, at each of these places. No batch is lost, and the other ranks do nothing but wait. What does not survive:
#
# - With `find_unused_parameters=True`, the flag of the question's author, the good ranks also all-reduce a map of the parameters
#   they have used. The failed rank does not. Its next collective meets that map, and gloo aborts a process.
# - DDP's own part of the forward is inside the `try`: a failure there is a hang.
# - A BatchNorm sees halves here, and dropout does not compute the same twice. All ranks still end with equal weights, but not
#   with those of a run in which nothing failed.
# - `_get_zeros_like_grad_buckets` and `_reset_state` begin with an underscore (they exist for `Join` and for changing groups),
#   so pin your torch version. The second try must fit.
#
# ## Deeper: reset DDP in place
#
# “Can I reset DDP's state?” The rank that has failed cannot do it alone: the others are in an all-reduce. “Wrap the model again” is
# advised:

# %% claims={"15": "incomplete"}
# %%ranks --watch --expect hang
ddp = DistributedDataParallel(Detector())
for number in range(1, 6):
    failed = False
    try:
        ddp(image(number, place=2)).backward()
    except RuntimeError as error:
        failed = out_of_memory(error)
    if failed:
        ddp = DistributedDataParallel(ddp.module)

# %% [markdown]
# The constructor makes collectives, too, and the others are in another one. All must wrap again, so all must *notice*. “Issue the
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
if rank < 2:
    dist.destroy_process_group(impatient)

# %%
print("rank 0:", [text.partition(" 400ms")[0].partition(" [")[0] for text in out["said"][0]])
print("rank 1:", out["said"][1].count("ok"), "of", len(out["said"][1]), "succeeded")

# %% [markdown]
# After a timeout gloo has closed the connection, and the group does not open it again. A *new* group is needed, and DDP can be moved to
# one. `_update_process_group` (`torch/nn/parallel/distributed.py`) resets the reducer in place; wrapper and optimizer stay. The failed
# rank moves at once, the others when the old group's timeout has passed. So the new group's timeout must be longer than the old one's.
# With `use_local_synchronization=True`, making a group needs no collective in the group that is broken.
#
# Ranks notice a failure at different moments, so two things must be made sure:
#
# - *All mean the same new group.* Its name is made of the members and of a count of this rank's groups (`_hash_ranks_to_str`). All ranks
#   leave each broken group once, so equal counts stay equal. (The cell above destroys its group for that reason.)
# - *All mean the same step.* The last all-reduce of a step may succeed on two ranks and fail on the third. Then two take the step, and
#   the third does not know. So all compare their step numbers afterwards.
#
# And `except` must know all of gloo's messages. Most name the file that they come from. The one that rank 1 has just received does
# not:


# %% claims={"15": "incomplete"}
# %%ranks
def connection_lost(error):
    return "gloo/transport" in str(error) or "caused pair closure" in str(error)


def reset_in_place(ddp, optimizer, x):
    ddp.number = getattr(ddp, "number", 0) + 1
    for attempt in range(3):
        optimizer.zero_grad()
        try:
            loss_of(ddp, x).backward()
            dist.all_reduce(torch.ones(()), group=ddp.process_group)  # all are through: all may step
            break
        except RuntimeError as error:
            if attempt == 2 or not (out_of_memory(error) or connection_lost(error)):
                raise
        new = dist.new_group(use_local_synchronization=True, timeout=timedelta(seconds=30))
        ddp._update_process_group(new)
        furthest = torch.tensor(ddp.number)
        dist.all_reduce(furthest, dist.ReduceOp.MAX, group=new)
        if furthest > ddp.number:  # others have taken this step, so this rank has all gradients, too
            break
    optimizer.step()


for place in ("later buffers", "backward, middle"):
    check(reset_in_place, place, process_group=dist.new_group(timeout=timedelta(seconds=3)))

# %% [markdown]
# Nothing is lost. The step is done again, and the weights are those of a run in which nothing failed. (All BatchNorm statistics
# have seen that batch twice.) It costs the others' timeout. The all-reduce before the step is needed: without it, a failure after the
# last bucket lets the others step alone. A batch that does not fit fails three times and ends the job. Whatever else goes wrong while
# the ranks move ends in the new group's timeout. `_update_process_group` is private. A communication hook keeps the old group: give it
# the new one yourself, says the docstring.
#
# > **On GPUs (NCCL).** The others receive no exception at the timeout: by default a watchdog thread ends their *process*
# > (`TORCH_NCCL_ASYNC_ERROR_HANDLING`, 3 by default, in PyTorch's documentation, *ProcessGroupNCCL Environment Variables*), so
# > the `except` above is never reached. (NCCL needs GPUs.) With NCCL, average by hand or restart.
#
# ## Deeper: what each way costs
#
# With a failure in one of *n* steps, a way costs *its overhead in each step + its price ÷ n*. A restart costs nothing but
# checkpoints until a failure happens: it is cheap where failures are rare, and expensive where they are frequent.
#
# | way | survives a failure in | and where not | what is lost | in each step |
# | --- | --- | --- | --- | --- |
# | by hand | forward and backward | the optimizer: all end | one batch; in pieces, none | no overlap with backward |
# | restart | any place, if it does not come back | | all steps since the checkpoint | a checkpoint now and then |
# | agree, skip together | the model's forward | DDP's own part of the forward: stuck. Backward: all end | everybody's batch | one all-reduce of 1 number |
# | zeros, corrected | the model's forward, if no head may be unused | DDP's own part of the forward, with buffers: stuck. Backward: all end | one batch | one all-reduce of 1 number |
# | catch up | the model's forward, backward | DDP's own part of the forward: stuck. `find_unused_parameters`: a rank is aborted | nothing (a BatchNorm: different weights) | one all-reduce of 1 number; private functions |
# | reset in place (gloo only) | forward and backward | the optimizer: all end | nothing; the others' timeout | one all-reduce of 1 number; private functions |
#
# “All end” is what you want of a failure that cannot be repaired: `torchrun` then restarts them. “Stuck” is not.
#
# All ranks must choose the same way, so all must decide by the same number. A rank that counts its own failures takes a different code
# path, and the others wait for it. A step fails when *any* rank fails, and it counts once, however many ranks fail in it.
#
# ## Further reading
#
# - `torch/csrc/distributed/c10d/reducer.cpp` in PyTorch's repository: `prepare_for_backward`, `mark_variable_ready`,
#   `ensure_prior_reduction_finished` and `reset_state`.
# - `torch/nn/parallel/distributed.py`: `_update_process_group` and its note on shrinking and growing.
# - PyTorch, *Frequently Asked Questions* (in the notes of the documentation): why recovery belongs outside the `except` block.
#
# **Next:** [lesson 12](12_elastic.ipynb), *Elastic training*. Or back to the [index](index.ipynb).
