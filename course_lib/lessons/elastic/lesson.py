# %% [markdown]
# # 12 · Elastic training
#
# > *“One GPU of 64 failed at night. `torchrun` is said to be elastic, so why did the job just end? And what becomes of the 63 ranks
# > that are healthy?”*

# %% [markdown] tags=["two-hours-5"]
# Try it with two processes. In step 7, rank 1 kills itself, with the signal that no program can catch.

# %% [markdown]
# **You will be able to** make a script that loses a few steps and not a night, say which part of that `torchrun` does and which
# is yours, leave in good order when the scheduler asks for it, and choose how often to save. 40 minutes.
#
# **Before this:** lessons 00, 02 and 03.

# %%
# %load_ext course_lib

# %% tags=["two-hours-5", "hide-input"] jupyter={"source_hidden": true}
from pathlib import Path

scratch = Path("scratch/elastic")
scratch.mkdir(parents=True, exist_ok=True)
for script in scratch.glob("*.py"):
    script.unlink()  # from the last time

# %% tags=["two-hours-5"]
# %%writefile scratch/elastic/train.py
import gc
import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    rank, restarts = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    ddp = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for step in range(10):
        if restarts == 0 and step == 7:
            dist.barrier()
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)  # a GPU fails
        optimizer.zero_grad()
        ddp(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()
        if rank == 0:
            print(f"rank 0: step {step}", flush=True)


main()
gc.collect()
dist.destroy_process_group()

# %% tags=["two-hours-5"] claims={"S31": "incomplete"}
# log = !torchrun --standalone --nproc-per-node=2 scratch/elastic/train.py
from course_lib.lessons.elastic.lab import steps_in, typed

print("steps:", steps_in(log), *[line for line in log if "FAILED" in line])

# %% [markdown] tags=["two-hours-5"]
# The job is over. On every machine runs one [**agent**](glossary.ipynb): that is what `torchrun` becomes once it has read its
# options. It starts the machine's **workers** (your ranks) and looks after them ten times a second. When one fails, it ends the
# others, and then itself: the default of `--max-restarts` is 0 (`_invoke_run` in `torch/distributed/elastic/agent/server/api.py`).
# (`gc.collect()` frees what is left of the wrapper: it holds the group, whose connections must close before the interpreter ends.)
#
# ## With restarts
#
# Now the same script with `--max-restarts=3`. The second life of the workers gets no accident. The line begins with a variable, which
# makes `torchrun` restart reliably with gloo ([*Where the time goes*](12_elastic.ipynb#Where-the-time-goes)). (`typed` types the line into a shell.)

# %% tags=["two-hours-5"]
p = predict("12.first_step")

# %% tags=["two-hours-5"] claims={"19": "incomplete"}
line = (
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 "
    "torchrun --standalone --nproc-per-node=2 --max-restarts=3 scratch/elastic/train.py"
)
out = run(typed, line, ranks=1, init=False, timeout=80, expect="predicted")
print("steps:", steps_in(out.values[0]))

# %% [markdown] tags=["two-hours-5"]
# All workers were ended and started again, with the first line of the script. Nobody has kept what the first life had done, so
# the second one begins with step 0. “Elastic launching restarts, and
# reverts to the last checkpoint” is half of the truth. `torchrun` restarts. Reverting is your script's work.
#
# ## A script that can be killed
#
# Five comments mark what makes this script fit to be killed at any time. Two functions in it are the course's: `note` writes a line
# into a log, and `accident` kills this process where the notebook has ordered it.

# %% tags=["two-hours-5"]
# %%writefile scratch/elastic/elastic.py
import gc
import os

import torch
import torch.distributed as dist
from course_lib.lessons.elastic.accidents import accident, note
from torch.nn.parallel import DistributedDataParallel

STEPS, EVERY, BATCH, CHECKPOINT = 30, 5, 32, "checkpoint.pt"


def start():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer, step = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9), 0
    if os.path.exists(CHECKPOINT):  # 1. every rank loads, in its first life and in its tenth
        saved = torch.load(CHECKPOINT, map_location="cpu")
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])  # 2. all that the next step depends on
        step = saved["step"]
    note("ready", step=step)
    return DistributedDataParallel(net), optimizer, step


