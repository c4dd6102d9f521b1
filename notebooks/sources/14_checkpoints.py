# %% [markdown]
# # 14 · Logging, metrics, checkpoints
#
# > *“Rank 0 saves, all load. Why does that crash once in ten starts? And why does the loss jump when I resume, although the
# > checkpoint has been loaded?”*
#
# Training writes two things: numbers for you, and files for the next job. Both are made by one rank on behalf of all, and
# that is where they go wrong: one rank knows less than all, is somewhere else than the others, and can be killed while it
# writes. A bad checkpoint is noticed on the day you need it.
#
# **You will be able to** log numbers that are true on every rank, write a checkpoint that a kill cannot harm, say what has
# to be in it so that a resumed run equals the other one bit by bit, and save what is too large for one rank. 70 minutes.
#
# **Before this:** lessons 03 and 09.

# %%
# %load_ext course_lib

# %%
import os
import tempfile

files = tempfile.TemporaryDirectory()
os.environ["CHECKPOINTS"] = files.name  # ranks that start from now on find it in their environment

# %% [markdown]
# ## One number for the log
#
# Lesson 09 showed what `dist.reduce` does to a loss: rank 0 gets the sum, and what the other ranks' tensors hold is not defined.
# (gloo leaves partial sums there, NCCL their own loss.) With a loss that is thrown away after the line, no harm is done. A
# **metric** is not thrown away: it counts, is logged, and counts on. Train on the digits, count right answers, and log the
# running accuracy after every fourth step, in three ways.

# %%
# %%ranks 4 --backend gloo
from itertools import chain

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.data import load_digits

rank, world = dist.get_rank(), dist.get_world_size()
images, labels = load_digits()
pixels = torch.from_numpy(images).float().flatten(1) / 16
targets = torch.from_numpy(labels).long()
loss_of = nn.functional.cross_entropy


class Running:
    """Right answers and samples so far. `log` gives the accuracy over all ranks, at any time."""

    def __init__(self, log):
        self.counts, self.log = torch.zeros(2, dtype=torch.int64), log

    def update(self, scores, answers):
        self.counts += torch.tensor([(scores.argmax(1) == answers).sum(), len(answers)])


def reduced(meter):
    dist.reduce(meter.counts, dst=0)
    return meter.counts  # the sum on rank 0, undefined on all others


def in_place(meter):
    dist.all_reduce(meter.counts)
    return meter.counts


def on_a_copy(meter):
    total = meter.counts.clone()
    dist.all_reduce(total)
    return total


# %%
p = predict("14.counters")

# %%
# %%ranks --predicted --as out
torch.manual_seed(0)
ddp = DistributedDataParallel(nn.Linear(64, 10))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.3)
meters = {log.__name__: Running(log) for log in (on_a_copy, in_place, reduced)}
logged, truth, everything = {name: [] for name in meters}, [], []
for step in range(60):
    share = torch.arange(rank, 64, world) + 64 * (step % 20)
    scores = ddp(pixels[share])
    optimizer.zero_grad()
    loss_of(scores, targets[share]).backward()
    optimizer.step()
    everything.append((scores.argmax(1) == targets[share]).tolist())
    for name, meter in meters.items():
        meter.update(scores, targets[share])
        if step % 4 == 3:
            right, samples = meter.log(meter).tolist()
            logged[name].append(right / samples)
    if step % 4 == 3:  # what one process finds that is given all answers
        shares = [None] * world
        dist.all_gather_object(shares, list(chain(*everything)))
        hits = list(chain(*shares))
        truth.append(sum(hits) / len(hits))
print("on a copy, exact on every rank: ", logged["on_a_copy"] == truth)
print("in place, first and last:       ", round(logged["in_place"][0], 2), round(logged["in_place"][-1], 2))
print("the truth, first and last:      ", round(truth[0], 2), round(truth[-1], 2))
assert logged["on_a_copy"] == truth

# %%
import matplotlib.pyplot as plt

