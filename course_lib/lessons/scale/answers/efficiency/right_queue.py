def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    wire_free = 0.0
    for ready, size in buckets:
#~ smallest_first -1 |    for ready, size in sorted(buckets, key=lambda bucket: bucket[1]):
        begin = ready if ready > wire_free else wire_free
        wire_free = begin + 2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * size / bandwidth
#~ no_latency -1 |        wire_free = begin + 2 * (ranks - 1) / ranks * size / bandwidth
#~ two_laps_always -1 |        wire_free = begin + 2 * (ranks - 1) * latency + 2 * size / bandwidth
    return (forward + backward) / (forward + max(backward, wire_free))
#~ slower -1 |    return (forward + max(backward, wire_free)) / (forward + backward)
#~ wire_only -1 |    return (forward + backward) / (forward + wire_free)

#~ no_latency: misconception: latency_forgotten
#~ no_latency: breaks: It is the time of a step on one rank, divided by that of a step in which buckets queue for the wire.
#~ slower: misconception: none
#~ smallest_first: misconception: none
#~ slower: breaks: It is the time of a step on one rank, divided by that of a step in which buckets queue for the wire.
#~ two_laps_always: misconception: none
#~ two_laps_always: breaks: One rank alone has an efficiency of 1: it sends nothing.
#~ wire_only: misconception: none
#~ wire_only: breaks: It is the time of a step on one rank, divided by that of a step in which buckets queue for the wire.
