# %% [markdown]
# # 01 · DataParallel vs DDP
#
# > *“`nn.DataParallel` is one line and needs no launcher. Why does everybody tell me to use DDP, even on one machine?”*
#
# `DataParallel` is *one* process that drives several GPUs. DDP is one process *per* GPU. People give three reasons for DDP: the
# first GPU does all the work, its memory fills up, and Python's lock makes the threads queue. Each of them is half true.
#
# **You will be able to** say what each of the two does in a step, what that costs in bytes and memory, and turn a
# `DataParallel` script into a DDP script that trains the same model. 40 minutes.
#
# **Before this:** lesson 00.

# %%
# %load_ext course_lib
from course_lib.lessons.dataparallel.lab import one_step

one_step()

# %% [markdown]
# Left, the four steps of `DataParallel`; right, DDP. Begin with the memory. What does each device hold in a step with Adam? The two
# functions count it, for a batch of 512 and a model with 4,000 outputs, as a small language model has. (`--backend gloo`: on the CPU, also where
# there are GPUs.)

# %%
# %%ranks 4 --backend gloo --as held
import torch.distributed as dist
from course_lib.lessons.dataparallel.devices import a_batch, held_by_data_parallel, held_by_ddp
from course_lib.lessons.dataparallel.devices import in_mib, make_net

rank, (batch, words) = dist.get_rank(), a_batch(outputs=4000)
ddp = held_by_ddp(make_net(outputs=4000), batch[rank::4].clone(), words[rank::4])
print(f"DDP, this rank: {in_mib(ddp)} MiB")
if rank == 0:
    data_parallel = held_by_data_parallel(make_net(outputs=4000), batch, words, devices=4)
    print("DataParallel, devices 0 to 3:", *map(in_mib, data_parallel), "MiB")

# %%
from course_lib.lessons.dataparallel.lab import draw_held

draw_held(held["data_parallel"][0], held["ddp"])

# %% [markdown]
# Device 0 is full while the others are nearly empty, as people say. But look at *why*. Weights, gradients and Adam's numbers take no
# more on device 0 than on a DDP rank with its buckets (what DDP sends gradients in, lesson 04). The difference is the part called
# *outputs and loss*: the outputs of the **whole batch**, which `gather` has brought to device 0, and what the loss keeps of them.
# This part grows with the batch, and you enlarge the batch with every GPU that you add. (The usual way out is to compute the loss
# inside the module. Then `gather` brings one number from each device.)
#
# All devices together hold *more* with DDP: each rank has Adam's numbers, and buckets. DDP does not save memory. It spreads it evenly,
# and the fullest device decides what fits.
#
# These numbers come from `ByHand`, a model of `DataParallel`: the four steps of the picture, in real threads and with real
# gradients. Only the devices are pretended: they are numbers, and every copy from one to another is counted.
# (`from course_lib.lessons.dataparallel import devices` and `devices??` show it.) For DDP nothing is pretended.
#
# ## Why not the real one?
#
# Let a model say how it is called:

# %% tags=["nbval-ignore-output"]
# %%ranks --only 0
import threading

import torch
from torch import nn


class Telling(nn.Linear):
    def forward(self, x):
        print(threading.current_thread().name, "has", len(x), "samples")
        return super().forward(x)


model = nn.DataParallel(Telling(4, 2).to("cuda" if torch.cuda.is_available() else "cpu"))
outputs = model(torch.ones(8, 4))

# %% [markdown]
# Without a GPU, `DataParallel.__init__` leaves `device_ids` empty, and `forward` calls the module
# (`torch/nn/parallel/data_parallel.py`). With one GPU it calls the module just the same. There is no error, no warning and no
# parallelism. So this lesson takes `ByHand`, and compares it with the real one where there are two GPUs.
#
# ## One step by hand
#
# **Scatter** cuts the batch. **Replicate** copies the model to every device. **parallel_apply** calls each copy in its own thread.
# **Gather** brings the outputs back to device 0, where *you* compute the loss. Then `backward()` goes all the way back. Who computes
# which gradient? A hook on the weights of each copy tells.

