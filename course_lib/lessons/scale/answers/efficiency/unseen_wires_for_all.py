# misconception: all_at_once
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    hops = 2 * (ranks - 1)

    def seconds(size):
        return hops * latency + hops * size / (ranks * bandwidth)

    last = max(at + seconds(size) for at, size in buckets)
    exposed = max(0.0, last - backward)
    return 1 / (1 + exposed / (forward + backward))