def train_step(ddp, optimizer, step):
    accident(step)
    chance = torch.Generator().manual_seed(step)  # 3. the step decides the data, not the process
    batch = torch.randn(BATCH, 8, generator=chance)
    mine = batch[dist.get_rank() :: dist.get_world_size()]  # 4. a share of one fixed batch
    loss = (ddp(mine) - mine.square().sum(1)[:, None]).square().sum() / BATCH * dist.get_world_size()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(mean := loss.detach().clone(), op=dist.ReduceOp.AVG)
    note("step", step=step, loss=mean.item())


def save(ddp, optimizer, step):
    if dist.get_rank() == 0:
        state = {"net": ddp.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, "new")
        os.replace("new", CHECKPOINT)  # 5. the old one is there until the new one is whole


def main():
    ddp, optimizer, step = start()
    while step < STEPS:
        train_step(ddp, optimizer, step)
        step += 1
        if step % EVERY == 0:
            save(ddp, optimizer, step)


if __name__ == "__main__":
    main()
    gc.collect()
    dist.destroy_process_group()

# %% [markdown] tags=["two-hours-5"]
# (The loss is a sum, divided by the size of the whole batch. DDP divides by the number of ranks, so the script multiplies by it.
# A mean over each share would be wrong where the shares are not equal. After a power cut the new file may have its name before
# its bytes: lesson 14 adds an `fsync`.)
#
# ## Three kills
#
# Two machines with one worker each. Machine 1's worker is killed before step 7 and before step 22, machine 0's before step 13.
# Play them yourself: open two terminals in `scratch/elastic`. A terminal is a machine. In the first one order the three kills, then
# type the second line in both:
#
#     rm -f checkpoint.pt log; touch "kill machine 1 at 7" "kill machine 0 at 13" "kill machine 1 at 22"
#     TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes=2 --nproc-per-node=1 --max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 elastic.py
#
# The agents meet at the endpoint: the first one opens a store there. Or let the next cells do it. `machines` gives the line to
# `torchrun`'s own code, once for each machine. It forks the workers, which saves them the import of torch, and serves the store itself.

# %% tags=["two-hours-5"]
from course_lib.lessons.elastic.lab import job, machines

killed = job("scratch/elastic", "kill machine 1 at 7", "kill machine 0 at 13", "kill machine 1 at 22")

p = predict("12.restarts", folder=killed)

# %% tags=["two-hours-5"]
line = (
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes=2 --nproc-per-node=1 --max-restarts=3 "
    "--rdzv-backend=c10d --rdzv-endpoint=localhost:29400 elastic.py"
)
out = run(machines, killed, line, 2, ranks=1, init=False, timeout=80, expect="predicted")

# %% tags=["two-hours-5"] claims={"S33": "refined"}
from course_lib import run_quietly
from course_lib.lessons.elastic.lab import events, losses, one_failure
from course_lib.lessons.elastic.lab import processes, signals_of, steps_again

calm = job("scratch/elastic")
run_quietly(machines, calm, line, 2, ranks=1, init=False, timeout=80)
print("worker processes of machine 0 and 1:", processes(killed, 0), processes(killed, 1))
print("steps done again after each kill:", steps_again(killed))
print("the losses of a run without a kill, bit by bit:", losses(calm) == losses(killed))

# %% [markdown] tags=["two-hours-5"]
# Each failure ends all workers, on all machines. The group that the others hold has a dead member, and a collective that needs this
# member can never finish. So everybody starts anew, in a new group, from the last checkpoint.
#
# No loss differs in a single bit. All that a step depends on is in the checkpoint, or follows from the number of the step.
# (Dropout and augmentation draw random numbers: save the generators' states of every rank, too, lesson 03.) With three workers or
# more, the last digits may differ. DDP's first backward uses other buckets than the later ones ([lesson 04](04_buckets.ipynb)), and
# gloo adds them in another order. A restart has a first backward again.

# %% [markdown]
# ## Where the time goes
#
# No step was lost for good, but for some time nobody trained. This is the first kill, from the log of your job:

# %% tags=["nbval-ignore-output"]
one_failure(killed)

