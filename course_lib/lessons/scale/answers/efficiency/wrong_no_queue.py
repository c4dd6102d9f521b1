# misconception: all_at_once
# breaks: It is the time of a step on one rank, divided by that of a step in which buckets queue for the wire.
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    took = [2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * size / bandwidth for _, size in buckets]
    ready = [at for at, _ in buckets]
    step = forward + max(backward, *(at + t for at, t in zip(ready, took, strict=True)))
    return (forward + backward) / step
