# %% [markdown]
# # 04 · Gradients, hooks and buckets: your turn
#
# Three tasks on [lesson 04](../notebooks/04_buckets.ipynb), each a little harder than the one before. Replace what stands
# under `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks and is judged by what
# it does: by the gradients it leaves behind, the collectives it issues, and when.
#
# A task cell stands alone. It sees nothing of the other cells, so it brings its own imports. `%hint buckets.NaiveDDP` gives
# a hint, and the next one when you run it again. `%solution buckets.NaiveDDP` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. DDP in its first form
#
# Write a wrapper that makes any module data-parallel. (Handing the module on to `DistributedDataParallel` works, too, and teaches
# you nothing.) It is used like this, on every rank:
#
#     model = NaiveDDP(module)              # the ranks' modules have different weights until now
#     loss = ...model(inputs)...
#     loss.backward()
#     model.finish_gradient_synchronization()
#     optimizer.step()
#
# - Once it is made, all ranks have rank 0's parameters: all of them.
# - After `finish_gradient_synchronization()`, every gradient is the mean over the ranks.
# - The modules have frozen parameters (`requires_grad=False`), weights that two layers share, and layers that nobody uses.

# %%
# %%task buckets.NaiveDDP
import torch
import torch.distributed as dist


class NaiveDDP(torch.nn.Module):
    """Averages gradients over all ranks when backward is over."""

    def __init__(self, module):
        super().__init__()
        ### BEGIN SOLUTION
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        ### END SOLUTION

    def forward(self, *inputs, **kwargs):
        ### BEGIN SOLUTION
        return self.module(*inputs, **kwargs)
        ### END SOLUTION

    def finish_gradient_synchronization(self):
        ### BEGIN SOLUTION
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        ### END SOLUTION


# %% [markdown]
# ## 2. Predict the buckets
#
# No ranks are needed to know DDP's buckets, only the rules. Return them as a list of lists of parameter numbers, in the order
# in which they are sent, and inside a bucket in the order in which they lie in it.
#
# - `sizes[i]` are the bytes of parameter `i`, numbered as the model registers them; all have the same type.
# - `ready` are the numbers in the order in which gradients became ready in iteration 0.
# - `bucket_cap_mb` is what DDP is given, or None. `iteration` counts from 0.
#
# Your list is compared with what a real `DistributedDataParallel` sends. Look at its last bucket, too: it leaves when backward
# has ended, so nothing hides it. Which setting would make that bucket smaller?


# %%
# %%task buckets.bucket_list
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    """DDP's buckets in this iteration: a list of lists of parameter numbers."""
    ### BEGIN SOLUTION
    ### STUB: buckets = ...
    ### STUB: return buckets
    mib = 2**20
    limits = [1 * mib, 25 * mib] if bucket_cap_mb is None else [bucket_cap_mb * mib]

    def dealt(order):
        buckets = [[]]
        for number in order:
            limit = limits[min(len(buckets), len(limits)) - 1]
            if sum(sizes[other] for other in buckets[-1]) >= limit:
                buckets.append([])
            buckets[-1].append(number)
        return buckets

    if find_unused_parameters:
        return dealt(range(len(sizes)))[::-1]
    return [list(range(len(sizes)))] if iteration == 0 else dealt(ready)
    ### END SOLUTION


# %% [markdown]
# ## 3. DDP with buckets
#
# The real thing, in about forty lines. Used like `NaiveDDP`, with one more argument: a bucket is closed when it has about
# `bucket_size_mb` MiB. On top of what task 1 asks for:
#
# - Gradients travel in buckets, and the first ones are on their way while backward is still running. Backward never blocks.
# - A layer may be used on some ranks only, other ones in each step. On ranks that did not use it its gradient counts as zeros,
#   and afterwards all ranks have the mean.
# - Every forward begins with rank 0's buffers (batch statistics and the like).
# - It works for more than one step.
#
# One trap is worth a thought before you begin: in which order do two ranks send their buckets, if they use different layers?

# %%
# %%task buckets.BucketedDDP
import torch
import torch.distributed as dist


class BucketedDDP(torch.nn.Module):
    """Averages gradients over all ranks, bucket by bucket, while backward is running."""

    def __init__(self, module, bucket_size_mb):
        super().__init__()
        ### BEGIN SOLUTION
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        self.buckets = [[]]
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            if sum(p.nbytes for p in self.buckets[-1]) >= bucket_size_mb * 2**20:
                self.buckets.append([])
            self.buckets[-1].append(parameter)
            parameter.register_post_accumulate_grad_hook(self._ready)
        self._start_over()
        ### END SOLUTION

    def forward(self, *inputs, **kwargs):
        ### BEGIN SOLUTION
        for buffer in self.module.buffers():
            dist.broadcast(buffer, src=0)
        return self.module(*inputs, **kwargs)
        ### END SOLUTION

    def finish_gradient_synchronization(self):
        ### BEGIN SOLUTION
        while len(self.sent) < len(self.buckets):  # what waits for gradients that never came
            self._send_next()
        for bucket, (flat, work) in zip(self.buckets, self.sent, strict=True):
            work.wait()
            for parameter, piece in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                parameter.grad = piece.view_as(parameter)
        self._start_over()

    def _start_over(self):
        self.missing = [set(bucket) for bucket in self.buckets]
        self.sent = []  # of the first buckets: the flat tensor and its all-reduce

    def _ready(self, parameter):
        for missing in self.missing:
            missing.discard(parameter)
        # Only ever the next one: all ranks must send the same buckets in the same order.
        while len(self.sent) < len(self.buckets) and not self.missing[len(self.sent)]:
            self._send_next()

    def _send_next(self):
        bucket = self.buckets[len(self.sent)]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([gradient.flatten() for gradient in gradients]) / dist.get_world_size()
        self.sent.append((flat, dist.all_reduce(flat, async_op=True)))
        ### END SOLUTION


# %% [markdown]
# Both classes fit the interface of the distributed part of Stanford's CS336, assignment 2: they pass tests of that kind, with
# its toy models (see `tests/answers/test_ddp_interface.py`).
#
# ## How far are you?

# %%
# %progress 04
