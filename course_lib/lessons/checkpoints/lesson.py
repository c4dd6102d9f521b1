# %% [markdown]
# # 14 · Logging, metrics, checkpoints
#
# > *“Rank 0 saves, all load. What goes wrong, once in ten starts? And why does the loss jump when I resume, although
# > the checkpoint has been loaded?”*
#
# One rank writes the checkpoint on behalf of all. Two things follow: the others go on while it writes, and it can be killed in the
# middle.
#
# **You will be able to** write a checkpoint that a kill cannot harm, also in the background, and say what has to be in it, so that a
# resumed run equals the other one bit by bit. 45 minutes.
#
# **Before this:** lessons 03 and 09.

# %%
# %load_ext course_lib

# %%
from course_lib.lessons.checkpoints.lab import shared_folder

files = shared_folder()  # ranks that start now find its name in their environment, as CHECKPOINTS

# %%
# %%ranks 2 --backend gloo
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, folder = dist.get_rank(), os.environ["CHECKPOINTS"]
path = f"{folder}/model.pt"

# %%
p = predict("14.first_load")

# %%
# %%ranks --predicted
if rank == 0:
    weights = torch.ones(10_000_000)
    torch.save(weights, path)
else:
    while not os.path.exists(path):
        time.sleep(0.001)
    weights = torch.load(path, map_location="cpu")
weights.mean().item()

# %% [markdown]
# The file exists long before its content is complete. Most starts look later, and find it whole.
#
# ## The write in slow motion
#
# What a rank finds depends on how early it looks. So make the disk slow. Rank 0 writes a checkpoint of step 20 over that of step
# 10. It halts when the file is open, and at each tenth of its bytes. At each halt, rank 1 tries to load it.

# %%
p = predict("14.overwritten")

# %%
from course_lib.lessons.checkpoints.lab import draw_film, slow_motion

out = run(slow_motion, "write over it", files.name, ranks=2, expect="predicted")

# %%
draw_film(out.values[1], files.name)

# %% [markdown]
# The weights are in the file soon; the *table of contents* comes last. A checkpoint is a zip file (`_open_zipfile_writer` in
# `torch/serialization.py`), and a zip file is read from its end. A checkpoint that is 99 % complete is 0 % readable.
#
# The other two rows write to another name first. `os.rename` after `os.remove` leaves a moment in which there is no checkpoint.
# `os.replace` is one step of the file system: the name means the old file until it means the new one. Both have to be on one
# file system, so the new file is written *beside* the old one, and not in `/tmp`.
#
# What another rank sees in the middle of the write is also what is left when the writer is *killed* there. Try it. A real
# rank writes and sends SIGKILL to itself, and a new process looks at what is left:

# %% tags=["nbval-ignore-output"] claims={"52": "incomplete"}
from course_lib.lessons.checkpoints.lab import explore_kills, on_the_disk

explore_kills()

# %% [markdown]
# Of the 5,610 places at which a write of these 5,609 bytes can be cut off, one leaves a file that loads: the last.
#
# A *machine* that loses power is another matter: what a process has written may be on the disk only half a minute later. Step
# through the calls that a save needs:

# %%
on_the_disk()

# %% [markdown]
# (No cell can pull a plug: this follows the Linux manual, `fsync(2)` and `rename(2)`. File systems differ in what they really lose.)
#
# ## A barrier in the right place
#
# With `os.replace`, a rank that is too early loads a *complete* checkpoint: the wrong one, or on the first save none. So
# the others must wait until rank 0 is done. A barrier before the save is too early. A barrier under `if rank == 0` is called by
# one rank alone ([lesson 00](00_first_ranks.ipynb)). It belongs after the branch, where all ranks pass. And when the disk is full?


# %% claims={"52": "incomplete"}
# %%ranks --expect raises:RuntimeError
from course_lib.lessons.checkpoints.resuming import disk_full_at  # the system's limit RLIMIT_FSIZE

if rank == 0:
    with disk_full_at(2000):
        torch.save({"step": 0, "weights": torch.zeros(1000)}, path + ".new")
dist.barrier()

