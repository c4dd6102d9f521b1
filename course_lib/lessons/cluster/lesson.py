# %% [markdown]
# # 16 · From laptop to cluster
#
# > *“`ChildFailedError`, `exitcode: 1`, `error_file: <N/A>`. On my laptop the script runs. On two machines this is all I get. Where is
# > the traceback?”*

# %% [markdown]
# A launcher on each machine, one training over both. The picture shows who learns what of whom. The dashed arrows go from a rank to
# its [agent](glossary.ipynb), which is `torchrun`. The thin ones go to a log, and each machine has a log of its own.
#
# **You will be able to** find the traceback of a job on many machines; say which machine is wrong if a start fails; start the script under
# Slurm and Kubernetes; prepare data once per machine without a hang; and clean up what a job has left. 45 minutes.
#
# **Before this:** lessons 00 and 02.

# %%
# %load_ext course_lib
from course_lib.lessons.cluster.lab import draw_cluster, two_machines

machines = two_machines()
draw_cluster()

# %% tags=["hide-input"] jupyter={"source_hidden": true}
import os
import sys
import tempfile

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)  # where the next cells write and run their files
os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # for cells of bash

# %% [markdown]
# You have one machine. So `two_machines` makes two *network namespaces*: to a process in one of them, the other one is another computer,
# at the end of a wire, `eth0`. Machine a has the address 10.77.0.1. (`print(machines)` says whether your system allows it. Where it does
# not, both are this machine, and cells that need a wire show less.) This script runs on both, one rank on each:

# %%
# %%writefile train.py
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    raise FileNotFoundError("/data/train.pt")
dist.all_reduce(torch.ones(1))

# %%
p = predict("16.root_cause")

# %% [markdown]
# The first line is typed on machine a, the second one on b:

# %%
from course_lib.lessons.cluster.lab import ending

commands = """
GLOO_SOCKET_IFNAME=eth0 torchrun --nnodes=2 --node-rank=0 --master-addr=10.77.0.1 train.py
GLOO_SOCKET_IFNAME=eth0 torchrun --nnodes=2 --node-rank=1 --master-addr=10.77.0.1 train.py
"""
out = run(machines.torchrun, commands, ranks=2, init=False, expect="predicted")
print(ending(out.values[0]))

# %% [markdown]
# Machine a blames its rank 0, which has done nothing wrong. An agent knows the processes that it has started, and no others: “Root Cause
# (first observed failure)” is the first failure *on this machine*. Now the log of b, and what rank 0 itself has said:

# %%
from course_lib.lessons.cluster.lab import words_of_rank

print(ending(out.values[1]), end="\n\n")
for rank, log in out.values.items():
    print(f"rank {rank}:", words_of_rank(log))

# %% [markdown]
# **Read the logs of all machines.** Put aside who was ended by `SIGTERM` (its agent did that) and who says “Connection closed by peer”.
# The one that is left is the cause. That rank itself has printed the traceback, far above its agent's report.
#
# > **On GPUs (NCCL).** A rank whose peer has died may report `ncclRemoteError` (NCCL's documentation), or nothing until the watchdog's
# > timeout (10 minutes by default, `kProcessGroupNCCLDefaultTimeout` in `ProcessGroupNCCL.hpp`). Neither is the cause, and the agent
# > names it as the root cause all the same. (Read, not run: it needs GPUs.)
#
# ## Where the traceback is
#
# `error_file: <N/A>` means that the rank has left no file for its agent. The decorator `@record` writes one. It belongs on the
# function in which everything happens, imports of your own code included:

# %%
# %%writefile train.py
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    import torch.distributed as dist

    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        raise FileNotFoundError("/data/train.pt")
    dist.barrier()


main()

# %%
commands = commands.replace("train.py", "--rdzv-id=job-7 --log-dir=logs --redirects=3 train.py")
out = run(machines.torchrun, commands, ranks=2, init=False)
print(ending(out.values[1]))

# %% [markdown]
# Now the agent prints the traceback. (`record` in `torch/distributed/elastic/multiprocessing/errors/__init__.py` writes it to the file that
# `TORCHELASTIC_ERROR_FILE` names.) And `--log-dir` with `--redirects=3` puts what each rank prints into files:

# %%
import re
from pathlib import Path

