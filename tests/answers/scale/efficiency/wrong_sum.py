# misconception: nothing_hidden
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    took = [2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * size / bandwidth for _, size in buckets]
    ready = [at for at, _ in buckets]
    step = forward + backward + sum(took)
    return (forward + backward) / step
