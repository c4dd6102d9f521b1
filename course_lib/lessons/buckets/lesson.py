# %% [markdown]
# # 04 · Gradients, hooks and buckets
#
# > *“When exactly does DDP talk: in `backward()`, in `step()`, all the time? And should I touch `bucket_cap_mb`?”*
#
# On one GPU, `backward()` computes gradients. Under DDP it also packs them into **buckets** and sends them. Step through one
# backward on two ranks, with the buttons or the arrow keys.
#
# **You will be able to** write DDP yourself, say which gradients travel together and when, read a timeline, and choose
# `bucket_cap_mb` for a network. 50 minutes. **Before this:** lesson 00.

# %% tags=["two-hours-3"]
# %load_ext course_lib
from course_lib.lessons.buckets.lab import buckets_fill

buckets_fill()

# %% [markdown]
# How large should a bucket be? Two ranks run the same backward with three values of `bucket_cap_mb`. The model has 16 layers of
# 0.5 MiB. This is a toy: each layer *sleeps* 5 ms in backward, as your program does while a GPU computes, and the slow network
# between the ranks is also made of sleep (8 ms per message, 100 MiB per second). So the *shape* of what you see is that of a
# cluster; its numbers are not. (`--as out` keeps what the ranks have in the end.)

# %%
# %%ranks 2 --as out
from course_lib.lab.network import Network, sixteen_layers
from torch.nn.parallel import DistributedDataParallel

network, steps = Network(latency=0.008, bandwidth=100), {}
for cap in (0.5, 2, 25):
    ddp = DistributedDataParallel(sixteen_layers(), bucket_cap_mb=cap)
    steps[cap] = network.fastest_step(ddp)

# %% tags=["nbval-ignore-output"]
from course_lib.lab.network import draw_caps

draw_caps(out["steps"][0], out["network"][0])

# %% [markdown]
# The blue bars are the same in all rows: the same model computes the same gradients. Only the orange messages differ, and neither the
# smallest nor the largest buckets win. To see why, write DDP yourself in five steps.

# %% [markdown] tags=["two-hours-3"]
# ## The measure: one process, whole batch
#
# 256 handwritten digits, ten layers (8 MiB of weights), two ranks; each rank takes every second digit. `is_right` compares a
# model's gradients with those of a copy that has seen all 256 digits, alone. (`backward??` shows the code of what is imported.)

# %% tags=["two-hours-3"]
# %%ranks
import torch
import torch.distributed as dist
from course_lib.lessons.buckets.lab import backward, gradients, is_right, loss_of, make_model

rank, world = dist.get_rank(), dist.get_world_size()
model = make_model()
backward(model)
print("own half of the batch: right?", is_right(model))

# %% [markdown] tags=["two-hours-3"]
# Half a batch gives another gradient. If each rank stepped with its own, there would soon be two models.

# %% [markdown]
# ## Step 1: average after backward
#
# DDP computes the sum of the ranks' gradients, divided by the number of ranks:

# %%
# %%ranks --as one_by_one
backward(model)
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
    parameter.grad /= world
print("averaged: right?", is_right(model))

# %% [markdown]
# It is the gradient of the whole batch, for three reasons: the loss is a mean; the halves have equal sizes (when they do not:
# lesson 05); and no sample's loss depends on another sample. With a BatchNorm in the model (lesson 09) or a contrastive loss
# (lesson 07), it is not. So three lines average correctly. They are slow, for two reasons.
#
# ## Step 2: one flat buffer
#
# The first reason is that every tensor was sent on its own: 20 all-reduces for ten layers, and ten of them carry a bias of
# 2 KiB or less. What does a call cost, and what do bytes cost?

# %%
from course_lib.lessons.buckets.lab import plot_costs

plot_costs()

# %% [markdown]
# The left part of the curve is nearly flat: up to some size you pay for the *call*, and not for its bytes. So copy all gradients
# into one tensor and send that. The price is memory for a second copy of all gradients.

# %%
# %%ranks --as flat
backward(model)
buffer = gradients(model)
dist.all_reduce(buffer)
buffer /= world
pieces = buffer.split([p.numel() for p in model.parameters()])
for parameter, piece in zip(model.parameters(), pieces, strict=True):
    parameter.grad.copy_(piece.view_as(parameter))
print("averaged: right?", is_right(model))

# %%
len(one_by_one.collectives[0]), len(flat.collectives[0])

