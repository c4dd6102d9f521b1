# %% [markdown]
# # 13 · Debugging a hang
#
# > *“Our job stopped in the night. Seven of eight ranks print a timeout. Which of the seven is to blame?”*
#
# A waiting rank knows which call it is in, and not why. The reason lies on another rank, which may print nothing at all. Until now
# the course's doctor has looked for it. Here it is off (`--no-doctor`), and you look yourself, with what there is on any cluster.
#
# **You will be able to** see where every rank of a hung job is, also of one that was not prepared for it; read the flight
# recorder column by column; say what the stacks still tell with NCCL; tell a dead rank from a slow one; and find the rank that
# does something else than the others. 45 minutes.
#
# **Before this:** lesson 00. (In the tasks, mystery 4 is about lesson 04's buckets.)

# %%
# %load_ext course_lib

# %% [markdown] tags=["two-hours-4"]
# ## A job that stops
#
# One weight, three ranks. Rank 1's target is 2, that of the others is 5, and the gradients are summed. When a rank's loss is better
# than the best so far, the losses of all ranks are compared:

# %% tags=["two-hours-4"]
from pathlib import Path

Path("scratch").mkdir(exist_ok=True)
for name in ("descend.py", "job.py"):
    Path("scratch", name).unlink(missing_ok=True)  # from the last time

# %% tags=["two-hours-4"]
# %%writefile scratch/descend.py
import torch
import torch.distributed as dist


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


# %% tags=["two-hours-4"]
p = predict("13.last_lines")

# %% tags=["two-hours-4", "notebook-only"]
# %%ranks 3 --no-doctor --predicted --as out
import torch.distributed as dist
from scratch.descend import descend

descend(target=[5.0, 2.0, 5.0][dist.get_rank()])

# %% [markdown] tags=["two-hours-4"]
# All three ranks have printed the same last step, and all three wait. So neither “who waits” nor “who has come furthest” finds
# anything. Ask instead: **who stands elsewhere than the others?** Rank 1's loss has fallen below 1, the others' has not. So rank 1
# compares, and the others are in the next step. The bug is a collective behind an `if` that every rank answers for itself.
#
# ## Look at all stacks, twice
#
# Now the same as a job of `torchrun`, of which the course knows nothing. One line prepares the script:

# %% tags=["two-hours-4"]
# %%writefile scratch/job.py
import faulthandler
import signal

import torch.distributed as dist
from descend import descend

faulthandler.register(signal.SIGUSR1, all_threads=False)  # kill -USR1 PID: where are you?
dist.init_process_group("gloo")
descend(target=[5.0, 2.0, 5.0][dist.get_rank()])

# %% [markdown] tags=["two-hours-4"]
# There are two ways to look into a process that does not answer:
#
# - **faulthandler** is in Python. On the signal, a rank writes its stack to its log, also while it is blocked in C++.
# - **py-spy** (`pip install py-spy`) reads the stack out of the other process's memory. Nothing has to be prepared. It has to be
#   *allowed*: where `/proc/sys/kernel/yama/ptrace_scope` is 1, as on Ubuntu, only with `sudo`; in a container with
#   `--cap-add=SYS_PTRACE`; on macOS as root. (From the documentation of Linux and of py-spy.)
#
# In a terminal, on each machine, for the job that was started with `--rdzv-id=job-13`:
#
#     grep -lsz '^TORCHELASTIC_RUN_ID=job-13$' /proc/[0-9]*/environ | cut -d/ -f3 | xargs -n1 py-spy dump --pid
#     kill -USR1 PID                # of a rank only: the signal would end torchrun itself
#
# `look_at` is the course's. It starts this command, waits until no stack moves any more, looks in both ways, and ends the job.
# `--redirects=3 --log-dir=...` give each rank a log of its own:

# %% tags=["two-hours-4"]
from course_lib.lessons.debugging.lab import look_at

looks = look_at(
    "torchrun --nproc-per-node=3 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-id=job-13 "
    "--redirects=3 --log-dir=scratch/logs scratch/job.py"
)
for rank, look in enumerate(looks):
    print(f"rank {rank}  {look.last_words}\n        {look.stack}")

# %% [markdown] tags=["two-hours-4"]
# Read a stack from left to right: what it waits in, called from where. That of rank 0, the one that people look at first, shows
# a blameless `all_reduce`. It is a witness. Rank 1 stands elsewhere. *Look at all ranks*, and *look twice*: one stack shows where
# a rank is, two equal ones that it does not move. And this is how py-spy puts it, from rank 1:

# %% tags=["two-hours-4", "nbval-ignore-output"]
print(looks[1].py_spy or "py-spy is not installed here, or not allowed")

# %% [markdown]
# ## Read columns
#
# torch also keeps a list of what each rank has called, the **flight recorder**: the last 2,000 calls by default, with gloo, too
# (`TORCH_FR_BUFFER_SIZE` in `FlightRecorder.hpp`). Every run on ranks of the course brings it along. This is the list of your
# first run, one row for each rank:

# %% claims={"54": "incomplete"}
from course_lib.lessons.debugging.lab import Record, draw_record

draw_record(Record.of(out))

# %% [markdown]
# “A hang means that not all ranks have joined a collective.” Here all three *have* joined number 3, and it is not the same one.
# Collectives have no names: a rank's third call on a group belongs with every other rank's third call on it. So read columns, and
# ask for **the first column that differs**. Step through it, forwards and back. Then change the targets: your `descend.py` runs
# again on three ranks.

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.debugging.lab import explore_record

explore_record(out, targets=[5.0, 2.0, 5.0])

# %% [markdown]
# Where lists have different lengths, a rank has done more steps, or has called a collective behind an `if` of its own. Every group has
# a list of its own. That keeps collectives of two groups apart. It does not keep a rank from waiting: a blocking call in one group
# holds up all that the rank would do after it in another.
#
# ## When the program runs ahead
#
# gloo's calls block. With NCCL a collective is put on a CUDA stream, the call returns, and the program goes on to the first line
# that needs a number from the GPU. You can have the same on CPUs: `async_op=True` returns at once, and `item` here waits for all
# that is under way, as `.item()` does on a GPU. (Each rank takes its own gradient, so that nothing depends on when a sum arrives.)

# %%
p = predict("13.ahead")

# %%
# %%ranks --no-doctor --predicted --as ahead
import torch

under_way = []


def item(tensor):
    while under_way:
        under_way.pop(0).wait()
    return tensor.item()


def descend_ahead(target):
    weight, best = torch.zeros(1), torch.ones(1)
    for step in range(100):
        gradient = weight - target
        weight = weight - 0.1 * gradient
        loss = gradient.square()
        under_way.append(dist.all_reduce(gradient, async_op=True))
        if loss < best:
            best, losses = loss, [torch.empty(1) for _ in range(3)]
            under_way.append(dist.all_gather(losses, best, async_op=True))
        if step % 5 == 4:
            print(f"step {step}: weight {item(weight):.2f}")


descend_ahead(target=[5.0, 2.0, 5.0][dist.get_rank()])

# %%
from course_lib.lessons.debugging.lab import black_box

print(black_box(ahead))
draw_record(Record.of(ahead))

# %% [markdown]
# (`black_box` is the course's: of each rank where it was, and how its list ends.) Three equal stacks, and in none of them the line
# that is to blame: it ran two steps earlier. The record has it.
#
# > **On GPUs (NCCL).** So begin with the record there. Every entry has a `state`: `scheduled`, `started` (only with
# > `TORCH_NCCL_ENABLE_TIMING=1`) or `completed`. The first entry that is not completed is the place. A rank that lacks it, or has
# > it with other sizes, is the one to ask. When a wait times out, the list is written to a file whose name begins with
# > `TORCH_FR_DUMP_TEMP_FILE`. That needs no switch today: `TORCH_NCCL_DUMP_ON_TIMEOUT` and `TORCH_NCCL_ENABLE_MONITORING` are on by
# > default, and the list has its 2,000 places. (Read in `FlightRecorder.hpp`, which torch installs, and in `ProcessGroupNCCL.cpp`,
# > which it does not: NCCL needs GPUs. With gloo an entry stays `scheduled`.)
#
# ## Is every rank alive?
#
# Rank 0 waits for rank 1 in an `all_reduce`, with a timeout of half a second. Rank 1 meets one of four fates:

# %% claims={"60": "refined"}
from course_lib import run_quietly
from course_lib.lessons.debugging.lab import lose_rank_1

for fate in ("is killed", "ends, exit code 0", "is busy elsewhere"):
    print(f"rank 1 {fate}: rank 0 gets “{run_quietly(lose_rank_1, fate, ranks=2).values[0]} ...”")

