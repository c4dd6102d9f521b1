# %% [markdown]
# # 16 · From laptop to cluster: your turn
#
# Three tasks on [lesson 16](../notebooks/16_cluster.ipynb). Replace what stands under `YOUR CODE HERE` and run the cell: running it
# *is* checking it. In the first one, real agents run your line, all on this machine.
#
# `%hint cluster.launch_line` gives a hint, and the next one when you run it again. `%solution cluster.launch_line` opens once you have
# passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. The line for a machine of a Slurm job
#
# Each machine of a Slurm job runs this function once, and then the line that it returns. `hosts` are the addresses of all machines of
# the job, in their order. `environment` holds what Slurm sets: `SLURM_JOB_ID`, `SLURM_JOB_NUM_NODES`, `SLURM_NODEID` (the number of
# this machine, from 0), and `SLURM_GPUS_ON_NODE`. All values are strings.
#
# Return the words of the line: `["torchrun", "--nnodes=...", ..., "train.py"]`. There is one rank per GPU. Two jobs may run on the same
# machines at the same time.

# %%
# %%task cluster.launch_line


def launch_line(hosts, environment):
    """What this machine runs: a list of words, from torchrun to train.py."""
    ### BEGIN SOLUTION
    ### STUB: words = ...
    ### STUB: return words
    job = environment["SLURM_JOB_ID"]
    return [
        "torchrun",
        f"--nnodes={len(hosts)}",
        f"--nproc-per-node={environment['SLURM_GPUS_ON_NODE']}",
        f"--node-rank={environment['SLURM_NODEID']}",
        f"--master-addr={hosts[0]}",
        f"--master-port={20000 + int(job) % 10000}",
        f"--rdzv-id={job}",
        "train.py",
    ]
    ### END SOLUTION


# %% [markdown]
# ## 2. Once per machine
#
# Every rank of a job on several machines calls `prepare_once(prepare, timeout)`. The default process group is there, and its timeout
# is short: that of the training.
#
# - `prepare()` is called by one rank of each machine. It may take up to `timeout` seconds.
# - On every rank, the function returns when the data of its machine are there.
# - If `prepare()` raises on any machine, the function raises on *every* rank, soon.
# - The default group can be used afterwards.

# %%
# %%task cluster.prepare_once
import os
from datetime import timedelta

import torch
import torch.distributed as dist


def prepare_once(prepare, timeout):
    """Call `prepare` once per machine; return when it is done, or raise everywhere."""
    ### BEGIN SOLUTION
    side = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
    error = None
    if os.environ["LOCAL_RANK"] == "0":
        try:
            prepare()
        except Exception as caught:
            error = caught
    failed = torch.tensor([int(error is not None)])
    dist.all_reduce(failed, dist.ReduceOp.MAX, group=side)  # the wait, and the news
    dist.destroy_process_group(side)
    if failed.item():
        raise RuntimeError("The data could not be prepared on some machine.") from error
    ### END SOLUTION


# %% [markdown]
# ## 3. Among the logs of several machines
#
# A job has failed. `folder` holds the logs of its machines, written by `torchrun --log-dir` with a folder per machine:
#
#     node17/job-7_k3x_01ab/attempt_0/1/stderr.log        what local rank 1 printed to stderr
#     node17/job-7_k3x_01ab/attempt_0/1/error.json        what @record has written, if it raised
#
# An `error.json` looks like this (shortened):
#
#     {"message": {"message": "ValueError: no labels",
#                  "extraInfo": {"py_callstack": "Traceback (most recent call last): ...", "timestamp": "1790000000"}}}
#
# Find the failure that ended the job, and not those that followed from it. Return the machine's folder, the local rank, and the last
# line of the traceback: `("node17", 1, "ValueError: no labels")`. The job may have been restarted, also often (`attempt_10`), and the clocks of the
# machines differ by up to two minutes.

# %%
# %%task cluster.find_the_traceback
import json
from pathlib import Path


def find_the_traceback(folder):
    """The machine, the local rank, and the last line of the traceback that ended the job."""
    ### BEGIN SOLUTION
    ### STUB: found = ...
    ### STUB: return found
    files = list(Path(folder).rglob("error.json"))
    last = max(int(path.parts[-3].removeprefix("attempt_")) for path in files)
    for path in files:
        said = json.loads(path.read_text())["message"]["message"]
        if path.parts[-3] == f"attempt_{last}" and "Connection closed by peer" not in said:
            return path.relative_to(folder).parts[0], int(path.parts[-2]), said
    raise LookupError("no rank has failed by itself")
    ### END SOLUTION