# %% [markdown]
# ## Step 3: hooks, while backward is still running
#
# The second reason: the network is idle during `backward()`, and then everybody waits for the network. But gradients do not
# appear all at once. `register_post_accumulate_grad_hook` calls a function for each parameter as soon as its `.grad` is complete.

# %%
# %%ranks
ready, names = [], {parameter: name for name, parameter in model.named_parameters()}
noting = [p.register_post_accumulate_grad_hook(lambda p: ready.append(names[p])) for p in names]
backward(model)
for handle in noting:
    handle.remove()
ready[:4] + ready[-2:]

# %% [markdown]
# Backward goes from the loss to the input, so the last layer is ready first, while nine layers are still to be computed.
# Start its all-reduce right there, with `async_op=True`: the call returns a `Work` at once, and gloo's own threads do the
# rest. Whoever needs the result calls `wait()`.

# %%
# %%ranks
works = []


def start_all_reduce(parameter):
    parameter.grad /= world
    works.append(dist.all_reduce(parameter.grad, async_op=True))


handles = [p.register_post_accumulate_grad_hook(start_all_reduce) for p in model.parameters()]

backward(model)
for work in works:
    work.wait()
print("averaged: right?", is_right(model))

# %% [markdown]
# The gradient is divided *before* it is sent, as in DDP (`Reducer::mark_variable_ready_dense`): in half precision that keeps a sum
# over many ranks from overflowing. Without the `wait()`, `optimizer.step()` would raise nothing and use what is there at that moment.
#
# ## Step 4: buckets
#
# Step 2 made few messages, step 3 early ones. One message cannot be early, so compromise: collect the gradients of
# neighbouring layers in a **bucket**, and send it when its last gradient is there.

# %%
# %%ranks
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
print(len(under_way), "all-reduces, averaged: right?", is_right(model))

# %% [markdown]
# This is DDP in miniature, and it is right for this model, once. It fails in four cases, which the last task handles:
#
# - A frozen parameter takes no hook.
# - The last bucket is sent when the *first* layer's gradient comes. In a model where another gradient comes last, or where the first
#   layer is not used, some gradients are never sent.
# - Buffers are not shared.
# - In a second iteration `under_way` still has the messages of the first.
#
# ## Step 5: see the overlap
#
# On this machine the ranks compute and send with the same cores, so overlap may save no time. On the network of the first screen,
# sending needs no core. Two ranks run your four versions there (the buckets have 2 MiB):

# %% tags=["nbval-ignore-output"]
from course_lib.lab.network import Network, draw_by_hand

draw_by_hand(Network(latency=0.008, bandwidth=100))

# %% [markdown]
# In the first two rows the orange bars begin where blue ends: nothing is sent while the layers compute. With hooks the first message
# starts after the first layer, but sixteen messages queue up. Buckets send few messages, and early ones.

# %% [markdown] tags=["two-hours-3"]
# ## The real one: what it sends, and when
#
# Now `DistributedDataParallel` itself, with its defaults, for three iterations of the model with ten layers (8 MiB). (`--predicted`
# says that a cell decides the question above it.)

# %% tags=["two-hours-3"]
p = predict("04.first_message")

# %% tags=["two-hours-3"]
# %%ranks --predicted --as out
ddp = DistributedDataParallel(make_model())
for _ in range(3):
    backward(ddp)
print("right?", is_right(ddp.module))

# %% [markdown] tags=["two-hours-3"]
# “DDP synchronises gradients and parameters” is often said. Here is everything that rank 0 issued. Look for the parameters:

# %% tags=["two-hours-3"] claims={"37": "wrong"}
for sent in out.collectives[0]:
    print(f"{sent.stage:13}{sent.op:11}{sent.dtypes[0]:6}{sent.sizes[0][0]:>10,}")

# %% [markdown] tags=["two-hours-3"]
# - **Construction.** The ranks compare how many parameters they have and of which shapes
#   (`_verify_param_shape_across_processes`), then rank 0's weights go to everybody (`_sync_module_states`; both are called
#   in `DistributedDataParallel.__init__`, `torch/nn/parallel/distributed.py`). In training, parameters do not travel again:
#   they stay equal because equal weights take equal steps. (At the end of a `join()` they do: lesson 05.)
# - **Iteration 0.** *One* all-reduce of all 2,139,658 gradients, at the very end. Nothing overlaps.
# - **Rebuild.** Two small broadcasts of whole numbers, in the forward of iteration 1: which parameter goes into which
#   bucket from now on (`Reducer::rebuild_buckets` and `sync_bucket_indices`,
#   [`reducer.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer.cpp)).
# - **Iterations 1, 2, ...** Two all-reduces: 267,786 numbers (1 MiB) early, then the rest.

