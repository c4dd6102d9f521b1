# %% [markdown]
# # 04 · Gradients, hooks and buckets
#
# > *“When exactly does DDP talk: in `backward()`, in `step()`, all the time? And should I touch `bucket_cap_mb`?”*
#
# `DistributedDataParallel` is some 2,700 lines of Python, and more of C++, around an idea of three: *compute gradients, average
# them over all ranks, step*. In this lesson you build it from nothing, in five steps, and compare each with one process that
# sees the whole batch. Then you open the real one and look what it does differently.
#
# **You will be able to** write DDP yourself, say which gradients travel together and when, read a timeline, and tell a
# setting that matters from one that does not. 35 minutes. **Before this:** lesson 00.

# %%
# %load_ext course_lib

# %% [markdown]
# ## The measure: one process, whole batch
#
# 256 handwritten digits, a network of ten layers (8 MiB of weights), two ranks. Each rank takes every second digit. What is
# right is decided by a copy of the model that does `backward()` on all 256, on every rank, alone.

# %%
# %%ranks 2
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.data import load_digits

rank, world = dist.get_rank(), dist.get_world_size()
images, labels = load_digits()
inputs = torch.from_numpy(images[:256]).float().flatten(1) / 16
targets = torch.from_numpy(labels[:256]).long()


def make_model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 512), torch.nn.ReLU()]
    for _ in range(8):
        layers += [torch.nn.Linear(512, 512), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(512, 10))


def backward(model, part=slice(rank, None, world)):
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs[part]), targets[part]).backward()


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


alone = make_model()
backward(alone, part=slice(None))


def error(model):
    """How far the gradient is from that of the whole batch, in parts of its length."""
    right = gradients(alone)
    return ((gradients(model) - right).norm() / right.norm()).item()


model = make_model()
backward(model)
print("own half of the batch: right?", error(model) < 1e-5)

# %% [markdown]
# Half a batch gives another gradient. If each rank stepped with its own, there would soon be two models.
#
# ## Step 1: average after backward
#
# The sum of the ranks' gradients, divided by their number. That is all the mathematics there is in DDP.

# %%
# %%ranks --trace --as one_by_one
backward(model)
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
    parameter.grad /= world
print("averaged: right?", error(model) < 1e-5)

# %% [markdown]
# It is the gradient of the whole batch, for three reasons: the loss is a mean; the halves are equally large (when they are not:
# lesson 05); and no sample's loss depends on another sample. With a BatchNorm in the model (lesson 09) or a contrastive loss
# (lesson 07), it is not. A correct data-parallel trainer in three lines. What is wrong with it is only its speed, for two reasons.
#
# ## Step 2: one flat buffer
#
# The first reason: every tensor was sent on its own.

# %%
len(one_by_one.collectives[0])

# %% [markdown]
# Twenty all-reduces for ten layers, and ten of them carry a bias: 2 KiB at most. What does a call cost, and what do bytes cost?

# %%
# %%ranks --as out
import time