_, axes = plt.subplots(figsize=(7.6, 2.8), layout="constrained")
steps = range(4, 61, 4)
axes.plot(steps, out["truth"][0], "-", color="black", linewidth=4, alpha=0.3, label="the truth")
axes.plot(steps, out["logged"][0]["on_a_copy"], "o-", color="#0072B2", label="all_reduce of a copy")
axes.plot(steps, out["logged"][0]["in_place"], "s--", color="#D55E00", label="all_reduce in place")
axes.plot(steps, out["logged"][0]["reduced"], "^:", color="#009E73", label="reduce in place, on rank 0")
axes.set(
    title="Counters that are reduced in place cannot forget",
    xlabel="training step",
    ylabel="running accuracy in the log",
    ylim=(0, 1),
)
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# `all_reduce` leaves the sum over all ranks on every rank. The next one adds four such sums: what was counted before the
# *k*-th log from the end has 4ᵏ⁻¹ votes by now. The log stays near its first value, and looks so reasonable that you go
# and tune the learning rate. `reduce` errs less here, but it errs: rank 0 goes on counting from the sum, the others from what
# gloo has left in their counters.
#
# > **On GPUs.** NCCL leaves the others' counters as they are, so they go on from their own counts, and each log adds all of these
# > to rank 0's sum once more: wrong as well, by other numbers. (Read in NCCL's documentation of `ncclReduce`, not run here.)
#
# So **reduce a copy, never the counter**. (Or set the counter to zero after each log.) And give the sum to *every* rank: the
# scheduler and the early stop want it, too.
#
# ## Which numbers may be averaged
#
# “All ranks have the same number of samples, so I can take the mean of the ranks' values.” Of some:

# %% claims={"51": "refined"}
# %%ranks --as out
share = torch.arange(rank, 300, world)
share = share[share % 3 != 0][:48] if rank == 0 else share[:48]  # equally many
scores, answers = ddp(pixels[share]).detach(), targets[share]


def average(value):
    value = torch.as_tensor(value, dtype=torch.float64).clone()
    dist.all_reduce(value, op=dist.ReduceOp.AVG)
    return value.item()


def accuracy(scores, answers):
    return (scores.argmax(1) == answers).double().mean()


def perplexity(scores, answers):
    return loss_of(scores, answers).exp()


def mean_recall(scores, answers):
    """The mean over the digits there are of: how many of them were found."""
    found = scores.argmax(1) == answers
    return torch.stack([found[answers == digit].double().mean() for digit in answers.unique()]).mean()


def worst_loss(scores, answers):
    return loss_of(scores, answers, reduction="none").max()


all_scores, all_answers = ([torch.empty_like(mine) for _ in range(world)] for mine in (scores, answers))
dist.all_gather(all_scores, scores)
dist.all_gather(all_answers, answers)
print(f"{'':12}   mean of ranks   exact")
for metric in (accuracy, perplexity, mean_recall, worst_loss):
    exact = metric(torch.cat(all_scores), torch.cat(all_answers)).item()
    print(f"{metric.__name__:12}{average(metric(scores, answers)):13.4f}{exact:12.4f}")
print("one more than 16777216 in float32:", int(torch.tensor(2.0**24) + 1))

# %% [markdown]
# Only the accuracy is right, and only because the shares are equal. A mean of exponentials is not the exponential of a mean;
# a digit that is rare on one rank weighs more there; a maximum wants `ReduceOp.MAX`. The exact way is always the same: find
# the *ingredients* that can be added (counts for each class, sums of losses, numbers of samples), reduce those, and compute
# the metric from them **afterwards**. What has none (a median, the area under a ROC curve) needs the values themselves:
# `all_gather`. A class of which nobody has seen a sample has no recall: leave it out, it is not a zero. A rank that has nothing to add,
# such as one with an empty batch, adds zeros and joins the collective like all others, or they wait for it. And count in `int64`: a `float32` counter that goes up by one stops at 2²⁴ without a word (last line).
#
# ## Rank 0 only
#
# Four ranks, four progress bars, four lines for each print, four files of logs. The remedy is a condition. tqdm has it as an
# argument:

# %%
# %%ranks
import io

from tqdm import tqdm

for who, disable in (("all", False), ("rank 0", rank != 0)):
    screen = io.StringIO()
    for _ in tqdm(range(3), file=screen, disable=disable):
        pass
    bars = torch.tensor(int("3/3" in screen.getvalue()))
    dist.all_reduce(bars)
    print(f"{who:6}: bars on the screen: {bars.item()}")

# %% [markdown]
# Printing is harmless. Anything else in such a branch may have one of two faults: the others *wait* for it, or it *waits*
# for the others. Waiting ends: with gloo after 30 minutes, with NCCL after 10, by a timeout that kills a healthy job, because
# rank 0 needed longer to evaluate than the others are allowed to wait in the next collective
# ([lesson 05](05_stragglers.ipynb)).
#
# The other kind does not depend on speed. A branch for rank 0 must not contain a collective. Does this one, an evaluation on rank
# 0 alone, through the wrapper?

