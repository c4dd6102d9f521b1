# %% [markdown]
# # 02 · Process groups and init
#
# > *“`init_process_group` just sits there. No error, no output, four processes at zero percent. Which of them is it waiting
# > for?”*
#
# Before the first gradient is averaged, processes on several machines have to find each other. The picture shows who takes part.
# On each machine there is an [**agent**](glossary.ipynb), which is `torchrun`. It starts and watches the **workers** (solid arrows),
# the processes that run your script. (PyTorch's elastic launcher calls the workers of one agent a *worker group*. This course calls all ranks that start together a
# *gang*.) And there is one **store** for all: the dashed and the thin arrows lead to it.
#
# **You will be able to** start a script on two machines, say who sets rank, local rank and world size, read the error of a
# start that failed, make smaller groups without a deadlock, and end a process group, with gloo and with NCCL. 50 minutes;
# the sections under *Deeper* come on top, and nothing later needs them.
#
# **Before this:** lesson 00.

# %%
# %load_ext course_lib
from course_lib.lessons.process_groups.lab import draw_machines

draw_machines()

# %% [markdown]
# Which of them is it waiting for? `--no-init` gives you four ranks that have no process group yet. Rank 2 never asks for one, and
# the others lose their patience after a second instead of 30 minutes:

# %%
p = predict("02.missing_rank")

# %% claims={"59": "incomplete"}
# %%ranks 4 --no-init --predicted
import os
from datetime import timedelta

import torch.distributed as dist

if os.environ["RANK"] != "2":
    dist.init_process_group("gloo", timeout=timedelta(seconds=1))

# %% [markdown]
# Read the message of `DistStoreError` from its end. `//cpu//0/2` is a key, and with gloo its last number is the rank that has not
# come: rank 2. (`/group/0/1` at its beginning is the course's own. What stands under *stderr* is the wait that is over.) Without a
# `timeout` you would read this after 30 minutes.
#
# > **On GPUs (NCCL).** With NCCL the same fault looks different, and the log that people have is this one:
# >
# > ```
# > [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0',
# > but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0
# > ```
# >
# > Here the last number is *not* a rank. NCCL's communicator needs an id. Rank 0 makes it and stores it, all others wait for
# > it: so this message says that **rank 0** has not come, whichever rank prints it. The key is a counter, the number of communicators that
# > this group has made before (`ncclCommCounter_` and `broadcastUniqueNCCLID` in
# > [`ProcessGroupNCCL.hpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp#L1063)).
# > If another rank is missing, all have the id, and they wait inside NCCL.
# >
# > It also comes later. Under `torchrun`, `init_process_group("nccl")` *returns* although a rank is missing. It ends with a barrier only
# > if `TORCH_DIST_INIT_BARRIER=1` is set
# > ([`_is_barrier_after_init`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/distributed_c10d.py#L1411)), and the
# > communicator is made by the first collective, unless you give a `device_id`
# > ([docstring](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/distributed_c10d.py#L1741)). Your script then
# > waits in DDP's constructor. (Read, not run: it needs GPUs.)
#
# | | key in the message | its last number | who has not come |
# | --- | --- | --- | --- |
# | gloo | `/default_pg/0//cpu//0/2` | a rank | that rank |
# | NCCL | `/default_pg/0//cuda//0` | a counter | rank 0 |
#
# ## The store: a dictionary that waits
#
# `init_process_group` first reads four environment variables: `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`
# (`init_method="env://"`, the default: `_env_rendezvous_handler` in `torch/distributed/rendezvous.py`). At that address and port
# is a **store**: a table of keys and values that all ranks can reach. Store, rank and world size are what PyTorch calls the result of a
# [**rendezvous**](glossary.ipynb). Unlike a dictionary's, the store's `get` waits until somebody has `set` the key.
# (`--fresh` starts new ranks first.)

# %%
# %%ranks 4 --fresh
import os

import torch.distributed as dist

store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
rank = dist.get_rank()
store.set(f"lesson/{rank}", f"house {rank}")
[store.get(f"lesson/{other}").decode() for other in range(4)]

# %% [markdown]
# Now they could connect. This is what gloo does: each rank writes its address under a key with its own number, and waits for the keys
# of all others. So the three ranks above waited for *rank 2's key*. Here they are again, drawn from what each of them said:

# %%
from course_lib.lessons.process_groups.lab import draw_start, start_ranks

start = start_ranks(come=[0, 1, 3])
draw_start(start)

# %% [markdown]
# A dashed arrow is a wait. Now you decide who comes. Find a start in which *no* rank can name the one that is missing. (Without
# `torchrun`, rank 0 holds the store: `_create_c10d_store` in `rendezvous.py`.)

# %%
from course_lib.lessons.process_groups.lab import explore_start

explore_start(start)

# %% [markdown]
# On gloo there are three messages, and each means that somebody is not there. “wait timeout” names the rank (of several, the first). “3/4 clients joined”
# says how many have come. “The client socket has timed out” means that nobody listens: the rank or agent that holds the store has not
# come. The log of the *missing* process says why: it failed while importing, still loads data, or was never started.
#
# **Read a log.** Three logs from three clusters. In each, which process do you look at?
#
# 1. `[rank5]: DistStoreError: wait timeout after 1800000ms, keys: /default_pg/0//cpu//0/3`
# 2. `[5] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '1', but store->get('1') got
#    error: wait timeout after 600000ms, keys: /default_pg/0//cuda//1`
# 3. `[rank1]: DistNetworkError: The client socket has timed out after 1800000ms while trying to connect to (10.0.0.1, 29500).`
#
# <details><summary>The answers</summary>
#
# 1. gloo: rank 3.
# 2. NCCL: rank 0. Neither rank 5, which prints this, nor rank 1: the 1 is a counter. This group has made a communicator before,
#    so rank 0 was there, and then did something else.
# 3. Whoever should listen on 10.0.0.1: the agent of machine 0, or rank 0 where no agent holds the store. Or a firewall, or a wrong
#    address.
#
# </details>
#
# ## torchrun: who says who is who
#
# Somebody has to set these variables, differently in every process. That is what a launcher is for. For two machines with two
# processes each you type one line on each machine:
#
# ```bash
# # on machine 0, whose address is 10.0.0.1
# torchrun --nnodes=2 --nproc-per-node=2 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 train.py
# # on machine 1
# torchrun --nnodes=2 --nproc-per-node=2 --node-rank=1 --master-addr=10.0.0.1 --master-port=29500 train.py
# ```
#
# Whoever comes first waits for the other. The address must be one that *all* machines can reach (not 127.0.0.1), and no
# firewall may block the port. Let two ranks play these two machines. Each runs its line, with a script that prints its variables.

# %% tags=["hide-input"] jupyter={"source_hidden": true}
import os
import tempfile

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)  # where the next cells write and run their files

# %%
# %%writefile who.py
import json
import os

names = "RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"
print(json.dumps({name: os.environ[name] for name in names}), flush=True)

# %%
p = predict("02.second_machine")

# %% [markdown]
# `run` does for a function what `%%ranks` does for a cell. Each of two ranks, without a process group, calls `torchrun(line)`, which
# starts that line:

# %%
from course_lib.lessons.process_groups.lab import free_port, torchrun

line = (
    "torchrun --nnodes=2 --nproc-per-node=2 --node-rank={node}"
    f" --master-addr=127.0.0.1 --master-port={free_port()} who.py"
)
out = run(torchrun, line, ranks=2, init=False, expect="predicted")

# %%
print(*out.values[0], *out.values[1], sep="\n")
draw_machines(out)

# %% [markdown]
# `RANK` counts over all machines. `LOCAL_RANK` begins anew on each, and is, by custom, the number of your GPU there. `GROUP_RANK` is
# the machine. `WORLD_SIZE` is the number of all processes, whatever hardware they run on. On one machine `RANK` and `LOCAL_RANK`
# are equal, and that is how scripts that mix them up pass their tests. (`torchrun` sets more: `worker_env` in
# `torch/distributed/elastic/agent/server/local_elastic_agent.py`.)
#
# On one machine `--standalone` is enough: `torchrun` chooses a free port (`run` in `torch/distributed/run.py`). With
# `--rdzv-backend=c10d` you type the *same* line on every machine, and the agents number the machines themselves. Under Slurm
# this fits: one task per machine, and each task is an agent ([lesson 16](16_cluster.ipynb) has a whole job):
#
# ```bash
# #SBATCH --nodes=2 --ntasks-per-node=1
# head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$head:29400 --rdzv-id=$SLURM_JOB_ID train.py
# ```
#
# ## Backends: which one when
#
# A tensor needs a backend that carries it. Leave the backend's name out, and torch decides by itself.