# %% [markdown]
# ### Who waits: backward() or step()?
#
# Both ranks call `backward()`. After it, only rank 0 calls `optimizer.step()`. Then both train on, with another `backward()`.

# %%
p = predict("04.skips_step")

# %% claims={"4": "holds"}
# %%ranks --predicted
apart = DistributedDataParallel(make_model())
optimizer = torch.optim.SGD(apart.parameters(), lr=0.1)
backward(apart)
print("after backward(), without a step: right?", is_right(apart.module))
if rank == 0:
    optimizer.step()
backward(apart)
rank_0s = apart.module[0].weight.detach().clone()
dist.broadcast(rank_0s, src=0)
torch.equal(rank_0s, apart.module[0].weight)

# %% [markdown]
# The gradients are averaged when `backward()` returns: `Reducer::finalize_backward`
# ([`reducer.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer.cpp)) waits for every bucket.
# `optimizer.step()` sends nothing. It does not know that there are other ranks, so a step that one rank skips makes two models, and
# no error is raised.
#
# > **On GPUs (NCCL).** All-reduces run on another CUDA stream than the one that computes (the comment at the top of class
# > `ProcessGroupNCCL`,
# > [`ProcessGroupNCCL.hpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp)),
# > and `backward()` may return while buckets are still under way:
# > `WorkNCCL::wait` makes the current *stream* wait, and blocks the program only where a timeout or
# > `TORCH_NCCL_BLOCKING_WAIT` is given (`synchronizeStream` and `wait` in
# > [`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)).
# > So a rank that is late is
# > noticed later, where the program next waits for the GPU, as in `loss.item()`. (Read there, not run: it needs GPUs.)
#
# What if one rank's gradients come late? Rank 1 now needs a fifth of a second longer than rank 0 in its backward (`--trace` records
# what each rank does, and at which time):

# %% claims={"36": "holds"}
# %%ranks --trace --as late
import time

if rank == 1:
    ddp.module[10].weight.register_post_accumulate_grad_hook(lambda _: time.sleep(0.2))
backward(ddp)
print("right?", is_right(ddp.module))

# %% [markdown]
# No gradient is thrown away. There is no deadline but the timeout of the process group. The fast rank waits, in its striped bar:

# %%
from course_lib.lessons.buckets.lab import draw_backward

draw_backward(late)

# %% [markdown]
# ## Where overlap pays: choose a network
#
# Back to the network of the first screen. It is a **communication hook**: DDP calls it for each bucket instead of its own
# all-reduce, and takes the result from the future that it returns. This one starts the real all-reduce and completes the
# future after `latency + bytes / bandwidth`, one message after the other.

# %% tags=["nbval-ignore-output"]
from course_lib.lab.network import CAPS, measured_steps

network = Network(latency=0.008, bandwidth=100)
draw_caps(measured_steps(CAPS, network), network)

# %% [markdown]
# Each row is a run. Orange below blue is free; orange to the right of blue is waited for. Small buckets start early, but sixteen times
# 8 ms are more than the backward can hide. One large bucket pays the latency once and hides nothing.
#
# The dashed lines are computed by a few lines of Python (`computed_step??`): a bucket leaves when its last gradient is there and the
# network is free. Measured steps are a little longer, because copying and the real all-reduces take time as well.

# %%
p = predict("04.slow_messages")

# %%
# %%ranks --predicted --as out
network, steps = Network(latency=0.040, bandwidth=100), {}
for cap in (0.5, 2, 25):
    ddp = DistributedDataParallel(sixteen_layers(), bucket_cap_mb=cap)
    steps[cap] = network.fastest_step(ddp, 4)

# %% [markdown]
# The more a message costs, the larger the best bucket.
#
# Move the sliders. Which network makes the smallest cap the best one, and which makes all caps equal? Then choose a model and a network of
# real sizes, which are computed, because this machine has neither:

# %%
from course_lib.lab.network import explore_caps

explore_caps()

# %% [markdown]
# So should you touch `bucket_cap_mb`? Here is the same formula for two models of real sizes on four networks. It takes all tensors of
# a model to be of the same size:

# %%
from course_lib.lab.network import draw_against_default

draw_against_default()

