# %% [markdown]
# # 17 · When DDP ends
#
# > *“7 billion parameters need 112 GB on each of my 8 GPUs, and they have 80. Now I can have 1,024 of them. Will it fit?”*
#
# The [process group](glossary.ipynb) `fake` talks to nobody, so this process may call itself rank 0 of as many ranks as you like, and DDP
# allocates what it would allocate there. (PyTorch's `noop_hook` takes the place of the all-reduce.)
#
# **You will be able to** say what a rank holds under DDP, ZeRO and FSDP2, and what is sent for it; shard a model, train it and save it. 45
# minutes.
#
# **Before this:** lesson 04.

# %%
# %load_ext course_lib

# %%
# %%ranks 1 --no-init
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.parallel import DistributedDataParallel

# %%
p = predict("17.thousand_ranks")

# %% claims={"S34": "incomplete"}
# %%ranks --no-init --predicted --as out
held = {}
for world in (8, 1024):
    dist.init_process_group("fake", rank=0, world_size=world)
    ddp = DistributedDataParallel(nn.Linear(256, 256, bias=False), gradient_as_bucket_view=True)
    ddp.register_comm_hook(None, noop_hook)
    optimizer = torch.optim.Adam(ddp.parameters())
    inputs = torch.ones(8192 // world, 256)  # this rank's share of 8,192 samples
    ddp(inputs).sum().backward()
    optimizer.step()
    (weight,) = ddp.parameters()
    tensors = inputs, weight, weight.grad, *optimizer.state[weight].values()
    held[world] = round(sum(tensor.nbytes for tensor in tensors) / 2**20, 2)
    dist.destroy_process_group()
print("MiB on a rank, by the number of ranks:", held)

# %% [markdown]
# DDP divides the *data* among the ranks, and nothing else. What the backward needs of the inputs has become 128 times as small. Every rank has
# all weights (four bytes per parameter), all gradients (four) and both of Adam's means (eight). (Without `gradient_as_bucket_view=True`, the buckets of [lesson 04](04_buckets.ipynb) hold the gradients once more.)
#
# ## What can be cut
#
# **ZeRO** (Rajbhandari et al., 2020) cuts them in three stages: the optimizer's state, then the gradients as well, then the weights as well.

# %%
from course_lib.lessons.sharding.lab import draw_stages

draw_stages()

# %% [markdown]
# The tall boxes are the optimizer's. *Mixed precision* in that paper means weights and gradients in 2 bytes each, and 12 for the optimizer,
# which keeps the weights in float32 as well.

# %%
from course_lib.lessons.sharding.lab import explore_stages

explore_stages()

# %% [markdown]
# What stays whole sets the limit, however many ranks there are. Only ZeRO 3 has no such part.
#
# ## Whole parameters, dealt out
#
# `ZeroRedundancyOptimizer` stands beside DDP. It deals out whole parameters, and each rank steps its own. The model has four
# layers of 64 x 64. `network`, `batch` and `held` are the course's. So is `counting`, around PyTorch's `CommDebugMode`: it notes what this
# rank calls.

# %%
# %%ranks 2 --fresh --backend gloo
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from course_lib.lessons.sharding.lab import batch, counting, held, network

rank = dist.get_rank()


def train(model, optimizer, steps=3):
    for step in range(steps):
        optimizer.zero_grad()
        model(batch(step)).square().mean().backward()
        optimizer.step()


# %%
p = predict("17.zero")

# %%
# %%ranks --predicted --as out
ddp = DistributedDataParallel(network(layers=4), gradient_as_bucket_view=True)
optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=1e-3)
train(ddp, optimizer)
parts = held(ddp, optimizer)
print("bytes per parameter: weights, gradients, optimizer", parts)

# %%
p = predict("17.zero_sends")

# %% claims={"S35": "wrong"}
# %%ranks --predicted --as out
with counting() as calls:
    train(ddp, optimizer, steps=1)
print(calls)

# %% [markdown]
# This is the first stage. DDP's all-reduce is still there. After the step, the owner of each of the eight parameters broadcasts it. So this saves memory and *adds*
# traffic. (The paper reduces and scatters gradients instead, and gathers weights: no more bytes than DDP's.) A large embedding is one
# rank's alone.
#
# ## Cut everything
#
# PyTorch has no class for the second stage. `fully_shard` is **FSDP2**, and cuts all three. It takes DDP's place. A *mesh* says which ranks
# share a model. Every parameter becomes a *DTensor*: a tensor of which this rank has some rows, and which knows who has the others.

# %%
# %%ranks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (dist.get_world_size(),))


def shard(model):
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)  # what is in no layer
    return model


