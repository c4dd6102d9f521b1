import torch


def fit(measurements):
    """In turn: small tensors tell the latency, large ones the bandwidth."""
    latency, per_byte = 0.0, 0.0
    small = [one for one in measurements if one[1] <= 2**12]
    large = [one for one in measurements if one[1] >= 2**26]
    for _ in range(20):
        latency = torch.tensor([t / (2 * (n - 1)) - size / n * per_byte for n, size, t in small]).double().mean().item()
        rest = [(t - 2 * (n - 1) * latency) / (2 * (n - 1) / n * size) for n, size, t in large]
        per_byte = sum(rest) / len(rest)
    return [latency, 1 / per_byte]