# %% [markdown]
# Read it as stairs. A worker fails; the agents notice; they meet (`_DistributedRendezvousOpExecutor.run` in
# `torch/distributed/elastic/rendezvous/dynamic_rendezvous.py` sleeps a second between two looks); new workers load the checkpoint;
# they do the steps since then once more. On a cluster, add imports, a large checkpoint, caches to be filled.
#
# On the fourth stair, new workers look for each other in a store. Without `TORCH_DISABLE_SHARE_RDZV_TCP_STORE` an agent has it, and
# keeps it over restarts (`DynamicRendezvousHandler.next_rendezvous`). A new worker may then read an address of the dead
# ([below](#Deeper:-the-store-remembers)): “Connection refused”, and a restart is used up. With the variable, each rank 0 opens a new one.
#
# > **On GPUs (NCCL).** NCCL's unique id goes through the same store, under a key that is a counter (lesson 02), so the variable
# > belongs into those lines, too. When a worker dies beside a living agent, NCCL need not notice: the agent rejoins the
# > rendezvous, and the other agents restart their workers, whatever these wait in (`_invoke_run`). When a whole machine goes, the
# > others' workers wait until NCCL's error or the group's timeout, 10 minutes by default (`kProcessGroupNCCLDefaultTimeout` in
# > `ProcessGroupNCCL.hpp`). (Read: NCCL needs GPUs.)
#
# ## Asked to leave
#
# Often nothing fails: a scheduler needs the machine for another job ([**preemption**](glossary.ipynb)), or your time is up. It
# sends SIGTERM, and some time later SIGKILL. This script only notes the signals that it gets:

# %% tags=["hide-input"] jupyter={"source_hidden": true}
# %%writefile scratch/elastic/asked.py
import signal

from course_lib.lessons.elastic.accidents import note

for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: note("got", signal=signal.Signals(number).name))
note("ready")
while True:
    signal.pause()

# %%
asked = job("scratch/elastic", "send SIGTERM after 2 ready")  # to torchrun, when both workers are ready

p = predict("12.asked", folder=asked)

# %%
line = "torchrun --standalone --nproc-per-node=2 --shutdown-timeout=3 asked.py"
out = run(machines, asked, line, ranks=1, init=False, timeout=80, expect="predicted")

# %%
print(signals_of(asked), "- workers without an agent:", out.values[0]["left_behind"])

# %% [markdown]
# `torchrun` forwards SIGTERM to all its workers, waits for `--shutdown-timeout` (30 seconds by default, here 3), and kills what
# is left. (Not every signal is forwarded: see [other signals](#Deeper:-other-signals).)
#
# So a worker has some seconds. It must not save in the handler: there it is in the middle of a step, and the other ranks may be
# in another. The handler notes the signal. At the end of each step all ranks ask whether anybody has got one, and so all leave after
# the same step, on all machines. Then the *exit code* tells each agent what to do:

# %%
# %%writefile scratch/elastic/leave.py
import gc
import signal

import torch
import torch.distributed as dist
from course_lib.lessons.elastic.accidents import note
from elastic import EVERY, save, start, train_step

STEPS, asked = 200, []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))  # and the step goes on


def main():
    ddp, optimizer, step = start()
    leave = torch.zeros(1)  # with NCCL on this rank's GPU
    while step < STEPS and not leave.item():
        train_step(ddp, optimizer, step)
        step += 1
        leave = torch.tensor([float(len(asked))])
        dist.all_reduce(leave, op=dist.ReduceOp.MAX)  # if one is asked, all know, after the same step
        if leave.item() or step % EVERY == 0:
            save(ddp, optimizer, step)
    note("left", step=step)
    return step


step = main()
gc.collect()
dist.destroy_process_group()
if step < STEPS and not asked:
    raise SystemExit(75)  # another machine has to go, not this one: its agent is to start again

# %%
leaving = job("scratch/elastic", "send SIGTERM after 9 step")  # to the torchrun of machine 0
line = (
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes=1:2 --nproc-per-node=2 --max-restarts=3 "
    "--rdzv-backend=c10d --rdzv-endpoint=localhost:29400 --rdzv-conf=last_call_timeout=5 leave.py"
)
codes = run_quietly(machines, leaving, line, 2, ranks=1, init=False, timeout=85).values[0]["codes"]
left = [one["step"] for one in events(leaving, "left", rank=None)]
again = events(leaving, "ready")[-1]
done = [one["step"] for one in events(leaving, "step")]
print("all four left after the same step:", len(set(left[:4])) == 1)
print("machine 1 went on there:", (again["machine"], again["step"], again["world"]) == (1, left[0], 2))
print("every step was done once:", done == [*range(200)])
print("machine 0's torchrun ended with", codes[0], "and machine 1's with", codes[1])

