# %% [markdown]
# # 02 · Process groups and init
#
# > *“`init_process_group` just sits there. No error, no output, four processes at zero percent. Which of them is it waiting
# > for?”*
#
# Before the first gradient is averaged, processes on several machines have to find each other. The picture shows who takes
# part: on each machine an [**agent**](glossary.ipynb) (`torchrun`), which starts and watches the **workers**, the processes
# that run your script, and one **store** for all.
#
# **You will be able to** start a script on two machines, say who sets rank, local rank and world size, read the error of a
# start that failed, make smaller groups without a deadlock, and end a process group, with gloo and with NCCL. 25 minutes;
# the sections under *Deeper* come on top, and nothing later needs them.
#
# **Before this:** lesson 00.

# %%
# %load_ext course_lib
from course_lib.lab.process_groups import draw_machines

draw_machines()

# %% [markdown]
# First the question from above. `--no-init` gives you four ranks that have no process group yet. Rank 2 never asks for one:

# %%
p = predict("02.missing_rank")

# %% claims={"59": "incomplete"}
# %%ranks 4 --no-init --predicted
import os

import torch.distributed as dist

if os.environ["RANK"] != "2":
    dist.init_process_group("gloo")

# %% [markdown]
# They wait for as long as the `timeout` says: 30 minutes with gloo, unless you choose another. The verdict above is the course's.
# (It then freed the three ranks by closing their connections to the store. That is what the line under *stderr* is about.)
#
# ## The store: a dictionary that waits
#
# `init_process_group` first reads four environment variables, `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`
# (`init_method="env://"`, the default: `_env_rendezvous_handler` in `torch/distributed/rendezvous.py`). At that address and port
# is a **store**: a table of keys and values that all ranks can reach. Unlike a dictionary's, its `get` waits until somebody
# has `set` the key:

# %%
# %%ranks 4 --fresh
import os

import torch.distributed as dist

store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
rank = dist.get_rank()
store.set(f"lesson/{rank}", f"house {rank}")
[store.get(f"lesson/{other}").decode() for other in range(4)]

# %% [markdown]
# That is a whole [**rendezvous**](glossary.ipynb): each rank writes down its address, reads the addresses of the others, and connects. gloo
# does this with one key per rank. So the ranks above waited for *rank 2's key*, and torch says so when the time is up. Give it
# 0.3 seconds, and ask for two ranks where there is one:

# %%
# %%ranks 1 --no-init --fresh
from datetime import timedelta

import torch.distributed as dist

try:
    dist.init_process_group("gloo", rank=0, world_size=2, timeout=timedelta(seconds=0.3))
except dist.DistStoreError as error:
    print(str(error).replace("/group/0/1", ""))  # without the prefix that the course gives each group

# %% [markdown]
# It looks like noise, and it is the answer: the last number of the key is the rank that has not come. Here are four ranks
# again, real ones, with rank 2 missing. What each waits for is read from its own error message:

# %%
from course_lib.lab.process_groups import draw_start, start_ranks

draw_start(start_ranks(come=[0, 1, 3]))

# %% [markdown]
# Now you decide who comes. Try these: only rank 3; all but rank 0; all but rank 2. Then the same where rank 0 holds the store,
# as it does without `torchrun` (`_create_c10d_store` in `rendezvous.py`): there are two more messages for the same fault.

# %%
from course_lib.lab.process_groups import explore_start

explore_start()

# %% [markdown]
# Every message means that somebody is not there. “wait timeout” names the rank. “3/4 clients joined” says how many have come.
# “The client socket has timed out” means that the rank or agent that holds the store has not come. The log of the rank that is
# *missing* says why: it died while importing, still loads data, or was never started.
#
# ## torchrun: who says who is who
#
# Somebody has to set these variables, differently in every process. That is what a launcher is for. On two machines with two
# GPUs each you type one line on each:
#
# ```bash
# # on machine 0, whose address is 10.0.0.1
# torchrun --nnodes=2 --nproc-per-node=2 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 train.py
# # on machine 1
# torchrun --nnodes=2 --nproc-per-node=2 --node-rank=1 --master-addr=10.0.0.1 --master-port=29500 train.py
# ```
#
# Whoever comes first waits for the other. The address must be one that *all* machines can reach (not 127.0.0.1), and no
# firewall may block the port. Let two ranks play these two machines: each runs its line, with a script that prints its variables.

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

# %%
from course_lib.lab.process_groups import free_port, torchrun

