# %% [markdown]
# # 13 · Debugging a hang
#
# > *“Our job stopped in the night. Seven of eight ranks print a timeout, after ten minutes each. Which of the seven is to
# > blame?”*
#
# Perhaps none. A rank that waits can only tell you what it waits *in*. The one that knows why is elsewhere, and it is often
# the only rank that prints nothing. So far in this course somebody looked for it in your place. On your cluster you do
# it by hand.
#
# **You will be able to** see where every rank of a hung job is, without having prepared anything; read the flight
# recorder, fix its analyser and know when not to believe it; say what `TORCH_DISTRIBUTED_DEBUG` finds, costs and breaks; and
# solve six mysteries without the doctor. 65 minutes.
#
# **Before this:** lessons 00 and 04.

# %%
# %load_ext course_lib

# %% [markdown]
# ## The patient
#
# A training script with three ranks and one weight. Each rank has a target of its own, the gradients are summed, and whenever the
# loss is better than the best so far, the ranks compare notes. It looks innocent:

# %%
JOB = """
import faulthandler, os, signal

import torch
import torch.distributed as dist

faulthandler.register(signal.SIGUSR1, all_threads=False)  # kill -USR1 pid: where are you?


def best_of_all(loss):
    losses = [None] * dist.get_world_size()
    dist.all_gather_object(losses, loss)
    return min(losses)


def descend(target):
    weight, best = torch.zeros(1), 1.0
    for step in range(100):
        gradient = weight - target
        loss = gradient.square().item()
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        print(f"step {step}: loss {loss:.2f}", flush=True)
        if loss < best:
            best = best_of_all(loss)


print("pid", os.getpid(), flush=True)
dist.init_process_group("gloo")
descend(target=[5.0, 2.0, 5.0][dist.get_rank()])
"""

# %% [markdown]
# The next cell starts it with a real `torchrun`, waits until it hangs, looks, and kills it. The doctor sees nothing of it:
# these are processes of `torchrun`. Two options are for you, too: `--log-dir` and `--redirects=3` give each rank a log of its
# own for both of its streams. (`--run-path` and `--start-method=fork` spare us the seconds in which each rank imports torch.)
#
# Two ways to look at a process that does not answer:
#
# - **py-spy** reads the stack out of another process' memory. The script need not be prepared, nor even be yours. It has to be
#   installed (`pip install py-spy`) and allowed (in a container: `--cap-add=SYS_PTRACE`; on macOS: root).
# - **faulthandler** is in Python. One line in the script, and the signal `SIGUSR1` makes it write its stack to its log, also
#   while it is blocked in C++.

# %%
import tempfile
from pathlib import Path

from course_lib import run_quietly

OPTIONS = ["--standalone", "--nproc-per-node=3", "--redirects=3", "--run-path", "--start-method=fork"]


def investigate(folder):
    """Start the job, wait until it hangs, and look at every rank: its last words, and its stack."""
    import multiprocessing
    import os
    import re
    import signal
    import subprocess
    import sys
    import threading
    import time

    def torchrun():
        from torch.distributed.run import main

        os.environ.pop("TORCHELASTIC_USE_AGENT_STORE")  # left by the course, which also launches
        os.dup2(os.open(f"{folder}/torchrun.log", os.O_CREAT | os.O_WRONLY), 2)
        typed = [*OPTIONS, f"--log-dir={folder}", f"{folder}/job.py"]
        agent = threading.Thread(target=main, args=(typed,))  # has a short stack: it often looks through it
        agent.start()
        agent.join()

    def log(rank, stream):
        found = list(Path(folder).glob(f"*/attempt_0/{rank}/{stream}.log"))
        return found[0].read_text() if found else ""

    def by_faulthandler(rank, pid):
        length = len(log(rank, "stderr"))
        os.kill(pid, signal.SIGUSR1)
        while "<module>" not in (dump := log(rank, "stderr")[length:]):
            time.sleep(0.01)
        return re.findall(r'File "(?:.*/)?(.+)", line (\d+) in (\w+)', dump)

    def by_py_spy(pid):
        try:
            tool = Path(sys.executable).with_name("py-spy")
            done = subprocess.run([tool, "dump", "--pid", str(pid)], capture_output=True, text=True)
        except OSError:
            return []  # not installed
        return [
            (file.split("/")[-1], line, name)
            for name, file, line in re.findall(r"^ +(\S+) \((\S+):(\d+)\)", done.stdout, re.MULTILINE)
        ]

    def in_words(stack):
        inner = [name for file, _, name in stack if file == "distributed_c10d.py"]
        mine = [f"{name} (line {line})" for file, line, name in stack if file == "job.py"]
        return " < ".join([*inner[-1:], *mine])

    job = multiprocessing.get_context("fork").Process(target=torchrun)
    job.start()
    ranks = range(3)
    while not all("step 1" in log(rank, "stdout") for rank in ranks) and job.is_alive():
        time.sleep(0.01)
    pids = [int(log(rank, "stdout").split()[1]) for rank in ranks]
    looks = [None]
    while len(looks) < 2 or looks[-1] != looks[-2]:  # twice the same: stuck, or very slow
        looks.append([by_faulthandler(rank, pids[rank]) for rank in ranks])
    stacks = [in_words(stack) for stack in looks[-1]]
    others = [in_words(by_py_spy(pid)) for pid in pids]
    last_words = [log(rank, "stdout").splitlines()[-1] for rank in ranks]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    job.join()
    return last_words, stacks, others