model = shard(network(layers=5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # after sharding
train(model, optimizer)

# %%
# %%ranks
from course_lib.lessons.sharding.lab import trained_alone

weight = model[0].weight
print("bytes per parameter: weights, gradients, optimizer", held(model, optimizer))
print("a weight of", tuple(weight.shape), "is here with", tuple(weight.to_local().shape))
alone = trained_alone(steps=3, layers=5)  # one process, the batches of all ranks
pairs = zip(model.parameters(), alone.parameters(), strict=True)
print("as one process:", all(torch.allclose(p.full_tensor(), q, atol=1e-6) for p, q in pairs))

# %% [markdown]
# `full_tensor()` is a collective: all ranks call it, or none.
#
# > **On GPUs (NCCL).** `init_device_mesh("cuda", ...)`, and `torch.cuda.set_device(local_rank)` before it. Without a mesh
# > `fully_shard` takes the default group on the GPU where there is one (`_init_default_fully_shard_mesh` in
# > `torch/distributed/fsdp/_fully_shard/_fsdp_init.py`; read, not run: it needs GPUs).
#
# ## Before the first step
#
# So far all ranks have drawn the same weights. One layer more, and each rank draws its own:

# %%
p = predict("17.begin")

# %% claims={"S36": "wrong"}
# %%ranks --predicted --as out
layer = nn.Linear(4, 4, bias=False)
nn.init.constant_(layer.weight, 1.0 + 2 * rank)
fully_shard(layer, mesh=mesh)
rows = layer.weight.full_tensor()[:, 0].tolist()
print(*rows)

# %% [markdown]
# A model that nobody has made: the upper half of one, and the lower half of another. DDP broadcasts rank 0's weights when it wraps a
# model. `fully_shard` keeps this rank's rows of what this rank has. So give all ranks the same weights *before*: by a seed,
# or by `dist.broadcast(tensor, src=0)` for each tensor of `model.state_dict()`.
#
# Buffers are not sent either, in no step: after training, each rank has BatchNorm statistics of its own. (DDP sends rank 0's,
# [lesson 09](09_synchronised.ipynb).)
#
# Next, the order of two lines:

# %%
# %%ranks
broken = network(layers=5)
optimizer = torch.optim.Adam(broken.parameters(), lr=1e-3)  # before sharding
shard(broken)
for _ in range(3):
    train(broken, optimizer)
    print(f"loss after three steps: {broken(batch(0)).square().mean().item():.6f}")

# %% [markdown]
# Not a digit changes. Sharding has replaced the parameters, and the optimizer steps the old ones, which get no gradient.
#
# The third mistake is to shard the layers and forget the model around them. What is in no layer, such as an embedding or a head, stays
# whole on every rank. Nobody averages its gradients, and the ranks drift apart. (`clip_grad_norm_` refuses a mix of DTensors and others.)
#
# ## What is sent

# %%
p = predict("17.gathers")

# %%
# %%ranks --predicted --as out
with counting() as calls:
    model(batch(0)).square().mean().backward()
print(calls)

# %% [markdown]
# A layer's weights are gathered before its forward, and given up after it. They are gathered again before its backward, and then a
# reduce-scatter gives each rank the mean gradient of its own rows. With `reshard_after_forward=False` they stay. And if only
# `fully_shard(model)` is called, the whole model is one group:

# %%
from course_lib.lessons.sharding.lab import draw_whole, three_ways

out = run(three_ways, ranks=2)
draw_whole(out.values[0])

# %% [markdown]
# On the left, one layer is whole at a time. In the middle the second all-gather is saved, and at the end of the forward the whole model is
# there. On the right it is there from the beginning: one all-gather, as many bytes as the five. It saves no memory in the step, and nobody
# computes until it is done.
#
# What does it cost? DDP's all-reduce on a ring is two laps of (*n* - 1)/*n* of the bytes: a reduce-scatter and an all-gather
# ([lesson 01](01_dataparallel.ipynb)). FSDP2 has three: two gathers and a scatter, so one and a half times the bytes (ZeRO paper, §7). With
# `reshard_after_forward=False` it has two, as DDP: weights are whole during the step, and the rest is cut. That is nearest to ZeRO 2.
#
# > **On GPUs (NCCL).** What is counted here is what FSDP2 *asks for*. gloo makes the reduce-scatter of an all-reduce and keeps a
# > part (`_reduce_scatter_base` in `ProcessGroupGloo.cpp`), so on a CPU it sends twice the bytes. NCCL has a reduce-scatter of its own, and FSDP2
# > gathers on a stream of its own beside the computing. (Read, not run: it needs GPUs.)
#
# ## Where this ends, too
#
# By default, FSDP2 cuts each parameter along its first dimension. Again one process is a rank of 1,024, number 1,000:

# %%
p = predict("17.thin")

# %%
# %%ranks 1 --fresh --no-init --predicted --as out
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("fake", rank=1000, world_size=1024)
layer = nn.Linear(512, 512)
fully_shard(layer, mesh=init_device_mesh("cpu", (1024,)))
shape = tuple(layer.weight.to_local().shape)
print(shape)
dist.destroy_process_group()

# %% [markdown]
# Half of the ranks hold one row, the others nothing, and all of them wait for 1,023 others in every all-gather. So shard within a machine
# and replicate between machines (*hybrid* sharding). Two and two ranks play two machines:

# %%
# %%ranks 4 --fresh --backend gloo
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from course_lib.lessons.sharding.lab import batch, counting, network

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("machine", "gpu"))
model = network(layers=5)
for layer in (*model, model):
    fully_shard(layer, mesh=mesh)
with counting() as calls:
    model(batch(0)).square().mean().backward()
print(tuple(model[0].weight.to_local().shape), model[0].weight.placements, calls)

# %% [markdown]
# Each weight is cut in two, not in four. Gathers and scatters stay within a machine. Between machines there is only an all-reduce, to which each
# rank brings the gradients of its own rows. Beyond that, one splits the arithmetic of the layers (tensor and pipeline parallelism).
#
# ## Save it
#
# No rank has the whole model, so “rank 0 saves” has nothing to save. `torch.distributed.checkpoint` (DCP,
# [lesson 14](14_checkpoints.ipynb#Deeper:-when-one-rank's-memory-is-not-enough)) lets each rank write its own rows, and puts them together for
# whoever loads. Four ranks save, and one loads into an ordinary module:

# %%
# %%ranks
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

folder = [tempfile.mkdtemp()] if dist.get_rank() == 0 else [None]
dist.broadcast_object_list(folder)
dcp.save(model.state_dict(), checkpoint_id=folder[0])
whole = [parameter.full_tensor() for parameter in model.parameters()]
dist.barrier()
if dist.get_rank() == 0:
    plain = network(layers=5, seed=1)
    dcp.load(plain.state_dict(), checkpoint_id=folder[0], no_dist=True)  # rank 0 alone: no collective
    print("the same weights:", all(map(torch.equal, whole, plain.parameters())))
    shutil.rmtree(folder[0])

# %% [markdown]
# `torch.save(model.state_dict(), path)` writes this rank's rows only, and `torch.load` refuses them until `torch.distributed.tensor` is
# imported. For one file with everything there is `get_model_state_dict` with `StateDictOptions(full_state_dict=True, cpu_offload=True)`
# (`torch/distributed/checkpoint/state_dict.py`).
#
# ## What goes wrong in real life
#
# - **Out of memory in the second step, not in the first.** Adam's means are allocated in the first `optimizer.step()`: count 16 bytes, not 8.
# - **As much memory as before.** Only the root was sharded, or the optimizer was made before sharding.
# - **Evaluation gives another result on each rank.** Buffers, or parameters that belong to no sharded module.
# - **It fits, and is slower than DDP was.** Three laps instead of two. Where DDP fits, take DDP.
# - **Out of memory before the first step.** Make the model on `meta` ([Deeper](#Deeper:-a-model-that-no-rank-can-hold)).
# - **“Optimizer state has not been consolidated”**: [Deeper](#Deeper:-a-checkpoint-of-ZeroRedundancyOptimizer).
# - **Activations.** None of these stages cuts them. Smaller batches and activation checkpointing do ([lesson 06](06_alternation.ipynb)).
#
# ## Rule of thumb
#
# > 16 bytes per parameter must fit beside the activations, and DDP needs them on every rank. Cut the optimizer
# > first, then all. FSDP2: equal weights on all ranks, `fully_shard` each layer, then the model, *then* make the optimizer. Two gathers and a scatter
# > per layer: one and a half times DDP's bytes. Shard within a machine, replicate between machines. Save with DCP.
#
# ## Your turn
#
# Two tasks wait in [exercises/17_sharding](../exercises/17_sharding.ipynb): calculate what a rank must hold, and shard a model and train it (read
# [clip what is cut](#Deeper:-clip-what-is-cut) first).
#
# ## Deeper: clip what is cut
#
# A clip needs the norm of *all* gradients, and each rank has some rows. `clip_grad_norm_` knows DTensors, and adds up over the ranks:

# %%
# %%ranks 2 --fresh --backend gloo
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from course_lib.lessons.sharding.lab import batch, counting, network

model, mesh = network(layers=5), init_device_mesh("cpu", (2,))
for layer in (*model, model):
    fully_shard(layer, mesh=mesh)
model(batch(0)).square().mean().backward()
own = nn.utils.get_total_norm([parameter.grad.to_local() for parameter in model.parameters()])
norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.01).full_tensor()
print(f"norm of this rank's rows {own:.4f}, of all {norm:.4f}")

