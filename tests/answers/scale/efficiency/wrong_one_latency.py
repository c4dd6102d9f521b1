# misconception: latency_once
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    took = [2 * (ranks - 1) / ranks * size / bandwidth for _, size in buckets]
    ready = [at for at, _ in buckets]
    free = 0.0
    for at, seconds in zip(ready, took, strict=True):
        free = max(free, at) + seconds
    step = forward + max(backward, free + 2 * (ranks - 1) * latency)
    return (forward + backward) / step