# %% claims={"55": "wrong"}
# %%ranks --only 0
from course_lib.lessons.dataparallel.devices import ByHand, gather, make_net
from course_lib.lessons.dataparallel.devices import parallel_apply, replicate, scatter
from torch.nn.functional import cross_entropy

torch.manual_seed(1)
inputs, labels = torch.randn(512, 64), torch.randint(10, (512,))
alone, net = make_net(), make_net()
cross_entropy(alone(inputs), labels).backward()  # on one device, to compare with

parts = scatter(inputs, 4)
replicas = replicate(net, 4)
found = {}
for device, replica in enumerate(replicas):
    replica[0].weight.register_hook(lambda gradient, device=device: found.update({device: gradient}))
outputs = gather(parallel_apply(replicas, parts))
cross_entropy(outputs, labels).backward()

whole = alone[0].weight.grad
print("gradients are computed on devices", sorted(found))
print("device 0's alone is the gradient of the batch:", torch.allclose(found[0], whole, atol=1e-6))
print("their sum is:", torch.allclose(sum(found.values()), whole, atol=1e-6))
print("the original model has that sum:", torch.allclose(net[0].weight.grad, whole, atol=1e-6))

# %% jupyter={"source_hidden": true} tags=["nbval-ignore-output", "hide-input"] claims={"55": "not runnable here"}
# %%ranks --only 0
if not torch.cuda.is_available() or torch.cuda.device_count() < 2:
    print("Fewer than two GPUs: the real DataParallel would only call the module.")
else:
    real = nn.DataParallel(make_net().cuda())
    cross_entropy(real(inputs.cuda()), labels.cuda()).backward()
    assert torch.allclose(real.module[0].weight.grad.cpu(), whole, atol=1e-4)
    print(f"The real DataParallel on {len(real.device_ids)} GPUs has the gradient of one device, too.")

# %% [markdown]
# An article says that the master device computes the loss *and does the back-propagation*. The first is true: the outputs are on
# device 0. The second is not. From the loss, the gradient goes back through `gather`. Each copy's part of the graph runs on its own
# device and gives its own gradient. What device 0 does is *adding them up*.
#
# The article goes on: the master then “hands out the new weights”. When do the other devices get them? Watch an evaluation, in which nothing
# changes.

# %%
p = predict("01.weights_copied")

# %%
# %%ranks --only 0 --predicted
from course_lib.lessons.dataparallel.devices import moved

size = sum(weight.nbytes for weight in net.parameters())
moved.clear()
with torch.no_grad():
    ByHand(net, 4)(inputs)
of_the_batch = (inputs.nbytes + outputs.nbytes) * 3 // 4  # three quarters are on other devices
weights_copied = (moved.total() - of_the_batch) / size
weights_copied

# %% [markdown]
# Nobody hands out anything until the next `forward`. It copies all weights to all devices again, whether they have changed or not. A
# copy lives for one forward.
#
# BatchNorm notes something in each forward: the mean of what it has seen. With `momentum=1.0` it keeps the last batch's. Here the batch is
# 0, 1, ..., 7, two numbers for each of four devices.

# %%
p = predict("01.batch_norm")

# %%
# %%ranks --only 0 --predicted
norm = nn.BatchNorm1d(1, momentum=1.0)
ByHand(norm, devices=4)(torch.arange(8.0)[:, None])
norm.running_mean.item()

# %% [markdown]
# Each copy noted the mean of its own two numbers. After the forward the copies were thrown away, with all that they had noted. On
# device 0 nothing is copied, so what the layer changes *in place* there stays: the mean of 0 and 1. (The docstring of `DataParallel`
# says so. An attribute that `forward` assigns is lost on every device.) A DDP rank keeps its one model; what DDP does with buffers is
# lesson 09.
#
# `scatter` has a surprise, too: it cuts with `chunk`, and `chunk(4)` may return fewer than four parts:

# %%
# %%ranks --only 0
for samples in (512, 10, 6, 5, 3):
    print(f"{samples:3} samples on 4 devices:", [len(part) for part in torch.ones(samples).chunk(4)])