# %%
p = predict("02.other_kind")

# %% claims={"22": "wrong"}
# %%ranks 2 --no-init --predicted
import torch.distributed as dist

can = {name: dist.Backend.backend_capability[name] for name in ("gloo", "nccl")}
print("can carry:", can)
{device: dist.get_default_backend_for_device(device) for device in ("cpu", "cuda")}

# %% [markdown]
# The device decides, and nobody asks how many machines there are (`Backend.default_device_backend_map` in
# `torch/distributed/distributed_c10d.py`). CUDA tensors: **NCCL**, in one machine or in a hundred. CPU tensors: **gloo**,
# because NCCL cannot carry them. gloo carries CUDA tensors, too; this course uses it where there are more ranks than GPUs, which
# NCCL refuses by default.
#
# So say `"nccl" if cuda else "gloo"` in a script, as lesson 00's does.
#
# ## One GPU per rank
#
# A rank selects its GPU first, because the group, the first collective and DDP's constructor all use it:
#
# ```python
# device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
# torch.cuda.set_device(device)                        # without it, every rank uses GPU 0
# dist.init_process_group("nccl", device_id=device)
# model = DistributedDataParallel(model.to(device), device_ids=[device])
# ```
#
# > **On GPUs (NCCL).** With `device_id` NCCL connects at once, in `init_process_group`, so a rank that is missing shows there
# > and not in the first collective. `barrier()` then uses this GPU; without it, it takes the current one and warns
# > ([`barrier`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/distributed_c10d.py#L5332)).
# > `CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc-per-node=2 train.py` hides all GPUs but these two and numbers them from 0, so
# > `LOCAL_RANK` fits as it is (CUDA's programming guide). (Read, not run: it needs GPUs.)
#
# ## Smaller groups
#
# A collective need not take all ranks. `new_group` makes a group of some, and DDP takes one as `process_group`. “To
# synchronise less often, let DDP work in smaller groups”, says a forum. Two pairs of ranks, one DDP model, three steps
# (`compare`, the course's, says whether all ranks hold the same):

# %% claims={"40": "incomplete"}
# %%ranks 4 --fresh
import torch
import torch.distributed as dist
from course_lib.watch import compare
from torch.nn.parallel import DistributedDataParallel

rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(6, 1, bias=False), process_group=pairs[rank // 2])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)  # other data on every rank
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 6)).square().mean().backward()
    optimizer.step()
compare(model.module)

# %% [markdown]
# Two pairs are two trainings. Each pair synchronises as often as before, at *every* step, and with the other pair never.
# Synchronising less often is something else (lesson 05).
#
# Groups are made for models that do not fit on one GPU (lesson 17). Such a model is split over the GPUs of one machine, and its
# gradients are averaged over the machines. Four ranks then form a grid:
#
# | | GPU 0 | GPU 1 | its row holds |
# | --- | --- | --- | --- |
# | machine 0 | rank 0 | rank 1 | one model, in two parts |
# | machine 1 | rank 2 | rank 3 | a copy of it, in two parts |
#
# Each rank is in two groups. Ranks 0 and 1 are a row: together they compute one forward. Ranks 0 and 2 are a column: they hold the
# same part, and average its gradients.
#
# ## Everybody calls new_group
#
# PyTorch's documentation says that *all* ranks must call `new_group`, also those that will not be members. Sooner or later
# somebody forgets it:

# %%
p = predict("02.new_group")

# %%
# %%ranks 3 --fresh --predicted
import torch
import torch.distributed as dist

rank = dist.get_rank()
x = torch.tensor([float(rank)])
if rank < 2:
    pair = dist.new_group([0, 1])
    dist.all_reduce(x, group=pair)
x.item()