timings = []
for power in range(2, 25, 2):
    tensor = torch.zeros(2**power // 4)
    best = float("inf")
    for _ in range(30 if power < 20 else 3):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        best = min(best, time.perf_counter() - begin)
    timings.append((2**power, best))
len(timings)

# %%
import matplotlib.pyplot as plt

sizes, seconds = zip(*out["timings"][0], strict=True)
_, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
axes.loglog(sizes, [1e3 * s for s in seconds], "o-", color="#0072B2", base=2)
axes.set_yscale("log", base=10)
axes.set_xticks([2**p for p in range(2, 25, 4)], ["4 B", "64 B", "1 KiB", "16 KiB", "256 KiB", "4 MiB"])
axes.set(
    title=f"16,384 times as many bytes (4 B to 64 KiB) take {seconds[7] / seconds[0]:.1f} times as long",
    xlabel="size of the tensor",
    ylabel="one all-reduce (ms)",
)
plt.show()

# %% [markdown]
# Up to some size the curve is flat: you pay for the *call*. Only then bytes begin to count. So put all gradients into one
# tensor and send that. The price is a second copy of all gradients.

# %%
# %%ranks --trace --as flat
backward(model)
buffer = gradients(model)
dist.all_reduce(buffer)
buffer /= world
pieces = buffer.split([p.numel() for p in model.parameters()])
for parameter, piece in zip(model.parameters(), pieces, strict=True):
    parameter.grad.copy_(piece.view_as(parameter))
print("averaged: right?", error(model) < 1e-5)

# %%
len(flat.collectives[0])

# %% [markdown]
# ## Step 3: hooks, while backward is still running
#
# The second reason: the network idles during `backward()`, and then everybody idles for the network. But gradients do not
# appear all at once. `register_post_accumulate_grad_hook` calls you for each parameter, as soon as its `.grad` is complete.

# %%
p = predict(
    "A hook on every parameter notes its name. Which is noted first?",
    {
        "0.weight: the first layer, as in the forward": lambda out: out.values[0][0].startswith("0."),
        "18.weight or 18.bias: the last layer": lambda out: out.values[0][0].startswith("18."),
        "any: autograd runs them in parallel": lambda out: len(set(map(tuple, out.values.values()))) > 1,
    },
)

# %%
# %%ranks --predicted
ready = []
noting = [
    parameter.register_post_accumulate_grad_hook(lambda _, name=name: ready.append(name))
    for name, parameter in model.named_parameters()
]
backward(model)
for handle in noting:
    handle.remove()
ready[:4] + ready[-2:]

# %% [markdown]
# Backward goes from the loss to the input, so the last layer is ready first, while nine layers are still to be computed.
# Start its all-reduce right there, with `async_op=True`: the call returns a `Work` at once, threads of gloo's (with NCCL, a
# stream on the GPU) do the rest. Whoever needs the result calls `wait()`.

# %%
# %%ranks --trace --as hooked
works = []


def start_all_reduce(parameter):
    parameter.grad /= world
    works.append(dist.all_reduce(parameter.grad, async_op=True))


handles = [parameter.register_post_accumulate_grad_hook(start_all_reduce) for parameter in model.parameters()]

backward(model)
for work in works:
    work.wait()
print("averaged: right?", error(model) < 1e-5)

# %% [markdown]
# The gradient is divided *before* it is sent. DDP does so too (`Reducer::mark_variable_ready_dense`); in half precision that
# keeps a sum over many ranks from overflowing.
#
# And if you forget the `wait()`? Rank 1 starts its backward only after rank 0 is through with its own:

# %%
# %%ranks
works.clear()
if rank == 1:
    dist.recv(torch.empty(1), src=0)
backward(model)
if rank == 0:
    print("backward() has returned: right?", error(model) < 1e-5)
    dist.send(torch.ones(1), dst=1)
for work in works:
    work.wait()
print("after wait(): right?", error(model) < 1e-5)

# %% [markdown]
# Rank 0 came through its `backward()` alone. An `optimizer.step()` in that place would raise nothing; it would use
# whatever is in the tensors at that moment. DDP waits for you, at the end of `backward()`.
#
# ## Step 4: buckets
#
# Step 2 made few messages, step 3 early ones. You cannot have one message *and* have it early, so compromise: collect the
# gradients of neighbours in a **bucket**, send it when its last gradient is there.

# %%
# %%ranks --trace --as bucketed
for handle in handles:
    handle.remove()
cap = 2**20  # bytes
queue, collected, under_way = list(reversed(list(model.parameters()))), [], []


def collect(parameter):
    collected.append(parameter)
    if sum(q.grad.nbytes for q in collected) >= cap or parameter is queue[-1]:
        flat = torch.cat([q.grad.flatten() for q in collected]) / world
        under_way.append((list(collected), flat, dist.all_reduce(flat, async_op=True)))
        collected.clear()


handles = [parameter.register_post_accumulate_grad_hook(collect) for parameter in queue]
backward(model)
for members, flat, work in under_way:
    work.wait()
    for parameter, piece in zip(members, flat.split([q.numel() for q in members]), strict=True):
        parameter.grad.copy_(piece.view_as(parameter))
print(len(under_way), "all-reduces, averaged: right?", error(model) < 1e-5)

# %% [markdown]
# This is DDP in miniature. It is right for this model, once. It fails with a frozen parameter (which takes no hook), where the
# parameter that was registered first is not the last one ready, or never is (what is left then is never sent), with buffers
# (nobody shares them), and in a second iteration (`under_way` is never emptied). The last task is to cope with all that.
#
# ## Step 5: see the overlap
#
# The four cells above carried `--trace`, so they recorded who did what when. Here is rank 0 in each of them:

# %%
from course_lib.lab.buckets import draw_backward

traced = {"one by one": one_by_one, "one flat buffer": flat, "hooks": hooked, "buckets": bucketed}
draw_backward(
    {name: (outcome, 0) for name, outcome in traced.items()},
    "Hooks and buckets send while backward still computes",
    one_clock=False,
)

# %% [markdown]
# With hooks the orange bars begin early in the blue ones; without, they begin after blue has ended (with the flat
# buffer a little later still: first the gradients are copied together, which is not drawn). How much time that saves
# depends on what sends. Here the ranks' processors do both, so an overlapped backward may itself be slower, and on a
# laptop the total may hardly change. Where a network card sends while a GPU computes, overlap is nearly free: that is
# what DDP is built for.

# %% [markdown]
# ## The real one: what it sends, and when
#
# Three iterations of `DistributedDataParallel`, and everything that rank 0 issued.
#
# “DDP synchronises gradients and parameters” is often said. Look for the parameters:

# %%
# %%ranks --as out
ddp = DistributedDataParallel(make_model())
for _ in range(3):
    backward(ddp)
print("right?", error(ddp.module) < 1e-5)

# %% claims={"37": "wrong"}
for sent in out.collectives[0]:
    print(f"{sent.stage:13}{sent.op:11}{sent.dtypes[0]:6}{sent.sizes[0][0]:>10,}")
after_construction = [sent for sent in out.collectives[0] if sent.stage != "construction"]
assert all(sent.op == "all_reduce" for sent in after_construction if sent.dtypes[0] == "Float")

# %% [markdown]
# Line by line:
#
# - **Construction.** The ranks compare how many parameters they have and of which shapes
#   (`_verify_param_shape_across_processes`), then rank 0's weights go to everybody (`_sync_module_states`; both are called
#   in `DistributedDataParallel.__init__`, `torch/nn/parallel/distributed.py`). In training, parameters do not travel again:
#   they stay equal because equal weights take equal steps. (At the end of a `join()` they do: lesson 05.)
# - **Iteration 0.** *One* all-reduce of all 2,139,658 gradients, at the very end: no overlap at all.
# - **Rebuild.** Two small broadcasts of whole numbers, in the forward of iteration 1: which parameter goes into which
#   bucket from now on (`Reducer::rebuild_buckets` and `sync_bucket_indices`, `torch/csrc/distributed/c10d/reducer.cpp`).
# - **Iterations 1, 2, ...** Two all-reduces: 267,786 numbers (1 MiB) early, then the rest.
#
# ### Who waits when one rank has no backward
#
# Between `backward()` and `optimizer.step()` the gradients are there already, averaged. So who waits, and where, if rank 1
# has no backward?


# %%
def waits_in(out):
    return "".join(waiting.source for waiting in out.waiting.values())


p = predict(
    "Rank 1 does its forward but skips backward(). Where does rank 0 end up?",
    {
        "in optimizer.step(): it needs the gradients of all": lambda out: "step()" in waits_in(out),
        "in backward(): it does not return": lambda out: "backward()" in waits_in(out),
        "nowhere: it uses the gradient it has": "ok",
    },
)

# %% claims={"4": "holds"}
# %%ranks --predicted --as out
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
loss = torch.nn.functional.cross_entropy(ddp(inputs), targets)
if rank == 0:
    loss.backward()
    optimizer.step()

# %% [markdown]
# In `backward()`: when the last gradient is computed, `Reducer::finalize_backward` (`reducer.cpp`) waits for every bucket,
# and only then does `backward()` return. (With NCCL the GPU's stream waits instead of the program.) `optimizer.step()` sends
# nothing. It does not know that there are ranks.
#
# The same wait is why nobody is left behind. Rank 1 now needs a fifth of a second longer than rank 0 in every backward.
# Does its half of the gradient come too late?

# %% claims={"36": "holds"}
# %%ranks --trace --as late
if rank == 1:
    slow = list(ddp.parameters())[10].register_post_accumulate_grad_hook(lambda _: time.sleep(0.2))
backward(ddp)
if rank == 1:
    slow.remove()
print("right?", error(ddp.module) < 1e-5)
assert error(ddp.module) < 1e-5

# %% [markdown]
# No gradient is thrown away; there is no deadline but the timeout of the process group. The price is paid by the fast rank:

# %%
draw_backward(
    {f"rank {r}": (late, r) for r in (0, 1)}, "Rank 0 is done early, and waits in backward() for rank 1"
)

# %% [markdown]
# ## Which gradients travel together
#
# `bucket_cap_mb` says how full a bucket gets (`bucket_cap_mb_list` says it for each bucket). A **communication hook**
# lets you watch: DDP calls it for each bucket instead of its own all-reduce. This one notes the size and then does
# what DDP would have done.

# %%
# %%ranks
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook


def watch(ddp, steps=2):
    """MiB of each bucket, in the order in which they are sent, for each of the first iterations."""

    def note(state, bucket):
        seen[-1].append(round(bucket.buffer().nbytes / 2**20, 2))
        return allreduce_hook(None, bucket)

    ddp.register_comm_hook(None, note)
    seen = []
    for _ in range(steps):
        seen.append([])
        backward(ddp)
    return seen


watch(DistributedDataParallel(make_model()), steps=3)


# %% claims={"38": "refined"}
# %%ranks --as out
sizes = {}
for cap_mb in (0.5, 1, 4, 25, None):
    sizes[cap_mb] = watch(DistributedDataParallel(make_model(), bucket_cap_mb=cap_mb))
    print(
        f"bucket_cap_mb={cap_mb!s:4}  all-reduces in iterations 0 and 1:", [len(one) for one in sizes[cap_mb]]
    )
assert all(len(first) == 1 for first, *_ in sizes.values())

# %% [markdown]
# “Smaller buckets, more all-reduces” holds, but not in iteration 0, which had one each time. Two surprises are left in this
# table. First, `0.5` and `1` give the same number. Second, `None` is documented as 25 MiB; yet 25 gives one bucket and `None`
# two.
#
# ### When a bucket is closed

# %%
p = predict(
    "Hidden layers of 1 MiB each, bucket_cap_mb=1.5. How large is a bucket in the middle?",
    {
        "1 MiB: with a second layer it would exceed the cap": lambda out: round(out.values[0][1]) == 1,
        "1.5 MiB: a layer is split": lambda out: out.values[0][1] == 1.5,
        "2 MiB: the cap may be exceeded": lambda out: round(out.values[0][1]) == 2,
    },
)

# %%
# %%ranks --predicted
watch(DistributedDataParallel(make_model(), bucket_cap_mb=1.5))[-1]

# %% [markdown]
# Parameters are added one after the other; when the sum is at least the cap, the bucket is closed
# (`compute_bucket_assignment_by_size`, `reducer.cpp`). A gradient is never split. So the cap is not an upper limit, and one
# embedding of 2 GiB makes a bucket of 2 GiB or more, whatever you set.
#
# ### The small first bucket
#
# Left alone, DDP closes the first bucket at 1 MiB and all others at 25 (`_BucketCapacityConfig`, `distributed.py`): something
# small is on its way soon. But `bucket_cap_mb=25` is *not* the default written out: it sets both limits. The course's
# `buckets` reads them from a model:

# %%
# %%ranks --as out
from course_lib.watch import buckets

ddp = DistributedDataParallel(make_model())
for _ in range(2):
    backward(ddp)
seen = buckets(ddp)
len(seen.built), len(seen.rebuilt)

# %%
out["seen"][0].plot("Default: the small bucket holds the last layers and goes first")

# %% [markdown]
# With `find_unused_parameters=True` it is the other way round:

# %%
# %%ranks
watch(DistributedDataParallel(make_model(), find_unused_parameters=True))

# %% [markdown]
# Two buckets from the start, and the small one is sent *last*. Such a model keeps the buckets of its constructor, which goes
# through the parameters as they are registered and then reverses the list of buckets (`_ddp_init_helper`, `distributed.py`):
# the small one holds the *first* layers. (The warning is right: nothing is unused in this model.)
#
# ### Rebuilt in the order of arrival
#
# You will read that buckets are filled “in reverse order of `model.parameters()`”. That is a guess about the order in which
# gradients appear, and DDP uses it for iteration 0 only. Then it looks. In this model the guess would be wrong:


# %%
# %%ranks
class Crossed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.second = torch.nn.Linear(8, 8, bias=False)
        self.third = torch.nn.Linear(8, 8, bias=False)
        self.first = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return self.third(self.second(self.first(x)))


crossed = DistributedDataParallel(Crossed(), bucket_cap_mb=0.0001)
for iteration in range(2):
    print(
        f"before iteration {iteration}:",
        *[" ".join(bucket.parameters) for bucket in buckets(crossed).now],
        sep=" | ",
    )
    crossed(torch.ones(2, 8)).sum().backward()
print("after iteration 1: ", *[" ".join(bucket.parameters) for bucket in buckets(crossed).now], sep=" | ")

# %% [markdown]
# In iteration 0 everything travels in one bucket, and the reducer notes the order of arrival (`push_rebuilt_params`). The
# next forward makes the buckets anew in that order; rank 0's order is broadcast, because ranks that put different gradients
# into “bucket 1” would add up apples and pears. It happens once. A graph that changes later keeps the buckets it has.
#
# For the same reason buckets are started strictly in order, whichever is full first: bucket 1 waits until bucket 0 has been
# sent (`next_bucket_` in `Reducer::mark_bucket_ready`).
#
# ## Play with it
#
# `show_step` starts two ranks, trains three iterations and draws the last one. Call it with any cap:

# %%
from course_lib.lab.buckets import sent_and_waited
from course_lib.running import run_quietly


def three_steps(bucket_cap_mb):
    import torch
    from torch.nn.parallel import DistributedDataParallel

    layers = [torch.nn.Linear(512, 512) for _ in range(8)]
    ddp = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=bucket_cap_mb)
    for _ in range(3):
        ddp(torch.ones(128, 512)).sum().backward()