# %% [markdown]
# Six samples on four devices are three parts, and the fourth device has nothing to do (`device_ids[: len(inputs)]` in
# `DataParallel.forward`). The loss is still that of the whole batch: it is computed after `gather`, so nobody averages averages.
# DDP does (lesson 05).
#
# ## Every byte of a step
#
# Now a whole training step, forward and backward, on two, four and eight devices. How often does each device send the size of the
# model? (The model starts the batch on device 0. A real batch comes from the CPU, so that device 0 sends the weights only.)

# %%
# %%ranks --only 0 --as dp
from course_lib.lessons.dataparallel.devices import sent


def sent_in_a_step(devices):
    """What each device sends, in sizes of the model."""
    net = make_net(2048)
    size = sum(weight.nbytes for weight in net.parameters())
    moved.clear()
    cross_entropy(ByHand(net, devices)(inputs), labels).backward()
    return [round(count / size, 1) for count in sent(devices)]


by_devices = {devices: sent_in_a_step(devices) for devices in (2, 4, 8)}
by_devices

# %% [markdown]
# The same model trains with DDP on two, four and eight real ranks, and the operating system has counted what each of them sends
# (`sent_by_ddp??` shows how; on other systems than Linux there is nothing to count, and its bars are missing).

# %%
from course_lib.lessons.dataparallel.lab import draw_sent, sent_by_ddp

ddp = {ranks: sent_by_ddp(ranks) for ranks in (2, 4, 8)}
print(ddp)
draw_sent(dp["by_devices"][0], ddp)

# %% [markdown]
# In a step of `DataParallel`, device 0 sends the weights to each of the others: *N* - 1 times the size of the model. Each of the others
# sends its gradients back. In a step of DDP no weights are sent, only gradients (and the buffers of a model that has some, lesson
# 09). And every rank sends less than twice the size of the model, however many ranks there are.
#
# > **On GPUs (NCCL).** Where NCCL can, `replicate` and the sum of the gradients go through NCCL's own broadcast and reduce, which take
# > load off device 0 (`reduce_add` in `torch/nn/parallel/comm.py`, `broadcast` in
# > [`torch/csrc/cuda/comm.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/cuda/comm.cpp)). Every device must
# > still *receive* all weights in every step. (Read, not run: it needs GPUs.)
#
# ## The ring
#
# How can eight ranks add up their gradients when none of them sends more than twice? Cut the tensor into as many chunks as there are
# ranks, and let each rank send to the next one only:

# %%
# %%ranks --as out
import torch
import torch.distributed as dist

rank, ranks = dist.get_rank(), dist.get_world_size()


def ring_all_reduce(x):
    """Add up x over all ranks, in place."""
    chunks = x.chunk(ranks)  # views of x
    for step in range(2 * (ranks - 1)):
        send, receive = chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks]
        came = torch.empty_like(receive)
        sending = dist.isend(send, (rank + 1) % ranks)
        dist.recv(came, (rank - 1) % ranks)
        sending.wait()
        # The first lap adds, the second keeps.
        receive.copy_(receive + came if step < ranks - 1 else came)
        states.append(x.tolist())


x = torch.full((ranks,), 2.0**rank)
summed, states = x.clone(), [x.tolist()]
ring_all_reduce(x)
dist.all_reduce(summed)
print(x.tolist(), "as dist.all_reduce gives it:", torch.equal(x, summed))

# %% [markdown]
# Step through this run, with the buttons or the arrow keys. A frame marks the chunk that has just arrived:

# %%
from course_lib.lessons.dataparallel.lab import draw_ring

draw_ring(out)

# %% [markdown]
# A ring has two laps of *N* - 1 steps. In each step every rank sends 1/*N* of the tensor. That is 2(*N* - 1)/*N* times its size in
# all: 1.5 for four ranks, and never 2. No rank is the master. Now you choose how many ranks: each click runs the ring and
# `dist.all_reduce`, and measures what that sends.

# %%
from course_lib.lessons.dataparallel.lab import explore_rings

