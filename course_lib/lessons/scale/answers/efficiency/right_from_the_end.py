def efficiency(forward, backward, buckets, ranks, latency, bandwidth):
    """The last bucket ends after the longest of these: one is ready, then it and all later ones are sent."""
    took = [2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * size / bandwidth for _, size in buckets]
    ends = [ready + sum(took[k:]) for k, (ready, _) in enumerate(buckets)]
    return (forward + backward) / (forward + max([backward, *ends]))