files = sorted(str(path) for path in Path("logs").rglob("*") if path.is_file())
print(*sorted(re.sub("job-7_[^/]*", "job-7_...", name) for name in files), sep="\n")

# %% [markdown]
# Each agent has a folder, with the job's id and random letters. The last number in the path is the *local* rank: both machines have a `0`,
# and no path says which machine it was. (With `--max-restarts`, the last attempt has the highest number.) On a shared disk give each machine a
# folder of its own (`--log-dir=logs/$SLURM_NODEID`, filled in by a shell on each machine: the batch script runs on the first one only).
#
# | | on the console | in `--log-dir` |
# | --- | --- | --- |
# | without options | everything, mixed | only `error.json`, with `@record` |
# | `--redirects=3` | nothing of the ranks | everything (1 is stdout, 2 is stderr, 3 is both) |
# | `--tee=3` | everything, with `[default0]:` in front, the *local* rank | everything |
# | `--local-ranks-filter=0` | local rank 0 only | as without it |
#
# `--tee=3` and `@record` answer the question above. `--local-ranks-filter=0` alone is a trap: what local rank 1 prints goes to `/dev/null`
# (`DefaultLogsSpecs.reify` in `torch/distributed/elastic/multiprocessing/api.py`). With
# `TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[${rank}]:'` in the environment, `--tee` prints the global rank.
#
# ## Two ways to count
#
# The cells of this course reach other machines as well. `%ranks hosts` starts a *host* process on each, by ssh or by any command that you
# name with `--via` (`docs/hosts.md`). Here it enters the two namespaces:

# %% tags=["nbval-ignore-output"]
# %ranks hosts a b --via "{machines.via}"

# %% [markdown]
# Now four ranks are two on a and two on b. Say that each machine has two GPUs, and a script that was written on one machine:

# %%
# %%ranks 4 --expect raises:2,3
import os

gpus = ["GPU 0", "GPU 1"]  # of this machine
print({name: os.environ[name] for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE")})
gpus[int(os.environ["RANK"])]

# %% [markdown]
# A GPU has a number on its machine, and `RANK` counts through all machines. On one machine both are the same, so the mistake
# waits for the second one. There `torch.cuda.set_device(rank)` raises “invalid device ordinal”. On a machine with more GPUs than ranks
# it raises nothing, and takes GPUs that another job may have. (Read in `c10/cuda/CUDAFunctions.cpp`; there is no GPU here.)
#
# | for | count with |
# | --- | --- |
# | a GPU, a file on the local disk, one download per machine | `LOCAL_RANK`, of `LOCAL_WORLD_SIZE` |
# | the sampler, the seed, who writes the checkpoint | `RANK`, of `WORLD_SIZE` |
# | which machine | `GROUP_RANK` |
#
# ## Once per machine
#
# Each machine has a local disk, and the data must be unpacked there once. The usual code: `LOCAL_RANK` 0 prepares, and all others wait in a
# barrier.

# %%
p = predict("16.prepare")

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --no-init --fresh --predicted
import os
import time
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=1))
if os.environ["LOCAL_RANK"] == "0":
    time.sleep(2)  # prepares
dist.barrier()

# %% [markdown]
# Ranks 1 and 3 gave up after a second. That broke their connections, so the two that had done the work found nobody. With a real data set
# the job “always dies after 30 minutes” (gloo's default; NCCL's is 10), and never on a second try: then the data is there. Give this wait a
# group and a timeout of its own:

# %%
# %%ranks 4 --fresh
import os
import time
from datetime import timedelta

import torch.distributed as dist

side = dist.new_group(backend="gloo", timeout=timedelta(hours=2))
if os.environ["LOCAL_RANK"] == "0":
    time.sleep(2)
dist.barrier(side)
print("all are here")

# %% [markdown]
# Take gloo also where the training takes NCCL. One thing is missing: if preparing *fails*, the rank must still come to the barrier, and say
# there that it failed. Otherwise the others wait two hours. That is task 2.
#
# ## A cable is pulled
#
# Twenty steps over both machines. In step 10, rank 0 pulls the cable between them, and three seconds later it is put back. (`pull_cable`
# is the course's. It takes down the interface of the namespace, never that of your computer.)

# %%
p = predict("16.cable")

# %%
# %%ranks 4 --predicted
import torch

from course_lib.lessons.cluster.lab import pull_cable

