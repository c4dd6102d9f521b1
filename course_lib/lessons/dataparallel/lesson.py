# %% [markdown]
# # 01 · DataParallel vs DDP
#
# > *“`nn.DataParallel` is one line and needs no launcher. Why does everybody tell me to use DDP, even on one machine?”*
#
# `DataParallel` is *one* process that drives several GPUs. DDP is one process *per* GPU. People say that under `DataParallel` the first
# GPU does all the work, and that its memory fills up. Each is half true.
#
# **You will be able to** say what each of the two holds and sends in a step, follow a ring all-reduce, and turn a
# `DataParallel` script into a DDP script that trains the same model. 35 minutes.
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
# Device 0 is full, and the others hold little. Weights, gradients and Adam's numbers take no more on device 0 than on a DDP rank
# with its buckets (what DDP sends gradients in, lesson 04). The difference is *outputs and loss*: `gather` has brought the outputs of
# the **whole batch** to device 0. This part grows with the batch, and you enlarge the batch with every GPU that you add.
#
# All devices together hold *more* with DDP: each rank has Adam's numbers, and buckets. DDP does not save memory. It spreads it evenly,
# and the fullest device decides what fits.
#
# (For DDP nothing is pretended. `DataParallel` is a model here, because it needs two GPUs: its four steps, in real threads and with real
# gradients, on devices that are only numbers. `devices??` shows it after `from course_lib.lessons.dataparallel import devices`.)
#
# ## Where the gradients meet
#
# An article says that the master device computes the loss, *does the back-propagation* and hands out the new weights. Here is one step,
# both ways, on the same batch. Who computes a gradient, and who has that of the whole batch? A hook notes what each computes by itself.

# %% claims={"55": "wrong"}
# %%ranks
import torch
from course_lib.lessons.dataparallel.devices import gather, moved, parallel_apply, replicate, scatter
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

inputs, labels = a_batch()
alone = make_net()
cross_entropy(alone(inputs), labels).backward()  # one device, to compare with


def right(gradient):
    return torch.allclose(gradient, alone[0].weight.grad, atol=1e-6)


own, ddp = {}, DistributedDataParallel(make_net())
ddp.module[0].weight.register_hook(lambda gradient: own.update({rank: gradient.clone()}))
cross_entropy(ddp(inputs[rank::4]), labels[rank::4]).backward()
print("DDP, this rank: own gradient right:", right(own[rank]), end="; ")
print("after backward:", right(ddp.module[0].weight.grad))

if rank == 0:
    own, net = {}, make_net()
    replicas = replicate(net, 4)
    for device, copied in enumerate(replicas):
        copied[0].weight.register_hook(lambda g, device=device: own.update({device: g.clone()}))
    outputs = gather(parallel_apply(replicas, scatter(inputs, 4)))
    cross_entropy(outputs, labels).backward()
    print("DataParallel: own gradients right:", *map(right, own.values()), end="; ")
    print("their sum, on device 0:", right(sum(own.values())), right(net[0].weight.grad))

# %% [markdown]
# The loss is computed on device 0. The back-propagation is not: from the loss, the gradient goes back through `gather`, and each
# copy's part of the graph runs on its own device. Device 0 *adds up* their gradients. In DDP they meet on every rank, in an all-reduce.
#
# And the real `DataParallel`? With fewer than two GPUs it calls your module once, with the whole batch, and does not warn:

# %% tags=["nbval-ignore-output"] claims={"55": "not runnable here"}
# %%ranks --only 0
real = nn.DataParallel(make_net().to("cuda" if torch.cuda.is_available() else "cpu"))
real.module.register_forward_pre_hook(lambda _, x: print("called with", len(x[0]), "samples"))
results = real(inputs)
cross_entropy(results, labels.to(results.device)).backward()
print("its gradient is right:", right(real.module[0].weight.grad.cpu()))

# %% [markdown]
# When do the other devices get the new weights? Watch an evaluation, in which nothing changes.

# %%
p = predict("01.weights_copied")

# %%
# %%ranks --only 0 --predicted
size = sum(weight.nbytes for weight in net.parameters())
moved.clear()  # counts the bytes that go from one device to another
with torch.no_grad():
    gather(parallel_apply(replicate(net, 4), scatter(inputs, 4)))
of_the_batch = (inputs.nbytes + outputs.nbytes) * 3 // 4  # three quarters are on other devices
weights_copied = (moved.total() - of_the_batch) / size
weights_copied

# %% [markdown]
# Nobody hands out anything until the next `forward`. It copies all weights to all devices again, whether they have changed or not.
# With 8 devices, device 0 sends 7 times the size of the model in every forward. A DDP rank sends no weights, only
# gradients (and buffers where a model has some, lesson 09).
#
# > **On GPUs (NCCL).** Where NCCL can, `replicate` and the sum of the gradients go through NCCL's own broadcast and reduce, which take
# > load off device 0 (`reduce_add` in `torch/nn/parallel/comm.py`, `broadcast` in
# > [`torch/csrc/cuda/comm.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/cuda/comm.cpp)). Every device must
# > still *receive* all weights in every step. (Read, not run: it needs GPUs.)
#
# ## The ring
#
# How do the ranks add up their gradients without a device 0? Cut the tensor into as many chunks as there are ranks, and let each
# rank send to the next one only:

# %%
# %%ranks --as out
ranks = dist.get_world_size()


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
# a step on 32 samples. Keep the sampler, but leave `batch_size=128`, and a step has 512. Each is another training, with its own learning rate.
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
# - **Out of memory on GPU 0 only.** `DataParallel`: the outputs. A DDP script: somebody forgot the device, and all ranks put
#   something on `cuda:0`. (`torch.load` without `map_location` does that with whatever was saved there: lesson 14.)
# - **Keys begin with `module.`** in both: a checkpoint goes from one wrapper to the other, but not to the bare model. Save
#   `model.module`:

# %%
# %%ranks --only 0
print("DataParallel:", list(nn.DataParallel(make_net()).state_dict())[:2])
print("DDP:         ", list(ddp.state_dict())[:2])

# %% [markdown]
# ## Rule of thumb
#
# > `DataParallel` copies the model in every forward and makes one process drive all GPUs. DDP copies it once, and then sends
# > gradients while it computes. Divide `batch_size`, add the sampler, and it is the same training.
#
# ## Your turn
#
# One task waits in [exercises/01_dataparallel](../exercises/01_dataparallel.ipynb): a script to convert.
#
# ## Deeper: threads and the lock
#
# `DataParallel` calls each copy in a *thread*. Python's global interpreter lock (GIL) lets one thread at a time run Python. How
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
# The lock is real, but PyTorch releases it *inside* an operation. What queues is the Python between operations. On a GPU, Python mostly
# *launches* kernels, and does not wait for them (PyTorch, *CUDA semantics*, “Asynchronous execution”). In `DataParallel` the threads
# of all copies launch through one lock. Each DDP process has its own lock. (Python can be built without the lock since 3.13; then
# another of the answers may be right.)
#
# ## Further reading
#
# - PyTorch, *CUDA semantics*, “Use nn.parallel.DistributedDataParallel instead of multiprocessing or nn.DataParallel”.
# - Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, 2009: the ring.
#
# **Next:** [lesson 02](02_process_groups.ipynb), how the processes find each other, or [lesson 03](03_samplers.ipynb), who
# gets which sample.
