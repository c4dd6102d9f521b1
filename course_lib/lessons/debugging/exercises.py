# %% [markdown]
# # 13 · Debugging a hang: your turn
#
# Seven mysteries: that of [lesson 13](../notebooks/13_debugging.ipynb), and six others. Each is a script as people write them, run on
# three ranks, with what the black box says. (Run these cells, too; the doctor is off.) Ask the lesson's four questions, then give
# three answers:
#
# - `culprit`: the rank that did something else than the others, in the run that is shown.
# - `cause`: one word of this list.
#
# | `cause` | |
# | --- | --- |
# | `"fewer_batches"` | one rank has fewer batches than the others |
# | `"skipped"` | one rank leaves out a step, after an exception that the script catches |
# | `"late"` | one rank is slow: it comes, but later than the others are willing to wait |
# | `"order"` | the ranks do the same things in different orders |
# | `"one_rank"` | one rank calls a collective that the others do not call |
# | `"types"` | the ranks call the same collective with tensors of different shapes or types |
# | `"groups"` | two process groups get into each other's way |
# | `"network"` | a message was lost on the way |
# | `"died"` | the process of a rank has ended |
#
# - the script's function, **repaired**: copy it below `YOUR CODE HERE`, and change it. It is run on three real ranks once the two
#   names are right, and not only with the data that are shown: another rank may go astray.
#
# `%hint debugging.epoch` gives a hint, and the next one when you run it again. `%solution debugging.epoch` opens once you have
# passed.

# %%
# %load_ext course_lib

# %%
from course_lib.lessons.debugging.lab import black_box

# %% [markdown]
# ## 1. Always the last file
#
# The lesson's mystery: ranks 0 and 2 wait in file D, and rank 1 could not read file B. So its names are known, and the script below
# stands as it was. Repair it: a file that one rank cannot read (`read` raises an `OSError`) is left out by *all* ranks, together with the
# others' files of the same name. All other files are trained on.

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
# ## 2. After the last batch
#
# *“It trains. At the end of the epoch it hangs, on some data sets and never on others. The data are dealt out evenly, eight
# photographs each.”*

# %%
# %%ranks 3 --no-doctor --expect hang --as box
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


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
ddp = DistributedDataParallel(torch.nn.Linear(1, 1))
epoch(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), photographs[dist.get_rank()])

# %%
print(black_box(box))

# %% [markdown]
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
    ### STUB: raise NotImplementedError  # the function from above goes here, repaired
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
# ## 3. The network is down
#
# *“Our administrators say that the network is fine. Rank 1 says that it is not. The others say it is slow.”*

# %% tags=["nbval-ignore-output"]
# %%ranks 3 --no-doctor --expect raises --as box
import time
from datetime import timedelta


def checkpoint(writer, write, read):
    """One rank writes the checkpoint; when it is there, all ranks read it."""
    group = dist.new_group(timeout=timedelta(seconds=2))  # better an error than half an hour of silence
    if dist.get_rank() == writer:
        write()
    dist.barrier(group)
    return read()


def write():
    time.sleep(4)  # a large file


checkpoint(1, write, lambda: "the weights")

# %%
print(black_box(box))

# %% [markdown]
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
    ### STUB: raise NotImplementedError  # the function from above goes here, repaired
    group = dist.new_group(timeout=timedelta(minutes=10))  # above the longest honest pause
    if dist.get_rank() == writer:
        write()
    dist.barrier(group)
    return read()
    ### END SOLUTION


# %% [markdown]
# ## 4. The second step
#
# *“Two models, each with a process group of its own, so that they cannot get in each other's way. The first step works. The
# second hangs in the forward pass, and there is no collective in our forward pass.”*

# %%
# %%ranks 3 --no-doctor --expect hang --as box
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
    name: DistributedDataParallel(torch.nn.Linear(1, 1), process_group=dist.new_group())
    for name in ("image", "text")
}
weights = [weight for tower in towers.values() for weight in tower.parameters()]
chance = random.Random(dist.get_rank())  # as for augmentation: each rank has its own
train_towers(towers, torch.optim.SGD(weights, lr=0.1), torch.ones(4, 2, 1), chance)

