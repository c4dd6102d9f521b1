# %% [markdown]
# # 02 · Process groups and init: your turn
#
# Three tasks on [lesson 02](../notebooks/02_process_groups.ipynb), each a little harder than the one before. Replace what stands
# under `YOUR CODE HERE` and run the cell: running it *is* checking it. A task cell stands alone, so it brings its own imports.
# Where a task asks for a process group, the ranks come without one. All groups here are gloo's.
#
# `%hint process_groups.setup` gives a hint, and the next one when you run it again. `%solution process_groups.setup` opens
# once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. A start and an end
#
# Two functions, to be called at any time: again, in the wrong order, after a failure.
#
# - `setup(timeout)` makes the default process group, with a timeout of that many seconds. If there is one, it stays as it
#   is, with its timeout.
# - `cleanup()` destroys it, if there is one. After that, `setup` makes a new one.
# - A rank that has failed calls `cleanup()` alone, while the others are elsewhere. It must come back.

# %%
# %%task process_groups.setup
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    """Make the default process group (gloo), unless there is one; `timeout` in seconds."""
    ### BEGIN SOLUTION
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    ### END SOLUTION


def cleanup():
    """Destroy the default process group, if there is one."""
    ### BEGIN SOLUTION
    if dist.is_initialized():
        dist.destroy_process_group()
    ### END SOLUTION


# %% [markdown]
# ## 2. Rows and columns
#
# Large models are split in two directions at once, over a grid of ranks: a sum along the row here, a mean down the column
# there. Ranks are counted along the rows. With `grid(2, 2)`:
#
# | | column 0 | column 1 |
# | --- | --- | --- |
# | row 0 | rank 0 | rank 1 |
# | row 1 | rank 2 | rank 3 |
#
# Return this rank's two groups: that of its row and that of its column. Here the default group is there already, and
# `rows * columns` is its size.

# %%
# %%task process_groups.grid
import torch.distributed as dist


def grid(rows, columns):
    """The process group of this rank's row, and that of its column."""
    ### BEGIN SOLUTION
    ### STUB: row_group, column_group = ..., ...
    ### STUB: return ...  # both
    row_group = column_group = None
    for row in range(rows):  # all ranks make all groups, in this order
        ranks = [row * columns + column for column in range(columns)]
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            row_group = group
    for column in range(columns):
        ranks = [row * columns + column for row in range(rows)]
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            column_group = group
    return row_group, column_group
    ### END SOLUTION


# %% [markdown]
# ## 3. Faults in a start script
#
# This is how a training was started for years, on one machine with one GPU. Now `torchrun` starts it, on two machines, with
# several processes on each and without GPUs. Several things are wrong:
#
# ```python
# def start(build, train):
#     parser = argparse.ArgumentParser()
#     parser.add_argument("--local_rank", type=int, default=0)
#     rank = parser.parse_args().local_rank
#     dist.init_process_group("nccl", rank=rank, world_size=torch.cuda.device_count())
#     model = DistributedDataParallel(build(), device_ids=[rank])
#     result = train(model)
#     if rank == 0:
#         dist.destroy_process_group()
#     return result
# ```
#
# Write it anew. `build()` gives a model on the CPU, `train(model)` takes it wrapped. What `train` returns is returned, what
# it raises is raised (it may be on one process alone), and either way no process keeps its group. Let go of the wrapped model before you destroy the group.
#
# > **On GPUs (NCCL).** The `finally` that this task asks for is right for gloo only. With NCCL, `destroy_process_group` may wait for
# > ever after an exception, and the traceback is not printed: there you destroy the group on the good path alone, and let the
# > process end (lesson 02, *The end*).

# %%
# %%task process_groups.start
import traceback

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    """Start this process' part of the training, and end it properly."""
    ### BEGIN SOLUTION
    ### STUB: result = ...
    ### STUB: return result
    dist.init_process_group("gloo")  # rank and world size: torchrun has set them
    try:
        return train(DistributedDataParallel(build()))  # nothing here holds the model afterwards,
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)  # and no variable of a function in the traceback
        raise
    finally:
        dist.destroy_process_group()  # gloo's; with NCCL, not after an exception
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 02