explore_rings(out)

# %% [markdown]
# What grows with the ring is the number of steps, and each step takes a moment, however little it sends (lesson 15).
#
# > **On GPUs (NCCL).** NCCL chooses between the ring, a tree and other algorithms, by the size of the tensor and by the
# > network (`NCCL_ALGO` in [its documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html)). (Read,
# > not run: it needs GPUs.)
#
# ## Threads and the lock
#
# `parallel_apply` starts a *thread* for each copy. Python's global interpreter lock (GIL) lets one thread at a time run Python. How
# parallel is that?

# %%
p = predict("01.two_threads")

# %% claims={"56": "refined"}
# %%ranks --only 0 --predicted
from course_lib.lessons.dataparallel.lab import another_thread_runs_during, processor_use


def count():
    for _ in range(300_000):
        pass


matrix = torch.ones(1500, 1500)
cores = processor_use(count, count)  # processor seconds per second, of two threads
beside = another_thread_runs_during(lambda: matrix @ matrix)
print("two Python loops keep two cores busy:", cores >= 1.5)
print("the other thread runs during the multiplication:", beside)

# %% [markdown]
# The lock is real, but PyTorch releases it *inside* an operation. What queues is the Python between operations. On a GPU, Python does
# little else than *launching* kernels: it does not wait for them (PyTorch, *CUDA semantics*, “Asynchronous execution”). So the speed
# of a model with many small kernels is that of its launches. In `DataParallel` the threads of all copies launch through one lock.
# Each DDP process has a lock of its own. (Python can be built without the lock since 3.13; then another of the answers may be right.)
#
# ## From DataParallel to DDP

# %% [markdown] tags=["two-hours-2"]
# | | DataParallel | DDP |
# | --- | --- | --- |
# | start | `python train.py` | `torchrun --nproc-per-node 4 train.py` |
# | set up | - | `init_process_group()`, device `LOCAL_RANK` |
# | wrap | `DataParallel(net.cuda())` | `DDP(net.to(device))` |
# | loader | `batch_size=128` | `batch_size=128 // world_size`, `sampler=DistributedSampler(data)` |
# | epoch | - | `sampler.set_epoch(epoch)` |
# | loss | of the whole batch | of this rank's part; gradients are averaged over ranks |
# | save, print | as it is | on rank 0 |

# %% [markdown]
# Wrapping a model in DDP also sends rank 0's weights to all other ranks. That is necessary: averaged gradients move all ranks by the
# same amount, so models that start from different weights stay apart. `DistributedSampler` gives each rank every fourth sample
# (lesson 03).
#
# Is it the same training? One epoch over the digits, both ways:

# %%
# %%ranks
from course_lib.data import load_digits
from course_lib.lessons.dataparallel.devices import ByHand
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

images, digits = load_digits()
pixels, targets = torch.from_numpy(images).float().flatten(1) / 16, torch.from_numpy(digits).long()
data = TensorDataset(pixels[:1408], targets[:1408])
sampler = DistributedSampler(data, shuffle=False)  # only so that both see the batches in the same order


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return len(loader), torch.nn.utils.parameters_to_vector(model.parameters()).detach()


