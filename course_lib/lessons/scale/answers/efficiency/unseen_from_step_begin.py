# misconception: forward_hides
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    hops = 2 * (ranks - 1)

    def seconds(size):
        return hops * latency + hops * size / (ranks * bandwidth)

    now = 0.0
    for at, size in buckets:
        now = max(now, at)
        now += seconds(size)
    return (forward + backward) / max(now, forward + backward)
