# %% [markdown]
# # 07 · Wrapper modules: your turn
#
# Four tasks on [lesson 07](../notebooks/07_wrappers.ipynb), each a little harder than the one before. Replace what
# stands under `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks, on gangs
# of different sizes, and is judged by what it does, not by how it looks.
#
# `%hint wrappers.Together` gives a hint, and the next one when you run it again. `%solution wrappers.Together` opens
# once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. A wrapper for any number of inputs
#
# An `encoder` makes an embedding of a batch, and a `head` makes scores of any number of embeddings, each an argument of its own.
# Somebody has put both into this class:
#
# ```python
# class Together(torch.nn.Module):
#     def __init__(self, encoder, head):
#         self.parts = [encoder, head]
#         super().__init__()
#
#     def forward(self, pair):
#         encoder, head = self.parts
#         with torch.no_grad():  # so that the first forward does not disturb the second one
#             first = encoder(pair[0])
#         second = encoder(pair[1])
#         return head((first, second)), first, second
# ```
#
# Write it so that it is right, and for any number of inputs. In DDP, it is called with one or more batches,
# `ddp(x)`, `ddp(x, y)`, `ddp(x, y, z)` and so on, not always as many on all ranks. It returns a dictionary with
#
# - `"embeddings"`: a tuple (or list) with the embeddings of each input, in order,
# - `"scores"`: what the head makes of them.
#
# The loss is computed from both outside, so gradients must be able to flow through both. The encoder and the head
# that were given are to be trained, not copies.

# %%
# %%task wrappers.Together
import torch


class Together(torch.nn.Module):
    """Calls `encoder` on each input and `head` on all embeddings, in one forward."""

    def __init__(self, encoder, head):
        ### BEGIN SOLUTION
        super().__init__()
        self.encoder, self.head = encoder, head
        ### END SOLUTION

    def forward(self, *inputs):
        ### BEGIN SOLUTION
        ### STUB: output = ...
        ### STUB: return output
        embeddings = tuple(self.encoder(each) for each in inputs)
        return {"scores": self.head(*embeddings), "embeddings": embeddings}
        ### END SOLUTION


# %% [markdown]
# ## 2. encode and decode, chained or side by side
#
# `net` has the methods `encode` and `decode` and no `forward`; the parameters of `net.inner` are used by `encode`
# alone, those of `net.outer` by `decode` alone. It was built with another seed on every rank.
#
# Return two functions, `encode` and `decode`, for training. In each step, all ranks call the same:
#
# - both, chained: `decode(encode(x))`,
# - or one of them alone,
# - or both side by side: `encode(x)` and `decode(code)`, whose losses are added.
#
# Then there is one `backward()`, after which every gradient is to be the mean over the ranks. The optimizer steps
# `net.parameters()`. All ranks begin with rank 0's weights.

# %%
# %%task wrappers.expose
import torch
from torch.nn.parallel import DistributedDataParallel


def expose(net):
    """Two functions, `encode` and `decode`, whose gradients are averaged."""

    ### BEGIN SOLUTION
    ### STUB: encode_and_decode = ...  # two functions
    ### STUB: return encode_and_decode
    class Door(torch.nn.Module):
        def __init__(self, method, part):
            super().__init__()
            self.method, self.part = method, part

        def forward(self, x):
            return self.method(x)

    # A reducer for each method, which counts that method's parameters only.
    encode = DistributedDataParallel(Door(net.encode, net.inner))
    decode = DistributedDataParallel(Door(net.decode, net.outer))
    return encode, decode
    ### END SOLUTION


# %% [markdown]
# ## 3. A student with a BatchNorm, and its teacher
#
# Train `student` (built with another seed on every rank) with a momentum teacher. The student has a BatchNorm, so it has
# running statistics besides its weights. The teacher begins as an exact copy of the student that DDP makes equal on all
# ranks, in eval mode. Every rank has its own `batches`, the same number of them, of `(x, noisy, y)`. In each step
#
# - the loss is `mse_loss(output, y) + mse_loss(output, target)`, with the student's output for `noisy`, in train mode, and
#   the teacher's for `x`, in eval mode;
# - `SGD` with the learning rate `lr` steps the student, with the mean of the gradients of all ranks;
# - then each weight of the teacher becomes `momentum` times itself plus `1 - momentum` times the student's;
# - and its running statistics become those that the student now has *on rank 0*.
#
# Return the teacher: a plain module without gradients, the same on all ranks, running statistics included.

# %%
# %%task wrappers.distil
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    """Trains the student; returns the teacher."""
    ### BEGIN SOLUTION
    ### STUB: teacher = ...
    ### STUB: return teacher
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).eval()  # after wrapping: now it is equal everywhere
    teacher.requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)
    for x, noisy, y in batches:
        target, output = teacher(x), ddp(noisy)
        optimizer.zero_grad()
        (mse_loss(output, y) + mse_loss(output, target)).backward()
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
                mine.lerp_(its, 1 - momentum)
        for mine, its in zip(teacher.buffers(), student.buffers(), strict=True):
            mine.copy_(its)  # each rank's own batch has changed these
            dist.broadcast(mine, src=0)
    return teacher
    ### END SOLUTION


# %% [markdown]
# ## 4. A loss in which samples of all ranks meet
#
# `one` and `other` are embeddings of two views of this rank's samples, a row for each sample. `sizes` says how many samples
# each rank has, rank 0 first: *not always the same number*. If `A` and `B` are the embeddings of the samples of all ranks,
# the loss is
#
# ```python
# scores, places = A @ B.T / temperature, torch.arange(len(A))
# loss = (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
# ```
#
# Your function is called from the `forward` of a module in DDP, of which both the encoder and `temperature` are a part.
# Whatever it returns as its rank's loss: after `backward()`, the averaged gradients of both are to be those of one process
# that has all samples, and the mean of the ranks' losses is to be the loss of that process.

# %%
# %%task wrappers.contrast
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def contrast(one, other, temperature, sizes):
    """A loss for this rank, whose gradients DDP averages."""

    ### BEGIN SOLUTION
    ### STUB: loss = ...
    ### STUB: return loss
    from torch.distributed.nn.functional import all_reduce

    def everyones(mine):
        parts = [mine.new_zeros(size, mine.shape[1]) for size in sizes]
        parts[dist.get_rank()] = mine
        return all_reduce(torch.cat(parts))  # its backward adds up what all ranks ask of a sample

    scores = everyones(one) @ everyones(other).T / temperature
    places = torch.arange(len(scores), device=scores.device)
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 07
