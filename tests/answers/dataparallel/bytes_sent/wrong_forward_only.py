# misconception: no_way_back
# breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
# breaks: How many bytes does each device send in one training step?
import math


def bytes_sent(scheme, devices, samples, weights, sample_in, sample_out):
    if scheme == "ddp":
        return [2 * (devices - 1) * weights / devices] * devices
    most = math.ceil(samples / devices)
    parts = [max(0, min(most, samples - device * most)) for device in range(devices)]
    sent = [part * sample_out if part else 0 for part in parts]
    sent[0] = sum(weights + part * sample_in for part in parts[1:] if part)
    return sent