# %%
p = predict("14.evaluation")

# %% claims={"S15": "wrong"}
# %%ranks 2 --fresh --backend gloo --predicted
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = dist.get_rank()
torch.manual_seed(0)
ddp = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
ddp(torch.rand(4, 8)).sum().backward()
if rank == 0:
    with torch.no_grad():
        ddp.eval()(torch.rand(4, 8))
        ddp.train()
ddp(torch.rand(4, 8)).sum().backward()


# %% [markdown]
# Rank 0's evaluation began with a broadcast of the buffers (`_pre_forward` calls `_sync_buffers`, in
# `torch/nn/parallel/distributed.py`), which does not ask whether gradients are on *now*. Rank 1, in its second training
# forward, was about to agree on new buckets (`_rebuild_buckets`, [lesson 04](04_buckets.ipynb)). The two broadcasts met. One
# step later, it works, which is worse:

# %% claims={"S15": "wrong"}
# %%ranks 2 --fresh --backend gloo --as out
import contextlib
import io
import os
import random
from types import SimpleNamespace

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.data import load_digits

rank, world = dist.get_rank(), dist.get_world_size()
folder = os.environ["CHECKPOINTS"]
torch.manual_seed(0)
ddp = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
for step in range(3):
    if rank == 0 and step == 2:
        with torch.no_grad():
            ddp.eval()(torch.rand(4, 8))
            ddp.train()
    ddp(torch.rand(4, 8)).sum().backward()

# %%
for r in (0, 1):
    last = [call for call in out.collectives[r] if call.stage == "buffers"][-1]
    print(f"rank {r} joined the last broadcast of buffers in: {last.origin.source}")

# %% [markdown]
# Rank 0's broadcast for its evaluation was answered by rank 1's next training forward, and rank 0 sent none in its own.
# The numbers were the same by chance. Evaluate with `ddp.module` on rank 0, or, better, on all ranks ([lesson 03](03_samplers.ipynb), task
# 3).
#
# ## The write in slow motion
#
# Now the checkpoint. “Rank 0 saves, and all ranks load.” What does another rank find that looks too early? That depends on
# how early, so make the disk slow: this file halts at every tenth of its bytes until the other rank has tried to load it.
# There is an old checkpoint, of step 10, at the same path; rank 0 writes that of step 20.


# %%
class Halting:
    """A file for torch.save. It calls `moment` when it is opened, and after every `part` bytes."""

    def __init__(self, path, part, moment):
        self.file = open(path, "wb", buffering=0)  # noqa: SIM115
        self.part, self.moment, self.written = part, moment, 0
        moment()

    def write(self, data):
        rest = bytes(data)
        while rest:
            piece = rest[: self.part - self.written % self.part]
            self.file.write(piece)
            self.written += len(piece)
            rest = rest[len(piece) :]
            if self.written % self.part == 0:
                self.moment()
        return len(data)

    def flush(self):
        os.fsync(self.file.fileno())  # all of it is on the disk when this returns


def write_in_place(path, open_file, save, look):
    save(open_file(path))


def remove_and_rename(path, open_file, save, look):
    save(open_file(path + ".new"))
    os.remove(path)
    look()
    os.rename(path + ".new", path)


def replace(path, open_file, save, look):
    save(open_file(path + ".new"))
    look()
    os.replace(path + ".new", path)