# %% [markdown]
# Rank 0 has an error (torch's words for a file that does not grow), and rank 1 waits. Here the course frees it.
# In a script with gloo, rank 0 would end, and the others would only read that a connection was closed.
#
# > **On GPUs (NCCL).** The others wait until torchrun ends them, or for the timeout of 10 minutes. (`default_pg_nccl_timeout`
# > in `torch/distributed/constants.py`; NCCL needs GPUs.)
#
# So let the barrier carry the news. `broadcast_object_list` lets nobody pass before rank 0 has sent. That is the barrier, and what it
# sends says how it went:


# %%
# %%ranks
import contextlib


def save(state, path):
    """Rank 0 writes; every rank returns when the file is there, or raises if it could not."""
    problem, new = [None], f"{path}.new"
    if dist.get_rank() == 0:
        try:
            with open(new, "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
            names = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
            os.fsync(names)
            os.close(names)
        except Exception as error:  # of whatever kind: the others wait for the news
            problem = [f"{path} was not written: {type(error).__name__}"]
            with contextlib.suppress(OSError):
                os.remove(new)  # it would fill the disk once more
    dist.broadcast_object_list(problem)
    if problem[0]:
        raise RuntimeError(problem[0])


# %%
# %%ranks
save({"step": 10, "weights": torch.zeros(1000)}, path)
for what, limit, more in (("a full disk", 2000, 0), ("what pickle refuses", 10**6, lambda step: 0.1)):
    try:
        with disk_full_at(limit):
            save({"step": 20, "weights": torch.zeros(1000), "schedule": more}, path)
    except RuntimeError as error:
        print(f"{what}, told to this rank:", str(error).rpartition("/")[2])
there = torch.load(path, map_location="cpu")
print("there is step", there["step"], "and beside it", os.path.exists(f"{path}.new"))

# %% [markdown]
# “Saved on rank 0, loaded by all” needs both: a write that is whole or not there, and news of it.
#
# > **On GPUs (NCCL).** `broadcast_object_list` sends through the current GPU: call `torch.cuda.set_device(local_rank)` first, or
# > all ranks meet on GPU 0. (Its docstring in `torch/distributed/distributed_c10d.py`; it needs GPUs.)
#
# ## Save in the background
#
# Writing 40 GB takes minutes in which nobody trains. So let a thread write, and train on. `counting_model` is a model of 40 MB whose
# optimizer makes every weight *k* in step *k*, so each number in the file tells its step.

# %%
p = predict("14.background")

# %%
# %%ranks --predicted --as out
import threading

from course_lib.lessons.checkpoints.resuming import counting_model, steps_in

model, optimizer = counting_model()
for step in range(1, 34):
    optimizer.step()
    if step == 3:
        saver = threading.Thread(target=torch.save, args=(model.state_dict(), f"{folder}/{rank}.pt"))
        saver.start()
saver.join()
found = steps_in(torch.load(f"{folder}/{rank}.pt", map_location="cpu"))

# %% tags=["nbval-ignore-output"]
print("weights of the steps", *out["found"][0])

# %% [markdown]
# A checkpoint of no step at all, without an error. `state_dict()` gives references: `optimizer.step()` changes, in
# place, the memory that the thread is writing. On the main thread, make a *copy* on the CPU, and let the thread write that. Then
# the file holds one step, and training waits for the copy alone.
#
# `torch.distributed.checkpoint` (DCP) has that ready-made. `async_save` copies, returns, and writes in a thread. It is a collective,
# and its thread makes more of them: give it a process group of its own.

# %%
# %%ranks
import warnings

import torch.distributed.checkpoint as dcp

warnings.simplefilter("ignore")
own, target = dist.new_group(backend="gloo"), f"{folder}/async"
model, optimizer = counting_model()
for step in range(1, 34):
    optimizer.step()
    if step == 3:
        future = dcp.async_save(model.state_dict(), checkpoint_id=target, process_group=own)
future.result()  # raises if the write has failed; call it before the next save
dcp.load(state := model.state_dict(), checkpoint_id=target)  # fills the tensors that it is given
print("weights of the steps", *steps_in(state))

# %% [markdown]
# Without a group of its own, the thread's collectives get in between those of your training, on each rank at another place. With
# DDP on gloo, that ends in an abort or in a hang. A thread that you write yourself must not call a collective at all.
#
# > **On GPUs (NCCL).** `async_save` wants a group for CPU tensors: `dist.new_group(backend="gloo")` is one. With the default group it
# > needs `init_process_group("cpu:gloo,cuda:nccl")`. (Read in `torch/distributed/checkpoint/state_dict_saver.py`.)
#
# ## Bit by bit
#
# Now resume. This is an article's function for that, and a checkpoint of iteration 41:


# %% claims={"53": "wrong"}
# %%ranks
def load_checkpoint(path):
    map_location = {"cuda:0": f"cuda:{rank}"}
    checkpoint = torch.load(path, map_location=map_location)
    return checkpoint["iteration"] + 1


net, weight = nn.Linear(2, 2, bias=False), torch.ones(2, 2)
save({"iteration": 41, "model": {"weight": weight}}, path)
print("goes on with", load_checkpoint(path), "- weights loaded:", torch.equal(net.weight, weight))

# %% [markdown]
# It returns the right number and leaves everything else in the file. What has to be in it?


# %%
# %%ranks
from course_lib.lessons.checkpoints.resuming import losses_off, new_job, random_states, train


def everything(job):
    """The checkpoint. Called on every rank."""
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, random_states())  # of torch, numpy and Python
    return {
        "model": job.model.module.state_dict(),
        "optimizer": job.optimizer.state_dict(),
        "scheduler": job.scheduler.state_dict(),
        "place": (job.epoch, job.batch),
        "random": everyones,
    }


