# misconception: latency_once
# breaks: It is the time of a step on one rank, divided by that of a step in which buckets queue for the wire.
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    took = [2 * (ranks - 1) / ranks * size / bandwidth for _, size in buckets]
    ready = [at for at, _ in buckets]
    free = 0.0
    for at, seconds in zip(ready, took, strict=True):
        free = max(free, at) + seconds
    step = forward + max(backward, free + 2 * (ranks - 1) * latency)
    return (forward + backward) / step
