# misconception: shared_wire
def fit(measurements):
    ordered = sorted(measurements, key=lambda each: each[1])
    ranks, _, seconds = ordered[0]
    latency = seconds / (2 * (ranks - 1))
    ranks, size, seconds = ordered[-1]
    everything = ranks * (2 * (ranks - 1) / ranks) * size
    return latency, everything / (seconds - 2 * (ranks - 1) * latency)
