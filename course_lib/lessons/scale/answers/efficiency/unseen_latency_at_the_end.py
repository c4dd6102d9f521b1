# misconception: latency_once
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    hops = 2 * (ranks - 1)
    now = 0.0
    for at, size in buckets:
        now = max(now, at) + hops * size / (ranks * bandwidth)
    now += hops * latency
    exposed = max(0.0, now - backward)
    return (forward + backward) / (forward + backward + exposed)
