# misconception: whole_tensor
def fit(measurements):
    small = min(measurements, key=lambda m: m[1])
    big = max(measurements, key=lambda m: m[1])
    latency = small[2] / 2 / (small[0] - 1)
    return [latency, big[1] / big[2]]
