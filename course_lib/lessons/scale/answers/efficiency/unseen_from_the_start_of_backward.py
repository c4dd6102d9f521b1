# misconception: everything_hidden
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    hops = 2 * (ranks - 1)

    def seconds(size):
        return hops * latency + hops * size / (ranks * bandwidth)

    talk = 0.0
    for _, size in buckets:
        talk += seconds(size)
    exposed = max(0.0, talk - backward)
    return (forward + backward) / (forward + backward + exposed)