with tempfile.TemporaryDirectory() as folder:
    Path(folder, "job.py").write_text(JOB)
    out = run_quietly(investigate, folder, ranks=1, init=False, timeout=120)
    last_words, stacks, others = out.values[0]
    logs = sorted(path.relative_to(folder).parts[2:] for path in Path(folder).rglob("attempt_0/*/*.log"))

print("logs:", *("/".join(parts) for parts in logs))
for rank in range(3):
    print(f"rank {rank} said last:  {last_words[rank]}")
for rank in range(3):
    print(f"rank {rank} stands in:  {stacks[rank]}")
assert all(seen in ("", stack) for seen, stack in zip(others, stacks, strict=True))  # py-spy says the same

# %% [markdown]
# Read a stack from left to right: what it waits in, called from where. All three ranks wait, and all three have printed the
# same step. So neither “who waits” nor “who has come furthest” finds anything. What does: **who stands elsewhere than the
# others?** Rank 1 does, in `best_of_all`, and its log says why: its own loss has fallen below the best, the others' has not. The
# bug is an `if` that every rank answers for itself, with a collective behind it. What to do, in a drawn order, a step that is left out or
# an early end, must be decided *together*: by an all-reduce of everybody's view, by what one rank tells the others, or by a generator
# that is the same on all ranks, beside the one that each rank keeps for itself. What one rank leaves out, all leave out, or the others
# meet its next step.
#
# Two habits from this cell. *Look twice.* One stack shows where a rank is, two equal ones that it does not move. *Look at all
# ranks.* A single stack is worth nothing: that of rank 0, the one you would have looked at, shows a blameless `all_reduce`. A rank that
# waits where it should be is a witness, and one that is only late is still working. A cause that explains two of three stacks is not
# the cause: hold it against every rank.
#
# > **On GPUs.** The stacks tell this much because gloo's calls block. With NCCL a collective is put on a CUDA stream and the call returns
# > (comment above `class ProcessGroupNCCL` in `ProcessGroupNCCL.hpp`). The program runs on to the next line that needs a result, such as
# > `.item()`, `.cpu()` or `torch.cuda.synchronize()`. There all ranks may stand alike, far from the collective that hangs. Look into the
# > flight recorder instead, below: every entry has a `state`, `scheduled`, `started` (only with `TORCH_NCCL_ENABLE_TIMING=1`) or
# > `completed` (`FlightRecorder.hpp`). The first entry that is not completed is the place; a rank that lacks it, or has it with other
# > sizes, is the one to ask. Read in these headers, not run here.

# %% [markdown]
# ## A barrier that names names
#
# `barrier` waits. `monitored_barrier` waits, and rank 0 says who did not come. Put it where you suspect the parting of ways.
# (gloo only: in a job with NCCL, `backend="gloo"` makes a group for it.) Rank 2 is not coming:

# %%
# %%ranks 3
from datetime import timedelta

import torch
import torch.distributed as dist

rank = dist.get_rank()
patience = timedelta(seconds=0.4)
group = dist.new_group(backend="gloo", timeout=patience)
try:
    if rank == 2:
        dist.recv(torch.empty(1), src=0)  # until rank 0 has given up
    else:
        dist.monitored_barrier(group, timeout=patience)
except RuntimeError as error:
    print(str(error).splitlines()[0])
if rank == 0:
    dist.send(torch.ones(1), dst=2)

# %% [markdown]
# That is the sentence you want in a log. Mind that it is in *rank 0's* log; rank 1 knows only that something is wrong. With
# `wait_all_ranks=True`, rank 0 goes on asking, and names all who are missing.
#
# The group itself has a timeout of 0.4 seconds, too. Is it not enough to set that once?