# %%
print(black_box(box))

# %% [markdown]
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
    ### STUB: raise NotImplementedError  # the function from above goes here, repaired
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
# ## 5. All at the same line
#
# *“Since we log the loss of all ranks, it hangs after two steps, and every rank stands at the same line, in `.item()`. So they have
# come equally far, haven't they?”* (Their script runs on GPUs. Here, `async_op=True` and a function `item` play NCCL, as in the lesson.)


# %%
# %%ranks 3 --no-doctor --expect hang --as box
def item(tensor, under_way):
    """What the tensor holds, once all that is under way has ended: as .item() on a GPU."""
    for work in under_way:
        work.wait()
    return tensor.item()


def train_and_log(weight, batches, log):
    """Gradient descent on the batches of all ranks; every second step is logged."""
    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        under_way = [dist.all_reduce(gradient, async_op=True)]
        to_log = step % 2 == 1 and dist.get_rank() == 0
        if to_log:
            losses = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
            under_way.append(dist.gather(loss, losses, dst=0, async_op=True))
        weight = weight - 0.1 * item(gradient, under_way)
        if to_log:
            log(sum(losses).item() / len(losses))
    return weight


train_and_log(torch.zeros(1), torch.ones(4, 3) * (dist.get_rank() + 1), print)

# %%
print(black_box(box))

# %% [markdown]
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
    ### STUB: raise NotImplementedError  # the function from above goes here, repaired
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
# *“No hang, no error, and the sum over all labels is right. But I have counted by hand: there are ten cats.”*


# %%
# %%ranks 3 --no-doctor --expect ok --as box
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
][dist.get_rank()]
sorted(totals(seen).items())

# %%
print(black_box(box))

# %% [markdown]
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
    ### STUB: raise NotImplementedError  # the function from above goes here, repaired
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, counts)
    names = sorted(set().union(*everyones))  # the same list, in the same order, on all ranks
    return {name: sum(counts.get(name, 0) for counts in everyones) for name in names}
    ### END SOLUTION


# %% [markdown]
# ## 7. The network, again
#
# *“Ranks 0 and 2 say that the connection was closed. The log of rank 1 is empty, so it has no problem. It must be the network.”*
# (`small_machine` is the course's: a rank's files, and a machine that has room for two of them at a time.)

# %% tags=["nbval-ignore-output"]
# %%ranks 3 --no-doctor --expect died --as box
from course_lib.lessons.debugging.lab import small_machine


def mean_of_all(files, read):
    """The mean of all numbers in all ranks' files, on every rank."""
    parts = [read(file) for file in files]
    numbers = torch.cat(parts)
    total = torch.tensor([numbers.sum(), float(len(numbers))])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


files, read = small_machine()
mean_of_all(files, read)

# %%
print(black_box(box))

# %% [markdown]
# Every rank returns the mean of all numbers in all files: a float. Whatever the number of its files, a rank never holds more than two
# of them in memory. It may have none.

# %%
# %%task debugging.mean_of_all
import torch
import torch.distributed as dist

### BEGIN SOLUTION
### STUB: culprit = ...  # the number of a rank
### STUB: cause = ...  # a word of the list
culprit = 1
cause = "died"
### END SOLUTION


def mean_of_all(files, read):
    """The mean of all numbers in all ranks' files, on every rank."""
    ### BEGIN SOLUTION
    ### STUB: raise NotImplementedError  # the function from above goes here, repaired
    total = torch.zeros(2)
    for file in files:  # one file in memory at a time
        numbers = read(file)
        total += torch.tensor([numbers.sum(), float(len(numbers))])
        del numbers
    dist.all_reduce(total)
    return (total[0] / total[1]).item()
    ### END SOLUTION
