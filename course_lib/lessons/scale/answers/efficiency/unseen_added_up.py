# misconception: nothing_hidden
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    hops = 2 * (ranks - 1)

    def seconds(size):
        return hops * latency + hops * size / (ranks * bandwidth)

    alone = forward + backward
    return alone / (alone + sum(seconds(size) for _, size in buckets))