# %%
p = predict("13.stopped")

# %%
lost = run(lose_rank_1, "is stopped", ranks=2, expect="predicted")

# %% [markdown]
# The end of a process is noticed at once, even an orderly one: the system closes its connections. (A machine without power closes
# none; it is like the stopped one.) So with gloo, **in a hang nobody is dead**, as a rule. The culprit is alive: in another
# collective, in a long computation, in a debugger, waiting for a file. “Connection closed” does not mean a broken network. A rank
# has ended, or it has waited long enough and closed its connections, and a late rank finds them closed.
#
# A timeout ends one wait, and its message is written by a rank that waited: a witness. It belongs above the longest honest pause.
# Set it per group: `init_process_group(timeout=...)`, and again in each `new_group` ([lesson 02](02_process_groups.ipynb)).
#
# > **On GPUs (NCCL).** Do not conclude that nobody is dead. Ranks wait on their GPUs, and may not notice a death before the timeout.
# > Of the 419 interruptions of [lesson 12](12_elastic.ipynb), 148 were faulty GPUs (Grattafiori et al., 2024, table 5). First ask
# > torchrun's or the scheduler's log whether all ranks are alive. `torchrun` notices a *process* that has ended and ends the others
# > (`_invoke_run`); of a *machine* that is gone, only the others' timeouts tell. (Read there: NCCL needs GPUs.)
#
# ## A mystery, together
#
# *“Ranks 0 and 2 hang on file D. I have checked file D three times, it is fine.”* (`read` is the course's: it reads one file of
# this rank's disk.)

# %%
# %%ranks --no-doctor --expect hang --as box
from course_lib.lessons.debugging.lab import read
from torch.nn.parallel import DistributedDataParallel


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


ddp = DistributedDataParallel(torch.nn.Linear(1, 1))
train_files(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), "ABCD", read)

# %%
print(black_box(box))

# %% [markdown]
# Four questions, in this order, answer most hangs. Answer them before you go on:
#
# 1. **Is every rank alive**, and which of them has ended its part?
# 2. **Where does each stand**, twice? Who does not stand with the others?
# 3. **Which column differs first?** Or, as here: whose list is shorter? Compare the logs line by line from the top, too.
# 4. **Which `if`, `except` or loop has sent it there?** A cause has to explain *every* rank. One that explains two of three is not
#    the cause.

# %%
p = predict("13.file")

# %%
p.reveal(box)

# %% [markdown]
# All three are alive, and rank 1 is through. Ranks 0 and 2 wait in `backward()`, in their fourth step; rank 1 has made three. The
# logs part at the second line: rank 1 has not done B. Its `read` raised an `OSError`, and the `except` went on to C. From then on
# rank 1 was one file ahead, and its gradients for C were averaged with the others' for B. No error came, since all batches look
# alike, neither in the record nor to gloo. File D is only where it ends: there ranks 0 and 2 have nobody left. Whether a file is left
# out has to be decided *together*, before the first collective of the step. You repair it in task 1.
#
# That holds for whatever ranks do in common: a step that is left out, an early end, a drawn order. They decide it by an all-reduce of
# everybody's view, by what one rank tells the others, or by a second generator with the same seed on all ranks.
#
# ## What goes wrong in real life
#
# - **“Rank 3 timed out, so rank 3's GPU is broken.”** Rank 3 is a witness. Ask who was *not* in that collective.
# - **The first error is not the first line of the log.** Logs of many ranks are mixed by when they are flushed. Give each rank its
#   own file (`--redirects=3 --log-dir=logs`: `logs/<run>/attempt_0/<rank>/stderr.log`) and each line its step. Compare from the top.
# - **It does not hang when I debug it.** `DETAIL` and `TORCH_NCCL_BLOCKING_WAIT` change the timing. A stack and a record that
#   is kept anyway do not.
# - **It hangs once a week.** Then all has to be in the script *before*: `faulthandler.register`, the flight recorder (it is
#   there), and a timeout short enough that somebody is still awake.
# - **It works on the machine and fails in a container**: “unable to allocate shared memory(shm)” from a DataLoader (once a `Bus
#   error`), “unhandled system error” from NCCL. Docker gives a container 64 MB of `/dev/shm`. DataLoader workers hand their batches
#   over there, and NCCL uses it between the ranks of a machine (its documentation, *Troubleshooting*; it needs GPUs). Start with
#   `--shm-size=8g` or `--ipc=host`. To see it on Linux, without a container:
#
#       unshare -Urm sh -c 'mount -t tmpfs -o size=64m tmpfs /dev/shm && python train.py'