# %% [markdown]
# No step is lost. Agent by agent:
#
# - Machine 0's `torchrun` was asked to end, so it ends with 1, whatever its workers return. A scheduler counts that as a failure: let
#   the job be queued again.
# - Machine 1's was not asked. If its workers returned 0, it would take the job for done (`WorkerState.SUCCEEDED` in `_invoke_run`), and
#   end with 0. 75 is a failure: it costs one of `--max-restarts`, and the workers start again. With `--nnodes=1:2` they go on alone;
#   with `--nnodes=2` they wait for machine 0 (ten minutes, `join_timeout`).
# - Agents end healthy workers by SIGTERM, too: when a machine joins (this script saves, and growing loses no step), and when another
#   worker has failed (its next collective raises).
#
# The price is one small all-reduce per step. Ask in every tenth step if ten steps are short against the time that you are given.
#
# In two terminals, the first line is for one, the second for both, the last for the one that came second: the store is in the other.
# All four ranks wait at step 9 for you. The machine that stays waits 30 seconds for another one, `last_call_timeout`, and goes on.
#
#     rm -f checkpoint.pt log; touch "hold 4 ranks at 9"
#     TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes=1:2 --nproc-per-node=2 --max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 leave.py &
#     kill $!; sleep 1; rm "hold 4 ranks at 9"
#
# > **On GPUs (NCCL).** The flag is a CUDA tensor, and `leave.item()` waits for the GPU in each step. A second, gloo group for
# > such flags (`dist.new_group(backend="gloo")`) does not. When a worker has died, the others wait, with the signal noted, until the
# > agent kills them after `--shutdown-timeout`. (Read: NCCL needs GPUs.)
#
# ## How often to save
#
# A checkpoint every 5 steps was a guess. Say that a save takes *C* seconds, a restart *R*, and a failure comes every *M* seconds on
# average. With *T* seconds between two saves, a failure costs the restart and half an interval. So of each second of training you lose
#
# $$\text{loss}(T) = \frac{C}{T} + \frac{T/2 + R}{M}, \qquad \text{least at}\quad T = \sqrt{2 C M}.$$
#
# That is Young's formula, of 1974. *R* is not in it: a slow restart costs you in every failure, and changes nothing in how often you
# should save. It holds as long as *C*, *T* and *R* are much smaller than *M*.
#
# A real job: in 54 days on 16,384 GPUs, Llama 3's pre-training had 419 unexpected interruptions, and more than 90 % of the time
# was effective training (Grattafiori et al., 2024, §3.3.4). What a save and a restart cost there we do not know. Find out what
# they may cost:

# %%
from course_lib.lessons.elastic.lab import explore_intervals

explore_intervals()