line = (
    "torchrun --nnodes=2 --nproc-per-node=2 --node-rank={node}"
    f" --master-addr=127.0.0.1 --master-port={free_port()} who.py"
)
out = run(torchrun, line, ranks=2, init=False, expect="predicted")

# %%
print(*out.values[0], *out.values[1], sep="\n")
draw_machines(out)

# %% [markdown]
# `RANK` counts over all machines; `LOCAL_RANK` begins anew on each, and is, by custom, the number of your GPU there;
# `GROUP_RANK` is the machine; `WORLD_SIZE` is the number of all processes, whatever hardware they run on. On one machine `RANK`
# and `LOCAL_RANK` are equal, and that is how scripts that mix them up pass their tests.
#
# `torchrun` sets more (`worker_env` in `torch/distributed/elastic/agent/server/local_elastic_agent.py`).
# `TORCHELASTIC_USE_AGENT_STORE` says that the agent holds the store, so with `torchrun` the store stays when rank 0 dies.
#
# With `--rdzv-backend=c10d --rdzv-endpoint=10.0.0.1:29400 --rdzv-id=job7` you type the *same* line on every machine, without a
# number (lesson 12 uses this form). The agents then number the machines themselves (`_mark_rendezvous_complete` in
# `torch/distributed/elastic/rendezvous/dynamic_rendezvous.py`). On one machine `--standalone` is enough: `torchrun` chooses a free
# port (`run` in `torch/distributed/run.py`).
#
# ## Backends: which one when
#
# You will read: gloo for several GPUs in one machine, NCCL for several machines. Ask torch what *it* takes, by the device
# that the tensors are on:

# %%
p = predict("02.default_backend")

# %% claims={"22": "wrong"}
# %%ranks 2 --no-init --predicted --as out
import torch.distributed as dist

print("can carry:", {name: dist.Backend.backend_capability[name] for name in ("gloo", "nccl")})
{device: dist.get_default_backend_for_device(device) for device in ("cpu", "cuda")}

# %% [markdown]
# The device decides, and nobody asks how many machines there are (`Backend.default_device_backend_map` in
# `torch/distributed/distributed_c10d.py`). CUDA tensors: **NCCL**, in one machine or in a hundred. CPU tensors: **gloo**,
# because NCCL cannot carry them. gloo carries CUDA tensors, too; this course uses it where there are more ranks than GPUs,
# which NCCL refuses.
#
# Leave the name out, and torch looks at the machine. It chooses right, but `get_backend()` does not tell you. (Where it finds a
# GPU, it takes NCCL *alone*, and collectives on CPU tensors then fail.)

# %%
# %%ranks
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # so that this cell shows the same on every machine
dist.init_process_group()
print(dist.get_backend(), "/", dist.get_backend_config())

# %% [markdown]
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
# > and not in the first collective
# > ([docstring](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/distributed_c10d.py#L1741)). `barrier()` then uses
# > this GPU; without it, it takes the current one and warns
# > ([`barrier`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/distributed_c10d.py#L5332)).
# > `CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc-per-node=2 train.py` hides all GPUs but these two and numbers them from 0, so
# > `LOCAL_RANK` fits as it is (CUDA's programming guide). (Read, not run here.)
#
# `device_ids` is for a model on a GPU, and it takes one device:

# %% claims={"44": "incomplete", "47": "outdated"}
# %%ranks
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
# ## Smaller groups
#
# A collective need not take all ranks. `new_group` makes a group of some, and DDP takes one as `process_group`. “To
# synchronise less often, let DDP work in smaller groups”, one reads. Two pairs of ranks, one DDP model, three steps
# (`compare` says whether all ranks hold the same):

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
# What groups are really for is a model that is split in two directions. The ranks form a grid, counted along the rows: of four
# ranks, 0 and 1 are the first row, 0 and 2 the first column. Each rank is in two groups, its row and its column, and neither
# holds all ranks.
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
# With gloo the two find each other, and 0 + 1 = 1: rank 2 is not needed for a group of the others. (A barrier at the end of
# `new_group` exists only if you ask for it, with `TORCH_DIST_INIT_BARRIER=1`.) The damage comes with a later group. All three ranks
# below make the same two groups, but rank 2 begins with its own:

# %%
# %%ranks 3 --fresh --expect hang
import torch.distributed as dist

groups = [[0, 1, 2], [2]]
if dist.get_rank() == 2:
    groups.reverse()
made = [dist.new_group(ranks) for ranks in groups]