def slow_motion(way, folder):
    """Rank 0 overwrites the checkpoint of step 10; rank 1 says at every halt what it can load."""
    import io

    import torch
    import torch.distributed as dist

    path, found = f"{folder}/{way.__name__}.pt", []
    old, new = ({"step": step, "weights": torch.full((1000,), float(step))} for step in (10, 20))
    buffer = io.BytesIO()
    torch.save(new, buffer)
    part = -(-buffer.tell() // 10)

    def look(going_on=1):
        """Rank 0 halts here until rank 1 has tried to load what is there now."""
        dist.broadcast(torch.tensor(going_on), src=0)
        dist.barrier()

    if dist.get_rank() == 0:
        torch.save(old, path)
        look()
        way(path, lambda name: Halting(name, part, look), lambda file: torch.save(new, file), look)
        look()
        look(going_on=0)
        return []
    while True:
        going_on = torch.tensor(0)
        dist.broadcast(going_on, src=0)
        if not going_on:
            dist.barrier()
            return found
        try:
            found.append(str(torch.load(path)["step"]))
        except Exception as error:
            found.append(type(error).__name__)
        dist.barrier()


# %%
p = predict("14.overwritten")

# %%
from itertools import groupby

from course_lib import run_quietly

film = {}
out = run(slow_motion, write_in_place, files.name, ranks=2, expect="predicted")
film["write_in_place"] = out.values[1]
for way in (remove_and_rename, replace):
    film[way.__name__] = run_quietly(slow_motion, way, files.name, ranks=2).values[1]
for name, found in film.items():
    runs = [(seen, len(list(same))) for seen, same in groupby(found)]
    print(f"{name:17}", ", ".join(seen if times == 1 else f"{times} times {seen}" for seen, times in runs))
assert set(film["replace"]) == {"10", "20"}

# %%
from matplotlib.colors import ListedColormap

shown = {"10": (0, "10", "black"), "20": (1, "20", "white")}
cells = [[shown.get(seen, (2, "✗", "white")) for seen in found] for found in film.values()]
longest = max(map(len, cells))
_, axes = plt.subplots(figsize=(7, 2.3), layout="constrained")
cells = [row + row[-1:] * (longest - len(row)) for row in cells]
axes.imshow(
    [[cell[0] for cell in row] for row in cells],
    cmap=ListedColormap(["#E6E6E6", "#0072B2", "#D55E00"]),
    vmin=0,
    vmax=2,
    aspect="auto",
)
for number, row in enumerate(cells):
    for moment, (_, text, colour) in enumerate(row):
        axes.text(moment, number, text, ha="center", va="center", color=colour)
moments = ["before", "opened", *(f"{tenth}0 %" for tenth in range(1, 10)), "written", "done"]
axes.set_xticks(range(longest), moments, fontsize=7)
axes.set_yticks(range(3), ["write over it", "write beside it,\nremove, rename", "write beside it,\nreplace"])
axes.set(title="Only `replace` leaves something to load at any moment (✗: an error)")
plt.show()

# %% [markdown]
# The weights are in the file soon; the *table of contents* comes last. A checkpoint is a zip file (`_open_zipfile_writer` in
# `torch/serialization.py`), and a zip file is read from its end. So a checkpoint that is 99 % complete is 0 % readable. And
# when nothing keeps the ranks from loading while rank 0 still writes, luck decides which column of this picture they meet.
#
# `os.replace` is one step of the file system: the name means the old file until it means the new one (if both are on the same
# file system, which is why the new file is written *beside* the old one, and not in `/tmp`). `Halting` also calls `os.fsync`, in its
# `flush`, which `torch.save` calls when the file is complete; the `flush` of an ordinary file does not, so there you call `os.fsync`
# yourself. A process that is killed does not need it, since what it has written is with the operating system. A machine that loses power
# does: without it, the *name* may reach the disk before the bytes.
#
# ## Killed
#
# What another rank sees in the middle of the write is also what is left when the writer is killed there. Not believed? This
# file calls SIGKILL on its own process, when half of the bytes are written. No `finally`, no `atexit`, nothing runs after
# that.

# %%
from course_lib.outcome.outcome import Kind


def killed_in_the_middle(way, folder):
    """Rank 0 has the checkpoint of step 10 and is killed while it writes that of step 20."""
    import io
    import signal

    import torch
    import torch.distributed as dist

    path = f"{folder}/{way.__name__}_killed.pt"
    old, new = ({"step": step, "weights": torch.full((1000,), float(step))} for step in (10, 20))
    buffer = io.BytesIO()
    torch.save(new, buffer)
    halts = []

    def kill_at_half():
        halts.append(True)
        if len(halts) == 6:
            os.kill(os.getpid(), signal.SIGKILL)

    if dist.get_rank() == 0:
        torch.save(old, path)
        part = -(-buffer.tell() // 10)
        way(
            path,
            lambda name: Halting(name, part, kill_at_half),
            lambda file: torch.save(new, file),
            lambda: None,
        )
    dist.barrier()


run(killed_in_the_middle, replace, files.name, ranks=2, expect="died:0")
assert run_quietly(killed_in_the_middle, write_in_place, files.name, ranks=2).kind is Kind.DIED

# %% [markdown]
# With gloo the other rank learns of it at once ([lesson 00](00_first_ranks.ipynb)), and the job is over. The next job looks at what it
# was left:

# %% claims={"52": "incomplete"} tags=["notebook-only"]
# %%ranks
for way in ("write_in_place", "replace"):
    try:
        print(f"{way:15}: step {torch.load(f'{folder}/{way}_killed.pt')['step']}")
    except RuntimeError as error:
        print(f"{way:15}: {str(error).partition(':')[0]}")

# %% [markdown]
# ## A barrier in the right place
#
# With `replace`, a rank that is too early loads a *complete* checkpoint: the wrong one, or on the first save none. So the
# others must wait until rank 0 is done. A barrier before the save is too early. And there is a place that is wrong in another
# way:

# %%
# %%ranks --expect hang
state = {"step": 0, "weights": torch.zeros(1000)}
if rank == 0:
    torch.save(state, f"{folder}/model.pt")
    dist.barrier()

# %% [markdown]
# A barrier is a collective: it stands *after* the branch, where all ranks come by. Even there, one thing is missing. Now and
# then rank 0 does not come out of its branch the usual way. `RLIMIT_FSIZE` makes the system refuse to let a file grow any
# further, as a full disk would:


# %%
# %%ranks --expect raises:RuntimeError --as out
import resource


@contextlib.contextmanager
def disk_full_at(size):
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)


if rank == 0:
    with disk_full_at(2000):
        torch.save(state, f"{folder}/model.pt.new")
dist.barrier()

# %% [markdown]
# Rank 0 has an error (in torch's words for a file that does not grow), and rank 1 waits in the barrier. Here the course frees it. In a
# script with gloo, rank 0 would end, and the others would only learn that a connection was closed; with NCCL they may wait until
# torchrun ends them, or for the timeout. So let the barrier carry the news. `broadcast_object_list` lets nobody pass before rank 0 has
# sent, which is all the barrier we need, and it says how it went:


# %% claims={"52": "incomplete"}
# %%ranks --as out
def save(state, path):
    """Rank 0 writes; every rank returns when the file is there, or raises if it could not be written."""
    problem = [None]
    if dist.get_rank() == 0:
        try:
            with open(path + ".new", "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + ".new", path)
        except Exception as error:  # of whatever kind: the others wait for the news
            problem = [f"{path} was not written: {type(error).__name__}"]
    dist.broadcast_object_list(problem)
    if problem[0]:
        raise RuntimeError(problem[0])


ddp = DistributedDataParallel(nn.Linear(64, 10))
save({"step": 10, "model": ddp.state_dict()}, f"{folder}/model.pt")
for what, limit, more in (("a full disk", 1000, None), ("what pickle refuses", None, lambda step: 0.1)):
    try:
        with disk_full_at(limit) if limit else contextlib.nullcontext():
            save({"step": 20, "model": ddp.state_dict(), "schedule": more}, f"{folder}/model.pt")
    except RuntimeError as error:
        print(f"{what}, on this rank, too:", str(error).rpartition("/")[2].partition(":")[0])
loaded = torch.load(f"{folder}/model.pt")
print("there is still step", loaded["step"], "with", *loaded["model"])

# %% [markdown]
# “Checkpoints are saved on rank 0 and loaded by all”: yes, and that is a third of it. The other two are an atomic write, and a
# barrier that knows how the write went.
#
# Not every rank needs to read, by the way. With a thousand ranks and one file server, let rank 0 load and broadcast. Mind a
# machine's memory, too: its eight ranks load eight copies. `torch.load(..., mmap=True)` maps the file instead of copying it.
#
# ## The prefix module.
#
# Look at the names in that file: `module.weight`. The wrapper is a module that has yours as its attribute `module`, so all
# names of its `state_dict()` begin with it. Load that without a wrapper, for evaluation, say:

# %%
# %%ranks --expect raises:RuntimeError
plain = nn.Linear(64, 10)
plain.load_state_dict(loaded["model"])

# %% [markdown]
# The error is clear. Forums then recommend `strict=False`, and the error is gone:

# %%
# %%ranks
before = plain.weight.detach().clone()
report = plain.load_state_dict(loaded["model"], strict=False)
print("with strict=False, the weights have changed:", not torch.equal(plain.weight, before))
print("it returned: missing", report.missing_keys, "unexpected", report.unexpected_keys)

names = dict(loaded["model"])
nn.modules.utils.consume_prefix_in_state_dict_if_present(names, "module.")
print(plain.load_state_dict(names), torch.equal(plain.weight, ddp.module.weight))

# %% [markdown]
# `strict=False` loaded *nothing*. It told so, in a return value that nobody looks at; the model stays as random as it was.
# The cure for older files is `consume_prefix_in_state_dict_if_present` (it changes the dictionary in place). New ones need no
# prefix: save `ddp.module.state_dict()`, load with `ddp.module.load_state_dict(...)`. Then the file does not know how it was
# trained.
#
# ## weights_only
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
        torch.load(f"{folder}/{name}.pt", **options)
        print(f"{name:9} {options or ''} loaded")
    except Exception as error:
        print(f"{name:9} {options or ''} {type(error).__name__}")


if rank == 0:
    for name, thing in {
        "tensors": {
            "w": torch.ones(2),
            "step": 3,
            "optimizer": torch.optim.Adam(plain.parameters()).state_dict(),
        },
        "options": {"args": Namespace(lr=0.1)},
        "network": plain,
        "surprise": Surprise(),
    }.items():
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
# ## map_location
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
    moved = torch.load(f"{folder}/model.pt", map_location={"cuda:0": "cuda:1"})
    print("a dictionary for cuda, a file from a CPU:", moved["model"]["module.bias"].device)

# %% [markdown]
# On a machine with eight GPUs there would be no error. Every rank would put the weights on the GPU they came from: for a
# file that rank 0 has saved, GPU 0, once for each rank. So `map_location="cpu"` (or the rank's own
# device) always; `load_state_dict` copies to where the model is. A dictionary maps only the tags it names: a file from a
# CPU passes through it.
#
# ## Bit by bit
#
# Now resume. The often copied function for that, in short:
#
#     def load_checkpoint(path):
#         checkpoint = torch.load(path)
#         return checkpoint["iteration"] + 1
#
# It finds the right number and leaves everything else in the file. How much does it matter? A network with dropout, SGD with
# momentum, a learning rate that follows a cosine, a sampler that shuffles. 30 steps of two epochs and a half; the checkpoint
# is of step 17, in the middle of an epoch. Then a new job resumes from it with more and more of what is there.


# %%
# %%ranks
from itertools import islice

from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

images, labels = load_digits()
data = TensorDataset(
    torch.from_numpy(images[:384]).float().flatten(1) / 16, torch.from_numpy(labels[:384]).long()
)
PARTS = ("step", "model", "optimizer", "schedule", "place", "randomness")


def new_job():
    """As a new process makes it."""
    torch.manual_seed(rank)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
    return SimpleNamespace(model=model, optimizer=optimizer, schedule=schedule, epoch=0, batch=0, step=0)


def train(job, until):
    """The losses of this rank, up to this step."""
    losses = []
    while job.step < until:
        sampler = DistributedSampler(data)
        sampler.set_epoch(job.epoch)
        loader = DataLoader(data, batch_size=16, sampler=sampler)
        for inputs, answers in islice(loader, job.batch, job.batch + until - job.step):
            job.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(job.model(inputs), answers)
            loss.backward()
            job.optimizer.step()
            job.schedule.step()
            job.step, job.batch = job.step + 1, job.batch + 1
            losses.append(loss.item())
        if job.batch == len(loader):
            job.epoch, job.batch = job.epoch + 1, 0
    return losses


def everything(job):
    """The checkpoint: all that has a memory. Called on every rank."""
    kind, keys, *rest = np.random.get_state()
    numpys = (kind, keys.tolist(), *rest)  # weights_only refuses numpy's arrays
    mine = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": numpys}
    everyones = [None] * world
    dist.all_gather_object(everyones, mine)
    return {
        "step": job.step,
        "model": job.model.module.state_dict(),
        "optimizer": job.optimizer.state_dict(),
        "schedule": job.schedule.state_dict(),
        "place": (job.epoch, job.batch),
        "randomness": everyones,
    }


def resume(job, state, parts, whose):
    """Load these parts of the checkpoint; `whose` random numbers: those of this rank."""
    if "step" in parts:
        job.step = state["step"]
    for name in ("model", "optimizer", "schedule"):
        if name in parts:
            part = job.model.module if name == "model" else getattr(job, name)
            part.load_state_dict(state[name])
    if "place" in parts:
        job.epoch, job.batch = state["place"]
    if "randomness" in parts:
        torch.set_rng_state(state["randomness"][whose]["torch"])
        random.setstate(state["randomness"][whose]["python"])
        np.random.set_state(state["randomness"][whose]["numpy"])


# %%
p = predict("14.random_state")

# %% claims={"53": "wrong"}
# %%ranks --predicted --as out
job = new_job()
train(job, 17)
save(everything(job), f"{folder}/job.pt")
uninterrupted = train(job, 30)
final = [weight.clone() for weight in job.model.module.parameters()]

RESUMES = {
    "only the step (as above)": (1, rank),
    "+ weights": (2, rank),
    "+ optimizer": (3, rank),
    "+ schedule": (4, rank),
    "+ place in the epoch": (5, rank),
    "+ rank 0's random state": (6, 0),
    "each rank's random state": (6, rank),
}
gaps, off = {}, {}
for name, (count, whose) in RESUMES.items():
    job = new_job()
    resume(job, torch.load(f"{folder}/job.pt", map_location="cpu"), PARTS[:count], whose)
    losses = train(job, 30)
    gap = torch.tensor([abs(a - b) for a, b in zip(losses, uninterrupted, strict=True)], dtype=torch.float64)
    dist.all_reduce(gap, op=dist.ReduceOp.MAX)
    gaps[name], off[name] = gap.tolist(), gap.max().item()
    print(f"{name:25} loss off by up to {off[name]:.4f}")
same = all(torch.equal(a, b) for a, b in zip(job.model.module.parameters(), final, strict=True))
print("the same weights in the end, bit by bit:", same)
assert same
assert off["each rank's random state"] == 0

# %%
_, axes = plt.subplots(figsize=(7.6, 3.2), layout="constrained")
looks = zip(
    out["gaps"][0].items(),
    ("#D55E00", "#E69F00", "#CC79A7", "#56B4E9", "#009E73", "#0072B2", "black"),
    ("o:", "s--", "D-.", "^:", "v--", "x-.", "*-"),
    strict=True,
)
for (name, gap), colour, style in looks:
    axes.plot(range(18, 31), gap, style, color=colour, label=name, markersize=5)
axes.set_yscale("symlog", linthresh=1e-3)
axes.set(
    title="One part missing or four: the curves do not tell. All parts: zero",
    xlabel="training step",
    ylabel="loss: difference to the\nuninterrupted run",
)
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), title="loaded")
plt.show()