dp_steps, dp_weights = train(ByHand(make_net(), 4), DataLoader(data, batch_size=128))
ddp = DistributedDataParallel(make_net())
steps, weights = train(ddp, DataLoader(data, batch_size=128 // 4, sampler=sampler))
print(f"DataParallel {dp_steps} steps, DDP {steps} steps")
print("the same model, up to rounding:", (weights - dp_weights).abs().max().item() < 1e-4)

# %% [markdown]
# Now somebody converts the script and forgets the sampler.

# %%
p = predict("01.sampler")

# %%
# %%ranks --predicted
ddp = DistributedDataParallel(make_net())
steps, weights = train(ddp, DataLoader(data, batch_size=128 // 4))
print(f"DataParallel {dp_steps} steps, DDP {steps} steps")
print("the same model:", (weights - dp_weights).abs().max().item() < 1e-4)

# %% [markdown]
# Everything runs, and nothing complains. Every rank reads all the data, here in the same order: the mean of four equal gradients is
# a step on 32 samples. Leave `batch_size=128` instead, and a step has 512. Each is another training, with its own learning rate.
#
# ## What goes wrong in real life
#
# **Half converted.** Launcher and sampler are there; the wrapper is still `DataParallel` on one device, or missing. Every rank
# trains, the losses fall, nothing complains:

# %%
# %%ranks
_, weights = train(make_net(), DataLoader(data, batch_size=32, sampler=sampler))
of_rank_0 = weights.clone()
dist.broadcast(of_rank_0, src=0)
print("my model is that of rank 0:", torch.equal(weights, of_rank_0))

# %% [markdown]
# Four models, each trained on a quarter of the data, and rank 0's is saved. `ddp-course doctor train.py` watches a whole script and
# names the parameters that no DDP model holds and that differ.
#
# - **What `forward` stores on the module is gone under `DataParallel`** (`self.last = x`): it was stored on a copy. Return it.
# - **The loss is a vector, and its `.item()` fails.** The module returned the loss itself: `gather` makes a vector of the
#   copies' losses (`Gather.forward`, `torch/nn/parallel/_functions.py`). Take `.mean()`, and know that with unequal parts this
#   is not the mean over the batch.
# - **Out of memory on GPU 0 only.** `DataParallel`: the outputs. A DDP script: somebody forgot the device, and all ranks put
#   something on `cuda:0`. (`torch.load` without `map_location` does that with whatever was saved there: lesson 14.)
# - **Keys begin with `module.`** in both: a checkpoint goes from one wrapper to the other, but not to the bare model. Save
#   `model.module`:

# %%
# %%ranks --only 0
print("DataParallel:", list(nn.DataParallel(make_net()).state_dict())[:2])
print("DDP:         ", list(ddp.state_dict())[:2])

# %% [markdown]
# ## Deeper: nothing overlaps
#
# `replicate` is done before the first layer starts. And its `Broadcast` is *one* node of the graph for *all* weights: the backward
# of that node begins when the last gradient of the last copy is there.

# %%
# %%ranks --only 0
from course_lib.lessons.dataparallel.devices import events, gather, parallel_apply, replicate, scatter

replicas = replicate(nn.Sequential(*(nn.Linear(8, 8) for _ in range(4))), 2)
for device, replica in enumerate(replicas):
    for layer in range(4):
        replica[layer].weight.register_hook(lambda _, place=(device, layer): events.append(place))
events.clear()
gather(parallel_apply(replicas, scatter(torch.ones(6, 8), 2))).sum().backward()
print(len(events[:-1]), "gradients, and then:", events[-1])

# %% [markdown]
# DDP starts to send the gradients of the last layers while those of the first layers are still being computed: that is what its
# buckets are for (lesson 04).
#
# > **On GPUs.** Autograd has a thread for each device, in C++ and without Python's lock (`Engine::start_device_threads` in
# > [`torch/csrc/autograd/engine.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/engine.cpp)), so the
# > copies' backwards run side by side. (Read, not run: it needs GPUs.)
#
# ## Rule of thumb
#
# > `DataParallel` copies the model in every forward and makes one process drive all GPUs. DDP copies it once, and then sends
# > gradients while it computes. Divide `batch_size`, add the sampler, and it is the same training.
#
# ## Your turn
#
# Three tasks wait in [exercises/01_dataparallel](../exercises/01_dataparallel.ipynb): the step by hand, the bytes as a formula, a
# script to convert.
#
# ## Further reading
#
# - `torch/nn/parallel/data_parallel.py`, `replicate.py`, `parallel_apply.py`: the four steps.
# - PyTorch, *CUDA semantics*, “Use nn.parallel.DistributedDataParallel instead of multiprocessing or nn.DataParallel”.
# - Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, 2009: the ring.
#
# **Next:** [lesson 02](02_process_groups.ipynb), how the processes find each other, or [lesson 03](03_samplers.ipynb), who
# gets which sample.