# %% [markdown]
# The grey bars replay a long history with drawn failures. They are longer than the formula's: failures also hit the work that is
# being done again. Twice or half the best interval costs a quarter more of what saving and redoing cost together, so a guess of
# the right size will do. With a minute per save and ten minutes per restart, 86 % of the time would be effective. With 15 seconds
# per save it is 90 %. The save is the lever: write it in the background (lesson 14), or on fewer ranks.
#
# ## What goes wrong in real life
#
# - **“It did not restart.”** `--max-restarts` was left out, or was used up by a bug that fails in every life.
# - **It restarts, and trains from step 0.** The script does not load.
# - **It restarts, and says “Connection refused” or hangs in `init_process_group`.** The store remembers. Set the variable.
# - **After a restart, one machine is at step 0.** Rank 0 writes, every rank loads: `CHECKPOINT` must be on a file system that all
#   machines share.
# - **Everything ends with machine 0.** With `--rdzv-backend=c10d` the store lives in the agent at `--rdzv-endpoint`, and goes with
#   it. Serve it from a machine that does not train:
#
#       python -c "import torch.distributed as dist, signal; s = dist.TCPStore('localhost', 29400, is_master=True, wait_for_workers=False); signal.pause()"
#
# - **A rank hangs, and nothing restarts.** The agent looks at processes, not at progress. A hang becomes a failure only through the
#   group's timeout ([lesson 02](02_process_groups.ipynb)). Do not leave it at gloo's half hour: set it a little above your longest
#   honest pause ([lesson 05](05_stragglers.ipynb)).
#
# ## Rule of thumb
#
# > `torchrun` restarts processes; going on is your script's work. With gloo, set `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1`. Let the
# > step number decide the data and the checkpoint hold the rest, write it aside and rename it, divide a fixed global batch. On
# > SIGTERM save and leave together, after the same step. Save every √(2 · cost of a save · time between failures) seconds.
#
# ## Your turn
#
# Three tasks wait in [exercises/12_elastic](../exercises/12_elastic.ipynb): choose the interval from a job's log, a training
# function that is killed three times, once while it saves, and must not show it, and one that is asked to leave.
#
# **Your script.** One of the faults in `exercises/script/train.py` is this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair it; in a terminal, this says whether it is gone:
#
#     ddp-course check --suspect 12 exercises/script/train.py
#
# ## Deeper: the store remembers
#
# `meet.py` looks into the store where it is to meet the others *before* it goes there. The variable is not set. One machine, two
# workers, one kill; in its second life rank 1 is late, as happens to ranks that have more to load.

# %%
# %%writefile scratch/elastic/meet.py
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from course_lib.lessons.elastic.accidents import note

rank, life = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
if rank == 0 and life:
    note("look", addresses=sorted(key[-1] for key in store.list_keys() if "//cpu//" in key))
while life and rank == 1 and not Path("tried").exists():
    time.sleep(0.01)
try:
    dist.init_process_group("gloo", timeout=timedelta(seconds=0.5 if life else 60))
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
except RuntimeError as error:
    note("error", life=life, text=str(error))
    if life:
        Path("tried").touch()
    raise

# %%
remembering = job("scratch/elastic")
line = "torchrun --standalone --nproc-per-node=2 --max-restarts=1 meet.py"
run_quietly(machines, remembering, line, ranks=1, init=False, timeout=80)

# %%
from course_lib.lessons.elastic.lab import second_life

found = events(remembering, "look")[0]["addresses"]
print("before any new worker has written its address, there are those of ranks", *found)
print("rank 0:", second_life(remembering)[0].partition(" with")[0])

# %% [markdown]
# These are addresses of processes that are dead. What comes of it in a real job depends on who is late. People have met the same with
# NCCL's unique id (PyTorch's issue 135712; it needs GPUs).
#
# You will also read that you should put `TORCHELASTIC_RESTART_COUNT` in front of every key. On one machine that works. On several
# it need not: every agent counts the failures of *its own* workers alone, as the next section shows.
#
# ## Deeper: two workers, four, two
#
# This job may grow: `--nnodes=1:2` says that one machine will do, two are welcome. Machine 1 comes when the first checkpoint is
# there. In step 27 somebody pulls its plug: agent and workers are gone in the same moment, without a message. (At step 12,
# the first two workers wait for the others, so that the run does not depend on how fast your machine is.)

# %%
scaled = job(
    "scratch/elastic", "machine 1 after checkpoint.pt", "hold 2 ranks at 12", "unplug machine 1 at 27"
)

p = predict("12.joined", folder=scaled)

# %%
line = (
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes=1:2 --nproc-per-node=2 --max-restarts=3 "
    "--rdzv-backend=c10d --rdzv-endpoint=localhost:29400 "
    "--rdzv-conf=last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5 elastic.py"
)
out = run(machines, scaled, line, 2, ranks=1, init=False, timeout=85, expect="predicted")

# %%
for one in events(scaled, "ready"):
    print(f"{one['world']} workers from step {one['step']}")
counts = {one["pid"]: one["restarts"] for one in events(scaled, "begin", rank=None)}
lives = [counts[one["pid"]] for one in events(scaled, "ready", rank=None) if one["machine"] == 0]
print("TORCHELASTIC_RESTART_COUNT in the three lives of machine 0:", lives[::2])
print("the two machines ended with", out.values[0]["codes"])
gaps = [abs(loss / losses(calm)[step] - 1) for step, loss in losses(scaled).items()]
print("the losses are those of two workers, up to rounding:", len(gaps) == 30 and max(gaps) < 1e-4)