# %% [markdown]
# A group has no name but a number: how many this rank has made before (`_process_group_name` in `distributed_c10d.py`). Under
# that number it writes its addresses into the store. For ranks 0 and 1 the group of all is number 1, for rank 2 it is
# number 2. They wait under different keys, in a line that has no mistake in it. A group that some ranks have left out, like
# the pair above, shifts the numbers in the same way.
#
# > **On GPUs (NCCL).** With `device_id` the forgotten call hangs at once. `new_group` then splits the default group's
# > communicator, and *all* of its ranks must take part in `ncclCommSplit`, members or not: see the comment in
# > [`_new_process_group_helper`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/distributed_c10d.py#L2040).
# > (Read, not run here.)
#
# So make all groups in one place, at the start, in the same order on every rank, and use those that you are in:

# %%
# %%ranks 4 --fresh
import torch
import torch.distributed as dist

pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
x = torch.tensor([float(dist.get_rank())])
dist.all_reduce(x, group=pairs[dist.get_rank() // 2])
x.item()

# %% [markdown]
# (`use_local_synchronization=True` is the exception: such a group is named after its members and the number of groups they
# have, and only they call.)
#
# ## Timeouts
#
# The timeout that you give at the start is for the default group alone. A new group has its own:

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
# “`destroy_process_group` is crucial.” What does it do? gloo keeps threads, so count them:

# %% claims={"25": "refined"}
# %%ranks 2 --no-init --fresh
import gc

import torch
import torch.distributed as dist
from course_lib.lab.process_groups import threads

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
# `destroy_process_group` shuts the group down and forgets it. The threads end when nobody holds the group any more, and the
# DDP model holds it, too. That can end badly, each on some runs only:
#
# - A process that ends while the threads run may be aborted by C++ after your last line (“terminate called without an active
#   exception”).
# - When the model is the last that holds the group, it ends the threads and keeps Python's lock (the GIL) meanwhile. If one of
#   them needs the lock to put away its last collective, both wait for ever. Under `torchrun`, a loop of these lines without
#   `group` hung within 20 rounds on torch 2.13.0, and on 2.14.1 not in 200
#   ([pytorch#56297](https://github.com/pytorch/pytorch/issues/56297) describes the kind). A name gives the lock back first.
#
# So at the end of a script, on every rank: drop the model, then destroy the group.
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
# - **All is well.** A barrier before `destroy_process_group` does no harm, and is needed only in a script that is over at once:
#   a rank that destroys its group while another still connects to it may leave that rank waiting. Any collective does as well.
# - **A rank has failed.** No barrier, no collective: nobody answers. With gloo, `destroy_process_group` itself waits for nobody,
#   so you can call it in a `finally`.
#
# > **On GPUs (NCCL).** `destroy_process_group` is for the good path. It is NCCL's *normal exit*
# > ([`ProcessGroupNCCL::shutdown`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp#L980);
# > `abort` is another function), and it waits until all kernels have ended (the comment above it in
# > [`ProcessGroupNCCL.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)). The
# > kernel of a collective that the others never join does not end: in a `finally`, a rank that has failed would hang with its
# > traceback unprinted. After an exception let the process end; `torchrun` ends the others. (Read, not run here.)
#
# In a notebook you run cells again, and a second `init_process_group` is refused. Ask `dist.is_initialized()` first. If
# there is a group, leave it as it is: whatever uses the first one would be left behind by a second. If there is none, there is
# nothing to destroy, and torch raises if you try. Do not keep the answer in a variable of your own: it would not notice when
# somebody else makes or destroys the group.
#
# ## What goes wrong in real life
#
# - **It hangs at the start on the cluster, and not on your machine.** `RANK` taken from the local rank: right on one machine.
# - **“wait timeout”, “1/2 clients joined”, “connect timeout”.** One process has not come. Read *its* log, not this one. A rank
#   number in the key says which.
# - **“Address already in use.”** Yesterday's job still runs, or two jobs share the machine. Let `torchrun` choose the port
#   (`--standalone`), or give each job its own.
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
# ## Deeper
#
# Each of these sections stands alone.
#
# ### Every way to start wrong
#
# Two of them you have seen: a rank that does not come, and a store that is not there. Here are four more, each in a script that
# the doctor runs (`ddp-course doctor script.py` does the same in a terminal). `print(*BROKEN.values())` shows the scripts.

# %% claims={"26": "holds", "59": "incomplete"}
from course_lib.lab.starts import BROKEN, examine_broken_starts, verdict

for name, examination in examine_broken_starts().items():
    print(f"{name}: {verdict(examination)}")

# %% [markdown]
# Two of the four say nothing by themselves until the timeout. A port that is taken is an error, but only on rank 0: the other
# rank has reached *somebody* at that address, and waits for the answer of a stranger. `torchrun` chooses a free port on one
# machine (`run` in `torch/distributed/run.py`), and everywhere it sets the numbers: most of this list cannot
# happen to a script that leaves them alone.
#
# ### Three kinds of store, and yesterday's file
#
# A URL says where the store is. `env://`: a TCP store, its address from the environment. Use this one: the script
# does not know where it runs. `tcp://host:port`: the same store, its address in the script. `file://path`: a file that all ranks
# can see, and no port that could be taken. It is removed by the last rank that lets go of it. A run that is killed does not:

# %%
from course_lib.lab.starts import meet_after_a_kill

left, out = meet_after_a_kill()
print("left behind by the first run:", left)
print("the second run:", out.kind.value, "on rank", *out.errors)
print(out.diagnosis.summary.partition(", at ")[0])

# %% [markdown]
# Rank 1 does not wait for rank 0. It finds an address of rank 0 at once, yesterday's, and calls where nobody lives. (When both
# start together, it is a race.) Give each run a name that nobody has used before, such as the job's number; the same goes for
# every store that outlives a run.
#
# ### Older scripts: `--local_rank` and `torch.distributed.launch`
#
# Older tutorials read the local rank from an option, and start the script with another launcher. Both launchers, one such script:

# %% claims={"42": "outdated", "43": "wrong"}
from course_lib.lab.process_groups import old_launcher, told_by_torchrun
from course_lib import run_quietly

SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
print("--local_rank:", parser.parse_args().local_rank, flush=True)
"""
for launcher in (told_by_torchrun, old_launcher):
    print(f"{launcher.__name__}:", run_quietly(launcher, SCRIPT, ranks=1, init=False).values[0], sep="\n")

# %% [markdown]
# `torchrun` passes no such option: every process gets the default, and no error. `torch.distributed.launch` is deprecated,
# and since torch 2.0 it says `--local-rank`, with a hyphen, which `argparse` does not take for `--local_rank` (the docstring of
# `torch/distributed/launch.py` warns of it). One line works with both: `int(os.environ["LOCAL_RANK"])`.
#
# ### mp.spawn: half a launcher
#
# `torch.multiprocessing.spawn` starts processes from the script itself. “It gives each process its rank and its GPU.” Here is
# all that it gives. (`start_processes` is what `spawn` calls; with `fork` nobody has to import torch again.)

# %% claims={"24": "incomplete"}
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
# GPU yourself (`torch.cuda.set_device(index)`). And look at the last line: asked for no processes, `spawn` starts none and
# returns. Samples on the web like to ask for as many as there are GPUs. One of them, from an article on DDP
# problems (`print(SAMPLE)`), run by the doctor as it stands, and then with one repair more each time:

# %% claims={"23": "wrong"}
from course_lib.lab.starts import SAMPLE, examine_sample, found

for name, examination in examine_sample().items():
    print(f"{name:17}", found(examination))

# %% [markdown]
# (The first line is the doctor's own: it has found nobody to watch. Started by hand, the sample ends without a word.) Read the
# number of processes from the launcher, not from the hardware, and a script runs on a laptop too.
#
# ### NCCL's variables for timeouts
#
# “`NCCL_ASYNC_ERROR_HANDLING` and `NCCL_BLOCKING_WAIT` decide what happens when the timeout is over.” Set both, and let
# rank 1 call `all_reduce` when rank 0's timeout of 0.4 seconds is over. Then look up what NCCL's part of torch calls them:

# %% claims={"41": "outdated"}
from course_lib.lab.starts import come_too_late, nccl_names

print(run_quietly(come_too_late, ranks=2).values)
print(*run_quietly(nccl_names, "ASYNC_ERROR_HANDLING", "BLOCKING_WAIT", ranks=1).values[0], sep="\n")

# %% [markdown]
# gloo has its own timeout and reads none of these variables: rank 0 gave up with an error, and the group cannot be used after
# that, as rank 1 found out. For NCCL the names begin with `TORCH_` now, and the old ones are read
# as second names
# ([`ProcessGroupNCCL.hpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp#L60),
# among the headers that come with torch). `torchrun` switches the error handling on (`LocalElasticAgent._start_workers`,
# `torch/distributed/elastic/agent/server/local_elastic_agent.py`).
#
# ### What a start costs
#
# “Starting ranks takes seconds.” It does. Of what? `torchrun` once more, with a script that writes down when it is where:

# %% claims={"63": "refined"}
from course_lib.lab.starts import draw_start_times, time_starts

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
