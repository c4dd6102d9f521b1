# %% [markdown]
# # 13 · Debugging a hang: your turn
#
# The six mysteries of [lesson 13](../notebooks/13_debugging.ipynb). You have seen each script run, and what the black box
# said. Now give three answers to each:
#
# - `culprit`: the rank that did something else than the others, in the run that the lesson shows.
# - `cause`: one word of this list.
#
# | `cause` | |
# | --- | --- |
# | `"fewer_batches"` | one rank has fewer batches than the others |
# | `"skipped"` | one rank leaves out a step, after an exception that the script catches |
# | `"late"` | one rank comes, but later than the others are willing to wait |
# | `"order"` | the ranks do the same things in different orders |
# | `"one_rank"` | one rank calls a collective that the others do not call |
# | `"types"` | the ranks call the same collective with tensors of different shapes or types |
# | `"groups"` | two process groups get into each other's way |
# | `"network"` | a message was lost on the way |
# | `"died"` | the process of a rank has ended |
#
# - the script, **repaired**. It stands below `YOUR CODE HERE`, as it was. It is run on three real ranks once the two names are
#   right, and not only with the lesson's data: another rank may go astray.
#
# To look again, go back to the lesson: run a mystery's cell with `%%ranks --no-doctor`, change it, and ask the black box.
# `%hint debugging.epoch` gives a hint, and the next one when you run it again. `%solution debugging.epoch` opens once you have
# passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. After the last batch
#
# All ranks do as many steps as the rank with the fewest batches can do. What is left over on the others is left out, and nobody
# is left waiting. Each step's gradient is the mean over all ranks, as ever.

# %%
# %%task debugging.epoch
import torch
import torch.distributed as dist

### BEGIN SOLUTION
### STUB: culprit = ...  # the number of a rank
### STUB: cause = ...  # a word of the list
culprit = 2
cause = "fewer_batches"
### END SOLUTION


def epoch(ddp, optimizer, photographs):
    """Train on this rank's photographs, two in a batch; then wait for all, so that rank 0 can save."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # take this line out, and repair what follows
    ### STUB: usable = [photograph for photograph in photographs if photograph >= 0]  # below 0: damaged
    ### STUB: for begin in range(0, len(usable), 2):
    ### STUB:     batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
    ### STUB:     optimizer.zero_grad()
    ### STUB:     ddp(batch).square().mean().backward()
    ### STUB:     optimizer.step()
    ### STUB: dist.barrier()
    usable = [photograph for photograph in photographs if photograph >= 0]  # below 0: damaged
    steps = torch.tensor((len(usable) + 1) // 2)
    dist.all_reduce(steps, op=dist.ReduceOp.MIN)  # as many as all ranks can do
    for begin in range(0, 2 * steps.item(), 2):
        batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
    dist.barrier()
    ### END SOLUTION


# %% [markdown]
# ## 2. Always the last file
#
# A file that one rank cannot read (`read` raises an `OSError`) is left out by *all* ranks, together with the others' files of the
# same name. All other files are trained on.

# %%
# %%task debugging.train_files
import torch
import torch.distributed as dist

### BEGIN SOLUTION
### STUB: culprit = ...  # the number of a rank
### STUB: cause = ...  # a word of the list
culprit = 1
cause = "skipped"
### END SOLUTION


def train_files(ddp, optimizer, files, read):
    """Train on one file after the other; a file that cannot be read is left out."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # take this line out, and repair what follows
    ### STUB: for file in files:
    ### STUB:     try:
    ### STUB:         batch = read(file)
    ### STUB:         optimizer.zero_grad()
    ### STUB:         ddp(batch).square().mean().backward()
    ### STUB:         optimizer.step()
    ### STUB:     except OSError:
    ### STUB:         continue
    ### STUB:     print(file, "is done")
    for file in files:
        readable = torch.ones(1)
        try:
            batch = read(file)
        except OSError:
            readable.zero_()
        dist.all_reduce(readable, op=dist.ReduceOp.MIN)  # before the first collective of the step
        if not readable:
            continue
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
    ### END SOLUTION


# %% [markdown]
# ## 3. The network is down
#
# `writer` writes once, however long that takes: a few milliseconds here, minutes with a real model. All ranks return what `read()`
# gives once it is written. The script keeps its promise not to hang for ever, but an honest pause is not a hang.

# %%
# %%task debugging.checkpoint
from datetime import timedelta

import torch.distributed as dist