# %% [markdown]
# The job has dropout, SGD with momentum, a schedule, and a sampler that shuffles; four batches make an epoch. It saves in the middle of
# an epoch and trains on. Then new jobs resume from the file. Each leaves out one part.

# %%
p = predict("14.parts")

# %%
# %%ranks --predicted --as out
train(job := new_job(), 6)
save(everything(job), f"{folder}/job.pt")
losses = train(job, 8)  # the run without a break
first, off = (losses_off(f"{folder}/job.pt", some) for some in (losses[:1], losses))

# %%
from course_lib.lessons.checkpoints.lab import draw_left_out

draw_left_out(out["off"][0])

# %% [markdown]
# After eight losses: zero, bit by bit, and only with all of it. Momentum and schedule act after the first. There may be more: a
# `GradScaler`, an EMA, the best score so far, metrics in the middle of counting, CUDA's random state
# (`torch.cuda.get_rng_state`), a loader's workers ([lesson 03](03_samplers.ipynb)).
#
# Training forgives a repeated batch, but a resumed run that *equals* the other is the only one you can test. If it is off by 0.01,
# nobody can tell whether that is a dropout mask or the missing momentum. Limits: the number of ranks must be the same, since other
# ranks get other batches. And on GPUs some kernels add in no fixed order, unless `torch.use_deterministic_algorithms(True)` forbids it.
#
# Load **on every rank**, as here. Loading on rank 0 alone and wrapping afterwards gives the weights to all, but not the
# momentum; after wrapping, not even those ([lesson 09](09_synchronised.ipynb)).
#
# ## Rank 0 only
#
# `if rank == 0` stands around saving, printing, progress bars (`tqdm(..., disable=rank != 0)`). Such a branch goes wrong in two ways.
# The others *wait* for it: then a healthy job ends by the timeout of the next collective, because rank 0 took so long
# ([lesson 05](05_stragglers.ipynb)). Or it *waits* for the others, because there is a collective in it. An evaluation through the
# wrapper has one: rank 0's buffers are sent, also under `no_grad` ([lesson 09](09_synchronised.ipynb)).

# %% claims={"S15": "wrong"}
# %%ranks --expect died
ddp = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
ddp(torch.rand(4, 8)).sum().backward()
if rank == 0:
    with torch.no_grad():
        ddp.eval()(torch.rand(4, 8))
        ddp.train()
ddp(torch.rand(4, 8)).sum().backward()