# %%
p = predict("13.monitored_barrier")

# %%
# %%ranks --no-doctor --timeout 1.2 --predicted
group = dist.new_group(backend="gloo", timeout=patience)
if rank != 2:
    try:
        dist.monitored_barrier(group)
    except RuntimeError as error:
        print(str(error).splitlines()[0])

# %% [markdown]
# Half an hour: 1,800,000 ms. The docstring promises the default group's timeout, the code takes the backend's
# (`monitored_barrier` in `torch/distributed/distributed_c10d.py`: `_get_default_timeout`). Rank 1 has kept to the group's 0.4
# seconds, has left, and points to rank 0, which has not answered yet. Always pass the timeout.
#
# ## TORCH_DISTRIBUTED_DEBUG
#
# “Turn on the debugging utilities”, everybody says. The environment variable has three values. It is read once, when
# `torch.distributed` is imported; in a running process `dist.set_debug_level` does the same, *before* the group is made. With
# `INFO`, DDP's errors name parameters ([lesson 08](08_unused.ipynb)). `DETAIL` wraps every process group: before each collective, the ranks compare
# what they are about to do (`_create_process_group_wrapper` in `distributed_c10d.py`).

# %%
p = predict("13.sum_and_max")

# %%
# %%ranks 2 --predicted
import torch
import torch.distributed as dist

dist.set_debug_level(dist.DebugLevel.DETAIL)
checked = dist.new_group(backend="gloo")
x = torch.full((8,), 10.0 * (dist.get_rank() + 1))  # 10 on rank 0, 20 on rank 1
dist.all_reduce(x, dist.ReduceOp.MAX if dist.get_rank() else dist.ReduceOp.SUM, group=checked)
[int(number) for number in x]

# %% [markdown]
# Half of the numbers are sums and half are maxima: in gloo's ring, each rank has reduced its part in its own way. No error, and equal on
# both ranks. Here are seven ways to disagree, each in a group of its own with a timeout of 0.6 seconds, and what rank 0 sees:

# %% claims={"33": "incomplete", "S13": "wrong"}
from concurrent.futures import ThreadPoolExecutor

WAYS = {
    "8 numbers meet 108": lambda dist, group, x, r: dist.all_reduce(
        x.repeat(14)[:108] if r else x, group=group
    ),
    "all_reduce meets all_gather": lambda dist, group, x, r: (
        dist.all_gather([x.clone(), x.clone()], x, group) if r else dist.all_reduce(x, group=group)
    ),
    "float meets int": lambda dist, group, x, r: dist.all_reduce(x.int() if r else x, group=group),
    "rank 1 stays away": lambda dist, group, x, r: None if r else dist.all_reduce(x, group=group),
    "root 0 meets root 1": lambda dist, group, x, r: dist.broadcast(x, r, group),
    "SUM meets MAX": lambda dist, group, x, r: dist.all_reduce(
        x, dist.ReduceOp.MAX if r else dist.ReduceOp.SUM, group
    ),
    "a, b meets b, a": lambda dist, group, x, r: [
        dist.all_reduce(y, group=group) for y in ((x, 9 * x) if r else (9 * x, x))
    ],
}