# %% [markdown]
# On these, 25 and the default differ by less than 1 %. Very small caps hurt where messages are slow (the last row of each model). A cap of 100
# hurts where it holds a large part of the model, because its messages leave late. A smaller cap than 25 helps where the network needs
# about as long as the backward (-9.8 %). So estimate first.
#
# ### Estimate before measuring
#
# Write down three numbers for a model of yours: the bytes of its gradients (4 per parameter), the milliseconds that they take on your
# network (bytes ÷ bandwidth), and how many of those do not fit below the backward. Then replace the numbers in this cell:

# %%
from course_lib.lab.network import NETWORKS, estimate

estimate(parameters=1.1e9, tensors=200, backward_ms=400, network=NETWORKS["100 GbE: 50 us, 10 GiB/s"])

# %% [markdown]
# If the milliseconds that are left are few, `bucket_cap_mb` cannot save more than those.
#
# ## Which gradients travel together
#
# `bucket_cap_mb` says how full a bucket gets. `bucket_sizes` watches, with a communication hook that notes each bucket's size and
# then does what DDP would have done (`allreduce_hook`): MiB in the order in which buckets are sent, for the first two
# iterations.

# %% claims={"38": "refined"}
# %%ranks
from course_lib.lessons.buckets.lab import bucket_sizes

for cap in (0.5, 1, 4, 25, None):
    counts = [len(iteration) for iteration in bucket_sizes(bucket_cap_mb=cap)]
    print(f"bucket_cap_mb={cap!s:4}  all-reduces in iterations 0 and 1:", counts)

# %% [markdown]
# “Smaller buckets, more all-reduces” holds, but not in iteration 0. Two surprises are left. First, `0.5` and `1` give
# the same number. Second, `None` is documented as 25 MiB; yet 25 gives one bucket and `None` two.
#
# ### When a bucket is closed

# %%
p = predict("04.second_bucket")

# %%
# %%ranks --predicted
bucket_sizes(bucket_cap_mb=1.5)[-1]

# %% [markdown]
# Parameters are added one after the other; when the sum is at least the cap, the bucket is closed
# (`compute_bucket_assignment_by_size`,
# [`reducer.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer.cpp)).
# A gradient is never split. So the cap is not an upper limit, and one
# embedding of 2 GiB makes a bucket of 2 GiB or more, whatever you set.
#
# ### The small first bucket
#
# By default, DDP closes the first bucket at 1 MiB and all others at 25 (`_BucketCapacityConfig`, `distributed.py`), so that
# something small leaves soon. An explicit `bucket_cap_mb=25` sets *both* limits, so it is not the default. The course's
# `buckets` reads them from a model:

# %%
# %%ranks --as out
from course_lib.watch import buckets

ddp = DistributedDataParallel(make_model())
backward(ddp), backward(ddp)
seen = buckets(ddp)
len(seen.built), len(seen.rebuilt)

# %%
out["seen"][0].plot()

# %% [markdown]
# ## What goes wrong in real life
#
# **A layer that is not used.** Its gradient never comes: see “Deeper”, and lesson 08.
#
# **Measured the first iteration.** It has one bucket and no overlap, and the second has the rebuild. Warm up for three.
#
# **“I set `bucket_cap_mb` to 25, the default, and it got slower.”** You have switched the small first bucket off. In the toy above the
# whole model then fits into one bucket, which costs 6 %. In models of real sizes it costs less than 1 %: look for another reason.
#
# ## Rule of thumb
#
# > Averaging happens in `backward()`, bucket by bucket, last layers first; `step()` is local. Leave `bucket_cap_mb` alone until an
# > estimate, then a timeline, shows a long wait at the end of `backward()`. Then try larger caps if messages queue up, smaller ones if
# > the network is idle while backward runs. Set `gradient_as_bucket_view=True` when memory is short.
#
# ## Your turn
#
# Three tasks wait in [exercises/04_buckets](../exercises/04_buckets.ipynb): DDP in its first form, the list of buckets predicted
# before DDP makes it, and DDP with buckets that copes with real models.
#
# ## Deeper: a layer that is not used
#
# Two layers, and a forward that calls only one of them:

# %%
p = predict("04.unused_layer")

# %%
# %%ranks --predicted
model = torch.nn.Linear(4, 4)
model.spare = torch.nn.Linear(4, 4)  # a layer that forward never calls
ddp = DistributedDataParallel(model)
ddp(torch.ones(1, 4) * (rank + 1)).sum().backward()
model.weight.grad[0, 0].item()