# %% [markdown] tags=["two-hours-4"]
# And the doctor? Here it is with the job of the beginning:

# %% tags=["two-hours-4"]
# %%ranks --expect hang
descend(target=[5.0, 2.0, 5.0][dist.get_rank()])

# %% [markdown]
# ## Rule of thumb
#
# > First: is every rank alive? (gloo: in a hang yes, as a rule. NCCL: ask torchrun's log.) Then look at all ranks, twice
# > (`py-spy dump --pid`, or `kill -USR1` with faulthandler), and find the one that stands elsewhere. With NCCL all may stand at the same
# > line: begin with the flight recorder, and the first column in which the lists differ. Then find the `if`, the `except` or the loop that
# > sent it there. Who complains is a witness. Prepare: a log for each rank, faulthandler on a signal, timeouts above the longest
# > honest pause. `DETAIL` for a night, and never with DDP on gloo.
#
# ## Your turn
#
# Seven tasks wait in [exercises/13_debugging](../exercises/13_debugging.ipynb): the mystery above, to repair, and six others. Each
# shows what the black box says. Name the rank and the cause, and repair the script. It is run on your data and on others.
#
# ## Deeper: a barrier that names names
#
# `barrier` waits. `monitored_barrier` waits, and rank 0 says who did not come. Put it where you suspect that the ranks part.
# (gloo only: in a job with NCCL, `backend="gloo"` makes a group for it.) Rank 2 is not coming:

# %%
# %%ranks 3
from datetime import timedelta

patience = timedelta(seconds=0.4)
group = dist.new_group(backend="gloo", timeout=patience)
try:
    if dist.get_rank() == 2:
        dist.recv(torch.empty(1), src=0)  # until rank 0 has given up
    else:
        dist.monitored_barrier(group, timeout=patience)
except RuntimeError as error:
    print(str(error).splitlines()[0])
if dist.get_rank() == 0:
    dist.send(torch.ones(1), dst=2)

# %% [markdown]
# That is the sentence you want in a log. Mind that it is in *rank 0's* log; rank 1 knows only that something is wrong. With
# `wait_all_ranks=True`, rank 0 goes on asking, and names all who are missing.
#
# The group itself has a timeout of 0.4 seconds, too. Now the barrier is called without one of its own.

# %%
p = predict("13.monitored_barrier")

# %%
# %%ranks --no-doctor --timeout 1.2 --predicted
group = dist.new_group(backend="gloo", timeout=patience)
if dist.get_rank() != 2:
    try:
        dist.monitored_barrier(group)
    except RuntimeError as error:
        print(str(error).splitlines()[0])

# %% [markdown]
# Half an hour: 1,800,000 ms. The docstring promises the default group's timeout, the code takes the backend's
# (`monitored_barrier` in `torch/distributed/distributed_c10d.py`: `_get_default_timeout`). Rank 1 has kept to the group's 0.4
# seconds, has left, and points to rank 0, which has not answered yet. Always pass the timeout.
#
# ## Deeper: TORCH_DISTRIBUTED_DEBUG
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
# both ranks. Here are seven ways to disagree, each in a group of its own with a timeout of 0.6 seconds, and what rank 0 gets:

# %% claims={"33": "incomplete", "S13": "wrong"}
from course_lib.lessons.debugging.lab import table_of_disagreements

print(table_of_disagreements())

# %% [markdown]
# Read the right column for what `DETAIL` finds: another operation, another shape, another type, a rank that is missing. And for
# what it does not: another *reduction*, another *root*, the same call with another *meaning*. (Where shapes and types are equal, no tool
# knows what a number stands for: the k-th tensor of one rank is added to the k-th of the other.) The left column is why people
# like it: without it, gloo takes the bits of integers for floats and says nothing.
#
# What it costs, on this machine:

# %% tags=["nbval-ignore-output"]
# %%ranks
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