def disagree(level, ways):
    """Two ranks that do not agree, in one way after the other: what this rank is told."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    told = []
    dist.set_debug_level(getattr(dist.DebugLevel, level))
    for way in ways:
        dist.barrier()
        group = dist.new_group(backend="gloo", timeout=timedelta(seconds=0.6))
        try:
            WAYS[way](dist, group, torch.full((8,), dist.get_rank() + 1.0), dist.get_rank())
            told.append("no error")
        except RuntimeError as error:
            named = "Detected mismatch" in str(error) or "failed to pass" in str(error)
            told.append("named" if named else "timeout")
    return told


first, *others = WAYS
with ThreadPoolExecutor() as pool:
    runs = [
        pool.submit(run_quietly, disagree, level, ways, ranks=2)
        for level, ways in (("OFF", [first]), ("OFF", others), ("DETAIL", [*WAYS]))
    ]
crash, off, detail = (run.result() for run in runs)
print(f"{'':28} {'OFF':13} DETAIL")
print(f"{first:28} {'crash in C++' if crash.exits else 'no crash':13} {detail.values[0][0]}")
for number, way in enumerate(others):
    print(f"{way:28} {off.values[0][number]:13} {detail.values[0][number + 1]}")

# %% [markdown]
# Read the right column for what `DETAIL` finds: another operation, another shape, another type, a rank that is missing. And for
# what it does not: another *reduction*, another *root*, the same call with another *meaning*. (Where shapes and types are equal, no tool
# knows what a number stands for: the k-th tensor of one rank is added to the k-th of the other.) The left column is why people are
# fond of it: without it, gloo takes the bits of integers for floats and says nothing.
#
# What it costs, measured in the ranks that you have (the bars are yours):

# %%
# %%ranks --as out
import time
from statistics import median


def seconds(level, numbers, times=15):
    """How long an all_reduce takes at this level."""
    dist.set_debug_level(getattr(dist.DebugLevel, level))
    group, x, taken = dist.new_group(backend="gloo"), torch.ones(numbers), []
    for _ in range(times):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(x, group=group)
        taken.append(time.perf_counter() - begin)
    return median(taken)


cost = {
    (level, numbers): seconds(level, numbers) for level in ("OFF", "DETAIL") for numbers in (1, 1_000_000)
}

# %%
import matplotlib.pyplot as plt

_, axes = plt.subplots(figsize=(7, 2.2), layout="constrained")
cost = out["cost"][0]
for place, level, colour, hatch in ((-0.2, "OFF", "#0072B2", ""), (0.2, "DETAIL", "#D55E00", "///")):
    bars = [1000 * cost[level, numbers] for numbers in (1, 1_000_000)]
    axes.barh(
        [y + place for y in range(2)], bars, 0.36, color=colour, hatch=hatch, edgecolor="black", label=level
    )
axes.set_yticks(range(2), ["1 number", "a million\nnumbers"])
axes.invert_yaxis()
axes.set(title="DETAIL makes every collective wait, however small", xlabel="milliseconds for one all_reduce")
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# A price for each collective, however small: the ranks first pass a monitored barrier, then exchange descriptions of what
# they are about to call (`runCollectiveChecks` of `ProcessGroupWrapper`). For a night's debugging that is fine. And where does
# it break? On this torch, with gloo, in the place where you need it most:

# %% claims={"S8": "wrong"}
# %%ranks --no-doctor --expect died
dist.set_debug_level(dist.DebugLevel.DETAIL)
checked = dist.new_group(backend="gloo")
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), process_group=checked)

# %% [markdown]
# The constructor of DDP dies of a segmentation fault; a debugger says, in `c10d::Logger::set_env_variables`. `INFO` is safe.
# For `DETAIL`, take the model out of DDP and average gradients by hand. (Set after the group is made, the level crashes
# nothing, and checks nothing.)
#
# ## Dead, stopped, or elsewhere
#
# When do the others learn that a rank is lost? Rank 0 waits for rank 1 in an `all_reduce`, with a timeout of half a second. Rank 1
# meets one of four fates:

# %% claims={"60": "refined"}
FATES = {
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "ends, exit code 0": "os._exit(0)",
    "is busy elsewhere": "time.sleep(1.0)",
    "is stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
}


def lost(fate):
    """What rank 0 is told when rank 1 meets this fate."""
    import os
    import signal
    import time
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    group = dist.new_group(timeout=timedelta(seconds=0.5))
    dist.barrier()  # now both have it
    if os.environ["RANK"] == "1":
        return eval(fate, {"os": os, "signal": signal, "time": time})
    try:
        dist.all_reduce(torch.ones(1), group=group)
    except RuntimeError as error:
        return "Timed out" if "Timed out" in str(error) else "Connection lost"


three = [fate for fate in FATES if fate != "is stopped"]
with ThreadPoolExecutor() as pool:
    for fate, out in zip(
        three, pool.map(lambda fate: run_quietly(lost, FATES[fate], ranks=2), three), strict=True
    ):
        print(f"rank 1 {fate}: rank 0 is told “{out.values[0]} ...”")

# %%
p = predict("13.stopped")

# %%
out = run(lost, FATES["is stopped"], ranks=2, expect="predicted")

# %% [markdown]
# The end of a process is noticed at once, even an orderly one: the system closes its connections. (A machine without power closes
# none; then it is like the stopped one.) So with gloo, **in a hang nobody is dead**, as a rule. The culprit is alive: in another
# collective, in a long computation, in a debugger, waiting for a file. That is why you look at stacks. And a connection that was closed
# does not mean a broken network: a rank that has waited long enough closes its own, and whoever comes late finds them closed.
#
# > **On GPUs.** Do not conclude this with NCCL. Ranks wait on their GPUs, and may not notice a death before the timeout; and the dead are
# > frequent: of the 419 interruptions of [lesson 12](12_elastic.ipynb), 148 were faulty GPUs (Grattafiori et al., 2024, table 5). First
# > ask torchrun's or the scheduler's log whether all ranks are alive. `torchrun` notices a *process* that has ended and ends the others
# > (`_invoke_run`); a *machine* that is gone, only the others' timeouts tell. Read there, not run here.
#
# ## Timeouts, and NCCL's variables
#
# A timeout is the end of one wait ([lesson 05](05_stragglers.ipynb)), and the message is written by those who waited: they are witnesses.
# It belongs above the longest honest pause. Too short, it ends a group that is well; years of it are no timeout; and a script that does
# not wait at all reads what is not there yet. Set it per group:
# `init_process_group(timeout=...)`, and again in each `new_group` ([lesson 02](02_process_groups.ipynb)). With NCCL, a watchdog thread does the waiting, and
# environment variables say what it does then. Much of what you read about them uses old names. What are they called in
# *this* torch? Its headers list every name, the current one first:

# %%
import importlib.util
import re

headers = Path(importlib.util.find_spec("torch").origin).parent / "include/torch/csrc/distributed/c10d"
text = "".join(Path(headers, f"{name}.hpp").read_text() for name in ("ProcessGroupNCCL", "FlightRecorder"))
names = [re.findall(r'"(TORCH_\w+|NCCL_\w+)"', found) for found in re.findall(r"\{\s*(\"[^}]*\")\s*\}", text)]
renamed = {old: current for current, *older in names for old in older}
for old in (
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
):
    print(f"{old:28} is now {renamed[old]}")
assert all(current.startswith("TORCH_") for current, *_ in names)

# %% [markdown]
# The old names are still read, for now. What some of them are for, by the comments beside them (this lesson has no GPU to run
# them on):
#
# - `TORCH_NCCL_ASYNC_ERROR_HANDLING`: what the watchdog does after an error or a timeout; by default (3) it ends the process.
#   It is not a switch that makes anything recover.
# - `TORCH_NCCL_BLOCKING_WAIT`: `wait()` blocks, so that the error is raised where you wait.
# - `TORCH_NCCL_DESYNC_DEBUG`: the watchdog also tells which ranks are apart.
# - `TORCH_FR_BUFFER_SIZE`: how many calls the flight recorder keeps. `TORCH_NCCL_DUMP_ON_TIMEOUT`: write them to a file when a
#   wait has timed out. `TORCH_FR_DUMP_TEMP_FILE`: the beginning of that file's name, to which the rank's number is added
#   (`FlightRecorder.cpp`). The next two sections read such lists.
# - `TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC`: for when the watchdog itself is stuck.
#
# `NCCL_DEBUG=INFO` is NCCL's own. gloo's waits heed none of these: they have the timeout of their group.

# %% [markdown]
# ## The flight recorder
#
# torch keeps a list of what each rank has called: the last 2,000 calls, by default, with gloo too (`TORCH_FR_BUFFER_SIZE`
# in `FlightRecorder.hpp`). With NCCL a timeout can write it to a file; here you ask for it. (With gloo, an entry's `state` stays
# `scheduled`: it is read from CUDA events, `update_state` in `FlightRecorderDetail.hpp`.) Put stacks and list together, and you have a
# **black box** for any training loop:

# %%
# %%ranks 3 --fresh
import pickle
import re
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

rank = dist.get_rank()


class BlackBox:
    """Notes what this rank has called, and where it was when it had to leave."""

    def __enter__(self):
        self.begin = time.time_ns()
        return self

    def __exit__(self, error, _, where):
        self.dump, self.left = c10d._dump_fr_trace(True, True, False), error is None  # all calls, with stacks
        self.frames = traceback.extract_tb(where)[1:]  # the first is this cell's `with`

    def stack(self):
        """Where it was: your functions, from the inside out."""
        mine = [f for f in self.frames if f.filename.startswith("<rank cell") and f.name.isidentifier()]
        inner = [f.name for f in self.frames if re.search("c10d.py|parallel|_tensor.py", f.filename)]
        lines = [f"{f.name} (line {f.lineno})" for f in reversed(mine)]
        return "it has left" if self.left else " < ".join([*inner[:1], *lines])

    def collectives(self):
        """What this rank has called: group, number within the group, operation, shapes."""
        return [
            (
                entry["process_group"][0],
                entry["collective_seq_id"],
                entry["profiling_name"],
                entry["input_sizes"],
            )
            for entry in pickle.loads(self.dump)["entries"]
            if entry["time_created_ns"] >= self.begin
        ]


# %% [markdown]
# The patient again, in a cell. `--no-doctor` makes the course keep its knowledge to itself: it frees the ranks, and says no more
# than that they did not finish.

# %% claims={"54": "incomplete"}
# %%ranks --no-doctor --expect hang


def best_of_all(loss):
    losses = [None] * dist.get_world_size()
    dist.all_gather_object(losses, loss)
    return min(losses)


def descend(target):
    weight, best = torch.zeros(1), 1.0
    for _ in range(100):
        gradient = weight - target
        loss = gradient.square().item()
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        if loss < best:
            best = best_of_all(loss)


with BlackBox() as box:
    descend(target=[5.0, 2.0, 5.0][rank])

# %%
# %%ranks --as out
seen = box.collectives()
print(box.stack())
for group, number, operation, sizes in seen:
    print(f"group {group}, number {number}: {operation} {sizes}")

# %% [markdown]
# “A hang means that not all ranks have joined a collective.” Here all three *have* joined collective number 3, and it is not
# the same one. Collectives have no names: a rank's third call on a group belongs with every other rank's third call on it. So
# the question to a flight recorder is: **what is the first number at which the lists differ?** Lists of different lengths belong to ranks
# that did different numbers of steps, or went through something of their own, or called a collective behind a condition that only one
# of them fulfils: whoever calls once more waits for ever. And every group has a list of its own. That keeps their collectives apart, but
# it does not keep a rank from waiting: a blocking call in one group holds up all that the rank would do after it in another.

# %%
_, axes = plt.subplots(figsize=(7, 2.2), layout="constrained")
styles = {"gloo:all_reduce": ("#56B4E9", ""), "gloo:all_gather": ("#E69F00", "///")}
for r, calls in out["seen"].items():
    for _, number, operation, _ in calls:
        colour, hatch = styles[operation]
        axes.barh(r, 0.9, left=number - 0.45, height=0.7, color=colour, hatch=hatch, edgecolor="black")
        axes.text(
            number,
            r,
            operation.partition(":")[2],
            ha="center",
            va="center",
            fontsize=9,
            backgroundcolor="white",
        )
axes.set_yticks(range(3), [f"rank {r}" for r in range(3)])
axes.set_xticks(range(1, 4))
axes.set(
    title="Read columns, not rows: at number 3, rank 1 calls something else",
    xlabel="number of the collective in its group",
    xlim=(0.45, 3.55),
    ylim=(2.6, -0.6),
)
plt.show()

# %% [markdown]
# ## The analyser, fixed and mistrusted
#
# PyTorch brings a program that compares such lists (`torch/distributed/flight_recorder`). It wants a folder with one dump per rank. With
# `TORCH_FR_DUMP_TEMP_FILE=/shared/dumps/rank_` on all machines, that is `torchfrtrace --prefix rank_ /shared/dumps`. Give it ours:

# %%
# %%ranks --as out
import contextlib
import io


def analysed(dumps, order=(0, 1, 2)):
    """What the analyser says of the dumps, if the folder lists the ranks' files in this order."""
    report = io.StringIO()
    with contextlib.redirect_stderr(report):
        from torch.distributed.flight_recorder.components.builder import build_db
        from torch.distributed.flight_recorder.components.config_manager import JobConfig
        from torch.distributed.flight_recorder.components.fr_logger import FlightRecorderLogger
    FlightRecorderLogger().logger.handlers[0].setStream(report)
    read = {number: {"rank": number, **pickle.loads(dumps[number])} for number in order}
    try:
        build_db(read, JobConfig().parse_args([]), read[0]["version"])
    except KeyError as error:
        return [f"KeyError: {error}"]
    return sorted(re.findall(r"Culprit rank \d+.*?, Expected .*? does not match .*?'\w+'", report.getvalue()))