# %% [markdown]
# Nothing was averaged, and there was no message. In iteration 0 all gradients share one bucket; the spare layer's never come,
# so it is never sent. An `optimizer.step()` now makes two models. The error comes in the *next* forward:

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
# ## Deeper: rebuilt in the order of arrival
#
# People say that buckets are filled “in reverse order of `model.parameters()`”. That is a guess about the order in which
# gradients appear; DDP uses it for iteration 0 only. In `crossed_model` the guess is wrong: its forward calls
# `first`, `second` and `third`, but `first` is registered last. Before each iteration, its buckets are:

# %%
# %%ranks
from course_lib.lessons.buckets.lab import crossed_model

crossed = DistributedDataParallel(crossed_model(), bucket_cap_mb=0.0001)
for iteration in range(3):
    print(iteration, *[" ".join(bucket.parameters) for bucket in buckets(crossed).now], sep=" | ")
    crossed(torch.ones(2, 8)).sum().backward()

# %% [markdown]
# In iteration 0 everything travels in one bucket, and the reducer notes the order of arrival (`push_rebuilt_params`). The
# next forward makes the buckets anew in that order (so line 1, printed before it, still shows the old buckets). Rank 0's order is
# broadcast, because ranks that put different gradients into “bucket 1” would add up gradients of different layers. It happens
# once. A graph that changes later keeps the buckets it has.
#
# For the same reason buckets are started strictly in order, whichever is full first: bucket 1 waits until bucket 0 has been
# sent (`next_bucket_` in `Reducer::mark_bucket_ready`).
#
# ### A list of limits, and unused parameters
#
# `bucket_cap_mb_list` gives each bucket a limit of its own; its last value holds for all that follow, and `bucket_cap_mb` is
# then ignored (`_BucketCapacityConfig.create`). With `find_unused_parameters=True` the small bucket is sent *last*:

# %%
# %%ranks
print("a list:     ", bucket_sizes(bucket_cap_mb_list=[1, 2, 4]))
ddp = DistributedDataParallel(make_model(), find_unused_parameters=True)
print("find_unused:", [round(bucket.bytes / 2**20, 2) for bucket in buckets(ddp).now])

# %% [markdown]
# With a list, there are several buckets in iteration 0 already (`compute_bucket_size_limits`). Their limits run the other way:
# the constructor goes through the parameters as they are registered, fills buckets from the *first* layer on, and then reverses the
# list of buckets (`_ddp_init_helper`, `distributed.py`). With `find_unused_parameters=True` those buckets stay for ever, so the
# small one holds the first layers and leaves last.
#
# ## Deeper: the names of a communication hook's parameters
#
# DDP insists on the second one being called `bucket`, and the error does not say so:

# %% claims={"S18": "wrong"}
# %%ranks --expect raises:KeyError
crossed.register_comm_hook(None, lambda state, gradients: allreduce_hook(state, gradients))

# %% [markdown]
# ## Deeper: the timeline of a GPU step
#
# `torch.profiler` records what the course's `--trace` shows, on CPUs and GPUs. Each rank writes a file for
# [Perfetto](https://ui.perfetto.dev):

# %%
# %%ranks
import tempfile
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, schedule

activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
ddp = DistributedDataParallel(make_model())
with profile(activities=activities, schedule=schedule(wait=2, warmup=1, active=2)) as profiled:
    for _ in range(5):
        backward(ddp)
        profiled.step()
trace = Path(tempfile.mkdtemp()) / f"rank{rank}.json"
profiled.export_chrome_trace(str(trace))
print(
    "all-reduces in the two recorded steps:",
    sum("all_reduce" in event.name for event in profiled.events()) > 0,
)

# %% [markdown]
# The schedule leaves the first steps out, because iteration 0 has one bucket and iteration 1 the rebuild. On a GPU, look at two rows:
# the stream that computes and the one with the `ncclDevKernel_AllReduce` kernels. The time from the end of the first to the
# end of the second is what `bucket_cap_mb` could save. (Not run here: it needs a GPU.)
#
# ## Deeper: torch.compile with DDP
#
# A compiled backward is one graph, and its gradients would all come at its end. So under DDP `torch.compile` cuts the graph where a bucket
# is full: each piece has its own backward, and DDP's hooks run between the pieces (`DDPOptimizer` in
# `torch/_dynamo/backends/distributed.py`). Here are four layers, each of them a bucket. (`aot_eager` makes the graphs and no kernels, so
# it needs neither a compiler nor a GPU.)


# %%
# %%ranks
class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(512, 512) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def compiled(model):
    def backend(graph, inputs):
        made.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    return torch.compile(model, backend=backend)