for numbers in (1, 1_000_000):
    off, detail = (1000 * seconds(level, numbers) for level in ("OFF", "DETAIL"))
    if dist.get_rank() == 0:
        print(f"all_reduce of {numbers:9,} numbers: OFF {off:5.2f} ms, DETAIL {detail:5.2f} ms")

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
# ## Deeper: the analyser, fixed and mistrusted
#
# PyTorch brings a program that compares the lists of the flight recorder (`torch/distributed/flight_recorder`). It wants a folder
# with one dump per rank: with `TORCH_FR_DUMP_TEMP_FILE=/shared/dumps/rank_` on all machines, that is
# `torchfrtrace --prefix rank_ /shared/dumps`. (Its option `-j` needs the package `tabulate`, which nothing installs.) Dump the
# record of the job above, with a private function of torch, and give it to the analyser:

# %% tags=["notebook-only"]
# %%ranks 3 --fresh --no-doctor --expect hang
import torch.distributed as dist
from scratch.descend import descend
from torch._C import _distributed_c10d as c10d

try:
    descend(target=[5.0, 2.0, 5.0][dist.get_rank()])
finally:
    dump = c10d._dump_fr_trace(True, True, False)  # all calls, with stacks

# %% tags=["notebook-only"]
# %%ranks
from course_lib.lessons.debugging.lab import analysed, mended

dumps = [None] * 3
dist.all_gather_object(dumps, dump)
if dist.get_rank() == 0:
    print("as they are:", *analysed(dumps))
    print("mended:     ", *analysed([mended(dump) for dump in dumps]))

# %% [markdown]
# On gloo's dumps the analyser fails: its table of groups has an entry without a name (`build_groups_memberships` in
# `components/builder.py` makes the table of it). With the name put back it names rank 1.
#
# How does it know? Two lists differ, and one of them must be called the wrong one. The same three dumps once more, but now the
# folder happens to list rank 1's file first:

# %%
# %%ranks --only 0
print(*analysed([mended(dump) for dump in dumps], order=(1, 0, 2)), sep="\n")

# %% [markdown]
# Now the innocent are the culprits. The list that is read first is taken for the right one (`build_collectives`: “starting
# arbitrarily with the trace from the first rank”), and which is first, the file system decides. The analyser finds the *place*.
# Who is to blame there, you decide: by majority, and by the source. And it compares what is in the record. That a rank is one batch
# ahead, it cannot see, as long as all batches look alike.
#
# ## Deeper: NCCL's variables
#
# With NCCL, a watchdog thread does the waiting, and environment variables say what it does then. Much of what you read about them
# uses old names. What are they called in *this* torch? Its headers list every name, the current one first:

# %%
from course_lib.lessons.debugging.lab import renamed_variables

for old, current in renamed_variables().items():
    print(f"{old:28} is now {current}")

# %% [markdown]
# The old names are still read, for now. What some of them are for, by the comments beside them (this lesson has no GPU to run
# them on):
#
# - `TORCH_NCCL_ASYNC_ERROR_HANDLING`: what the watchdog does after an error or a timeout; by default (3) it ends the process.
#   It is not a switch that makes anything recover.
# - `TORCH_NCCL_BLOCKING_WAIT`: `wait()` blocks, so that the error is raised where you wait.
# - `TORCH_NCCL_DESYNC_DEBUG`: the watchdog also tells which ranks are apart.
# - `TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC`: for when the watchdog itself is stuck.
# - `TORCH_FR_BUFFER_SIZE`, `TORCH_NCCL_DUMP_ON_TIMEOUT`, `TORCH_FR_DUMP_TEMP_FILE`: the flight recorder, see above. The rank's
#   number is added to the file's name (`FlightRecorder.cpp`).
#
# `NCCL_DEBUG=INFO` is NCCL's own. gloo reads none of these: its waits have their group's timeout.
#
# torch 2.13 also has `torch.distributed.debug.start_debug_server`: one page with the stacks and the record of all ranks. It needs
# the package `aiohttp`, which the course does not install: so no cell shows it.
#
# ## Further reading
#
# - `torch/distributed/flight_recorder`: small enough to read; `error_analysis` in `components/utils.py` has the cases it knows.
# - Python's documentation of `faulthandler`, and py-spy's README: `--native` shows the C++ frames, too.
# - PyTorch tutorial, *Flight Recorder for Debugging Stuck Jobs*: the same with NCCL, where the dump is written for you.
# - Agans, *Debugging: The 9 Indispensable Rules*, 2002. “Quit thinking and look” is the third.
#
# **Next:** [lesson 14](14_checkpoints.ipynb), *Logging, metrics, checkpoints*. Or back to the [index](index.ipynb).