def mended(dump):
    """gloo notes down the members of the default group, but not its name."""
    content = pickle.loads(dump)
    content["pg_config"]["0"] = content["pg_config"].pop("")
    return pickle.dumps(content)


dumps = [None] * 3
dist.all_gather_object(dumps, box.dump)
if rank == 0:
    print("as they are:", *analysed(dumps))
    print("mended:     ", *analysed([mended(dump) for dump in dumps]))

# %% [markdown]
# On dumps of gloo the analyser falls over: its table of groups has an entry without a name (`build_groups_memberships` in
# `components/builder.py` makes the table of it). With the name put back it says who, and in which words.
#
# How does it know? Two lists differ, and one of them must be called the wrong one. The same three dumps once more, but now the
# folder happens to list rank 1's file first:

# %%
# %%ranks --only 0
print(*analysed([mended(dump) for dump in dumps], order=(1, 0, 2)), sep="\n")

# %% [markdown]
# Now the innocent are the culprits. The list that is read first is taken for the right one (`build_collectives`: “starting
# arbitrarily with the trace from the first rank”), and which is first, the file system decides. The analyser finds the *place*.
# Who is to blame there, you decide: by majority, and by the source.
#
# And it compares what is in the record: operation, sizes, types. It cannot see that a rank is one batch ahead as long as all
# batches look alike. Mystery 2 is of that kind.