# %% [markdown]
# Growing is a restart. An agent sees somebody on the waiting list (`num_nodes_waiting`) and stops its healthy workers. “Membership
# changes do not count as retries”, says a comment in `_invoke_run`: so the gang of two and the gang of four had the same
# `TORCHELASTIC_RESTART_COUNT`, and keys with that number in front would have been the same keys.
#
# The curve is that of two workers because every step divides *the same* 32 samples, by two or by four (comment 4). A fixed batch *per
# rank* would have doubled the global one, and with it what the learning rate means ([lesson 10](10_accumulation.ipynb)).
#
# Losing a machine takes longer. Its workers' peers noticed at once, since their connections were closed (after a power cut they
# wait for the group's timeout). But in the rendezvous a machine stays a member until its heartbeat has been missing for
# `keep_alive_interval` × `keep_alive_max_attempt` (5 s × 3 by default). And with fewer machines than are welcome, the others wait
# `last_call_timeout` for more (30 s by default, also at the very start). The job above asked for 1 s × 5, and 1 s. Do not go much
# lower: a machine whose heartbeat is late is struck off the list (`_sanitize` in `dynamic_rendezvous.py`).
#
# ## Deeper: a group has one size for life
#
# Why restart the healthy ranks? Could the group not just get smaller? Ask it:

# %%
# %%ranks 2
import torch
import torch.distributed as dist

try:
    if dist.get_rank() == 0:
        dist.shrink_group([1])
except TypeError as error:
    print("gloo", str(error).partition("' ")[2])

# %% [markdown]
# (This is so before torch 2.14, which adds `init_process_group(enable_reconfigure=True)`.) A group is a set of connections made for
# exactly these members. gloo joins every pair of them. NCCL makes a *communicator* for a number of ranks (`numRanks` in
# `NCCLComm::create`, `torch/csrc/distributed/c10d/NCCLUtils.hpp`), with rings and trees laid through them.
#
# “NCCL groups cannot resize” is not the whole truth any more: `shrink_group` makes a *new*, smaller communicator out of what is
# left of the old one, where NCCL can (`ProcessGroupNCCL::supportsShrinking`; it needs GPUs). To grow, you make a new group, and for
# that everybody must know who is in it: the agents find that out between two lives of the workers.
#
# ## Deeper: without a restart
#
# Making a group is quick. What took seconds above was what is around it. So let the *processes* live. Three ranks train;
# rank 2 dies in step 5; a spare, rank 3, comes in before step 8. Simpler than in reality: who belongs to which group is
# written down beforehand.