def wrapped(model):
    return DistributedDataParallel(model, bucket_cap_mb=1)


torch._logging.set_logs(dynamo=40)  # errors only: it would warn of DDP's own marks for the profiler
orders = {
    "compiled(wrapped(model))": lambda model: compiled(wrapped(model)),
    "wrapped(compiled(model))": lambda model: wrapped(compiled(model)),
    "compiled(model), no DDP": compiled,
}

# %%
p = predict("04.compile_order")

# %% claims={"S38": "wrong"}
# %%ranks --predicted --as out
graphs = {}
for order, combine in orders.items():
    torch._dynamo.reset()
    made = []
    combine(Layers())(torch.ones(4, 512)).sum().backward()
    graphs[order] = len(made)
print(graphs)

# %% [markdown]
# Both orders are cut. Whichever was wrapped first, the compiler asks for the DDP model whose forward is running
# (`_get_active_ddp_module`, `distributed.py`). The order matters elsewhere. The compiler skips frames of PyTorch's own modules,
# and DDP's forward is one. Where it then meets no code of yours, there is nothing to compile, and nothing says so:

# %%
# %%ranks
for order, combine in orders.items():
    torch._dynamo.reset()
    made = []
    combine(torch.nn.Sequential(*Layers().layers))(torch.ones(4, 512)).sum().backward()
    print(f"nn.Sequential, {order:26}{len(made)} graphs")

# %% [markdown]
# ## Deeper: two models in one backward
#
# “The all-reduces of two DDP models do not interleave”: a loss through `A(B(x))`, so surely A's buckets are finished before
# B's begin? Rank 1 starts its backward only when rank 0 *has started B's all-reduce*. If B had to wait for A, this cell would
# hang.

# %% claims={"2": "wrong"}
# %%ranks
B, A = DistributedDataParallel(torch.nn.Linear(8, 8)), DistributedDataParallel(torch.nn.Linear(8, 1))
under_way = {}


def send(name, bucket):
    under_way[name] = dist.all_reduce(bucket.buffer().div_(world), async_op=True)
    if name == "B" and rank == 0:
        print("B is started, and A is", "done" if under_way["A"].is_completed() else "still under way")
        dist.send(torch.ones(1), dst=1)
    return under_way[name].get_future().then(lambda future: future.value()[0])


A.register_comm_hook("A", send)
B.register_comm_hook("B", send)
loss = A(B(torch.ones(4, 8))).sum()
if rank == 1:
    dist.recv(torch.empty(1), src=0)
loss.backward()

# %% [markdown]
# Both are under way at once: each model's reducer waits for its buckets in a callback that autograd runs when the *whole*
# backward is over (`queue_callback` in `Reducer::mark_variable_ready`). That is harmless as long as every rank
# starts A before B (lesson 06).
#
# ## Deeper: gradient_as_bucket_view
#
# A bucket is a copy of gradients, so DDP needs the memory of all gradients twice. Unless `.grad` *is* a piece of the bucket:

# %%
# %%ranks
for view in (False, True):
    ddp = DistributedDataParallel(make_model(), gradient_as_bucket_view=view)
    backward(ddp), backward(ddp)
    storages = {p.grad.untyped_storage().data_ptr(): p.grad.untyped_storage() for p in ddp.parameters()}
    mib = sum(storage.nbytes() for storage in storages.values()) / 2**20
    print(f"gradient_as_bucket_view={view!s:5}  .grad lives in {len(storages)} tensors, {mib:.2f} MiB")

# %% [markdown]
# Twenty tensors of their own, beside two buckets of the same total size; or two buckets and nothing else. 8 MiB are saved, and
# with them the copies from the buckets back into `.grad`
# (`Reducer::finalize_bucket_dense`). With the default `zero_grad(set_to_none=True)`, autograd still allocates each new gradient
# before DDP copies it into its bucket. What you give up: a view cannot be detached in place.

# %%
# %%ranks --expect raises:RuntimeError
ddp.module[0].weight.grad.detach_()

# %% [markdown]
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `_BucketCapacityConfig` and `_ddp_init_helper` are the Python half of this lesson.
# - PyTorch, *Distributed Data Parallel* (design note) and *DDP Communication Hooks* in the documentation.
# - Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB 2020: why buckets.
# - Stanford CS336, assignment 2: the same classes; the solutions of this lesson's tasks fit its interface.
#
# **Next:** [lesson 05](05_stragglers.ipynb), *When ranks run at different speeds*. Or back to the [index](index.ipynb).
