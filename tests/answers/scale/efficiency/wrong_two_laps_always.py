# misconception: none
# breaks: One rank alone has an efficiency of 1: it sends nothing.
# breaks: A step on one rank takes `forward` and then `backward` seconds, and sends nothing.
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    wire_free = 0.0
    for ready, size in buckets:
        begin = ready if ready > wire_free else wire_free
        wire_free = begin + 2 * (ranks - 1) * latency + 2 * size / bandwidth
    return (forward + backward) / (forward + max(backward, wire_free))