# %% [markdown]
# Zero, bit by bit, and only with all of it. Everything that has a *memory* is in the file: weights and buffers, the
# optimizer's momentum, the schedule, the place in the data, and the random state **of every rank** (rank 0's alone gives
# rank 1 the wrong dropout masks). On your list there may be more: a `GradScaler`, an EMA, the best score so far, metrics in
# the middle of counting, CUDA's random state, a loader's workers ([lesson 03](03_samplers.ipynb)).
#
# Is it worth it? Training forgives a repeated batch. But a resumed run that *equals* the other is the only one you can
# test: if it is off by 0.01, nobody can tell whether that is a dropout mask or the missing momentum. It has its limits: the
# number of ranks must be the same, for other ranks get other batches, and sums over other groups are rounded otherwise; on GPUs, some
# kernels add in no fixed order unless `torch.use_deterministic_algorithms(True)` forbids it. Test the other half, too: a run goes on
# after saving as one does in which nothing was saved. Saving that seeds a generator, draws from one or touches a weight changes the run.
#
# Load **on every rank**, as here. Loading on rank 0 alone and wrapping afterwards gives the weights to all, but not the
# momentum; after wrapping, not even those ([lesson 09](09_synchronised.ipynb)).
#
# ## When one rank's memory is not enough
#
# Under DDP every rank has everything, so rank 0 can save it. When weights or optimizer states are split over the ranks
# ([lesson 15](15_scale.ipynb)), no rank has. Collecting them on rank 0 first works until they no longer fit: for 7 billion
# parameters in float32, with Adam's two moments, that is 84 GB on one machine while all others wait.
# `torch.distributed.checkpoint` (DCP) turns it round: **all** ranks call `save`, each writes what it has, into one folder.