def show_step(bucket_cap_mb):
    outcome = run_quietly(three_steps, bucket_cap_mb, ranks=2, trace=True)
    sent, waited = sent_and_waited(outcome, 0)
    rows = {f"rank {rank}": (outcome, rank) for rank in (0, 1)}
    title = f"bucket_cap_mb={bucket_cap_mb}: {sent} all-reduces"
    return draw_backward(rows, title, note=f"rank 0 waits {waited:.1f} ms")


show_step(1)

# %% [markdown]
# The same with a slider: drag it, or give it the focus and use the arrow keys. (`show_step(3)` in a cell does the same.) Every
# position is a run of its own; nothing is computed in advance.

# %%
import ipywidgets

slider = ipywidgets.SelectionSlider(
    options=[0.5, 1, 2, 3, 4, 8, 25, None], value=1, description="bucket_cap_mb", continuous_update=False
)
slider.style.description_width = "initial"
picture = ipywidgets.HTML(
    "<i>Move the slider: two ranks start, and the picture comes in a second or two.</i>"
)


def redraw(change):
    picture.value = show_step(change["new"]).svg()


slider.observe(redraw, names="value")
ipywidgets.VBox([slider, picture])

# %% [markdown]
# Look at the last orange bar. What is sent while blue computes costs little time; what is sent after blue has ended is
# waited for. One bucket: all of it is waited for. Many: at best only the last one (if sending is slower than computing, they
# queue up), but every call costs what a call costs. Where the best cap lies depends on your network and your model, so no
# forum can tell you: measure.
#
# ## Two models in one backward
#
# “The all-reduces of two DDP models do not interleave”: a loss through `A(B(x))`, so surely A's buckets are finished before
# B's begin? Rank 1 starts its backward only when rank 0 *has started B's all-reduce*. If B had to wait for A, this cell would
# hang.

