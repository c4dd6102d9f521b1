# %% [markdown]
# # 07 · Wrapper modules: your turn
#
# Three tasks on [lesson 07](../notebooks/07_wrappers.ipynb), each a little harder than the one before. Replace what
# stands under `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks, on gangs
# of different sizes, and is judged by what it does, not by how it looks.
#
# `%hint wrappers.Together` gives a hint, and the next one when you run it again. `%solution wrappers.Together` opens
# once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. Any number of inputs, one forward
#
# `encoder` takes one batch and gives embeddings; `head` takes any number of embeddings, each as an argument of its
# own, and gives scores. Write the module that goes into DDP: it is called with one or more batches, and returns a
# dictionary with
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
        super().__init__()
        ### BEGIN SOLUTION
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
# ## 2. encode and decode, averaged
#
# `net` has the methods `encode` and `decode` and no `forward`; the parameters of `net.inner` are used by `encode`
# alone, those of `net.outer` by `decode` alone. It was built with another seed on every rank.
#
# Return two functions, `encode` and `decode`, for training. Each step calls either both, one after the other, or only
# one of them (all ranks the same), then `backward()` once; after it, every gradient is to be the mean over the ranks.
# The optimizer steps `net.parameters()`. All ranks begin with rank 0's weights.

# %%
# %%task wrappers.expose
from functools import partial

import torch
from torch.nn.parallel import DistributedDataParallel


def expose(net):
    """Two functions, `encode` and `decode`, whose gradients are averaged."""

    ### BEGIN SOLUTION
    ### STUB: encode_and_decode = ...  # two functions
    ### STUB: return encode_and_decode
    class Doors(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, method, x):
            return getattr(self.net, method)(x)

    # A step that calls one method leaves the other's parameters unused.
    ddp = DistributedDataParallel(Doors(), find_unused_parameters=True)
    return partial(ddp, "encode"), partial(ddp, "decode")
    ### END SOLUTION


# %% [markdown]
# ## 3. A student and its teacher
#
# Train `student` (built with another seed on every rank) with a momentum teacher. The teacher begins as an exact copy
# of the student that DDP makes equal on all ranks. Every rank has its own `batches`, the same number of them, of `(x, noisy,
# y)`. In each step
#
# - the loss is `mse_loss(output, y) + mse_loss(output, target)`, with the student's output for `noisy` and the
#   teacher's for `x`;
# - `SGD` with the learning rate `lr` steps the student, with the mean of the gradients of all ranks;
# - then each weight of the teacher becomes `momentum` times itself plus `1 - momentum` times the student's.
#
# Return the teacher: a plain module without gradients, the same on all ranks.

# %%
# %%task wrappers.distil
import copy

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    """Trains the student; returns the teacher."""
    ### BEGIN SOLUTION
    ### STUB: teacher = ...
    ### STUB: return teacher
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).requires_grad_(False)  # after wrapping: now it is equal everywhere
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)
    for x, noisy, y in batches:
        target, output = teacher(x), ddp(noisy)
        optimizer.zero_grad()
        (mse_loss(output, y) + mse_loss(output, target)).backward()
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
                mine.lerp_(its, 1 - momentum)
    return teacher
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 07