# %% [markdown]
# Rank 1, in its second training forward, was about to agree on new buckets (`_rebuild_buckets`, [lesson 04](04_buckets.ipynb)).
# The two broadcasts met, and their sizes differ. Move the evaluation one step later, and it “works”, by chance
# ([below](#Deeper:-one-step-later)). Evaluate with `ddp.module` on rank 0, or, better, on all ranks
# ([lesson 03](03_samplers.ipynb), task 3).
#
# > **On GPUs (NCCL).** NCCL does not compare what the ranks have called. It asks for the same number of elements on all ranks;
# > otherwise “undefined behavior, including hangs, crashes, or data corruption” (NCCL's documentation, *Collective Operations*; it
# > needs GPUs). So the same cell may hang there, or train on with broken buffers.
#
# ## What goes wrong in real life
#
# - **The loss jumps after a resume.** Something with a memory was not saved. Compare ten steps with the uninterrupted run, bit
#   by bit, once, before you need it.
# - **The first steps after a resume are out of memory**, only on GPU 0. `map_location` is missing ([below](#Deeper:-map_location)).
# - **A fine-tuned model is as bad as a fresh one.** `strict=False` and the prefix `module.`
#   ([below](#Deeper:-the-prefix-module.)).
# - **Training stops for ever after “saving”.** A barrier, or a metric with an `all_reduce`, in the branch of rank 0. The doctor
#   names the line and the condition it stands under.
# - **The newest checkpoint does not load.** Written in place. Keep the last two or three as well: atomic writing does not help
#   against a NaN that was saved correctly.
# - **Two jobs, one folder.** The old job is not quite dead while the new one resumes. A name with the job's number, or a lock.
#
# ## Rule of thumb
#
# > Save: rank 0 writes beside, syncs, replaces; then a broadcast tells all how it went. In the background: a copy first, one save at a
# > time. Load on every rank, onto the CPU, with `weights_only`. In the file: everything that has a memory, without `module.`, the
# > random state of each rank. Rank 0 alone: nothing with a collective in it. Too large for one rank: DCP, a new folder each time.
#
# ## Your turn
#
# Three tasks wait in [exercises/14_checkpoints](../exercises/14_checkpoints.ipynb): a metric that may be read at any time (read
# [lesson 09](09_synchronised.ipynb#Deeper:-one-number-for-the-log) first), a checkpoint that survives a kill at any moment
# (read [the prefix `module.`](#Deeper:-the-prefix-module.) and [`weights_only`](#Deeper:-weights_only) first), and a run that
# resumes bit by bit.
#
# **Your script.** Two of the faults in `exercises/script/train.py` are this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair them; in a terminal, this says whether they are gone:
#
#     ddp-course check --suspect 14 exercises/script/train.py
#
# Then it should be right as a whole: [exercises/14_checkpoints](../exercises/14_checkpoints.ipynb) launches it six times.
#
# ## Deeper: one step later
#
# Rank 0 evaluates through the wrapper, in the third step:

# %% claims={"S15": "wrong"}
# %%ranks 2 --fresh --backend gloo --as out
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
ddp = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
for step in range(3):
    if dist.get_rank() == 0 and step == 2:
        with torch.no_grad():
            ddp.eval()(torch.rand(4, 8))
            ddp.train()
    ddp(torch.rand(4, 8)).sum().backward()

# %%
for r in (0, 1):
    last = [call for call in out.collectives[r] if call.stage == "buffers"][-1]
    print(f"rank {r} joined the last broadcast of buffers in: {last.origin.source}")

# %% [markdown]
# Rank 0's broadcast for its evaluation was answered by rank 1's next training forward, and rank 0 sent none in its own. That the
# numbers of messages and their sizes were the same was chance.
#
# ## Deeper: the prefix module.
#
# The wrapper is a module that has yours as its attribute `module`, so all names of its `state_dict()` begin with `module.`. Load
# that without a wrapper, for evaluation, say:

# %%
# %%ranks 2 --fresh --backend gloo --expect raises:RuntimeError
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, folder = dist.get_rank(), os.environ["CHECKPOINTS"]
ddp, plain = DistributedDataParallel(nn.Linear(64, 10)), nn.Linear(64, 10)
plain.load_state_dict(ddp.state_dict())

# %% [markdown]
# The error is clear. Forums then recommend `strict=False`, and the error is gone:

# %%
# %%ranks
before = plain.weight.detach().clone()
report = plain.load_state_dict(ddp.state_dict(), strict=False)
print("with strict=False, the weights have changed:", not torch.equal(plain.weight, before))
print("it returned: missing", report.missing_keys, "unexpected", report.unexpected_keys)

names = ddp.state_dict()
nn.modules.utils.consume_prefix_in_state_dict_if_present(names, "module.")
print(plain.load_state_dict(names), torch.equal(plain.weight, ddp.module.weight))

# %% [markdown]
# `strict=False` loaded *nothing*. It says so in a return value that nobody looks at; the model stays as random as it was.
# For older files there is `consume_prefix_in_state_dict_if_present` (it changes the dictionary in place). New ones need no
# prefix: save `ddp.module.state_dict()`, load with `ddp.module.load_state_dict(...)`. Then the file does not know how it was
# trained.
#
# ## Deeper: weights_only
#
# A checkpoint is also a program. Pickle, which makes it, may call any function while it loads:

# %% claims={"53": "wrong"}
# %%ranks
from argparse import Namespace


class Surprise:
    def __reduce__(self):
        return print, ("... and this was printed by the file itself",)


def try_to_load(name, **options):
    try:
        torch.load(f"{folder}/{name}.pt", map_location="cpu", **options)
        print(f"{name:9} {options or ''} loaded")
    except Exception as error:
        print(f"{name:9} {options or ''} {type(error).__name__}")


if rank == 0:
    adam = torch.optim.Adam(plain.parameters()).state_dict()
    things = {"tensors": {"w": torch.ones(2), "step": 3, "optimizer": adam}, "network": plain}
    for name, thing in {**things, "options": Namespace(lr=0.1), "surprise": Surprise()}.items():
        torch.save(thing, f"{folder}/{name}.pt")
        try_to_load(name)
    try_to_load("options", weights_only=False)
    try_to_load("surprise", weights_only=False)
    with torch.serialization.safe_globals([Namespace]):
        try_to_load("options")

# %% [markdown]
# By default, `weights_only=True` (`load` in `torch/serialization.py`): tensors, numbers, strings, lists, dictionaries, a
# few classes of torch's own, and nothing else that could run. (No arrays of numpy, either: save tensors or lists.) Old
# answers that end with “set `weights_only=False`” tell you to run a stranger's file. Save `vars(args)` and
# `model.state_dict()` instead, or name the class that you trust.
#
# ## Deeper: map_location
#
# Each tensor in the file remembers where it lived. Here is what a job on the eighth GPU of some machine would have left (its
# tag is put on by hand):

# %% claims={"53": "wrong"}
# %%ranks
from unittest import mock

if rank == 0:
    with mock.patch.object(torch.serialization, "location_tag", return_value="cuda:7"):
        torch.save({"w": torch.arange(3.0)}, f"{folder}/from_gpu_7.pt")
    try:
        torch.load(f"{folder}/from_gpu_7.pt")
    except RuntimeError as error:
        print(str(error)[:35], "...")
    print("map_location='cpu':", torch.load(f"{folder}/from_gpu_7.pt", map_location="cpu"))
    moved = torch.load(f"{folder}/tensors.pt", map_location={"cuda:0": "cuda:1"})
    print("a dictionary for cuda, a file from a CPU:", moved["w"].device)

# %% [markdown]
# On a machine with eight GPUs there would be no error. Every rank would put the weights on the GPU they came from: for a
# file that rank 0 has saved, GPU 0, once for each rank. So `map_location="cpu"` (or the rank's own
# device) always; `load_state_dict` copies to where the model is. A dictionary maps only the tags it names: a file from a
# CPU passes through it.
#
# Mind the machine's memory, too: its eight ranks load eight copies. `torch.load(..., mmap=True)` maps the file instead of
# copying it. Or rank 0 alone reads: `set_model_state_dict` of `torch.distributed.checkpoint.state_dict` sends it to all, with
# `StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)`.

# %%
# %%ranks
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

if rank == 0:
    torch.save({"weight": torch.full((10, 64), 7.0), "bias": torch.ones(10)}, f"{folder}/whole.pt")