# %% claims={"2": "wrong"}
# %%ranks
B, A = DistributedDataParallel(torch.nn.Linear(8, 8)), DistributedDataParallel(torch.nn.Linear(8, 1))
log, under_way = [], {}


def send(name, bucket):
    log.append(f"{name} starts")
    under_way[name] = dist.all_reduce(bucket.buffer().div_(world), async_op=True)
    if name == "B" and rank == 0:
        log.append("A is done" if under_way["A"].is_completed() else "A is still under way")
        dist.send(torch.ones(1), dst=1)
    return under_way[name].get_future().then(lambda future: future.value()[0])


A.register_comm_hook("A", send)
B.register_comm_hook("B", send)
loss = A(B(torch.ones(4, 8))).sum()
if rank == 1:
    dist.recv(torch.empty(1), src=0)
loss.backward()
log

# %% [markdown]
# Both are under way at once: each model's reducer waits for its buckets in a callback that autograd runs when the *whole*
# backward is over (`queue_callback` in `Reducer::mark_variable_ready`). It does no harm, because every rank starts A before
# B. Where ranks disagree about that order, they hang or mix up models: lesson 06.
#
# ## gradient_as_bucket_view
#
# A bucket is a copy of gradients, so DDP needs the memory of all gradients twice. Unless `.grad` *is* a piece of the bucket:

# %%
# %%ranks
for view in (False, True):
    ddp = DistributedDataParallel(make_model(), gradient_as_bucket_view=view)
    for _ in range(2):
        backward(ddp)
    memory = {
        p.grad.untyped_storage().data_ptr(): p.grad.untyped_storage().nbytes() for p in ddp.parameters()
    }
    print(
        f"gradient_as_bucket_view={view!s:5}  .grad lives in",
        [round(n / 2**20, 2) for n in memory.values()],
        "MiB",
    )
    assert error(ddp.module) < 1e-5

# %% [markdown]
# Twenty tensors of their own, beside two buckets of the same total size; or two buckets and nothing else. The gradients are
# right either way. 8 MiB are saved, and with them the copies from the buckets back into `.grad`
# (`Reducer::finalize_bucket_dense`). What you give up: a view cannot be detached in place.

# %%
# %%ranks --expect raises:RuntimeError
ddp.module[0].weight.grad.detach_()

# %% [markdown]
# ## What goes wrong in real life
#
# **A layer that is not used.**

# %%
p = predict(
    "A model with a layer that its forward never calls. After the first backward(), the gradient of the used layer is",
    {
        "the mean over the ranks: 1.5 on both": lambda out: (
            out.kind == "ok" and set(out.values.values()) == {1.5}
        ),
        "each rank's own: 1 on rank 0, 2 on rank 1": lambda out: (
            out.kind == "ok" and out.values == {0: 1.0, 1: 2.0}
        ),
        "never there: backward() raises": "raises",
    },
)