for step in range(20):
    if step == 10 and dist.get_rank() == 0:
        pull_cable(seconds=3)
    dist.all_reduce(torch.ones(1), group=side)
    time.sleep(0.05)
print(step + 1, "steps")

# %% [markdown]
# No error and no message: a wait. A process that *ends* closes its connections, and everybody hears of it at once. A cable, a switch or a machine
# without power says nothing. Until the timeout of the group, a dead machine and a slow one look the same. So a timeout says how long a
# silence you take for a slow network: minutes rather than seconds. (Try `seconds=8`: after five seconds the cell says that the network is cut.)

# %%
# %ranks hosts off

# %% [markdown]
# ## How machines meet
#
# Before any rank runs, the agents meet, at the address and port that you name. **Static** (`--node-rank`, `--master-addr`): you number the
# machines. **c10d** (`--rdzv-backend=c10d`, `--rdzv-endpoint`, `--rdzv-id`): the same line on every machine, and the agents number
# themselves. The id is part of every key in the store, so machines whose lines name different ids do not meet: each waits until its time is
# over. That is 10 minutes for c10d (`join_timeout`, `RendezvousTimeout` in `dynamic_rendezvous.py`), and 15 for the static way
# (`timeout`, `LaunchConfig` in `torch/distributed/launcher/api.py`), in which nothing is printed.
#
# May two jobs with different ids share an endpoint, then? Job 7 runs on a, job 8 on b. Job 7 ends well as soon as job 8 trains.

# %%
p = predict("16.shared_endpoint")

# %% claims={"S39": "wrong"}
Path("job_7.py").write_text("import os, time\nwhile not os.path.exists('begun'): time.sleep(0.1)")
Path("job_8.py").write_text("import time\nopen('begun', 'w').close()\ntime.sleep(20)\nprint('trained')")
commands = """
torchrun --rdzv-backend=c10d --rdzv-endpoint=10.77.0.1 --rdzv-id=job-7 --rdzv-conf=is_host=1 job_7.py
torchrun --rdzv-backend=c10d --rdzv-endpoint=10.77.0.1 --rdzv-id=job-8 --rdzv-conf=is_host=0 job_8.py
"""
out = run(machines.torchrun, commands, ranks=2, init=False, timeout=90, expect="predicted")

# %%
print(*[log.splitlines()[-1] for log in out.values.values()], "trained" in out.values[1])

# %% [markdown]
# Job 8 was ended in the middle of its training. The store lived in job 7's agent and went with it, and every agent asks its
# store ten times a second whether somebody waits to join (`_invoke_run` in `torch/distributed/elastic/agent/server/api.py`). So a job needs an
# endpoint of its own, as well as an id.
#
# Now you are machine b. Every start is two real agents.

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.cluster.lab import explore_meetings

explore_meetings(machines)

# %% [markdown]
# “*n*/2 clients joined”, or `RendezvousTimeoutError`: this machine has done its part, so look at the *others*. With c10d, “The connection to the
# C10d store has failed” decides nothing: the inner exception, *before* it in the log, does. “Failed to connect”, “timed out while trying to
# connect”: this machine has not reached the store, so look at *its* address and port, at a firewall, and whether the first machine was there
# already. “Failed to recv, got 0 bytes”: it had reached the store, and then the store went. A port that is taken shows on the first machine:
# `EADDRINUSE`.
#
# With c10d, an agent holds the store if the endpoint is its own host name or address (`_matches_machine_hostname` in
# `torch/distributed/elastic/rendezvous/utils.py`). Where a name leads to another interface, *no* agent recognises itself in it: all try to
# connect, and nobody listens. `--rdzv-conf=is_host=1` on one machine, and `0` on the others, decides it.
#
# ## Who is left over
#
# A job hangs, and you end it. Each worker has a session of its own (`start_new_session` in `subprocess_handler.py`), so Ctrl-C in the
# terminal of `torchrun` does not reach it. `torchrun` passes the signal on. (`kill` sends SIGTERM, Ctrl-C SIGINT.)

# %%
p = predict("16.left_over")

# %%
from course_lib.lessons.cluster.lab import left_over

out = run(left_over, ranks=1, init=False, expect="predicted", timeout=240)
print("still there:", out.values[0])