### BEGIN SOLUTION
### STUB: culprit = ...  # the number of a rank
### STUB: cause = ...  # a word of the list
culprit = 1
cause = "late"
### END SOLUTION


def checkpoint(writer, write, read):
    """One rank writes the checkpoint; when it is there, all ranks read it."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # take this line out, and repair what follows
    ### STUB: group = dist.new_group(timeout=timedelta(seconds=0.4))  # better an error than half an hour of silence
    ### STUB: if dist.get_rank() == writer:
    ### STUB:     write()
    ### STUB: dist.barrier(group)
    ### STUB: return read()
    group = dist.new_group(timeout=timedelta(minutes=10))  # above the longest honest pause
    if dist.get_rank() == writer:
        write()
    dist.barrier(group)
    return read()
    ### END SOLUTION


# %% [markdown]
# ## 4. The second step
#
# Both towers are trained in every step. Each rank has a `chance` of its own, and that stays so: it is there for other things,
# too, and what it draws after the training is still its own.

# %%
# %%task debugging.train_towers
import torch.distributed as dist

### BEGIN SOLUTION
### STUB: culprit = ...  # the number of a rank
### STUB: cause = ...  # a word of the list
culprit = 0
cause = "order"
### END SOLUTION


def train_towers(towers, optimizer, batches, chance):
    """Train two towers together; all ranks call them in the same order, whichever that is."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # take this line out, and repair what follows
    ### STUB: for batch in batches:
    ### STUB:     names = ["image", "text"]
    ### STUB:     chance.shuffle(names)
    ### STUB:     optimizer.zero_grad()
    ### STUB:     scores = sum(towers[name](batch) for name in names)
    ### STUB:     scores.square().mean().backward()
    ### STUB:     optimizer.step()
    for batch in batches:
        names = ["image", "text"]
        chance.shuffle(names)
        dist.broadcast_object_list(names, src=0)  # one order for all: rank 0's
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()
    ### END SOLUTION


# %% [markdown]
# ## 5. One line in the log
#
# After every second step rank 0, and only rank 0, calls `log` with the mean of all ranks' losses: a number. All ranks return the
# weight. The steps themselves were right before anything was logged: they need no change.

# %%
# %%task debugging.train_and_log
import torch
import torch.distributed as dist

### BEGIN SOLUTION
### STUB: culprit = ...  # the number of a rank
### STUB: cause = ...  # a word of the list
culprit = 0
cause = "one_rank"
### END SOLUTION


def train_and_log(weight, batches, log):
    """Gradient descent on the batches of all ranks; every second step is logged."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # take this line out, and repair what follows
    ### STUB: def mean_loss(loss):
    ### STUB:     losses = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
    ### STUB:     dist.gather(loss, losses if dist.get_rank() == 0 else None, dst=0)
    ### STUB:     return sum(losses).item() / len(losses)
    ### STUB:
    ### STUB: for step, batch in enumerate(batches):
    ### STUB:     gradient = weight - batch.mean()
    ### STUB:     loss = gradient.square()
    ### STUB:     dist.all_reduce(gradient)
    ### STUB:     weight -= 0.1 * gradient
    ### STUB:     if step % 2 == 1 and dist.get_rank() == 0:
    ### STUB:         log(mean_loss(loss))
    ### STUB: return weight
    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        if step % 2 == 1:
            dist.all_reduce(loss)  # all ranks compute,
            if dist.get_rank() == 0:  # one logs
                log(loss.item() / dist.get_world_size())
    return weight
    ### END SOLUTION


# %% [markdown]
# ## 6. It does not add up
#
# Every rank returns the counts of all labels that *any* rank has seen. A rank may have seen fewer kinds than the others.

# %%
# %%task debugging.totals
import torch
import torch.distributed as dist

### BEGIN SOLUTION
### STUB: culprit = ...  # the number of a rank
### STUB: cause = ...  # a word of the list
culprit = 2
cause = "order"
### END SOLUTION


def totals(labels):
    """How often each label was seen, by all ranks together."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # take this line out, and repair what follows
    ### STUB: counts = {}
    ### STUB: for label in labels:
    ### STUB:     counts[label] = counts.get(label, 0) + 1
    ### STUB: for label in counts:
    ### STUB:     count = torch.tensor(counts[label])
    ### STUB:     dist.all_reduce(count)
    ### STUB:     counts[label] = count.item()
    ### STUB: return counts
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, counts)
    names = sorted(set().union(*everyones))  # the same list, in the same order, on all ranks
    return {name: sum(counts.get(name, 0) for counts in everyones) for name in names}
    ### END SOLUTION
