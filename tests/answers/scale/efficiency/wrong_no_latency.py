# misconception: latency_forgotten
# breaks: It is the time of a step on one rank, divided by that of a step in which buckets queue for the wire.
# breaks: Each is a ring all-reduce with `latency` seconds per round
def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    wire_free = 0.0
    for ready, size in buckets:
        begin = ready if ready > wire_free else wire_free
        wire_free = begin + 2 * (ranks - 1) / ranks * size / bandwidth
    return (forward + backward) / (forward + max(backward, wire_free))