# %% [markdown]
# (The numbers are local ranks.) Python makes a `KeyboardInterrupt` of `SIGINT`, between two of its instructions. These workers are inside
# `all_reduce`, in C++, and do not come to the next one. For `SIGTERM` they have no handler, so the kernel ends them wherever they are.
#
# `torchrun` passes `SIGINT`, `SIGTERM`, `SIGHUP` and `SIGQUIT` on (`--signals-to-handle`), waits 30 seconds (`--shutdown-timeout`), and kills
# who is left. It cannot catch `SIGKILL`, which comes from schedulers, from the kernel when memory runs out, and from impatient people: then
# the workers live on ([lesson 12](12_elastic.ipynb)). They keep their port and the memory of their GPU: the next job finds “address
# already in use” or “out of memory”.
#
# So press Ctrl-C *once* and wait half a minute, or `kill` `torchrun`. If it is too late for that, look for the name of the job, which each
# worker has in its environment:
#
# ```bash
# grep -lsz '^TORCHELASTIC_RUN_ID=job-7$' /proc/[0-9]*/environ                            # whom it finds; others' you cannot read
# kill $(grep -lsz '^TORCHELASTIC_RUN_ID=job-7$' /proc/[0-9]*/environ | cut -d/ -f3)
# ```
#
# `pkill -f train.py` would end those of your other jobs as well. (`--standalone` invents the name; the other ways take `--rdzv-id`.)
#
# ## Slurm
#
# Slurm starts one task on each machine, and each task is an agent. It numbers nothing: the agents do that themselves.

# %%
from course_lib.lessons.cluster.lab import file_text

print(file_text("train.sbatch"))

# %% [markdown]
# The course's tests run this file in Slurm 22.05 on two nodes in two namespaces (without the line about GPUs, and with one core per
# task). Four things go wrong with it:
#
# - **`--ntasks-per-node=4`**, because there are four GPUs. Then there are four agents per machine with four ranks each. With
#   `--nnodes=2` the first two agents that come are the job, perhaps both on one machine. The others wait, and fail when it ends.
# - **`torchrun` without `srun`**: sbatch runs the script on the first machine only. There the agent waits for a second one.
# - **A fixed port.** Two jobs on one machine want the same. Here it is made of the job's number.
# - **`srun` and cores.** Since 22.05 `srun` does not take `--cpus-per-task` from sbatch (Slurm's release notes), and all ranks and
#   loaders share one core.
#
# The other way has no `torchrun`: `srun --ntasks-per-node=4 python train.py` makes each rank a task, as Lightning does. Then four tasks are
# right, and the script takes Slurm's names:
#
# | torch | Slurm (*srun*, output environment variables) |
# | --- | --- |
# | `RANK` | `SLURM_PROCID` |
# | `LOCAL_RANK` | `SLURM_LOCALID` |
# | `WORLD_SIZE` | `SLURM_NTASKS` |
# | `MASTER_ADDR`, `MASTER_PORT` | the first of `scontrol show hostnames`; made of `SLURM_JOB_ID` |

# %%
# %%writefile by_srun.py
import os

import torch.distributed as dist

names = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID", "WORLD_SIZE": "SLURM_NTASKS"}
os.environ |= {ours: os.environ[slurms] for ours, slurms in names.items()}
dist.init_process_group("gloo")
if dist.get_rank() == 0:
    print("rank 0 of", dist.get_world_size())

# %% language="bash"
# # Slurm sets these; here they are set by hand.
# export SLURM_JOB_ID=$$ SLURM_NTASKS=2
# # A batch script has to set these.
# export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
# for task in 0 1; do SLURM_PROCID=$task SLURM_LOCALID=$task python by_srun.py & done; wait

# %% [markdown]
# ## What goes wrong in real life
#
# - **It dies after exactly 10, 15 or 30 minutes.** Those are defaults: NCCL and the c10d rendezvous, the static rendezvous, gloo. Ask
#   what was waited for, not how to wait longer.
# - **“invalid device ordinal” on the second machine only.** `RANK` where `LOCAL_RANK` belongs.
# - **All machines have met, and `init_process_group` fails with “Connection refused, remote=[127.0.0.1]”.** The wrong interface
#   ([Deeper](#Deeper:-interfaces,-ports-and-firewalls)).
#
# ## Rule of thumb
#
# > Put `@record` on main and `--tee=3 --log-dir` into the launch, and read the logs of *all* machines: an agent's root cause is its own
# > machine's. `LOCAL_RANK` for what a machine has, `RANK` for what the job has. Wait for preparation in a group with a timeout of its own,
# > and come to the barrier even when it failed. One agent per machine, one id and one port per job. Press Ctrl-C once.
#
# ## Your turn
#
# Three tasks wait in [exercises/16_cluster](../exercises/16_cluster.ipynb): the line for a machine of a Slurm job, data that is
# prepared once per machine, and the traceback among the logs of several machines.
#
# ## Deeper: interfaces, ports and firewalls
#
# The lines of the first section began with `GLOO_SOCKET_IFNAME`. Without it:

# %%
# %%writefile plain.py
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=1))

# %% tags=["nbval-ignore-output"]
commands = """
torchrun --nnodes=2 --node-rank=0 --master-addr=10.77.0.1 --rdzv-conf=timeout=9 plain.py
torchrun --nnodes=2 --node-rank=1 --master-addr=10.77.0.1 --rdzv-conf=timeout=9 plain.py
"""
out = run(machines.torchrun, commands, ranks=2, init=False, timeout=90)
for rank, log in out.values.items():
    print(f"rank {rank}:", words_of_rank(log) or "no error")

# %% [markdown]
# (Where both machines are one, both start.) One rank is refused at once, the other one waits; which one is a matter of chance. The agents
# have met, and so have the ranks at the store. There each has written the address under which the others shall call. gloo takes the one that the machine's own
# host name leads to, and where that cannot be used, loopback (`ProcessGroupGloo::createDefaultDevice` in `ProcessGroupGloo.cpp`). In a
# container, on Debian (`127.0.1.1` in `/etc/hosts`) and with several networks, that is often an address which nobody else can reach.
# `ip route get ADDRESS` on one machine says by which interface it reaches another.
#
# > **On GPUs (NCCL).** NCCL chooses by itself: InfiniBand first, then interfaces other than `docker*` and `lo`, which come last.
# > `NCCL_SOCKET_IFNAME=eth0` means all whose names *begin* so, `=eth0` exactly this one, `^docker` all but these; `NCCL_DEBUG=INFO` prints
# > the choice as `NET/Socket : Using` (NCCL's documentation, *Environment Variables*). NCCL training needs gloo's variable as well if it
# > makes a gloo group. (Read, not run: it needs GPUs.)
#
# **Ports.** Beside the endpoint's port, each rank opens ports for the others, chosen by the system, and with c10d rank 0's agent opens one more for
# the ranks' store. So between the machines of a job, a firewall has to let everything pass. By default anybody may talk to torch's store and gloo's
# connections: they are neither encrypted nor authenticated (PyTorch's `SECURITY.md`, “Using distributed features”). They belong into a
# network that you trust.
#
# ## Deeper: Kubernetes
#
# A Job with an index for each pod, and a Service without an address of its own, which gives each pod a name:

# %%
print(file_text("job.yaml"))

# %% [markdown]
# (Checked with a YAML parser and against the fields of the documentation; there was no cluster to run it.) The pods take the static way: the
# index is the node's rank. `publishNotReadyAddresses` matters, because the second pod asks for the name of the first before that one is
# ready. If one pod ends, the others wait for it until their timeout: `backoffLimit: 0` fails the whole Job instead.
#
# ## Deeper: containers
#
# - `/dev/shm` is 64 MiB in Docker. Loaders hand their batches over there, and NCCL uses it between GPUs of a machine: `--shm-size=16g` or
#   `--ipc=host`; in Kubernetes the `emptyDir` above.
# - `ulimit -l unlimited` (`--ulimit memlock=-1`) for InfiniBand, and `-n` for many loaders, whose shared tensors are open files.
# - The host name of a container leads to its own address, which other machines may not reach: `--network=host`, or the variables above.
#
# ## Further reading
#
# - PyTorch, *torchrun (Elastic Launch)*, and `torch/distributed/run.py`: its docstring is the manual.
# - Slurm, *srun* and *sbatch*: `--ntasks-per-node`, `--kill-on-bad-exit`, output per task (`%n`, `%t`).
# - Kubernetes, *Job with Pod-to-Pod Communication*.
#
# **Next:** [lesson 17](17_sharding.ipynb), *When DDP ends*. Or back to the [index](index.ipynb).