# %% [markdown]
# With gloo the two find each other, and 0 + 1 = 1: rank 2 is not needed for a group of the others. (`new_group` ends with a barrier only
# if you ask for it, with `TORCH_DIST_INIT_BARRIER=1`.)
#
# The damage comes with a later group. All three ranks below make the same two groups, but rank 2 begins with the one that is its own
# (`--expect` says how a cell ends where that is no question any more):

# %%
# %%ranks 3 --fresh --expect hang
import torch.distributed as dist

groups = [[0, 1, 2], [2]]
if dist.get_rank() == 2:
    groups.reverse()
made = [dist.new_group(ranks) for ranks in groups]

# %% [markdown]
# A group has no name but a number: how many groups this rank has made before (`_process_group_name` in `distributed_c10d.py`). Under
# that number a rank writes its address into the store. For ranks 0 and 1 the group of all is number 1, for rank 2 it is number 2.
# So they wait under different keys, in a line that has no mistake in it. A group that some ranks have left out, like the pair above,
# shifts the numbers in the same way.
#
# > **On GPUs (NCCL).** With `device_id` the forgotten call hangs at once. `new_group` then splits the default group's
# > communicator, and *all* of its ranks must take part in `ncclCommSplit`, members or not: see the comment in
# > [`_new_process_group_helper`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/distributed_c10d.py#L2040).
# > (Read, not run: it needs GPUs.)
#
# So make all groups in one place, at the start, in the same order on every rank, and use those that you are in. For a grid,
# `init_device_mesh` does this for you:

# %%
# %%ranks 4 --fresh
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("column", "row"))  # "cuda" on GPUs
along_row = torch.tensor([float(dist.get_rank())])
down_column = along_row.clone()
dist.all_reduce(along_row, group=mesh.get_group("row"))
dist.all_reduce(down_column, group=mesh.get_group("column"))
print(f"sum of my row {along_row.item()}, of my column {down_column.item()}")

# %% [markdown]
# By hand it is one `new_group` for each row and each column, on every rank (task 2). There is one exception to the rule: with
# `use_local_synchronization=True` only the members call `new_group`, because the name of such a group is made from its members'
# numbers, and from how many groups they have made (`_hash_ranks_to_str`). Nobody else has to count.
#
# ## Timeouts
#
# The timeout that you give at the start is for the default group alone. A new group has the default again.
# (`_get_backend` and `_timeout` are private: good for a look, not for your code.)

# %%
# %%ranks 2 --no-init --fresh
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
for group in (dist.group.WORLD, dist.new_group(), dist.new_group(timeout=timedelta(seconds=0.4))):
    print(group._get_backend(torch.device("cpu")).options._timeout)

# %% [markdown]
# A long timeout does not make a run safer: it only puts off the moment at which you hear of a fault. Choose one a little longer
# than the longest wait of a healthy run (the first batch, an evaluation on one rank, a checkpoint).
#
# ## The end
#
# At the end of a script, on every rank: first let the wrapped model go, then destroy the group. Lesson 00's script does it in this
# order. The model is a variable of `main`, `gc.collect()` frees it (a DDP model may refer to itself in a circle, so it can outlive its last name),
# and then comes `destroy_process_group()`. In another order, a part of the runs ends with an abort or a hang; *Deeper* shows why.
#
# And after an exception? “Put a barrier before it, so that all leave together.” Rank 1 fails here, and tidies up:

# %%
# %%ranks 2 --fresh --expect hang
import torch
import torch.distributed as dist

try:
    if dist.get_rank() == 1:
        raise ValueError("the loss is not a number")
    dist.all_reduce(torch.ones(1))
finally:
    dist.barrier()  # never here
    dist.destroy_process_group()