# %% [markdown]
# ## Six mysteries
#
# Now you. Six scripts, as people write them, on the three ranks above. The doctor stays off; the black box is all you get. For
# each one: **which rank** does something else than the others (not: which complains), **why**, and what would you change? Write
# it down before you go on. You give your answers in [exercises/13_debugging](../exercises/13_debugging.ipynb), where the scripts
# wait to be repaired, and the ranks decide.
#
# A helper to look, once it is over. (A collective's number counts on from cell to cell, for as long as its group lives.)

# %%
# %%ranks


def look():
    """Where this rank was last, how many collectives it has called, and the last of them."""
    calls = box.collectives()
    group, number, operation, sizes = calls[-1]
    print(box.stack())
    print(f"{len(calls)} collectives, the last one: {operation} {sizes}, number {number} in group {group}")


def model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Linear(1, 1)


# %% [markdown]
# ### Mystery 1: after the last batch
#
# *“It trains. At the end of the epoch it hangs, on some data sets and never on others. The data are dealt out evenly, eight
# photographs each.”*

# %%
# %%ranks --no-doctor --expect hang


def epoch(ddp, optimizer, photographs):
    """Train on this rank's photographs, two in a batch; then wait for all, so that rank 0 can save."""
    usable = [photograph for photograph in photographs if photograph >= 0]  # below 0: damaged
    for begin in range(0, len(usable), 2):
        batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
    dist.barrier()


