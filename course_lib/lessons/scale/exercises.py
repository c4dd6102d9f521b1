# %% [markdown]
# # 15 · Predict the scaling: your turn
#
# Four tasks on [lesson 15](../notebooks/15_scale.ipynb). Replace what stands under `YOUR CODE HERE` and run the cell: running it
# *is* checking it. Three of them are functions that calculate; the code of *Halves that survive* runs in DDP on real ranks.
#
# A task cell stands alone. It sees nothing of the other cells, so it brings its own imports. `%hint scale.fit` gives a hint,
# and the next one when you run it again. `%solution scale.fit` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. Two numbers for a network
#
# `measurements` is a list of `(ranks, bytes, seconds)`, one for each all-reduce that was measured, in no order. Each is a ring in
# which every rank has a wire of its own, and scatters by up to one percent. Sizes go from 1 KiB to 256 MiB.
#
# Return `(latency, bandwidth)`: the seconds of one round, and the bytes per second of one rank's wire. Both are wanted to within
# a few percent, and so is the latency where a call takes many milliseconds.

# %%
# %%task scale.fit
import numpy as np


def fit(measurements):
    """(seconds a round, bytes a second) of a ring all-reduce."""
    ### BEGIN SOLUTION
    ### STUB: latency_and_bandwidth = ...
    ### STUB: return latency_and_bandwidth
    rows = []
    for ranks, size, seconds in measurements:
        rounds = 2 * (ranks - 1)
        rows.append(
            [rounds / seconds, rounds * size / ranks / seconds]
        )  # relative: what is right is 1 everywhere
    (latency, per_byte), *_ = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)
    return latency, 1 / per_byte
    ### END SOLUTION


# %% [markdown]
# ## 2. An efficiency, before anybody rents
#
# A step on one rank takes `forward` and then `backward` seconds, and sends nothing. What is the efficiency of the same step on
# `ranks` ranks (weak scaling: everyone computes as long as the one did)?
#
# - `buckets` is a list of `(ready, bytes)`, in the order in which they are sent. `ready` counts from the beginning of backward.
# - A bucket is sent when it is ready and the one before it is through. Each is a ring all-reduce with `latency` seconds per round
#   and `bandwidth` bytes per second; no other costs.
# - A step is over when backward is, and all buckets are through.


# %%
# %%task scale.efficiency
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    """The time of a step on one rank, divided by that on `ranks` ranks."""
    ### BEGIN SOLUTION
    ### STUB: share = ...
    ### STUB: return share
    rounds, free = 2 * (ranks - 1), 0.0
    for ready, size in buckets:
        free = max(free, ready) + rounds * latency + rounds / ranks * size / bandwidth
    step = forward + (max(backward, free) if ranks > 1 else backward)
    return (forward + backward) / step
    ### END SOLUTION


# %% [markdown]
# ## 3. Read the measurements of others
#
# Somebody has measured one training on 1 to 32 ranks, eight per machine, and says something about it. Read it.
#
# - `runs` is a list of `(ranks, machines, samples, seconds)`, in no order: the samples of *one* rank in a step, and the seconds of a
#   step. Nothing of the sending is hidden. All gradients, `gradients` bytes, are one ring all-reduce in which every rank has a wire
#   of its own. Inside a machine the ring is faster than one that passes machines. Times scatter by 0.2 %.
# - `claims` is a list of `(what, ranks, value)`. `what` is `"speed_up"` (samples per second, compared with one rank),
#   `"efficiency"`, or `"busbw"` (bytes per second, of the all-reduce of that run). A claim that holds is right to within a percent.
#
# Return three things: `"weak"` or `"strong"`; the speed-up that 64 ranks in eight machines will give, to within five percent; and a
# list of the places (from 0) of the claims that are wrong.

# %%
# %%task scale.read_it
import numpy as np


def read_it(runs, gradients, claims):
    """(the kind of scaling, the speed-up of 64 ranks, the places of wrong claims)."""
    ### BEGIN SOLUTION
    ### STUB: reading = ...
    ### STUB: return reading
    samples = {ranks: count for ranks, _, count, _ in runs}
    seconds = {ranks: step for ranks, _, _, step in runs}
    strong = samples[1] != samples[32]

    def computing(n):
        return seconds[1] / (n if strong else 1)

    def speed_up(n, step):
        return seconds[1] / step * (1 if strong else n)

    def value(what, n):
        if what == "busbw":
            return gradients / (seconds[n] - computing(n)) * 2 * (n - 1) / n
        return speed_up(n, seconds[n]) / (n if what == "efficiency" else 1)

    sending = {n: seconds[n] - computing(n) for n, machines, _, _ in runs if machines > 1}
    rows = np.array([[2 * (n - 1) / t, 2 * (n - 1) / n / t] for n, t in sending.items()])
    (latency, transfer), *_ = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)
    step = computing(64) + 2 * 63 * latency + 2 * 63 / 64 * transfer
    errors = [abs(said / value(what, n) - 1) for what, n, said in claims]
    wrong = [place for place, error in enumerate(errors) if error > 0.02]
    return "strong" if strong else "weak", speed_up(64, step), wrong
    ### END SOLUTION


# %% [markdown]
# ## 4. Halves that survive
#
# A communication hook for `ddp.register_comm_hook(None, half_hook)`. `bucket.buffer()` holds this rank's gradients in fp32. Return
# a future of the means of all ranks' gradients.
#
# - Send half the bytes. (A number or two beside them are free.)
# - It works for tiny gradients (10⁻⁹), for huge ones (10⁵), for a bucket of zeros, and where ranks have gradients of different
#   size, on any number of ranks. Errors of one or two percent of the bucket's largest gradient are fine.

# %%
# %%task scale.half_hook
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    """A future of a tensor like the bucket's buffer, with the means of all ranks' gradients."""
    ### BEGIN SOLUTION
    ### STUB: buffer = bucket.buffer()
    ### STUB: future = ...
    ### STUB: return future
    buffer, world = bucket.buffer(), dist.get_world_size()
    largest = buffer.abs().max()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)  # the same scale on all ranks
    scale = 1024 / world / largest.clamp(min=1e-30)

    def unpack(future):
        return buffer.copy_(future.value()[0]).div_(scale * world)

    sending = dist.all_reduce((buffer * scale).half(), async_op=True)
    return sending.get_future().then(unpack)
    ### END SOLUTION