# %%
# %%ranks
import warnings

import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

warnings.simplefilter("ignore")
mesh = init_device_mesh("cpu", (world,))
whole = torch.arange(20_000.0).view(1000, 20)
split = distribute_tensor(whole, mesh, [Shard(0)])  # each rank keeps half of the rows
dcp.save({"split": split, "copied": torch.ones(500, 20)}, checkpoint_id=f"{folder}/dcp")
dist.barrier()

size = os.path.getsize(f"{folder}/dcp/__{rank}_0.distcp") // 1024
print(
    "this rank has",
    split.to_local().numel() * 4 // 1024,
    "KB of the split tensor, and wrote",
    size,
    "KB in all",
)

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
def saved_again(folder):
    import signal
    import warnings

    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    class Interrupted(dcp.FileSystemWriter):
        def write_data(self, plan, planner):
            if dist.get_rank() == 1:
                dist.barrier()
                os.kill(os.getpid(), signal.SIGKILL)
            written = super().write_data(plan, planner)
            dist.barrier()
            return written

    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", (2,))
    ten, twenty = (distribute_tensor(torch.full((1000, 20), step), mesh, [Shard(0)]) for step in (10.0, 20.0))
    dcp.save({"weights": ten}, checkpoint_id=f"{folder}/again")
    dcp.save({"weights": twenty}, storage_writer=Interrupted(f"{folder}/again"))