# %% [markdown]
# Clipping by the first number multiplies the rows of each rank by another factor: the gradient's direction changes, without an error. The rule
# of [lesson 10](10_accumulation.ipynb) holds: clip after the reduction, everything by one norm. `fully_shard` has divided by the number of
# ranks, so do not divide again.
#
# ## Deeper: a model that no rank can hold
#
# 7 billion parameters are 28 GB before they are cut. On the device `meta` tensors have shapes and no memory. So make the model there, cut
# it, give each rank memory for its rows, and have rank 0 fill them:

# %%
# %%ranks
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

with torch.device("meta"):
    model = network(layers=5)
for layer in (*model, model):
    fully_shard(layer, mesh=mesh)
model.to_empty(device="cpu")
whole = network(layers=5, seed=7).state_dict() if dist.get_rank() == 0 else {}
options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
set_model_state_dict(model, whole, options=options)
pairs = zip(model.parameters(), network(layers=5, seed=7).parameters(), strict=True)
print("rank 0's weights:", all(torch.equal(p.full_tensor(), q) for p, q in pairs))

# %% [markdown]
# This also gives all ranks the same weights. What is in no state dict, such as a buffer with `persistent=False`, holds anything after
# `to_empty`: fill it yourself. Where rank 0 cannot hold the whole, load with DCP.
#
# ## Deeper: compute in two bytes
#
# The ZeRO paper keeps each weight twice, in 2 and in 4 bytes. FSDP2 makes the copy in 2 bytes when it gathers, one layer at a time:

# %%
# %%ranks
from torch.distributed.fsdp import MixedPrecisionPolicy

policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
mixed, used = network(layers=5), set()
for layer in (*mixed, mixed):
    fully_shard(layer, mesh=mesh, mp_policy=policy)
mixed[0].register_forward_pre_hook(lambda layer, _: used.add(layer.weight.dtype))
mixed(batch(0)).square().mean().backward()
print("computed with", *used, "and kept in", mixed[0].weight.dtype, mixed[0].weight.grad.dtype)

# %% [markdown]
# The gathers carry this type, too, so half the bytes (`MixedPrecisionPolicy` in `torch/distributed/fsdp/_fully_shard/_fsdp_api.py`). The optimizer
# steps float32. A BatchNorm keeps its buffers in float32, and its forward raises beside weights of two bytes: before its block, shard it alone,
# without a policy.
#
# ## Deeper: accumulate
#
# In place of `no_sync` there is `set_requires_gradient_sync`. Micro-batches that are not the last leave out the reduce-scatter:

# %%
# %%ranks
for last in (False, True):
    model.set_requires_gradient_sync(last)
    with counting() as calls:
        model(batch(1)).square().mean().backward()
    print(f"last micro-batch: {last}", calls)

# %% [markdown]
# Until the last one, the gradients are *whole* on each rank: this saves calls and costs memory.
#
# ## Deeper: replicate, beside DDP
#
# FSDP2's machinery has something to take DDP's place, too: `replicate` (still in a private module). It averages gradients as DDP
# does, and does not broadcast rank 0's weights:

# %% claims={"S37": "wrong"}
# %%ranks
from torch.distributed._composable.replicate_with_fsdp import replicate

rank = dist.get_rank()
layer = nn.Linear(1, 1, bias=False)
nn.init.constant_(layer.weight, 1.0 + 2 * rank)
replicate(layer, mesh=mesh)
layer(torch.full((1, 1), rank + 1.0)).sum().backward()
print("gradient", layer.weight.grad.to_local().item(), "weight", layer.weight.to_local().item())

# %% [markdown]
# Two models take equal steps from now on, and nothing says so.
#
# ## Deeper: a checkpoint of ZeroRedundancyOptimizer
#
# Each rank has the state of its own parameters, and the first `state_dict()` raises unless all have been collected on one rank. Later ones do not: collect before each.

# %%
# %%ranks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

ddp = DistributedDataParallel(network(layers=4))
optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=1e-3)
ddp(batch(0)).square().mean().backward()
optimizer.step()
try:
    optimizer.state_dict()
except RuntimeError as error:
    print(str(error).partition(" Please")[0])
optimizer.consolidate_state_dict(to=0)  # all ranks call it, for every checkpoint
if rank == 0:
    print("after it, rank 0 has the state of", len(optimizer.state_dict()["state"]), "parameters")

# %% [markdown]
# ## Further reading
#
# - Rajbhandari et al., *ZeRO: Memory Optimizations Toward Training Trillion Parameter Models*, SC 2020: §5 has the stages, §7 their traffic.
# - Zhao et al., *PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel*, VLDB 2023. It is about FSDP1: one flat parameter for each group.
# - `torch/distributed/fsdp/_fully_shard/_fully_shard.py`: the docstring of `fully_shard`; PyTorch's tutorial *Getting Started with FSDP2*.
#
# **Next:** [lesson 18](18_capstone.ipynb), *Capstone: rescue the training script*. Or back to the [index](index.ipynb).