photographs = [
    [0.4, 0.1, 0.7, 0.9, 0.3, 0.8, 0.2, 0.5],
    [0.6, 0.2, 0.9, -1.0, 0.1, 0.7, 0.3, 0.4],
    [0.5, -1.0, 0.8, 0.6, 0.2, -1.0, 0.9, 0.1],
]
ddp = DistributedDataParallel(model())
with BlackBox() as box:
    epoch(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), photographs[rank])

# %%
# %%ranks
look()

# %% [markdown]
# ### Mystery 2: always the last file
#
# *“Ranks 0 and 2 hang on file D. I have checked file D three times, it is fine.”*

# %%
# %%ranks --no-doctor --expect hang


def train_files(ddp, optimizer, files, read):
    """Train on one file after the other; a file that cannot be read is left out."""
    for file in files:
        try:
            batch = read(file)
            optimizer.zero_grad()
            ddp(batch).square().mean().backward()
            optimizer.step()
        except OSError:
            continue
        print(file, "is done")


def read(file):
    if (rank, file) == (1, "B"):
        raise OSError("the disk is asleep")
    return torch.tensor([[ord(file) / 100]])


ddp = DistributedDataParallel(model())
with BlackBox() as box:
    train_files(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), "ABCD", read)

# %%
# %%ranks
look()

# %% [markdown]
# ### Mystery 3: the network is down
#
# *“Our administrators say that the network is fine. Rank 1 says that it is not. The others say it is slow.”*

# %%
# %%ranks --no-doctor


def checkpoint(writer, write, read):
    """One rank writes the checkpoint; when it is there, all ranks read it."""
    group = dist.new_group(timeout=timedelta(seconds=0.4))  # better an error than half an hour of silence
    if rank == writer:
        write()
    dist.barrier(group)
    return read()


def write():
    time.sleep(0.9)  # a large file


try:
    checkpoint(1, write, lambda: "the weights")
except RuntimeError as error:
    print(next(words for words in ("Timed out waiting", "Connection") if words in str(error)), "...")

# %% [markdown]
# ### Mystery 4: the second step
#
# *“Two models, each with a process group of its own, so that they cannot get in each other's way. The first step works. The
# second hangs in the forward pass, and there is no collective in our forward pass.”*

# %%
# %%ranks --no-doctor --expect hang
import random


def train_towers(towers, optimizer, batches, chance):
    """Train two towers together; who goes first is drawn anew in every step."""
    for batch in batches:
        names = ["image", "text"]
        chance.shuffle(names)
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()