out = run(saved_again, files.name, ranks=2, expect="died:1")

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
rank, world, folder = dist.get_rank(), dist.get_world_size(), os.environ["CHECKPOINTS"]
mesh = init_device_mesh("cpu", (world,))
state = {"split": empty(1000, 20, device_mesh=mesh, placements=[Shard(0)])}
dcp.load(state, checkpoint_id=f"{folder}/dcp")
mine = state["split"].to_local()
print(f"of 1000 rows, this rank has {len(mine)}, the first begins with {mine[0, 0].item():.0f}")

again = {"weights": torch.empty(1000, 20)}  # a plain tensor: all rows
dcp.load(again, checkpoint_id=f"{folder}/again")
steps = again["weights"].unique().tolist()
if rank == 0:
    print("the folder that was saved to again holds weights of steps", *steps)

# %%
files.cleanup()

# %% [markdown]
# One tensor, half of step 20 and half of step 10, and no error: the old `.metadata` describes new files. **A folder for each
# save**, and the newest that has a `.metadata` is the checkpoint. (`overwrite=False` of `FileSystemWriter` makes a second save
# raise.)
#
# `dcp.load` is not like `torch.load`: it fills the tensors that you bring, and it is a collective.
#
# ## What goes wrong in real life
#
# - **The loss jumps after a resume.** Something with a memory was not saved. Compare ten steps with the uninterrupted run, bit
#   by bit, once, before you need it.
# - **The first steps after a resume are out of memory**, only on GPU 0. `map_location` is missing.
# - **A fine-tuned model is as bad as a fresh one.** `strict=False` and the `module.` prefix. Look at what `load_state_dict`
#   returns.
# - **Training stops for ever after “saving”.** A barrier, or a metric with an `all_reduce`, in the branch of rank 0. The doctor
#   names the line and the condition it stands under, as above.
# - **The newest checkpoint does not load.** Written in place. Keep the last two or three as well: atomic writing does not help
#   against a NaN that was saved correctly.
# - **Two jobs, one folder.** The old job is not quite dead while the new one resumes. A name with the job's number, or a lock.
#
# ## Rule of thumb
#
# > Metrics: add up ingredients, reduce a copy, on all ranks. Rank 0 alone: nothing with a collective in it. Save: rank 0
# > writes beside, syncs, replaces; then a broadcast tells all how it went. Load on every rank, onto the CPU, with
# > `weights_only` (and `mmap=True` where the file is large). In the file: everything that has a memory, without `module.`, the random
# > state of each rank. Too large for one: DCP, a new folder each time.
#
# ## Your turn
#
# Three tasks wait in [exercises/14_checkpoints](../exercises/14_checkpoints.ipynb): a metric that may be read at any time, a
# checkpoint that survives a kill at any moment, and a run that resumes bit by bit.
#
# ## Further reading
#
# - `torch/serialization.py`: `save`, `load` and the notes on `weights_only`; PyTorch's note *Serialization semantics*.
# - `torch/distributed/checkpoint/filesystem.py`: `FileSystemWriter`; `state_dict.py` beside it: `get_state_dict` gives
#   names that do not depend on wrappers.
# - Pillai et al., *All File Systems Are Not Created Equal*, OSDI 2014: what a crash may leave behind, and why `fsync`.
#
# **Next:** [lesson 15](15_scale.ipynb), *How far does it scale?*. Or back to the [index](index.ipynb).