# %% [markdown]
# Rank 1 waits in `barrier` for rank 0, which waits for it in `all_reduce`. The traceback is not printed, no process ends, and
# `torchrun` sees healthy processes only. So there is one rule for each way out:
#
# - **All is well.** Destroy the group on every rank. A barrier before it does no harm. It is needed only in a script that is over at
#   once: a rank that destroys its group while another still connects to it may leave that rank waiting.
# - **A rank has failed.** No barrier, no collective: nobody answers. With gloo, `destroy_process_group` itself waits for nobody,
#   so you can call it in a `finally`. With NCCL you cannot:
#
# > **On GPUs (NCCL).** `destroy_process_group` is for the good path. It is NCCL's *normal exit*
# > ([`ProcessGroupNCCL::shutdown`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp#L980);
# > `abort` is another function), and it waits until all kernels have ended (the comment above it in
# > [`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)). The
# > kernel of a collective that the others never join does not end: in a `finally`, a rank that has failed would hang with its
# > traceback unprinted. After an exception let the process end; `torchrun` ends the others. (Read, not run: it needs GPUs.)
#
# In a notebook you run cells again, and a second `init_process_group` is refused. Ask `dist.is_initialized()` first. If it says
# yes, keep the group: a model that was made with it would not use a second one. If it says no, there is nothing to destroy, and torch
# raises if you try. Do not keep the answer in a variable of your own: it would not notice when somebody else makes or destroys
# the group.
#
# ## What goes wrong in real life
#
# - **It hangs at the start on the cluster, and not on your machine.** `RANK` taken from the local rank: right on one machine.
# - **“wait timeout”, “1/2 clients joined”, “connect timeout”.** One process has not come. Read *its* log, not this one. On gloo a
#   rank number in the key says which; with NCCL it is rank 0.
# - **All have come, and the first collective hangs.** They tell each other an address that the others cannot reach, a container's for example.
#   `GLOO_SOCKET_IFNAME=eth0` or `NCCL_SOCKET_IFNAME=eth0` chooses the network interface (PyTorch, *Distributed communication
#   package*, “Common environment variables”). `NCCL_DEBUG=INFO` has NCCL print which one it takes.
# - **In a container: “No space left on device”, or “Bus error” in a `DataLoader`.** NCCL and the loader's workers use shared memory, of
#   which Docker gives 64 MiB. Start it with `--ipc=host` or `--shm-size=8g` (PyTorch's README, “Docker Image”).
# - **“Address already in use.”** Yesterday's job still runs, or two jobs share the machine. Let `torchrun` choose the port
#   (`--standalone`), or give each job its own.
# - **“environment variable RANK expected, but not set.”** The script was started with `python`. Start it with `torchrun`.
# - **It hangs in a `new_group` that is right.** Count the groups made before, on every rank.
# - **The notebook says “initialize the default process group twice”.** Ask `dist.is_initialized()` first, as task 1 does.
#
# ## Rule of thumb
#
# > Let `torchrun` say who is who, and let the device choose the backend. Every rank makes every group, in the same order. At the
# > end drop the model, destroy the group, wait for nobody: with gloo in a `finally`, with NCCL only if nothing was raised.
#
# ## Your turn
#
# Three tasks wait in [exercises/02_process_groups](../exercises/02_process_groups.ipynb): a start and an end that can be called
# at any time, the groups of a grid, and a start script with several faults.
#
# **Your script.** One of the faults in `exercises/script/train.py` is this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair it; in a terminal, this says whether it is gone:
#
#     ddp-course check --suspect 02 exercises/script/train.py
#
# ## Deeper
#
# ### What destroy_process_group does
#
# What does `destroy_process_group` do? gloo keeps threads, so count them:

# %% claims={"25": "refined"}
# %%ranks 2 --no-init --fresh
import gc

import torch
import torch.distributed as dist
from course_lib.lessons.process_groups.lab import threads

before = threads()
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
model(torch.ones(1, 2)).sum().backward()
group = dist.group.WORLD  # see below why
dist.destroy_process_group()
print("destroyed, but the model and a name hold it; threads are left:", threads() > before)
del model
gc.collect()
del group
print("nobody holds it; threads are left:", threads() > before)

# %% [markdown]
# `destroy_process_group` shuts the group down and forgets it. Its threads end only when nobody holds the group any more, and a DDP
# model holds it. If the model outlives `destroy_process_group`, two things can happen, each on some runs only:
#
# - The process ends while the threads still run. Then C++ may abort it after your last line (“terminate called without an active
#   exception”), and its exit code is not 0. Lesson 00's script without `gc.collect()` ended so in 7 of 36 launches on torch 2.13.0,
#   and with it in none of 20.
# - The model goes later, and is the last that holds the group. Then it waits for the threads to end, and keeps Python's lock (the GIL)
#   meanwhile. A thread that needs this lock to finish its last collective waits for the model: a deadlock
#   ([pytorch#56297](https://github.com/pytorch/pytorch/issues/56297) describes the kind). The name `group` in the cell above avoids it,
#   because letting a *name* go gives the lock back first.
#
# ### device_ids
#
# `device_ids` is for a model on a GPU, and it takes one device:

# %% claims={"44": "incomplete", "47": "outdated"}
# %%ranks 2 --fresh
import torch

for ids in (None, [0], [0, 1]):
    try:
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), device_ids=ids)
        print(ids, "works")
    except ValueError as error:
        print(ids, str(error).partition(", but got")[0])

# %% [markdown]
# For a model on the CPU leave it out. Several devices per process, with a copy of the model on each, were possible once, and what
# DDP's forward then synchronised between the copies is still described in places. Now one process has one copy.
# `output_device` has no effect any more: the constructor checks and stores it, no forward reads it
# (`torch/nn/parallel/distributed.py`).
#
# ### Every way to start wrong
#
# Two of them you have seen: a rank that does not come, and a store that is not there. Here are four more, each in a script that
# the doctor runs (`ddp-course doctor script.py` does the same in a terminal). `print(*BROKEN.values())` shows the scripts.

# %% claims={"26": "holds", "59": "incomplete"}
from course_lib.lessons.process_groups.starts import BROKEN, examine_broken_starts, verdict

for name, examination in examine_broken_starts().items():
    print(f"{name}: {verdict(examination)}")

# %% [markdown]
# Two of the four say nothing by themselves until the timeout. A port that is taken is an error, but only on rank 0: the other
# rank has connected to the program that has the port, and waits for its answer. `torchrun` chooses a free port on one
# machine (`run` in `torch/distributed/run.py`), and everywhere it sets the numbers: most of this list cannot
# happen to a script that leaves them alone.
#
# ### Three kinds of store, and yesterday's file
#
# A URL says where the store is. `env://`: a TCP store, its address from the environment. Use this one: the script
# does not know where it runs. `tcp://host:port`: the same store, its address in the script. `file://path`: a file that all ranks
# can see, and no port that could be taken. The last rank that closes it removes it. A run that is killed leaves it:

# %%
from course_lib.lessons.process_groups.starts import meet_after_a_kill

left, out = meet_after_a_kill()
print("left behind by the first run:", left)
print("the second run:", out.kind.value, "on rank", *out.errors)
print(out.diagnosis.summary.partition(", at ")[0])

# %% [markdown]
# Rank 1 does not wait for rank 0. It finds rank 0's address of yesterday, and connects to a process that has ended. (When both
# start together, it is a race.) Give each run a new name, such as the job's number; the same goes for
# every store that outlives a run.
#
# ### Older scripts: `--local_rank` and `torch.distributed.launch`
#
# Older tutorials read the local rank from an option, and start the script with another launcher. Both launchers, one such script:

# %% claims={"42": "outdated", "43": "wrong"}
from course_lib.lessons.process_groups.lab import old_launcher, told_by_torchrun
from course_lib import run_quietly

SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
print("--local_rank:", parser.parse_args().local_rank, flush=True)
"""
for launcher in (told_by_torchrun, old_launcher):
    ended = run_quietly(launcher, SCRIPT, ranks=1, init=False)
    print(f"{launcher.__name__}:", ended.values[0], sep="\n")

# %% [markdown]
# `torchrun` passes no such option: every process gets the default, and no error. `torch.distributed.launch` is deprecated,
# and since torch 2.0 it says `--local-rank`, with a hyphen, which `argparse` does not take for `--local_rank` (the docstring of
# `torch/distributed/launch.py` warns of it). One line works with both: `int(os.environ["LOCAL_RANK"])`.
#
# ### mp.spawn: half a launcher
#
# `torch.multiprocessing.spawn` starts processes from the script itself. “It gives each process its rank and its GPU.” Here is
# all that it gives. (`start_processes` is what `spawn` calls; with `fork` nobody has to import torch again.)

# %% claims={"20": "refined", "24": "incomplete"}
# %%ranks 1 --no-init --fresh
import os

import torch.multiprocessing as mp

before = dict(os.environ)


def process(index, queue):
    queue.put((index, sorted(name for name in os.environ if os.environ[name] != before.get(name))))


queue = mp.get_context("fork").SimpleQueue()
mp.start_processes(process, args=(queue,), nprocs=2, start_method="fork")
print("index, and what is new in the environment:", sorted(queue.get() for _ in range(2)))
print("with nprocs=0:", mp.spawn(process, args=(queue,), nprocs=0))

# %% [markdown]
# An index, and nothing else: no `RANK`, no `CUDA_VISIBLE_DEVICES`. The index is the rank as long as there is one machine, and you select the
# GPU yourself (`torch.cuda.set_device(index)`). Asked for no processes, `spawn` starts none and
# returns (the last line).
#
# Two errors come from the start method. “Can't pickle local object” (or “Can't get attribute”): with `spawn`, the default of `torchrun`'s
# library, too, a new interpreter looks the function up by its name in a file. So it must not be a lambda, a local function or one of a notebook's cell. “Cannot re-initialize CUDA in forked subprocess”: CUDA was used before the fork, so take
# `spawn`. (The second one needs a GPU and is not run here.)
#
# Samples on the web like to ask for as many processes as there are GPUs. One of them, from an article on DDP problems (`print(SAMPLE)`), run by the doctor as it stands, and then with one repair more each time:

# %% claims={"23": "wrong"}
from course_lib.lessons.process_groups.starts import SAMPLE, examine_sample, found

for name, examination in examine_sample().items():
    print(f"{name:17}", found(examination))

# %% [markdown]
# (The first line is the doctor's own: it has found nobody to watch. Started by hand, the sample ends without a word.) Read the
# number of processes from the launcher, not from the hardware, and a script runs on a laptop too.
#
# ### NCCL's variables for timeouts
#
# “`NCCL_ASYNC_ERROR_HANDLING` and `NCCL_BLOCKING_WAIT` decide what happens when the timeout is over.” Set both. Rank 0's timeout is
# that of the cell, in seconds, and rank 1 calls `all_reduce` when it is over. Then look up what NCCL's part of torch calls the
# two variables:

# %% claims={"41": "outdated"}
from course_lib.lessons.process_groups.starts import come_too_late, nccl_names

timeout = 2
print(run_quietly(come_too_late, timeout, ranks=2).values)
print(*run_quietly(nccl_names, "ASYNC_ERROR_HANDLING", "BLOCKING_WAIT", ranks=1).values[0], sep="\n")

# %% [markdown]
# gloo has its own timeout and reads none of these variables: rank 0 gave up with an error, and the group cannot be used after
# that, as rank 1 found out. For NCCL the names begin with `TORCH_` now, and the old ones are read as second names
# ([`ProcessGroupNCCL.hpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp#L60),
# among the headers that come with torch). `torchrun` switches the error handling on (`LocalElasticAgent._start_workers`,
# `torch/distributed/elastic/agent/server/local_elastic_agent.py`).
#
# ### What a start costs
#
# “Starting ranks takes seconds.” Which part of it? `torchrun` once more, with a script that notes the time of each step:

# %% claims={"63": "refined"}
from course_lib.lessons.process_groups.starts import draw_start_times, time_starts

times = time_starts()
print("the group is quicker than the import of torch:", times.meeting < times.loading)
print("ranks of the course are ready before torchrun's have loaded torch:", times.course < times.loaded)
draw_start_times(times)

# %% [markdown]
# Rendezvous, connections and the first collective are a narrow part at the end. In a terminal, `torchrun` itself begins with
# `import torch` as well (`torch/distributed/run.py`). Here it was forked from a process that had torch loaded. So are the ranks
# of this course, and that is why they start so quickly.
#
# ## Further reading
#
# - `torch/distributed/rendezvous.py`: short and readable. Every URL ends here.
# - PyTorch, *torchrun (Elastic Launch)* in the documentation: the options, and all the variables it sets.
# - PyTorch, *Distributed communication package*: the section on backends.
#
# **Next:** [lesson 03](03_samplers.ipynb), *Samplers*: who gets which sample.