# %%
# %%ranks --predicted
class Spare(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used = torch.nn.Linear(4, 4)
        self.spare = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.used(x)


ddp = DistributedDataParallel(Spare())
ddp(torch.ones(1, 4) * (rank + 1)).sum().backward()
ddp.module.used.weight.grad[0, 0].item()

# %% [markdown]
# Nothing was averaged, and nothing said so. In iteration 0 all gradients share one bucket; the spare layer's never come, so
# it is never sent. An `optimizer.step()` now makes two models. The error comes in the *next* forward:

# %%
# %%ranks --expect raises:RuntimeError
try:
    ddp._check_reducer_finalized()
except RuntimeError as error:
    print("asked at once:", str(error).partition(" before")[0])
ddp(torch.ones(1, 4))

# %% [markdown]
# Ways out are `find_unused_parameters=True` (then zeros are sent in place of a gradient that did not come, and ranks that had
# none get the mean, too), `static_graph=True`, or to delete the layer: lesson 08. While you develop,
# call `ddp._check_reducer_finalized()` after the first backward (a private name, so it may change): it raises the same error
# before the optimizer does any harm.
#
# **A hook that has the wrong parameter name.** DDP insists on the second one being called `bucket`, and says so in its own way:


# %% claims={"S18": "wrong"}
# %%ranks --expect raises:KeyError
def my_hook(state, gradients):
    return allreduce_hook(state, gradients)


crossed.register_comm_hook(None, my_hook)

# %% [markdown]
# **Measured the first iteration.** It has one bucket, no overlap, and the second has the rebuild. Warm up for three before you
# compare settings.
#
# **“I tuned `bucket_cap_mb` to 25, and it is not what it was.”** You have switched the small first bucket off: in the
# table above, 25 is one bucket for the whole model, sent when nothing is left to compute. Leave the option out, or
# measure.
#
# ## Rule of thumb
#
# > Averaging happens in `backward()`, bucket by bucket, last layers first; `step()` is local. Leave `bucket_cap_mb` alone until a
# > timeline shows you a long wait at the end of `backward()`. Set `gradient_as_bucket_view=True` when memory is short.
#
# ## Your turn
#
# Three tasks wait in [exercises/04_buckets](../exercises/04_buckets.ipynb): DDP in its first form, the list of buckets predicted
# before DDP makes it, and DDP with buckets that copes with real models.
#
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `_BucketCapacityConfig` and `_ddp_init_helper` are the Python half of this lesson.
# - PyTorch, *Distributed Data Parallel* (design note) and *DDP Communication Hooks* in the documentation.
# - Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB 2020: why buckets.
# - Stanford CS336, assignment 2, has you write the same classes; the solutions of this lesson's tasks fit its interface.
#
# **Back to:** the [index](index.ipynb).