towers = {
    name: DistributedDataParallel(model(seed), process_group=dist.new_group())
    for seed, name in enumerate(["image", "text"])
}
optimizer = torch.optim.SGD([weight for tower in towers.values() for weight in tower.parameters()], lr=0.1)
with BlackBox() as box:
    chance = random.Random(rank)  # as for augmentation: each rank has its own
    train_towers(towers, optimizer, torch.ones(4, 2, 1), chance)

# %%
# %%ranks
look()

# %% [markdown]
# ### Mystery 5: one line in the log
#
# *“Since we log the loss of all ranks, it hangs after two steps. Only rank 0 writes the log, so only rank 0 asks for it.”*

# %%
# %%ranks --no-doctor --expect hang


def mean_loss(loss):
    """The mean over all ranks, for whoever wants to print it."""
    losses = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
    dist.gather(loss, losses if rank == 0 else None, dst=0)
    return sum(losses).item() / len(losses)


def train_and_log(weight, batches, log):
    """Gradient descent on the mean over all ranks' batches; every second step is logged."""
    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        if step % 2 == 1 and rank == 0:
            log(mean_loss(loss))
    return weight


with BlackBox() as box:
    train_and_log(torch.zeros(1), torch.ones(4, 3) * (rank + 1), print)

# %%
# %%ranks
look()

# %% [markdown]
# ### Mystery 6: it does not add up
#
# *“No hang, no error, and the sum over all labels is right. But I have counted by hand: there are ten cats.”*

# %%
# %%ranks --no-doctor


def totals(labels):
    """How often each label was seen, by all ranks together."""
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    for label in counts:
        count = torch.tensor(counts[label])
        dist.all_reduce(count)
        counts[label] = count.item()
    return counts


seen = [
    ["cat", "dog", "cat", "bird", "cat", "dog"],
    ["cat", "cat", "dog", "cat", "dog", "bird"],
    ["bird", "cat", "cat", "dog", "cat", "cat"],
][rank]
sorted(totals(seen).items())

# %% [markdown]
# ## What goes wrong in real life
#
# - **“Rank 3 timed out, so rank 3's GPU is broken.”** Rank 3 is a witness. Ask who was *not* in that collective.
# - **The first error is not the first line of the log.** Logs of many ranks are mixed by when they are flushed. One file a
#   rank (`--redirects=3`), each line with its step; then compare what happened, not what was printed last.
# - **It does not hang when I debug it.** `DETAIL` and `TORCH_NCCL_BLOCKING_WAIT` change the timing. A stack and a record that
#   is kept anyway do not.
# - **It hangs once a week.** Then the black box has to be in the script *before*: `faulthandler.register`, the flight recorder
#   (it is there), and a timeout short enough that somebody is still awake.
# - **It works on the machine and fails in a container**: `Bus error`, DataLoader workers that are killed, “unhandled system error”
#   from NCCL. Docker gives a container 64 MB of `/dev/shm`. DataLoader workers hand their batches over there, and NCCL uses it
#   between the ranks of a machine. Start with `--shm-size=8g` or `--ipc=host`. (PyTorch's README on its Docker image, and NCCL's
#   documentation, *Troubleshooting*; not run here.)
#
# And the doctor? Here it is with the patient:

# %%
# %%ranks --expect hang
descend(target=[5.0, 2.0, 5.0][rank])

# %% [markdown]
# ## Rule of thumb
#
# > First: is every rank alive? With gloo, a hang means yes, as a rule; with NCCL, ask torchrun's log. Look at all ranks, look twice, and
# > find the one that stands elsewhere; then the first call in which the lists differ (with NCCL, begin here); then the `if`, the `except`
# > or the loop that sent it there. Who complains is a witness. Prepare: a log for each rank, faulthandler on a signal, timeouts given by
# > hand. `DETAIL` for a night, and never with DDP on gloo.
#
# ## Your turn
#
# Six tasks wait in [exercises/13_debugging](../exercises/13_debugging.ipynb): for each mystery name the rank and the cause, and
# repair the script. The ranks run it on your data and on others.
#
# ## Further reading
#
# - `torch/distributed/flight_recorder`: small enough to read; `error_analysis` in `components/utils.py` has the cases it knows.
# - Python's documentation of `faulthandler`, and py-spy's README: `--native` shows the C++ frames, too.
# - PyTorch tutorial, *Flight Recorder for Debugging Stuck Jobs*: the same with NCCL, where the dump is written for you.
# - Agans, *Debugging: The 9 Indispensable Rules*, 2002. “Quit thinking and look” is the third.
#
# **Next:** [lesson 14](14_checkpoints.ipynb), *Logging, metrics, checkpoints*. Or back to the [index](index.ipynb).