# %%
def per_step(steps=12, dies_at=5, joins_at=8):
    import os
    import signal
    import time

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    me = int(os.environ["RANK"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    quorums = [[0, 1, 2], [0, 1], [0, 1, 3]]
    torch.manual_seed(me)  # whoever comes has other weights
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    step, seconds, done = 0, 0.0, []

    def meet(number):
        members = quorums[number]
        if dist.is_initialized():
            dist.destroy_process_group()
        keys = dist.PrefixStore(f"quorum {number}", store)  # one per group: no stale addresses
        dist.init_process_group("gloo", store=keys, rank=members.index(me), world_size=len(members))
        now = torch.tensor(step)
        dist.broadcast(now, src=0)
        # DDP's constructor copies rank 0's weights: the newcomer gets them from a peer, not a file.
        return members, DistributedDataParallel(net), now.item()

    if me == 3:
        store.wait(["wanted"])
    members, ddp, step = meet(2 if me == 3 else 0)
    while step < steps:
        if step == joins_at and len(members) == 2:
            store.set("wanted", "")
            ddp = None
            members, ddp, step = meet(2)
        if me == 2 and step == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        batch = torch.randn(12, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        try:
            ddp(batch[members.index(me) :: len(members)]).square().mean().backward()
            together = True
        except RuntimeError:
            together = False
        if not together:  # after the except block: its traceback would keep the old group alive
            begin = time.perf_counter()
            ddp = None
            members, ddp, step = meet(1)
            seconds = time.perf_counter() - begin
            continue
        optimizer.step()
        done.append(step)
        step += 1
    ddp = None
    dist.destroy_process_group()
    return {"done": done, "seconds": seconds, "weights": net.weight.flatten().tolist()}


p = predict("12.survivors")

# %% claims={"16": "holds", "18": "incomplete"}
survived = run(per_step, ranks=4, init=False, expect="predicted")
for rank, seen in survived.values.items():
    print(f"rank {rank} did the steps", seen["done"])

# %%
assert survived.kind == "died"


def alone():
    import torch

    torch.manual_seed(0)
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(12):
        optimizer.zero_grad()
        batch = torch.randn(12, 8, generator=torch.Generator().manual_seed(step))
        net(batch).square().mean().backward()
        optimizer.step()
    return net.weight.flatten().tolist()


right = run_quietly(alone, ranks=1).values[0]
far = max(
    abs(a - b) for seen in survived.values.values() for a, b in zip(seen["weights"], right, strict=True)
)
print("all end with the weights of one process that never failed:", far < 1e-5)
assert far < 1e-5

# %% [markdown]
# This is what per-step recovery projects do, in small. **torchft** asks a server (the *lighthouse*) before every step who is there,
# makes a new group when that has changed, and sends a newcomer weights *and optimizer state* from a living replica. **Horovod
# Elastic** keeps the last committed state in every worker's memory and rolls back to that. Both need replicas, and on GPUs, somebody
# must first `abort` the communicator in which the survivors are stuck. None of them replaces the checkpoint: some failures take all
# replicas.
#
# ## Deeper: other signals
#
# The same script, and SIGUSR1 instead of SIGTERM:

# %% claims={"S32": "incomplete"}
for options in ("", "--signals-to-handle=SIGTERM,SIGUSR1"):
    other = job("scratch/elastic", "send SIGUSR1 after 2 ready")
    line = f"torchrun --standalone --nproc-per-node=2 --shutdown-timeout=3 {options} asked.py"
    end = run_quietly(machines, other, line, ranks=1, init=False, timeout=40).values[0]
    print("SIGUSR1", options, signals_of(other), "- workers without an agent:", end["left_behind"])

# %% [markdown]
# The signal was sent to `torchrun` alone, as `kill` does. `torchrun` does not handle it by default: it dies at once, and its workers live
# on as orphans, with the GPUs' memory. `--signals-to-handle` changes that (`run.py`). Slurm's `--signal=USR1@60` signals *all*
# processes of a step, workers too (its manual; Slurm is not here).
#
# ## Deeper: what torchrun says of an exception
#
# When a worker raises, `torchrun`'s summary says `error_file: <N/A>` and “To enable traceback see ...”. Decorate the script's main
# function with `@record` (`torch/distributed/elastic/multiprocessing/errors`), and the summary holds the traceback of the first
# failure. With SIGKILL there is none.

# %%
# %%writefile scratch/elastic/raises.py
import sys

from torch.distributed.elastic.multiprocessing.errors import record


def main():
    raise ValueError("sample 17 is broken")


(record(main) if "record" in sys.argv else main)()

# %%
for option in ("plain", "record"):
    log = typed(f"torchrun --standalone --nproc-per-node=1 scratch/elastic/raises.py {option}")
    summary = log[max(number for number, line in enumerate(log) if "FAILED" in line) :]
    print(f"{option:7} the summary names the error:", any("sample 17" in line for line in summary))

# %% [markdown]
# ## Further reading
#
# - `torch/distributed/elastic/agent/server/api.py`: `_invoke_run` is the agent's loop, 70 lines.
# - PyTorch, *torchrun (Elastic Launch)* in the documentation; for what may be changed about the rendezvous, the docstring of
#   `create_handler` in `torch/distributed/elastic/rendezvous/dynamic_rendezvous.py`.
# - Young, *A first order approximation to the optimum checkpoint interval*, 1974; Daly, 2006, for when failures are frequent.
# - The documentation of torchft, for per-step recovery.
#
# **Next:** [lesson 13](13_debugging.ipynb), *Debugging a hang*. Or back to the [index](index.ipynb).