whole = torch.load(f"{folder}/whole.pt", map_location="cpu", mmap=True) if rank == 0 else {}
options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
set_model_state_dict(ddp, whole, options=options)
print("weights on this rank:", *ddp.module.weight.unique().tolist())

# %% [markdown]
# ## Deeper: when one rank's memory is not enough
#
# Under DDP every rank has everything, so rank 0 can save it. When weights or optimizer states are split over the ranks
# ([lesson 17](17_sharding.ipynb)), no rank has. Collecting them on rank 0 first works until they no longer fit: for 7 billion
# parameters in float32, with Adam's two moments, that is 84 GB on one machine while all others wait.
# `torch.distributed.checkpoint` (DCP) does the opposite: **all** ranks call `save`, each writes what it has, into one folder.


# %%
# %%ranks
import warnings

import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

warnings.simplefilter("ignore")
mesh = init_device_mesh("cpu", (2,))
whole = torch.arange(20_000.0).view(1000, 20)
split = distribute_tensor(whole, mesh, [Shard(0)])  # each rank keeps half of the rows
dcp.save({"split": split, "copied": torch.ones(500, 20)}, checkpoint_id=f"{folder}/dcp")
dist.barrier()

size = os.path.getsize(f"{folder}/dcp/__{rank}_0.distcp") // 1024
half = split.to_local().numel() * 4 // 1024
print("this rank has", half, "KB of the split tensor, and wrote", size, "KB")

# %% [markdown]
# What all ranks have alike (`copied`) is written once, by one of them: `dedup_save_plans` in
# `torch/distributed/checkpoint/_dedup_save_plans.py` gives each piece to whoever has least to write so far. The file
# `.metadata` says which rows of what are in which file. So loading does not depend on who saved: two ranks have saved, and
# three will load, below.
#
# Before that, look at how DCP fails. It writes `.metadata` last, beside its place, and renames it: in a *new* folder, a
# save that is killed leaves no `.metadata`, and nobody takes it for a checkpoint. But people write to the same folder
# again. It is allowed, with a warning. Here the checkpoint of step 20 goes over that of step 10, and rank 1 is killed when
# rank 0 has written its part:

# %%
from course_lib.lessons.checkpoints.lab import saved_again

out = run(saved_again, f"{files.name}/again", ranks=2, expect="died:1")

# %%
p = predict("14.mixed_folder")

# %% tags=["notebook-only"]
# %%ranks 3 --fresh --backend gloo --predicted --as out
import os
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, empty

warnings.simplefilter("ignore")
rank, folder = dist.get_rank(), os.environ["CHECKPOINTS"]
state = {"split": empty(1000, 20, device_mesh=init_device_mesh("cpu", (3,)), placements=[Shard(0)])}
dcp.load(state, checkpoint_id=f"{folder}/dcp")
mine = state["split"].to_local()
print(f"of 1000 rows, this rank has {len(mine)}, the first begins with {mine[0, 0].item():.0f}")

again = {"weights": torch.empty(1000, 20)}  # a plain tensor: all rows
dcp.load(again, checkpoint_id=f"{folder}/again")
steps = again["weights"].unique().tolist()

# %%
print("weights of the steps", *out["steps"][0])
files.cleanup()

# %% [markdown]
# One tensor, half of step 20 and half of step 10, and no error: the old `.metadata` describes new files. **A folder for each
# save**, and the newest that has a `.metadata` is the checkpoint. (`overwrite=False` of `FileSystemWriter` makes a second save
# raise.)
#
# `dcp.load` is not like `torch.load`: it fills the tensors that you bring, and it is a collective.
#
# ## Further reading
#
# - `torch/serialization.py`: `save`, `load` and the notes on `weights_only`; PyTorch's note *Serialization semantics*.
# - `torch/distributed/checkpoint/filesystem.py`: `FileSystemWriter`; `state_dict.py` beside it: `get_state_dict` gives
#   names that do not depend on wrappers.
# - Pillai et al., *All File Systems Are Not Created Equal*, OSDI 2014: what a crash may leave behind, and why `fsync`.
#
# **Next:** [lesson 15](15_scale.ipynb), *Predict the scaling*. Or back to the [index](index.ipynb).
